package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/spf13/cobra"

	"github.com/testbed-janitor/janitor/internal/api"
	"github.com/testbed-janitor/janitor/internal/config"
	"github.com/testbed-janitor/janitor/internal/host"
	"github.com/testbed-janitor/janitor/internal/host/engine"
	"github.com/testbed-janitor/janitor/internal/reaper"
	"github.com/testbed-janitor/janitor/internal/store"
)

// stopLimit bounds how long clients are waited for at the end.
const stopLimit = 10 * time.Second

func (c *cli) serveCommand() *cobra.Command {
	var path string
	cmd := &cobra.Command{
		Use: "serve", Short: "Run the service", Args: none,
		RunE: func(cmd *cobra.Command, _ []string) error {
			flags := map[string]string{}
			if f := cmd.Flags().Lookup("socket"); f != nil && f.Changed {
				flags["socket"] = c.socket
			}
			cfg, err := c.load(path, flags)
			if err != nil {
				return err
			}
			log := slog.New(slog.NewTextHandler(c.err, nil))
			for _, w := range cfg.Warnings {
				log.Warn("configuration", "warning", w)
			}
			return serve(cmd.Context(), cfg, func() (*config.Config, error) { return c.load(path, flags) }, log)
		},
	}
	cmd.Flags().StringVar(&path, "config", "", "the configuration; default: "+config.DefaultPath)
	return cmd
}

// serve is the whole service, built in one place. It returns when ctx ends, or
// with an error when it cannot start or go on.
func serve(ctx context.Context, cfg *config.Config, reload func() (*config.Config, error), log *slog.Logger) (err error) {
	set := &settings{}
	set.now.Store(cfg)

	db, err := store.Open(ctx, cfg.Database)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	clock, err := openClock(ctx, db)
	if err != nil {
		return err
	}
	db.SetClock(clock.Now)
	if err := db.Start(ctx, clock.Now()); err != nil {
		return err
	}

	docker, err := engine.Open(cfg.DockerHost)
	if err != nil {
		return err
	}
	defer docker.Close()
	boot := clock.Saved().Boot
	world := &host.World{Engine: docker, Boot: boot, Interval: set.interval, Kubeconfigs: set.kubeconfigs}
	loop := reaper.New(db, world, reaper.Options{
		Policy: set.policy, Schedule: set, Clock: clock.Now, Workers: cfg.Reap.Workers, Timeout: cfg.Reap.Timeout,
		Log: log, Progress: func() { _, _ = daemon.SdNotify(false, daemon.SdNotifyWatchdog) },
	})

	svc := &service{set: set, db: db, engine: docker, loop: loop, clock: clock}
	server := api.New(storeCalls{db}, loopCalls{loop}, api.Options{
		Policy: set.policy, Clock: clock.Now, Interval: set.interval, Boot: boot, Version: version, IsAdmin: set.isAdmin,
		Status: svc.status, Metrics: svc.metrics(), Log: log,
	}).HTTP()
	listener, err := api.Listen(cfg.Socket)
	if err != nil {
		return err
	}

	running, stop := context.WithCancel(ctx)
	defer stop()
	tasks := newTasks(stop)
	tasks.run(func() error { return loop.Run(running) })
	tasks.run(func() error { svc.watchEngine(running); return nil })
	tasks.run(func() error { svc.keepClock(running, log); return nil })
	tasks.run(func() error { svc.reloads(running, reload, log); return nil })
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	_, _ = daemon.SdNotify(false, daemon.SdNotifyReady)
	log.Info("serving", "version", version, "socket", cfg.Socket, "database", cfg.Database, "docker_host", docker.Host())

	select {
	case <-running.Done():
	case err = <-served:
		err = fmt.Errorf("socket: %w", err)
	}
	// In this order: no new passes, the step that is under way ends, waiting
	// clients get an answer, and then nobody needs the store any more.
	_, _ = daemon.SdNotify(false, daemon.SdNotifyStopping)
	stop()
	err = errors.Join(err, tasks.wait())
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopLimit)
	defer cancel()
	if e := server.Shutdown(end); e != nil {
		log.Warn("clients were cut off", "error", e)
	}
	saved := clock.Saved()
	return errors.Join(err, db.SaveClock(end, saved.Boot, saved.Base, saved.Last))
}

// openClock goes on from where the clock was saved, and saves it before
// anything has an instant of it.
func openClock(ctx context.Context, db *store.Store) (*host.BootClock, error) {
	boot, base, last, err := db.Clock(ctx)
	if err != nil {
		return nil, err
	}
	clock, err := host.OpenClock(host.SavedClock{Boot: boot, Base: base, Last: last})
	if err != nil {
		return nil, err
	}
	saved := clock.Saved()
	return clock, db.SaveClock(ctx, saved.Boot, saved.Base, saved.Last)
}

// reloads reads the configuration anew on SIGHUP. A bad one changes nothing.
func (s *service) reloads(ctx context.Context, load func() (*config.Config, error), log *slog.Logger) {
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	defer signal.Stop(hup)
	for {
		select {
		case <-ctx.Done():
			return
		case <-hup:
		}
		_, _ = daemon.SdNotify(false, daemon.SdNotifyReloading)
		next, err := load()
		if err != nil {
			log.Error("the configuration was not reloaded; the old one stays in force", "error", err)
		} else {
			applied, restart := config.Reload(s.set.now.Load(), next)
			s.set.now.Store(next)
			log.Info("reloaded", "applied", applied, "need_restart", restart)
			s.loop.Poke()
		}
		_, _ = daemon.SdNotify(false, daemon.SdNotifyReady)
	}
}
