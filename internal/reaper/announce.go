package reaper

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/testbed-janitor/janitor/internal/inventory"
)

// clockStep is a step of the wall clock between two passes that is worth an
// event. Below lies what daily corrections do.
const clockStep = 30 * time.Second

// logged is what the history already says of conditions that last.
type logged struct {
	blind bool
	brake []string        // names the brake keeps
	clock inventory.Stamp // of the last pass
}

// announce notes conditions of the whole testbed, and writes an event whenever
// one changes: once, not with each pass.
func (l *Loop) announce(ctx context.Context, s sighting, ds []inventory.Decision) {
	var braked []string
	for _, d := range ds {
		if d.Reason == inventory.Brake {
			braked = append(braked, d.Name)
		}
	}
	l.mu.Lock()
	was := l.logged
	l.status.Blind = s.seen.Blind
	l.status.Brake, l.status.BrakeCount = len(braked) > 0, len(braked)
	l.mu.Unlock()

	var events []inventory.Event
	event := func(kind string, reason inventory.Reason, detail string) {
		events = append(events, inventory.Event{At: s.now, Kind: kind, Actor: "janitor", Reason: string(reason), Detail: detail})
	}
	is := logged{blind: s.seen.Blind != "", brake: braked, clock: s.now}
	switch {
	case is.blind && !was.blind:
		event("blind", inventory.Blind, s.seen.Blind)
	case !is.blind && was.blind:
		event("blind", "", "the engine can be listed again")
	}
	switch {
	case is.blind: // what the brake would keep is not known
		is.brake = was.brake
	case len(braked) > 0 && !slices.Equal(braked, was.brake):
		event("brake", inventory.Brake, fmt.Sprintf("%d orphans are kept, more than %d an hour: %s",
			len(braked), s.policy.MaxPerHour, strings.Join(braked, ", ")))
	case len(braked) == 0 && len(was.brake) > 0:
		event("brake", "", "no orphan is kept by it any more")
	}
	if step := stepped(was.clock, s.now); step.Abs() > clockStep {
		event("clock-step", "", fmt.Sprintf("the wall clock moved by %s; no deadline did", step.Round(time.Second)))
	}
	for _, c := range s.before.Clusters {
		if c.Hold != nil && s.before.LastPass < c.Hold.Until && c.Hold.Until <= s.now.At {
			events = append(events, inventory.Event{At: s.now, Kind: "hold-ended", Name: c.Name, Lease: c.Lease, Actor: "janitor", Detail: c.Hold.Reason})
		}
	}
	events = append(events, appeared(s.before, s.recs, s.now)...)
	if len(events) > 0 && !l.record(ctx, events) {
		return // conditions are told again with the next pass
	}
	l.mu.Lock()
	l.logged = is
	l.mu.Unlock()
}

// record appends events and reports whether they were written.
func (l *Loop) record(ctx context.Context, events []inventory.Event) bool {
	err := l.write(ctx, func(ctx context.Context) error { return l.mem.Log(ctx, events) })
	if err != nil {
		l.opt.Log.WarnContext(ctx, "event not written", "error", err)
	}
	return err == nil
}

// stepped is by how much the wall clock moved more than time went by.
func stepped(from, to inventory.Stamp) time.Duration {
	if from.IsZero() {
		return 0
	}
	return to.Wall.Sub(from.Wall) - to.At.Sub(from.At)
}

// appeared are the events of what was sighted for the first time: clusters that
// nobody registered, and containers of a leased name that are not the lease's.
func appeared(before, after inventory.Records, now inventory.Stamp) []inventory.Event {
	var events []inventory.Event
	lease := map[string]string{}
	for _, c := range after.Clusters {
		lease[c.Name] = c.Lease
		if c.ID == 0 {
			events = append(events, inventory.Event{At: now, Kind: "found", Name: c.Name, Actor: "janitor"})
		}
	}
	known := map[string]bool{}
	for _, c := range before.Containers {
		known[c.ID] = true
	}
	for _, c := range after.Containers {
		if !known[c.ID] && c.Lease == "" && lease[c.Cluster] != "" {
			events = append(events, inventory.Event{
				At: now, Kind: "foreign", Name: c.Cluster, Lease: lease[c.Cluster], Actor: "janitor",
				Detail: c.Name + " " + c.ID[:min(len(c.ID), 12)] + " does not belong to this lease",
			})
		}
	}
	return events
}
