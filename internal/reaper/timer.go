package reaper

import (
	"time"

	"github.com/testbed-janitor/janitor/internal/inventory"
)

const (
	// rearm is the longest sleep without a look at both clocks: no step of the
	// wall clock delays a pass by more. It is also how often an idle loop tells
	// the watchdog that it lives.
	rearm = 10 * time.Second
	// maxMissed bounds the count of moments a schedule fired during one pass.
	maxMissed = 10_000
)

// alarm is when the next pass is due. The schedule speaks of the wall clock,
// which may be stepped at any time; so the moment is also kept on the janitor's
// own clock, and whichever shows it first counts.
type alarm struct {
	schedule Schedule
	next     time.Time         // by the wall clock
	at       inventory.Instant // the same moment when it was set
}

func (a *alarm) set(now inventory.Stamp) {
	a.next = a.schedule.Next(now.Wall)
	a.at = now.At.Add(a.next.Sub(now.Wall))
}

// due reports whether the moment has come by either clock. The first is at
// once.
func (a *alarm) due(now inventory.Stamp) bool {
	if a.at == 0 {
		a.next, a.at = now.Wall, now.At
	}
	return !now.Wall.Before(a.next) || now.At >= a.at
}

// sleep is how long to wait before asking again.
func (a *alarm) sleep(now inventory.Stamp) time.Duration {
	return min(max(min(a.next.Sub(now.Wall), a.at.Sub(now.At)), time.Millisecond), rearm)
}

// missed counts the moments the schedule has fired, from the one that is due
// until now. Time that the wall clock only jumped over does not count.
func (a *alarm) missed(now inventory.Stamp) int {
	n, until := 1, a.next.Add(now.At.Sub(a.at))
	for t := a.schedule.Next(a.next); !t.After(until) && n < maxMissed; t = a.schedule.Next(t) {
		n++
	}
	return n
}
