package inventory

import "time"

// Instant is a moment on the janitor's own clock: nanoseconds that this
// machine has run, counted across boots. No step of the wall clock, no suspend
// and no wrong clock at boot moves it, so no deadline is ever shifted. Zero
// means "not set"; a clock never shows it.
type Instant int64

// Add returns the instant d later. An unset instant stays unset.
func (i Instant) Add(d time.Duration) Instant {
	if i == 0 {
		return 0
	}
	return i + Instant(d)
}

// Sub returns the time from j to i.
func (i Instant) Sub(j Instant) time.Duration { return time.Duration(i - j) }

// Stamp is one moment on both clocks: At is for deciding, Wall (UTC) for
// people and for comparing with the creation times the engine gives.
type Stamp struct {
	At   Instant   `json:"at"`
	Wall time.Time `json:"wall"`
}

// IsZero reports whether the stamp was never set.
func (s Stamp) IsZero() bool { return s.At == 0 }

// WallOf converts an instant to today's wall clock, given the present on both.
func (s Stamp) WallOf(i Instant) time.Time {
	if i == 0 {
		return time.Time{}
	}
	return s.Wall.Add(i.Sub(s.At))
}

// offset is what the wall clock is ahead of the janitor's clock.
func (s Stamp) offset() int64 { return s.Wall.UnixNano() - int64(s.At) }
