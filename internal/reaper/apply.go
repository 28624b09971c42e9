package reaper

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/testbed-janitor/janitor/internal/inventory"
)

// carryOut does what was decided, row by row, and waits for all of it. What
// goes wrong with one row is its result and stops no other. Rows are closed and
// kubeconfig entries forgotten first: that takes no time. Once ctx ends, what
// has begun is carried through and nothing more begins.
func (l *Loop) carryOut(ctx context.Context, s sighting, ds []inventory.Decision, operator string) []Result {
	var results []Result
	var reaps []inventory.Decision
	for _, d := range ds {
		switch {
		case d.Verdict == inventory.Keep:
		case d.Verdict == inventory.Reap:
			reaps = append(reaps, d)
		case ctx.Err() != nil:
			results = append(results, skip(d.Name, "the service is stopping"))
		case d.Verdict == inventory.Close:
			results = append(results, l.closeRow(ctx, d))
		case d.Verdict == inventory.Forget:
			results = append(results, l.forgetContext(ctx, s, d))
		}
	}

	done := make([]Result, len(reaps))
	queue := make(chan int)
	var workers sync.WaitGroup
	for range min(l.opt.Workers, len(reaps)) {
		workers.Go(func() {
			for i := range queue {
				if ctx.Err() != nil {
					done[i] = skip(reaps[i].Name, "the service is stopping")
					continue
				}
				done[i] = l.reap(ctx, s, reaps[i], operator)
			}
		})
	}
	for i := range reaps {
		queue <- i
	}
	close(queue)
	workers.Wait()

	results = append(results, done...)
	sortResults(results)
	for _, r := range results {
		if !r.OK {
			l.opt.Log.WarnContext(ctx, "not carried out", "name", r.Name, "error", r.Error)
		}
	}
	return results
}

func sortResults(rs []Result) {
	slices.SortStableFunc(rs, func(a, b Result) int { return cmp.Compare(a.Name, b.Name) })
}

func skip(name, format string, args ...any) Result {
	return Result{Name: name, Error: "skipped: " + fmt.Sprintf(format, args...)}
}

// outcome is the result of a write by a rule. A row that changed since it was
// decided on is left to the next pass; that is no failure.
func outcome(name string, err error) Result {
	if err == nil {
		return Result{Name: name, OK: true}
	}
	if refused(err) {
		return skip(name, "%s", err)
	}
	return Result{Name: name, Error: err.Error()}
}

// refused reports whether a rule said no, rather than the memory failing.
func refused(err error) bool {
	p, ok := errors.AsType[*inventory.Problem](err)
	return ok && p.Code != inventory.CodeStorage
}

// change runs a rule on a row and stores what it gives, also while stopping.
func (l *Loop) change(ctx context.Context, name, lease string, rule func(inventory.Records) (inventory.Change, error)) (inventory.Change, error) {
	var c inventory.Change
	err := l.write(ctx, func(ctx context.Context) (err error) {
		c, err = l.mem.Change(ctx, name, lease, rule)
		return err
	})
	return c, err
}

func (l *Loop) closeRow(ctx context.Context, d inventory.Decision) Result {
	_, err := l.change(ctx, d.Name, d.Lease, func(recs inventory.Records) (inventory.Change, error) {
		return inventory.CloseRow(recs, d, l.opt.Clock())
	})
	return outcome(d.Name, err)
}

// forgetContext removes a kubeconfig entry of no known cluster.
func (l *Loop) forgetContext(ctx context.Context, s sighting, d inventory.Decision) Result {
	entry := inventory.SeenContext{File: d.File, Name: d.Name, Server: d.Server}
	gone, err := l.forget(ctx, []inventory.SeenContext{entry}, files(s.recs, nil), inventory.StaleContext)
	switch {
	case err != nil:
		return Result{Name: d.Name, Error: err.Error()}
	case len(gone) == 0:
		return skip(d.Name, "the entry has changed since it was decided on")
	}
	return Result{Name: d.Name, OK: true}
}

// forget removes kubeconfig entries within a deadline of its own, and writes
// into the history what it took out of people's files.
func (l *Loop) forget(ctx context.Context, entries []inventory.SeenContext, uidOf func(string) (uint32, bool), why inventory.Reason) ([]inventory.SeenContext, error) {
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), stepLimit)
	defer cancel()
	end := l.watch.step(stepLimit)
	gone, err := l.world.Forget(bounded, entries, uidOf)
	end()
	events := make([]inventory.Event, 0, len(gone))
	for _, e := range gone {
		events = append(events, inventory.Event{
			At: l.opt.Clock(), Kind: "context-forgotten", Name: e.Name, Actor: "janitor",
			Reason: string(why), Detail: e.Server + " in " + e.File,
		})
	}
	if len(events) > 0 {
		l.record(ctx, events)
	}
	return gone, err
}

// files says which uid named a kubeconfig: that of the row in question first.
func files(recs inventory.Records, row *inventory.Cluster) func(string) (uint32, bool) {
	return func(file string) (uint32, bool) {
		if row != nil && row.Kubeconfig == file {
			return row.UID, true
		}
		for _, c := range recs.Clusters {
			if c.Kubeconfig == file {
				return c.UID, true
			}
		}
		return 0, false
	}
}
