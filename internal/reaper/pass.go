package reaper

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/testbed-janitor/janitor/internal/inventory"
)

// sighting is what one pass works on: the records as they were, the records
// with what was seen, and the moment after it was.
type sighting struct {
	policy inventory.Policy
	before inventory.Records
	recs   inventory.Records
	seen   inventory.Observation
	now    inventory.Stamp
}

// look reads the records and observes. It stores nothing.
func (l *Loop) look(ctx context.Context) (sighting, error) {
	s := sighting{policy: l.opt.Policy()}
	var err error
	if s.before, err = l.mem.Records(ctx); err != nil {
		return s, fmt.Errorf("read the inventory: %w", err)
	}
	bounded, cancel := context.WithTimeout(ctx, l.opt.Observe)
	defer cancel()
	s.seen = l.world.Observe(bounded, s.before)
	if ctx.Err() != nil {
		return s, ErrStopped
	}
	if bounded.Err() != nil && s.seen.Blind == "" {
		// What a look has not reached by its deadline must not look gone.
		s.seen.Blind = fmt.Sprintf("looking took longer than %s", l.opt.Observe)
	}
	s.now = l.opt.Clock()
	s.recs = inventory.Sight(s.policy, s.before, s.seen, s.now)
	return s, nil
}

// sight is look as a step of the loop, with what was seen remembered. On an
// error of the memory alone, seen is what there is and unsaved says why.
func (l *Loop) sight(ctx context.Context) (s sighting, unsaved, err error) {
	end := l.watch.step(l.opt.Observe + stepLimit)
	s, err = l.look(ctx)
	end()
	if err != nil {
		return s, nil, err
	}
	err = l.write(ctx, func(ctx context.Context) error { return l.mem.SaveSight(ctx, s.before, s.recs) })
	if err != nil {
		return s, fmt.Errorf("remember what was seen: %w", err), nil
	}
	l.mu.Lock()
	l.last = view{recs: s.recs, seen: s.seen}
	l.mu.Unlock()
	return s, nil, nil
}

// write runs a write that a shutdown does not cut short.
func (l *Loop) write(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stepLimit)
	defer cancel()
	defer l.watch.step(stepLimit)()
	return f(ctx)
}

// onePass observes, decides and carries out. The error is ErrStopped if ctx
// ended before anything was decided.
func (l *Loop) onePass(ctx context.Context) (Report, error) {
	defer l.watch.during()()
	report := Report{StartedAt: l.opt.Clock().Wall}
	s, unsaved, err := l.sight(ctx)
	switch {
	case ctx.Err() != nil:
		return report, ErrStopped
	case err != nil:
		report.Error = err.Error()
	case unsaved != nil:
		report.Error = unsaved.Error()
		report.Decisions = retries(inventory.Plan(s.policy, s.recs, s.seen, s.now))
		report.Results = l.carryOut(ctx, s, report.Decisions, "")
	default:
		report.Decisions = inventory.Plan(s.policy, s.recs, s.seen, s.now)
		l.announce(ctx, s, report.Decisions)
		report.Results = l.carryOut(ctx, s, report.Decisions, "")
		if s.seen.Blind != "" {
			report.Error = "the engine cannot be listed: " + s.seen.Blind
		}
	}
	report.EndedAt = l.opt.Clock().Wall
	if report.Error != "" {
		l.opt.Log.WarnContext(ctx, "pass", "error", report.Error)
	}
	return report, nil
}

// retries are the decisions that rest on no sighting: to remove once more what
// was captured. They go on when nothing can be written, for removing containers
// may be what makes room.
func retries(ds []inventory.Decision) []inventory.Decision {
	return slices.DeleteFunc(ds, func(d inventory.Decision) bool {
		return d.Verdict != inventory.Reap || d.Reason != inventory.Retry
	})
}

// apply carries out a saved plan for an operator.
func (l *Loop) apply(ctx context.Context, saved []inventory.Decision, operator string) (Report, error) {
	defer l.watch.during()()
	report := Report{StartedAt: l.opt.Clock().Wall}
	s, unsaved, err := l.sight(ctx)
	if ctx.Err() != nil {
		return report, ErrStopped
	}
	if err = errors.Join(err, unsaved); err != nil {
		report.Error, report.EndedAt = err.Error(), l.opt.Clock().Wall
		return report, nil
	}
	todo, skipped := inventory.Reconsider(s.policy, s.recs, s.seen, s.now, saved)
	report.Results = l.carryOut(ctx, s, todo, operator)
	for _, d := range skipped {
		report.Results = append(report.Results, skip(d.Name, "today it is %s, %s", d.Verdict, d.Reason))
	}
	report.Decisions = append(slices.Clone(todo), skipped...)
	slices.SortStableFunc(report.Decisions, func(a, b inventory.Decision) int { return cmp.Compare(a.Name, b.Name) })
	sortResults(report.Results)
	report.EndedAt = l.opt.Clock().Wall
	return report, nil
}

// Plan looks and decides as a pass that ran now would, and stores nothing.
func (l *Loop) Plan(ctx context.Context) ([]inventory.Decision, error) {
	s, err := l.look(ctx)
	if err != nil {
		return nil, err
	}
	return inventory.Plan(s.policy, s.recs, s.seen, s.now), nil
}

// Decide decides about rows as they are now with what the last pass saw. It
// returns decisions about the names of these rows only, sorted.
func (l *Loop) Decide(_ context.Context, rows []inventory.Cluster) []inventory.Decision {
	l.mu.Lock()
	v := l.last
	l.mu.Unlock()
	// The brake counts all orphans, also those that are not asked for.
	asked := map[string]bool{}
	all := slices.Clone(rows)
	for _, r := range rows {
		asked[r.Name] = true
	}
	for _, r := range v.recs.Clusters {
		if !asked[r.Name] {
			all = append(all, r)
		}
	}
	v.recs.Clusters = all
	ds := inventory.Plan(l.opt.Policy(), v.recs, v.seen, l.opt.Clock())
	return slices.DeleteFunc(ds, func(d inventory.Decision) bool { return !asked[d.Name] || d.Row == 0 })
}

// Look looks at one name now, for at most a second, remembers what stands, and
// returns it. It runs beside the loop: who registers does not wait for a pass.
func (l *Loop) Look(ctx context.Context, name string) ([]inventory.Seen, error) {
	ctx, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	recs, err := l.mem.Records(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the inventory: %w", err)
	}
	standing, err := l.world.Look(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("look at cluster %q: %w", name, err)
	}
	before := only(recs, name)
	after := sightOne(l.opt.Policy(), before, standing, l.opt.Clock())
	if err := l.mem.SaveSight(ctx, before, after); err != nil {
		return nil, fmt.Errorf("remember what was seen of cluster %q: %w", name, err)
	}
	if events := appeared(before, after, l.opt.Clock()); len(events) > 0 {
		l.record(ctx, events)
	}
	return standing, nil
}

// only keeps the row and the containers of one name.
func only(recs inventory.Records, name string) inventory.Records {
	recs.Clusters = slices.DeleteFunc(slices.Clone(recs.Clusters), func(c inventory.Cluster) bool { return c.Name != name })
	recs.Containers = slices.DeleteFunc(slices.Clone(recs.Containers), func(c inventory.Container) bool { return c.Cluster != name })
	return recs
}

// sightOne is [inventory.Sight] for a look at one name. It is no look at the
// rest, and heard no owner: it counts nothing as missing, and leaves the pass's
// own marks and all evidence as they were.
func sightOne(p inventory.Policy, before inventory.Records, standing []inventory.Seen, now inventory.Stamp) inventory.Records {
	in := before
	in.LastLook, in.LastPass = now.At, now.At
	after := inventory.Sight(p, in, inventory.Observation{Interval: time.Minute, Containers: standing}, now)
	after.HeardFrom, after.LastPass = before.HeardFrom, before.LastPass
	after.LastList, after.LastLook = before.LastList, before.LastLook
	after.Contexts = before.Contexts
	for i := range after.Clusters {
		for _, was := range before.Clusters {
			if after.Clusters[i].ID == was.ID {
				after.Clusters[i].Evidence, after.Clusters[i].DeadSince = was.Evidence, was.DeadSince
			}
		}
	}
	return after
}
