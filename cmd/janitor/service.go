package main

import (
	"context"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"github.com/testbed-janitor/janitor/internal/api"
	"github.com/testbed-janitor/janitor/internal/config"
	"github.com/testbed-janitor/janitor/internal/host"
	"github.com/testbed-janitor/janitor/internal/host/engine"
	"github.com/testbed-janitor/janitor/internal/reaper"
	"github.com/testbed-janitor/janitor/internal/store"
)

// service is what runs beside the loop and the socket: small tasks, none of
// which decides anything.
type service struct {
	set    *settings
	db     *store.Store
	clock  *host.BootClock
	engine *engine.Engine
	loop   *reaper.Loop
	log    *slog.Logger

	mu            sync.Mutex
	engineVersion string // as it was last heard
}

// status is what the socket cannot know itself.
func (s *service) status(context.Context) api.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return api.Status{
		Docker:   &api.Docker{Host: s.engine.Host(), Version: s.engineVersion, Error: s.loop.Status().Blind},
		Database: &api.Database{Path: s.db.Path(), Bytes: s.db.Size()},
		Warnings: s.set.now.Load().warnings,
	}
}

// Waits between attempts to follow the engine's events.
const (
	shortestWait = time.Second
	longestWait  = time.Minute
	askLimit     = 10 * time.Second
)

// watchEngine has the loop look early when a kind container comes or goes.
// Events get lost, so they are a hint and no more: after each break the loop
// looks for itself.
func (s *service) watchEngine(ctx context.Context) {
	wait := shortestWait
	for again := false; ; again = true {
		began := s.clock.Elapsed()
		err := s.followEngine(ctx, again)
		if ctx.Err() != nil {
			return
		}
		s.log.DebugContext(ctx, "the engine's events end", "error", err)
		if time.Duration(s.clock.Elapsed()-began) > longestWait {
			wait = shortestWait
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		wait = min(2*wait, longestWait)
	}
}

func (s *service) followEngine(ctx context.Context, again bool) error {
	asked, cancel := context.WithTimeout(ctx, askLimit)
	version, err := s.engine.Version(asked)
	cancel()
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.engineVersion = version
	s.mu.Unlock()
	if again {
		s.loop.Poke()
	}
	return s.engine.Events(ctx, s.loop.Poke)
}

const (
	// saveEvery is how much of the clock is lost, at most, when the machine
	// goes down without a word.
	saveEvery = time.Minute
	saveLimit = 10 * time.Second
	// forgetEvery and retention are when closed rows, events, plans and
	// containers are forgotten, and after how long.
	forgetEvery = time.Hour
	retention   = 90 * 24 * time.Hour
)

// keep saves the clock and forgets what is old.
func (s *service) keep(ctx context.Context) {
	save, forget := time.NewTicker(saveEvery), time.NewTicker(forgetEvery)
	defer save.Stop()
	defer forget.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-save.C:
			if err := s.saveClock(ctx); err != nil && ctx.Err() == nil {
				s.log.WarnContext(ctx, "the clock is not saved; a reboot now would make deadlines late", "error", err)
			}
		case <-forget.C:
			if err := s.db.Prune(ctx, s.clock.Wall().Add(-retention)); err != nil && ctx.Err() == nil {
				s.log.WarnContext(ctx, "what is old is not forgotten", "error", err)
			}
		}
	}
}

// saveClock saves the clock, also while the service stops.
func (s *service) saveClock(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveLimit)
	defer cancel()
	saved := s.clock.Saved()
	return s.db.SaveClock(ctx, saved.Boot, saved.Base, saved.Last)
}

// reloads reads the configuration anew with each signal. One that is wrong
// changes nothing.
func (s *service) reloads(ctx context.Context, hup <-chan os.Signal, load func() (*config.Config, error)) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-hup:
		}
		s.notify(daemon.SdNotifyReloading)
		cfg, err := load()
		var applied, restart []string
		if err == nil {
			applied, restart, err = s.set.reload(cfg)
		}
		if err != nil {
			s.log.ErrorContext(ctx, "the configuration is not reloaded; the old one stays in force", "error", err)
		} else {
			s.log.InfoContext(ctx, "the configuration is reloaded", "applied", applied, "need_restart", restart)
			s.loop.Poke()
		}
		s.notify(daemon.SdNotifyReady)
	}
}

// notify tells systemd, where there is one.
func (s *service) notify(state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		s.log.Warn("systemd is not told", "state", state, "error", err)
	}
}
