// Package reaper is the one loop: it looks at the testbed, has the inventory
// decide, carries the decisions out and sleeps. It is the only package that
// calls for effects on the testbed.
//
// It decides nothing itself: every verdict comes from [inventory.Plan], and
// every change of a row from a rule of that package. It never removes a
// container whose ID was not stored beforehand, never removes anything by name,
// and never asks a client for permission or waits for one.
//
// A reap stores its intent before its effect, so a crash anywhere leaves a
// reaping row, which the next pass takes up again with the same container IDs.
// There is no other recovery.
package reaper

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/testbed-janitor/janitor/internal/inventory"
)

// ErrStopped is answered to who asks a loop that does not run any more.
var ErrStopped = errors.New("the service is stopping; ask again when it is back")

// Memory is where the inventory is remembered between passes and restarts.
type Memory interface {
	// Records returns all rows that are not closed, and all else that is known.
	Records(ctx context.Context) (inventory.Records, error)
	// SaveSight writes what differs between two records. It leaves out rows
	// that have changed since before was read, and their containers.
	SaveSight(ctx context.Context, before, after inventory.Records) error
	// Change runs a rule and writes what it gives in one transaction.
	Change(ctx context.Context, name, lease string, rule func(inventory.Records) (inventory.Change, error)) (inventory.Change, error)
	// Log appends events that belong to no change of a row.
	Log(ctx context.Context, events []inventory.Event) error
}

// World is the testbed. All of it obeys the deadline of its context.
type World interface {
	// Observe looks at everything. It never fails: what cannot be read says so.
	Observe(ctx context.Context, recs inventory.Records) inventory.Observation
	// Look lists the containers of one name.
	Look(ctx context.Context, name string) ([]inventory.Seen, error)
	// Remove removes containers by ID, all at once, with their volumes. One
	// that is not there is a success.
	Remove(ctx context.Context, ids []string) error
	// Standing returns those of the containers that still exist.
	Standing(ctx context.Context, ids []string) ([]string, error)
	// RemoveVolumes removes anonymous volumes that stayed behind.
	RemoveVolumes(ctx context.Context, names []string) error
	// Forget takes entries out of kubeconfig files, each only if it is, under
	// the file's lock, still what is given. It returns those it took out.
	// uidOf gives the uid of the job that named a file.
	Forget(ctx context.Context, entries []inventory.SeenContext, uidOf func(file string) (uint32, bool)) ([]inventory.SeenContext, error)
}

// Schedule says when passes are due, by the wall clock.
type Schedule interface {
	Next(after time.Time) time.Time
}

// Options are what a loop needs besides its memory and its world.
type Options struct {
	Policy   func() inventory.Policy // asked once for each pass
	Schedule Schedule
	Clock    func() inventory.Stamp
	Workers  int           // clusters removed at the same time; below 1: one
	Timeout  time.Duration // of the removal of one cluster's containers; 0: 2m
	Observe  time.Duration // of a look at everything; 0: 30s
	Log      *slog.Logger  // nil: nothing is logged
	Progress func()        // called while the loop is not stuck; nil: nobody asks
}

const (
	defaultTimeout = 2 * time.Minute
	defaultObserve = 30 * time.Second
	// stepLimit bounds each step of a reap but the removal, and each write.
	stepLimit = 30 * time.Second
	// lookLimit bounds the look at one name, for which a client waits.
	lookLimit = time.Second
)

func (o Options) withDefaults() Options {
	o.Workers = max(o.Workers, 1)
	if o.Timeout <= 0 {
		o.Timeout = defaultTimeout
	}
	if o.Observe <= 0 {
		o.Observe = defaultObserve
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Progress == nil {
		o.Progress = func() {}
	}
	return o
}
