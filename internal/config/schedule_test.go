package config

import (
	"strings"
	"testing"
	"time"
)

func at(t *testing.T, s string) time.Time {
	t.Helper()
	v, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestParseScheduleNext(t *testing.T) {
	for _, c := range []struct{ spec, from, want string }{
		{"@every 1m", "2026-01-01T10:00:00Z", "2026-01-01T10:01:00Z"},
		{"@every 1m", "2026-01-01T10:00:00.7Z", "2026-01-01T10:01:00Z"},
		{"@every 90", "2026-01-01T10:00:00Z", "2026-01-01T10:01:30Z"},
		{"@every 1s", "2026-01-01T10:00:00Z", "2026-01-01T10:00:01Z"},
		{"*/5 * * * *", "2026-01-01T10:00:00Z", "2026-01-01T10:05:00Z"},
		{" 0 3 * * * ", "2026-01-01T10:00:00Z", "2026-01-02T03:00:00Z"},
		{"@daily", "2026-01-01T10:00:00+02:00", "2026-01-02T00:00:00Z"}, // UTC, not the caller's zone
		{"TZ=America/New_York 0 3 * * *", "2026-01-01T10:00:00Z", "2026-01-02T08:00:00Z"},
		{"CRON_TZ=America/New_York\t0 3 * * *", "2026-01-01T10:00:00Z", "2026-01-02T08:00:00Z"},
		{"TZ=UTC @hourly", "2026-01-01T10:00:00Z", "2026-01-01T11:00:00Z"},
		{"0 0 29 2 *", "2024-03-01T00:00:00Z", "2028-02-29T00:00:00Z"},
		{"0 0 29 2 *", "2097-01-01T00:00:00Z", "2104-02-29T00:00:00Z"}, // 2100 has none: cron alone says zero
		// Berlin has no 02:30 on that day: skipped; and two on this one.
		{"TZ=Europe/Berlin 30 2 * * *", "2026-03-29T00:00:00Z", "2026-03-30T00:30:00Z"},
		{"TZ=Europe/Berlin 30 2 * * *", "2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z"},
	} {
		s, err := ParseSchedule(c.spec)
		if err != nil {
			t.Errorf("%v", err)
			continue
		}
		if got := s.Next(at(t, c.from)); !got.Equal(at(t, c.want)) || got.Location() != time.UTC {
			t.Errorf("%q after %s: %s, want %s", c.spec, c.from, got, c.want)
		}
		if s.String() != strings.TrimSpace(c.spec) {
			t.Errorf("String() = %q, want %q", s, c.spec)
		}
	}
}

func TestParseScheduleRefuses(t *testing.T) {
	for spec, want := range map[string]string{
		"":                              "names no time",
		"TZ=UTC":                        "names no time",
		"TZ=UTC ":                       "names no time",
		"CRON_TZ=UTC":                   "names no time",
		"TZ=":                           "needs the name of a zone",
		"TZ= * * * * *":                 "needs the name of a zone",
		"TZ=Local * * * * *":            "needs the name of a zone",
		"TZ=Nowhere/Here * * * * *":     "not known here",
		"TZ=../../etc/passwd * * * * *": "not known here",
		"TZ=UTC TZ=UTC":                 "two time zones",
		"0 0 31 2 *":                    "does not fire",
		"0 0 30 2 *":                    "does not fire",
		", * * * *":                     "does not fire",
		"@every -5m":                    "negative",
		"@every 0s":                     "faster than",
		"@every 500ms":                  "faster than",
		"@every 1500ms":                 "fraction",
		"@every 1d":                     "24h",
		"@every":                        "@every",
		"@every ":                       "@every",
		"@every1m":                      "needs a blank",
		"@every 80000h":                 "does not fire",
		"@reboot":                       "first pass runs at the start",
		"@noon":                         "five cron fields",
		"* * * *":                       "five cron fields",
		"* * * * * *":                   "five cron fields",
		"60 * * * *":                    "five cron fields",
		strings.Repeat("0,", 200):       "longer than",
	} {
		if s, err := ParseSchedule(spec); err == nil {
			t.Errorf("%q: accepted, next %s", spec, s.Next(at(t, "2026-01-01T00:00:00Z")))
		} else if !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "schedule") {
			t.Errorf("%q: %v; want it to contain %q", spec, err, want)
		}
	}
}

// What is accepted fires, and each time at least a second after the last one
// and at most five years.
func FuzzParseSchedule(f *testing.F) {
	for _, s := range []string{
		"@every 1m", "*/5 * * * *", "TZ=UTC", "TZ=Europe/Berlin 30 2 * * 0", "0 0 31 2 *", "@reboot", "@every -5m", "@every 500ms",
		"0 0 29 2 *", "TZ=America/Sao_Paulo 0 0 * 10 *", "TZ=Australia/Lord_Howe */7 1,2 * * *", ", * * * *", "1/18446744073709551615 * * * *",
		"TZ=Africa/Monrovia 59 23 31 12 *", "CRON_TZ=Asia/Kathmandu @weekly", "@every 9223372036s", "? ? ? ? ?", "0 0 29 feb mon-fri",
	} {
		f.Add(s, int64(1767225600), int64(999))
	}
	f.Fuzz(func(t *testing.T, spec string, unix, nanos int64) {
		s, err := ParseSchedule(spec)
		if err != nil {
			return
		}
		// From 2000 to 2090: the years a testbed may live in.
		const from, years = 946684800, 90 * 365 * 24 * 3600
		now := time.Unix(from+int64(uint64(unix)%years), int64(uint64(nanos)%1e9))
		// The first may come sooner: an instant between two seconds is rounded.
		first := s.Next(now)
		if !first.After(now) {
			t.Fatalf("%q after %s: %s", spec, now, first)
		}
		for last := first; last.Before(first.AddDate(0, 1, 0)); {
			next := s.Next(last)
			if gap := next.Sub(last); gap < time.Second || gap > horizon {
				t.Fatalf("%q: %s after %s, which is %s", spec, next, last, gap)
			}
			if last = next; next.Sub(first) > 10*time.Minute {
				break
			}
		}
	})
}
