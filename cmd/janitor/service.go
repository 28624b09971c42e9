package main

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/testbed-janitor/janitor/internal/api"
	"github.com/testbed-janitor/janitor/internal/host"
	"github.com/testbed-janitor/janitor/internal/host/engine"
	"github.com/testbed-janitor/janitor/internal/inventory"
	"github.com/testbed-janitor/janitor/internal/reaper"
	"github.com/testbed-janitor/janitor/internal/store"
)

// service is what the tasks beside the loop share.
type service struct {
	set    *settings
	db     *store.Store
	engine *engine.Engine
	loop   *reaper.Loop
	clock  *host.BootClock

	mu      sync.Mutex
	version string // of the engine, as last heard
}

// loopCalls is the loop in the words of the socket.
type loopCalls struct{ *reaper.Loop }

func (l loopCalls) Pass(ctx context.Context) (api.Report, error) {
	r, err := l.Loop.Pass(ctx)
	return report(r), stopped(err)
}

func (l loopCalls) Apply(ctx context.Context, saved []inventory.Decision, operator string) (api.Report, error) {
	r, err := l.Loop.Apply(ctx, saved, operator)
	return report(r), stopped(err)
}

func (l loopCalls) Plan(ctx context.Context) ([]inventory.Decision, error) {
	ds, err := l.Loop.Plan(ctx)
	return ds, stopped(err)
}

// stopped tells the socket, in its own words, that the loop has ended.
func stopped(err error) error {
	if errors.Is(err, reaper.ErrStopped) {
		return api.ErrStopping
	}
	return err
}

func report(r reaper.Report) api.Report {
	out := api.Report{StartedAt: r.StartedAt, EndedAt: r.EndedAt, Decisions: r.Decisions, Error: r.Error}
	for _, x := range r.Results {
		out.Results = append(out.Results, api.Result(x))
	}
	return out
}

func (l loopCalls) Status() api.LoopStatus {
	s := l.Loop.Status()
	return api.LoopStatus{
		Started: s.Started, LastPass: s.LastPass, LastGood: s.LastGood, Next: s.Next, Passes: s.Passes, Coalesced: s.Coalesced,
		Blind: s.Blind, Brake: s.Brake, BrakeCount: s.BrakeCount, Last: report(s.Last),
	}
}

// storeCalls is the store in the words of the socket.
type storeCalls struct{ *store.Store }

func (s storeCalls) Clusters(ctx context.Context, f api.Filter) ([]inventory.Cluster, error) {
	return s.Store.Clusters(ctx, store.Filter(f))
}

func (s storeCalls) Events(ctx context.Context, f api.EventFilter) ([]inventory.Event, error) {
	return s.Store.Events(ctx, store.EventFilter(f))
}

// status is what the socket does not know itself.
func (s *service) status(context.Context) api.Status {
	s.mu.Lock()
	engineVersion := s.version
	s.mu.Unlock()
	return api.Status{
		Docker:   &api.Docker{Host: s.engine.Host(), Version: engineVersion, Error: s.loop.Status().Blind},
		Database: &api.Database{Path: s.db.Path(), Bytes: s.db.Size()},
	}
}

// watchEngine has the loop look early when a kind container comes or goes. The
// events are a hint: after each break it listens before it looks again.
func (s *service) watchEngine(ctx context.Context) {
	for wait := time.Second; ctx.Err() == nil; {
		asked, cancel := context.WithTimeout(ctx, 10*time.Second)
		v, err := s.engine.Version(asked)
		cancel()
		if err == nil {
			s.mu.Lock()
			s.version = v
			s.mu.Unlock()
			began := time.Now()
			s.loop.Poke()
			_ = s.engine.Events(ctx, s.loop.Poke) // it ends with an error, always
			if time.Since(began) > time.Minute {
				wait = time.Second
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
		wait = min(2*wait, time.Minute)
	}
}

// retention is how long closed rows, events and containers are remembered.
const retention = 90 * 24 * time.Hour

// keepClock saves the clock each minute, so that little is lost when the
// machine goes down, and forgets each hour what is too old.
func (s *service) keepClock(ctx context.Context, log *slog.Logger) {
	tick := time.NewTicker(time.Minute)
	defer tick.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		saved := s.clock.Saved()
		if err := s.db.SaveClock(ctx, saved.Boot, saved.Base, saved.Last); err != nil {
			log.Warn("the clock was not saved", "error", err)
		}
		if n%60 == 0 {
			if err := s.db.Prune(ctx, s.clock.Wall().Add(-retention)); err != nil {
				log.Warn("nothing old was forgotten", "error", err)
			}
		}
	}
}

// tasks run beside each other; the first that fails stops them all.
type tasks struct {
	all  sync.WaitGroup
	stop func()
	mu   sync.Mutex
	err  error
}

func newTasks(stop func()) *tasks { return &tasks{stop: stop} }

func (t *tasks) run(f func() error) {
	t.all.Go(func() {
		if err := f(); err != nil {
			t.mu.Lock()
			t.err = err
			t.mu.Unlock()
			t.stop()
		}
	})
}

func (t *tasks) wait() error {
	t.all.Wait()
	return t.err
}
