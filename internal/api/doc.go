// Package api is the socket: the wire types, the server, the client that the
// command uses, listening, and who the kernel says is calling.
//
// It decides nothing about clusters: every change of a row is a rule of package
// inventory, run in a transaction of the store. It never takes the caller's
// identity from what a client sends, never executes, globs or opens what a
// client names, and never answers an accepted call before it is committed.
package api

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/testbed-janitor/janitor/internal/inventory"
)

// ErrStopping is what a [Loop] returns once it does not run any more.
var ErrStopping = errors.New("the service is stopping")

// Store is the memory of the service, as the server needs it. What a rule
// refuses is an [inventory.Problem]; so is an unknown name or plan
// (CodeNotFound) and a database that cannot be written (CodeStorage).
type Store interface {
	// Change runs a rule and writes what it gives in one transaction. It
	// returns after the commit.
	Change(ctx context.Context, name, lease string, rule func(inventory.Records) (inventory.Change, error)) (inventory.Change, error)
	Records(ctx context.Context) (inventory.Records, error)
	Clusters(ctx context.Context, f Filter) ([]inventory.Cluster, error)
	// Cluster returns the row of a name that is not closed, else the last
	// closed one, and the containers of that name.
	Cluster(ctx context.Context, name string) (inventory.Cluster, []inventory.Container, error)
	// Events returns events in the order of their ids.
	Events(ctx context.Context, f EventFilter) ([]inventory.Event, error)
	// Changed is closed at the next commit.
	Changed() <-chan struct{}
	SavePlan(ctx context.Context, id string, at inventory.Stamp, ds []inventory.Decision) error
	Plan(ctx context.Context, id string) (inventory.Stamp, []inventory.Decision, error)
	Counts(ctx context.Context) (map[inventory.State]int, error)
}

// Loop is the one loop of the service, as the server needs it.
type Loop interface {
	Poke()
	Pass(ctx context.Context) (Report, error)
	Plan(ctx context.Context) ([]inventory.Decision, error)
	Apply(ctx context.Context, saved []inventory.Decision, operator string) (Report, error)
	// Look asks the engine for one name, remembers what stands and returns it.
	Look(ctx context.Context, name string) ([]inventory.Seen, error)
	// Decide decides about rows with what was last seen.
	Decide(ctx context.Context, rows []inventory.Cluster) []inventory.Decision
	Status() LoopStatus
}

// Filter chooses rows. State is one of the states, "all", or empty for those
// that are not closed. Empty fields choose everything.
type Filter struct {
	State, Owner, Job string
}

// EventFilter chooses events: of a name, not before Since (wall clock), with an
// id above After, at most Limit.
type EventFilter struct {
	Name  string
	Since time.Time
	After int64
	Limit int
}

// Report is what a pass, or a saved plan carried out, came to.
type Report struct {
	StartedAt, EndedAt time.Time
	Decisions          []inventory.Decision
	Results            []Result
	Error              string
}

// LoopStatus is how the loop fares, in wall times. LastPass is the end of the
// last pass, whatever it came to; LastGood that of the last without an error.
type LoopStatus struct {
	Started, LastPass, LastGood, Next time.Time
	Passes, Coalesced                 int
	Blind                             string
	Brake                             bool
	BrakeCount                        int
	Last                              Report
}

// Options are what a server needs besides its store and its loop. Policy,
// Clock and Interval are required.
type Options struct {
	Policy   func() inventory.Policy
	Clock    func() inventory.Stamp
	Interval func() time.Duration // of the schedule, at this moment
	Boot     string               // the boot id of this machine
	Version  string
	// IsAdmin says who may apply a plan, lift another's hold and force a
	// release. nil: root alone.
	IsAdmin func(uid, gid uint32, pid int) bool
	// Status gives what the server does not know itself: the engine, the
	// database, warnings. nil: nothing.
	Status  func(ctx context.Context) Status
	Metrics http.Handler // nil: /metrics is not found
	Log     *slog.Logger // nil: nothing is logged
}
