package host

import (
	"errors"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"
)

const (
	second = int64(time.Second)
	bootA  = "aaaaaaaa-0000-4000-8000-000000000000"
	bootB  = "bbbbbbbb-0000-4000-8000-000000000000"
	bootC  = "cccccccc-0000-4000-8000-000000000000"
)

func TestResume(t *testing.T) {
	tests := map[string]struct {
		saved     SavedClock
		boot      string
		monotonic int64
		want      SavedClock
		err       bool
	}{
		"the very first": {SavedClock{}, bootA, 500 * second, SavedClock{bootA, FirstInstant, FirstInstant + 500*second}, false},
		"same boot":      {SavedClock{bootA, 4000 * second, 4500 * second}, bootA, 900 * second, SavedClock{bootA, 4000 * second, 4900 * second}, false},
		"new boot":       {SavedClock{bootA, 4000 * second, 4500 * second}, bootB, 60 * second, SavedClock{bootB, 4500 * second, 4560 * second}, false},
		"new boot, longer than the old": {SavedClock{bootA, 4000 * second, 4500 * second}, bootB, 9000 * second,
			SavedClock{bootB, 4500 * second, 13500 * second}, false},
		"back to a snapshot": {SavedClock{bootA, 4000 * second, 4500 * second}, bootA, 100 * second, SavedClock{bootA, 4400 * second, 4500 * second}, false},
		"base below zero":    {SavedClock{bootA, -100 * second, 4500 * second}, bootA, 5000 * second, SavedClock{bootA, -100 * second, 4900 * second}, false},
		"no boot id":         {SavedClock{}, "", 0, SavedClock{}, true},
		"negative":           {SavedClock{}, bootA, -1, SavedClock{}, true},
		"boot without last":  {SavedClock{bootA, 4000 * second, 0}, bootA, 1, SavedClock{}, true},
		"last without boot":  {SavedClock{"", 4000 * second, 4500 * second}, bootA, 1, SavedClock{}, true},
		"overflow":           {SavedClock{bootA, 1, math.MaxInt64 - 5}, bootB, 10, SavedClock{}, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := Resume(test.saved, test.boot, test.monotonic)
			if got != test.want || (err != nil) != test.err {
				t.Errorf("got %+v, %v\nwant %+v", got, err, test.want)
			}
		})
	}
}

// machine is a machine with a service on it that stores its clock now and then.
type machine struct {
	boot      int
	up        int64 // CLOCK_MONOTONIC
	ran       int64 // all the time it ran since the inventory began
	failing   bool
	wallShift time.Duration
}

func (m *machine) id() string {
	return strings.Repeat(string(rune('a'+m.boot%26)), 8) + strconv.Itoa(m.boot)
}

func (m *machine) monotonic() (int64, error) {
	if m.failing {
		return 0, errors.New("refused")
	}
	return m.up, nil
}

func (m *machine) run(d int64) { m.up += d; m.ran += d }

// Through restarts, crashes, reboots, a stepping wall clock and time that goes
// on while the service is down, the clock never goes back, and is never ahead of the
// time the machine ran: nothing comes early.
func TestClockIsNeverEarly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &machine{up: rapid.Int64Range(0, 1e15).Draw(t, "up")}
		var saved SavedClock
		open := func() *BootClock {
			c, err := openClock(saved, m.id(), m.monotonic, func() time.Time { return time.Unix(0, 0).Add(m.wallShift) })
			if err != nil {
				t.Fatal(err)
			}
			saved = c.Saved()
			return c
		}
		c := open()
		start, ran := c.Elapsed(), m.ran
		last := start
		step := rapid.Int64Range(0, 1e15)
		t.Repeat(map[string]func(*rapid.T){
			"run":     func(t *rapid.T) { m.run(step.Draw(t, "d")) },
			"save":    func(t *rapid.T) { saved = c.Saved() },
			"restart": func(t *rapid.T) { saved = c.Saved(); m.run(step.Draw(t, "d")); c = open() },
			"crash":   func(t *rapid.T) { m.run(step.Draw(t, "d")); c = open() },
			"reboot": func(t *rapid.T) {
				saved = c.Saved()
				last = c.Elapsed()
				m.boot++
				m.up = 0
				m.run(step.Draw(t, "boot"))
				c = open()
				if got, want := c.Elapsed()-last, m.up; got != want {
					t.Fatalf("after a clean reboot %d ns, want %d", got, want)
				}
			},
			"wall clock": func(t *rapid.T) { m.wallShift = time.Duration(step.Draw(t, "shift")) - 5e14 },
			"power loss": func(t *rapid.T) { // what was not saved is lost: time stands still for it
				m.boot++
				m.up = 0
				m.run(step.Draw(t, "boot"))
				last = saved.Last
				c = open()
			},
			"": func(t *rapid.T) {
				now := c.Elapsed()
				if now < last {
					t.Fatalf("went back by %d ns", last-now)
				}
				if now-start > m.ran-ran {
					t.Fatalf("ahead by %d ns", now-start-(m.ran-ran))
				}
				last = now
				if now <= 0 {
					t.Fatalf("not positive: %d", now)
				}
			},
		})
	})
}

func TestClockStandsStillWithoutTheKernel(t *testing.T) {
	m := &machine{up: second}
	c, err := openClock(SavedClock{}, bootC, m.monotonic, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	m.run(second)
	before := c.Elapsed()
	m.failing = true
	if got := c.Elapsed(); got != before {
		t.Errorf("moved by %d ns", got-before)
	}
	m.failing = false
	m.up = 0 // impossible, but then too it does not go back
	if got := c.Elapsed(); got != before {
		t.Errorf("moved by %d ns", got-before)
	}
	m.failing = true
	if _, err := openClock(SavedClock{}, bootC, m.monotonic, time.Now); err == nil {
		t.Error("opened without a clock")
	}
}

func TestRealClock(t *testing.T) {
	c, err := OpenClock(SavedClock{})
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for last, i := int64(0), 0; i < 1000; i++ {
				now := c.Elapsed()
				if now < last || now < FirstInstant {
					t.Errorf("%d after %d", now, last)
				}
				last = now
			}
		})
	}
	all.Wait()
	// Another process of this boot goes on where this one is.
	saved := c.Saved()
	again, err := OpenClock(saved)
	if err != nil {
		t.Fatal(err)
	}
	if now := again.Elapsed(); again.Saved().Base != saved.Base || now < saved.Last || now > c.Elapsed() {
		t.Errorf("%+v after %+v", again.Saved(), saved)
	}
	if w := c.Wall(); w.Location() != time.UTC || w != w.Round(0) || time.Since(w).Abs() > time.Hour {
		t.Errorf("wall clock %v", w)
	}
	uptime, err := os.ReadFile("/proc/uptime") // boottime, which includes suspend
	if err != nil {
		t.Fatal(err)
	}
	seconds, err := strconv.ParseFloat(strings.Fields(string(uptime))[0], 64)
	if m, mErr := monotonic(); err != nil || mErr != nil || m <= 0 || float64(m)/1e9 > seconds+60 {
		t.Errorf("monotonic %d, uptime %v, %v, %v", m, seconds, err, mErr)
	}
}

func TestBootID(t *testing.T) {
	id, err := BootID()
	if err != nil || len(id) != 36 {
		t.Fatalf("%q, %v", id, err)
	}
	if out, err := exec.Command("cat", bootIDFile).Output(); err != nil || strings.TrimSpace(string(out)) != id {
		t.Errorf("another process sees %q, %v", out, err)
	}
	for _, bad := range []string{"", "\n", "x", id + id, strings.Repeat("g", 36)} {
		file := filepath.Join(t.TempDir(), "boot_id")
		if err := os.WriteFile(file, []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := readBootID(file); err == nil {
			t.Errorf("%q gave %q", bad, got)
		}
	}
	if _, err := readBootID(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}
