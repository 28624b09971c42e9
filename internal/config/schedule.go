package config

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

// horizon is how far ahead a schedule must fire. It is what cron searches, and
// it holds a leap year wherever one is looked for between 1901 and 2095.
const horizon = 5 * 366 * 24 * time.Hour

// Schedule says when passes are due. The zero value is not usable: take one
// from ParseSchedule or from a Config.
type Schedule struct {
	spec  string
	fires cron.Schedule
	loc   *time.Location
}

// String is the schedule as it was written.
func (s Schedule) String() string { return s.spec }

// Next returns the first instant after t at which a pass is due, in UTC. It is
// at least a nanosecond after t and on a whole second.
//
// What falls into the hour that a time zone skips in spring is skipped, what
// falls into the hour it repeats in autumn is due twice. UTC has neither.
func (s Schedule) Next(t time.Time) time.Time {
	// cron gives up after five years, which around 2100 is too early for the
	// 29th of February. A loop that sleeps until the zero time would spin.
	for from := t; ; from = from.AddDate(4, 0, 0) {
		if next := s.fires.Next(from.In(s.loc)); next.After(t) {
			return next.UTC()
		}
	}
}

// ParseSchedule reads a schedule: five cron fields (minute, hour, day of month,
// month, day of week), one of @hourly, @daily, @midnight, @weekly, @monthly,
// @yearly and @annually, or "@every D" with a duration of whole seconds. In
// front may stand "TZ=Area/City "; without it times are UTC, whatever the
// machine's zone.
//
// It refuses what robfig/cron v3.0.1 panics on (TZ= without fields), accepts
// though it never fires (31st of February), or silently alters (@every below a
// second, negative, or with a fraction).
func ParseSchedule(spec string) (Schedule, error) {
	s, err := parseSchedule(strings.TrimSpace(spec))
	if err != nil {
		return Schedule{}, fmt.Errorf("schedule %q: %w", spec, err)
	}
	return s, nil
}

func parseSchedule(spec string) (Schedule, error) {
	s := Schedule{spec: spec, loc: time.UTC}
	if len(spec) > 256 {
		return s, errors.New("is longer than 256 bytes")
	}
	rest := spec
	if zone, ok := cutZone(rest); ok {
		// The zone is read here, not by cron, which takes only a blank for
		// its end and indexes out of range when there is none.
		rest = ""
		if i := strings.IndexAny(zone, " \t"); i >= 0 {
			zone, rest = zone[:i], strings.TrimSpace(zone[i:])
		}
		if zone == "" || zone == "Local" {
			return s, errors.New("TZ= needs the name of a zone, such as TZ=Europe/Berlin; without TZ= times are UTC")
		}
		loc, err := time.LoadLocation(zone)
		if err != nil {
			return s, fmt.Errorf("the time zone is not known here: %w; use a name such as Europe/Berlin, and install tzdata if it is missing", err)
		}
		s.loc = loc
		if _, again := cutZone(rest); again {
			return s, errors.New("names two time zones; keep one")
		}
	}
	var err error
	switch every, isEvery := strings.CutPrefix(rest, "@every"); {
	case rest == "":
		return s, errors.New(`names no time; write five cron fields such as "*/5 * * * *", or "@every 1m"`)
	case rest == "@reboot":
		return s, errors.New(`@reboot is not a schedule; the first pass runs at the start anyway: use "@every 1m"`)
	case isEvery:
		s.fires, err = parseEvery(every)
	default:
		s.fires, err = cron.ParseStandard(rest)
		if err != nil {
			err = fmt.Errorf(`%w; write five cron fields such as "*/5 * * * *", or "@every 1m"`, err)
		}
	}
	if err != nil {
		return s, err
	}
	// Directly after a leap day is the longest wait for the next one.
	probe := time.Date(2024, time.March, 1, 0, 0, 0, 0, time.UTC)
	if next := s.fires.Next(probe.In(s.loc)); !next.After(probe) || next.Sub(probe) > horizon {
		return s, errors.New("does not fire in five years; check day and month")
	}
	return s, nil
}

// cutZone returns what follows TZ= or CRON_TZ=.
func cutZone(s string) (string, bool) {
	if zone, ok := strings.CutPrefix(s, "TZ="); ok {
		return zone, true
	}
	return strings.CutPrefix(s, "CRON_TZ=")
}

func parseEvery(text string) (cron.Schedule, error) {
	if text == strings.TrimLeft(text, " \t") {
		return nil, errors.New(`@every needs a blank and a duration, such as "@every 1m"`)
	}
	text = strings.TrimSpace(text)
	d, err := parseDuration(text)
	switch {
	case err != nil:
		return nil, fmt.Errorf("@every: %w", err)
	case d < time.Second:
		return nil, fmt.Errorf("@every %s is faster than a pass a second; write 1s or more", text)
	case d%time.Second != 0:
		return nil, fmt.Errorf("@every %s has a fraction of a second; write whole seconds", text)
	}
	return cron.Every(d), nil
}
