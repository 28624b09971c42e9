package host

import (
	"github.com/testbed-janitor/janitor/internal/inventory"

	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// FirstInstant is where the very first clock of an inventory starts, in
// nanoseconds: zero means "not set" in what is stored, and some instants before
// the start must be positive too.
const FirstInstant = int64(time.Hour)

// SavedClock is what has to be kept for the next start. The zero value is that
// of a new inventory.
type SavedClock struct {
	// Boot is the boot id under which Base holds.
	Boot string
	// Base is added to the running clock of that boot, in nanoseconds.
	Base int64
	// Last is a value the clock has shown, in nanoseconds. The newer it is
	// when the machine goes down, the less time is lost.
	Last int64
}

// Resume gives the clock of a process that starts now, in the given boot, whose
// running clock shows monotonic nanoseconds since that boot.
//
// In the same boot the base holds. In a new one the clock goes on from the last
// value stored, and the time since the boot counts, with the service running or
// not: deadlines come late by the time the machine was off, never early. When
// the running clock shows less than it must (a virtual machine that was set
// back to a snapshot), the clock goes on from the last value too.
func Resume(saved SavedClock, boot string, monotonic int64) (SavedClock, error) {
	switch {
	case boot == "":
		return SavedClock{}, errors.New("resume the clock: no boot id")
	case monotonic < 0:
		return SavedClock{}, fmt.Errorf("resume the clock: the time since boot is %d ns", monotonic)
	case saved == SavedClock{}:
		return SavedClock{Boot: boot, Base: FirstInstant, Last: FirstInstant + monotonic}, nil
	case saved.Boot == "" || saved.Last < FirstInstant:
		return SavedClock{}, fmt.Errorf("resume the clock: what was stored makes no sense: %+v", saved)
	}
	base := saved.Base
	if saved.Boot != boot {
		base = saved.Last
	} else if base+monotonic < saved.Last {
		base = saved.Last - monotonic
	}
	if base+monotonic < saved.Last { // past the end of int64, in 292 years
		return SavedClock{}, fmt.Errorf("resume the clock: what was stored makes no sense: %+v", saved)
	}
	return SavedClock{Boot: boot, Base: base, Last: base + monotonic}, nil
}

// BootClock counts the time this machine has run since the inventory began. No
// step of the wall clock and no suspend moves it; it never goes back. It is
// safe for use by several goroutines.
type BootClock struct {
	boot string
	base int64
	last atomic.Int64

	monotonic func() (int64, error)
	wall      func() time.Time
}

// OpenClock resumes the clock from what was saved. Store what [BootClock.Saved]
// gives before anything that has an instant of this clock in it.
func OpenClock(saved SavedClock) (*BootClock, error) {
	boot, err := BootID()
	if err != nil {
		return nil, err
	}
	return openClock(saved, boot, monotonic, time.Now)
}

func openClock(saved SavedClock, boot string, monotonic func() (int64, error), wall func() time.Time) (*BootClock, error) {
	m, err := monotonic()
	if err != nil {
		return nil, err
	}
	now, err := Resume(saved, boot, m)
	if err != nil {
		return nil, err
	}
	c := &BootClock{boot: now.Boot, base: now.Base, monotonic: monotonic, wall: wall}
	c.last.Store(now.Last)
	return c, nil
}

// Elapsed is the time in nanoseconds that this machine has run, from
// FirstInstant on. Should the kernel refuse its clock, it stands still: then
// everything is late and nothing early.
func (c *BootClock) Elapsed() int64 {
	m, err := c.monotonic()
	for {
		last := c.last.Load()
		if err != nil || c.base+m <= last {
			return last
		}
		if c.last.CompareAndSwap(last, c.base+m) {
			return c.base + m
		}
	}
}

// Wall is the wall clock, in UTC and without Go's monotonic reading: for
// showing, and for comparing with times of others.
func (c *BootClock) Wall() time.Time { return c.wall().UTC().Round(0) }

// Saved is what to store, with each pass, for the next start.
func (c *BootClock) Saved() SavedClock {
	return SavedClock{Boot: c.boot, Base: c.base, Last: c.Elapsed()}
}

// monotonic is CLOCK_MONOTONIC in nanoseconds. Unlike Go's own reading it
// means the same in every process of this boot.
func monotonic() (int64, error) {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return 0, fmt.Errorf("read CLOCK_MONOTONIC: %w", err)
	}
	return ts.Nano(), nil
}

// Now is the present on both clocks.
func (c *BootClock) Now() inventory.Stamp {
	return inventory.Stamp{At: inventory.Instant(c.Elapsed()), Wall: c.Wall()}
}
