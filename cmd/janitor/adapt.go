package main

import (
	"context"
	"errors"
	"math"

	"github.com/testbed-janitor/janitor/internal/api"
	"github.com/testbed-janitor/janitor/internal/inventory"
	"github.com/testbed-janitor/janitor/internal/reaper"
	"github.com/testbed-janitor/janitor/internal/store"
)

// The leaves do not know each other's types: here the socket is given store and
// loop in its own words.

var (
	_ api.Store     = memory{}
	_ api.Loop      = looping{}
	_ reaper.Memory = (*store.Store)(nil)
)

// memory is the store as the socket wants it.
type memory struct{ *store.Store }

func (m memory) Clusters(ctx context.Context, f api.Filter) ([]inventory.Cluster, error) {
	return m.Store.Clusters(ctx, store.Filter(f))
}

// Events reads on from an id, as a reader of pages does. The store gives the
// newest when there are more than its limit, so the limit is put on here.
func (m memory) Events(ctx context.Context, f api.EventFilter) ([]inventory.Event, error) {
	limit := f.Limit
	f.Limit = math.MaxInt32
	events, err := m.Store.Events(ctx, store.EventFilter(f))
	if limit > 0 && len(events) > limit {
		events = events[:limit]
	}
	return events, err
}

// looping is the loop as the socket wants it.
type looping struct{ *reaper.Loop }

func (l looping) Pass(ctx context.Context) (api.Report, error) {
	r, err := l.Loop.Pass(ctx)
	return reportOf(r), stopping(err)
}

func (l looping) Plan(ctx context.Context) ([]inventory.Decision, error) {
	ds, err := l.Loop.Plan(ctx)
	return ds, stopping(err)
}

func (l looping) Apply(ctx context.Context, saved []inventory.Decision, operator string) (api.Report, error) {
	r, err := l.Loop.Apply(ctx, saved, operator)
	return reportOf(r), stopping(err)
}

func (l looping) Status() api.LoopStatus {
	s := l.Loop.Status()
	return api.LoopStatus{
		Started: s.Started, LastPass: s.LastPass, LastGood: s.LastGood, Next: s.Next, Passes: s.Passes, Coalesced: s.Coalesced,
		Blind: s.Blind, Brake: s.Brake, BrakeCount: s.BrakeCount, Last: reportOf(s.Last),
	}
}

func reportOf(r reaper.Report) api.Report {
	out := api.Report{StartedAt: r.StartedAt, EndedAt: r.EndedAt, Decisions: r.Decisions, Error: r.Error}
	for _, result := range r.Results {
		out.Results = append(out.Results, api.Result(result))
	}
	return out
}

func stopping(err error) error {
	if errors.Is(err, reaper.ErrStopped) {
		return api.ErrStopping
	}
	return err
}
