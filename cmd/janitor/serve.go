package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"sync"
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

// shutdownLimit bounds how long clients are waited for at the end. All that
// wait for something have their answer by then.
const shutdownLimit = 15 * time.Second

func (c *cli) serveCommand() *cobra.Command {
	var path string
	cmd := &cobra.Command{
		Use: "serve", Short: "Run the service", Args: none,
		RunE: func(cmd *cobra.Command, _ []string) error {
			load := func() (*config.Config, error) { return c.load(path) }
			return serve(cmd.Context(), load, c.logger(c.err))
		},
	}
	cmd.Flags().StringVar(&path, "config", "", "the configuration (default "+config.DefaultPath+")")
	return cmd
}

// logger writes for people and for the journal, which has the time itself.
func (c *cli) logger(w io.Writer) *slog.Logger {
	var opt slog.HandlerOptions
	if c.env["JOURNAL_STREAM"] != "" {
		opt.ReplaceAttr = func(groups []string, a slog.Attr) slog.Attr {
			if len(groups) == 0 && a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}
	}
	return slog.New(slog.NewTextHandler(w, &opt))
}

// serve is the whole service: everything is built here, in the order in which
// one needs the other, and ended in the opposite one. It returns when ctx ends,
// or an error when it cannot start or not go on. That no Docker engine answers
// is neither: it serves, waits, and says so.
func serve(ctx context.Context, load func() (*config.Config, error), log *slog.Logger) (err error) {
	hup := make(chan os.Signal, 1) // at first: until then the signal would kill
	signal.Notify(hup, syscall.SIGHUP)
	defer signal.Stop(hup)

	cfg, err := load()
	if err != nil {
		return err
	}
	for _, w := range cfg.Warnings {
		log.Warn("configuration", "warning", w)
	}
	set, err := newSettings(cfg)
	if err != nil {
		return err
	}

	db, err := store.Open(ctx, cfg.Database)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	clock, err := openClock(ctx, db)
	if err != nil {
		return fmt.Errorf("database %s: %w", cfg.Database, err)
	}
	db.SetClock(clock.Now)

	docker, err := engine.Open(cfg.DockerHost)
	if err != nil {
		return err
	}
	defer func() { _ = docker.Close() }()
	interval := func() time.Duration { return set.interval(clock.Wall()) }
	boot := clock.Saved().Boot
	world := &host.World{Engine: docker, Boot: boot, Interval: interval, Kubeconfigs: set.kubeconfigs}

	svc := &service{set: set, db: db, clock: clock, engine: docker, log: log}
	loop := reaper.New(db, world, reaper.Options{
		Policy: set.policy, Schedule: set, Clock: clock.Now,
		Workers: cfg.Reap.Workers, Timeout: cfg.Reap.Timeout, Log: log,
		Progress: func() { svc.notify(daemon.SdNotifyWatchdog) },
	})
	svc.loop = loop

	server := api.New(memory{db}, looping{loop}, api.Options{
		Policy: set.policy, Clock: clock.Now, Interval: interval, Boot: boot, Version: version,
		IsAdmin: set.isAdmin, Status: svc.status, Metrics: newMetrics(svc), Log: log,
	}).HTTP()
	listener, err := api.Listen(cfg.Socket)
	if err != nil {
		return err
	}
	defer listener.Close()
	if err := db.Start(ctx, clock.Now()); err != nil {
		return fmt.Errorf("database %s: %w", cfg.Database, err)
	}

	running, stop := context.WithCancel(ctx)
	defer stop()
	var tasks sync.WaitGroup
	tasks.Go(func() { _ = loop.Run(running) }) // its error is always nil
	tasks.Go(func() { svc.watchEngine(running) })
	tasks.Go(func() { svc.keep(running) })
	tasks.Go(func() { svc.reloads(running, hup, load) })
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener); stop() }()
	svc.notify(daemon.SdNotifyReady)
	log.Info("serving", "version", version, "socket", cfg.Socket, "database", cfg.Database, "docker_host", docker.Host())

	<-running.Done()
	svc.notify(daemon.SdNotifyStopping)
	stop()
	tasks.Wait() // the step under way ends, and nothing new begins
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownLimit)
	defer cancel()
	if err := server.Shutdown(end); err != nil { // who waits is answered
		log.Warn("clients are cut off", "error", err)
		server.Close()
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return errors.Join(fmt.Errorf("socket %s: %w", cfg.Socket, err), svc.saveClock(ctx))
	}
	log.Info("stopped")
	return svc.saveClock(ctx)
}

// openClock goes on from where the clock was saved, and saves that before
// anything has an instant of it.
func openClock(ctx context.Context, db *store.Store) (*host.BootClock, error) {
	boot, base, last, err := db.Clock(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the clock: %w", err)
	}
	clock, err := host.OpenClock(host.SavedClock{Boot: boot, Base: base, Last: last})
	if err != nil {
		return nil, err
	}
	saved := clock.Saved()
	if err := db.SaveClock(ctx, saved.Boot, saved.Base, saved.Last); err != nil {
		return nil, fmt.Errorf("save the clock: %w", err)
	}
	return clock, nil
}
