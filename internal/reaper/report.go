package reaper

import (
	"time"

	"github.com/testbed-janitor/janitor/internal/inventory"
)

// Report is what one pass, or one saved plan carried out, came to.
type Report struct {
	StartedAt, EndedAt time.Time
	Decisions          []inventory.Decision
	Results            []Result // of what was to be carried out, sorted by name
	Error              string   // why the pass could not see, decide or remember
}

// Result is what became of one decision.
type Result struct {
	Name  string
	OK    bool
	Error string // begins with "skipped: " when nothing was tried
}

// Status is how the loop fares.
type Status struct {
	Started    time.Time
	LastPass   time.Time // end of the last pass, whatever it came to
	LastGood   time.Time // end of the last pass without an error in its report
	Next       time.Time // when the schedule fires next
	Passes     int
	Coalesced  int    // schedule moments, pokes and requests that shared another's pass
	Blind      string // why the engine could not be listed at the last look
	Brake      bool   // orphans are kept that would be removed
	BrakeCount int
	Last       Report // of the last pass
}

// Status returns how the loop fares.
func (l *Loop) Status() Status {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.status
}

// note publishes the report of a pass.
func (l *Loop) note(r Report, coalesced int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := &l.status
	s.Passes++
	s.Coalesced += coalesced
	s.LastPass, s.Next, s.Last = r.EndedAt, l.alarm.next, r
	if r.Error == "" {
		s.LastGood = r.EndedAt
	}
}
