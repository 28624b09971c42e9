package driver

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/testbed-janitor/janitor/internal/inventory"
)

// Opener gives the world its memory. New is an empty inventory born now, also
// after the one before was lost; Restart is a start of the service over m.
type Opener interface {
	New(clock func() inventory.Stamp) Memory
	Restart(m Memory, now inventory.Stamp)
}

// Maps opens memories without a disk.
type Maps struct{}

// New returns an empty [Map].
func (Maps) New(clock func() inventory.Stamp) Memory { return NewMap(clock()) }

// Restart notes the start.
func (Maps) Restart(m Memory, now inventory.Stamp) { m.(*Map).Restart(now) }

// container, job and lease are the truth.
type container struct {
	id, name string
	made     inventory.Instant
	wall     time.Time // as the engine gives it: whole seconds
	under    *lease    // whose job made it; nil: a stranger
	adopted  *lease    // who adopted it since
	stubborn bool      // cannot be removed for now
}

type job struct {
	name, owner string
	session     bool // a wrapper: the connection is its proof of life
	jenkins     bool // Jenkins can be asked about it
	connected   bool
	heardEnd    bool // its connection ended while the service listened
	frozen      bool
	thawed      inventory.Instant
	died        inventory.Instant
	lease       *lease
}

type lease struct {
	id, name         string
	job              *job
	since, ends, cap inventory.Instant
	heard, over      inventory.Instant
	made             bool // a container ever stood
}

type hold struct {
	row   int64
	until inventory.Instant
}

type world struct {
	rng      *rand.Rand
	open     Opener
	mem      Memory
	policy   inventory.Policy
	at       inventory.Instant
	wall     time.Time
	boot     int
	counter  int
	stands   []*container
	jobs     []*job
	leases   []*lease // of this inventory, not over
	holds    map[string]hold
	birth    inventory.Instant
	heard    inventory.Instant // last start, or refused write
	begun    []inventory.Instant
	captured map[int64][]string
	saved    []inventory.Decision
	savedAt  inventory.Instant
	outage   bool              // Jenkins cannot be asked
	listed   bool              // a readable list was stored since the wall clock was last set
	fresh    bool              // this pass has one
	observed inventory.Instant // when this pass looked
	crashed  bool              // this pass ended in the middle
	settling bool              // no more lies and faults
	trace    []string
	found    string // the first harm
	begins   int
}

// Result counts what a history held, so that a test can tell a run in which
// nothing happened.
type Result struct {
	Harm          string
	Trace         []string
	Begun, Leases int
}

var ctx = context.Background()

// Run plays one history of the given steps and reports the first harm.
func Run(open Opener, seed uint64, steps int) Result {
	w := &world{
		rng: rand.New(rand.NewPCG(seed, 7)), open: open, policy: inventory.Defaults(),
		at: inventory.Instant(time.Hour), wall: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
	}
	w.policy.MaxPerHour = 1 + w.rng.IntN(3)
	w.newInventory()
	for i := 0; i < steps && w.found == ""; i++ {
		w.step()
		if w.found == "" && i%4 == 0 {
			w.checkLeases()
		}
	}
	if w.found == "" {
		w.settle()
	}
	return Result{Harm: w.found, Trace: w.trace, Begun: w.begins, Leases: w.counter}
}

func (w *world) now() inventory.Stamp { return inventory.Stamp{At: w.at, Wall: w.wall} }

func (w *world) say(format string, args ...any) {
	w.trace = append(w.trace, fmt.Sprintf("%s ", time.Duration(w.at))+fmt.Sprintf(format, args...))
	if len(w.trace) > 60 {
		w.trace = w.trace[1:]
	}
}

func (w *world) harm(format string, args ...any) {
	if w.found == "" {
		w.found = fmt.Sprintf(format, args...)
	}
}

func (w *world) chance(percent int) bool { return w.rng.IntN(100) < percent }

func (w *world) id(kind string) string {
	w.counter++
	return fmt.Sprintf("%s%05d", kind, w.counter)
}

func (w *world) pass(d time.Duration) {
	w.at = w.at.Add(d)
	w.wall = w.wall.Add(d)
}

func (w *world) newInventory() {
	w.mem = w.open.New(w.now)
	w.open.Restart(w.mem, w.now())
	w.birth, w.heard, w.listed = w.at, w.at, false
	w.leases, w.begun, w.saved = nil, nil, nil
	w.holds, w.captured = map[string]hold{}, map[int64][]string{}
	for _, j := range w.jobs {
		j.lease, j.connected = nil, false
	}
	for _, c := range w.stands {
		c.under, c.adopted = nil, nil
	}
}

func (w *world) restart() {
	w.heard = w.at
	w.open.Restart(w.mem, w.now())
	for _, j := range w.jobs {
		j.connected, j.heardEnd = false, false
	}
}

// step is one thing that happens.
func (w *world) step() {
	w.pass(time.Duration(w.rng.IntN(3000)) * time.Millisecond)
	switch n := w.rng.IntN(100); {
	case n < 30:
		w.onePass("")
	case n < 45:
		w.jobStep()
	case n < 52:
		w.startJob()
	case n < 62:
		w.pass(time.Minute)
		w.onePass("")
	case n < 66:
		for range 1 + w.rng.IntN(30) { // time in which the loop runs
			w.pass(time.Minute)
			w.onePass("")
		}
	case n < 68:
		w.pass([]time.Duration{6 * time.Minute, 25 * time.Minute, time.Hour}[w.rng.IntN(3)])
	case n < 71:
		w.stranger()
	case n < 83:
		w.jobStep()
	case n < 86:
		w.operator()
	case n < 88:
		w.wall = w.wall.Add(time.Duration(w.rng.IntN(14400)-7200) * time.Second)
		w.listed = false
		w.say("wall clock stepped to %s", w.wall)
	case n < 90:
		w.say("service restarted")
		w.restart()
	case n < 91:
		w.outage = !w.outage
	case n < 92 && w.chance(30):
		w.say("reboot")
		w.boot++
		for _, j := range w.jobs {
			w.die(j)
		}
		w.restart()
	case n < 93 && w.chance(15):
		w.say("database lost")
		w.newInventory()
		w.settling = true // the service looks at once when it starts
		w.onePass("")
		w.settling = false
	}
}
