package reaper

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/testbed-janitor/janitor/internal/inventory"
)

// pokeGap is the shortest time between the end of a pass and an early one:
// whatever calls Poke without end does not keep the engine busy.
const pokeGap = 200 * time.Millisecond

// Loop observes, decides and removes, again and again. One goroutine, that of
// Run, does all of it; the other methods ask it, or only look.
type Loop struct {
	mem   Memory
	world World
	opt   Options
	alarm alarm
	watch watch

	wake     chan struct{} // one poke is pending
	pokes    atomic.Int64  // how many that stands for
	requests chan request
	stopped  chan struct{}

	mu     sync.Mutex
	status Status
	last   view
	logged logged
}

// view is what a pass last decided on.
type view struct {
	recs inventory.Records
	seen inventory.Observation
}

// request asks the loop for a pass, or with apply for a saved plan.
type request struct {
	apply    bool
	saved    []inventory.Decision
	operator string
	reply    chan reply
}

type reply struct {
	report Report
	err    error
}

// New returns a loop that does nothing yet.
func New(mem Memory, world World, opt Options) *Loop {
	opt = opt.withDefaults()
	l := &Loop{
		mem: mem, world: world, opt: opt,
		alarm: alarm{schedule: opt.Schedule}, watch: watch{clock: opt.Clock, progress: opt.Progress},
		wake: make(chan struct{}, 1), requests: make(chan request), stopped: make(chan struct{}),
	}
	l.last.seen.Blind = "nothing has been looked at yet"
	return l
}

// Run passes over the testbed at once and then whenever a pass is due, until
// ctx ends; a removal that has begun then is still carried through, within its
// deadlines. It returns nil, and may be called once.
func (l *Loop) Run(ctx context.Context) error {
	defer close(l.stopped)
	now := l.opt.Clock()
	l.mu.Lock()
	l.status.Started = now.Wall
	l.mu.Unlock()

	l.pass(ctx, nil)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		now := l.opt.Clock()
		timer.Reset(l.alarm.sleep(now))
		select {
		case <-ctx.Done():
			return nil
		case r := <-l.requests:
			l.serve(ctx, r)
		case <-l.wake:
			if !l.gap(ctx) {
				return nil
			}
			l.pass(ctx, nil)
		case <-timer.C:
			l.opt.Progress()
			if l.alarm.due(l.opt.Clock()) {
				l.pass(ctx, nil)
			}
		}
		if ctx.Err() != nil {
			return nil
		}
	}
}

// gap waits between a pass and an early one; what is asked for meanwhile is
// served by that one.
func (l *Loop) gap(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(pokeGap):
		return true
	}
}

func (l *Loop) serve(ctx context.Context, r request) {
	if !r.apply {
		l.pass(ctx, []request{r})
		return
	}
	report, err := l.apply(ctx, r.saved, r.operator)
	r.reply <- reply{report, err}
}

// pass serves all that is due: fired moments of the schedule, the pokes and the
// requests that wait. All but one of them are coalesced.
func (l *Loop) pass(ctx context.Context, asked []request) {
	select {
	case <-l.wake:
	default:
	}
	var plans []request
	for waiting := true; waiting; {
		select {
		case r := <-l.requests:
			if r.apply {
				plans = append(plans, r)
			} else {
				asked = append(asked, r)
			}
		default:
			waiting = false
		}
	}
	due := int(l.pokes.Swap(0)) + len(asked)
	if now := l.opt.Clock(); l.alarm.due(now) {
		due += l.alarm.missed(now)
		l.alarm.set(now)
	}
	report, err := l.onePass(ctx)
	if err == nil {
		l.note(report, max(due-1, 0))
	}
	for _, r := range asked {
		r.reply <- reply{report, err}
	}
	for _, r := range plans {
		report, err := l.apply(ctx, r.saved, r.operator)
		r.reply <- reply{report, err}
	}
}

// Poke asks for an early pass, without waiting for it.
func (l *Loop) Poke() {
	l.pokes.Add(1)
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// Pass has the loop run a pass that begins after this call, and returns its
// report. The error is that of ctx, or ErrStopped; what went wrong in the pass
// is in the report.
func (l *Loop) Pass(ctx context.Context) (Report, error) {
	return l.ask(ctx, request{})
}

// Apply has the loop carry out a saved plan in the name of an operator: of its
// decisions those that are decided the same way today with brake and dry run
// lifted. All others are reported as skipped.
func (l *Loop) Apply(ctx context.Context, saved []inventory.Decision, operator string) (Report, error) {
	return l.ask(ctx, request{apply: true, saved: saved, operator: operator})
}

func (l *Loop) ask(ctx context.Context, r request) (Report, error) {
	r.reply = make(chan reply, 1)
	select {
	case l.requests <- r:
	case <-l.stopped:
		return Report{}, ErrStopped
	case <-ctx.Done():
		return Report{}, ctx.Err()
	}
	select { // a request that was taken is answered, also while stopping
	case a := <-r.reply:
		return a.report, a.err
	case <-ctx.Done():
		return Report{}, ctx.Err()
	}
}
