package inventory

import (
	"path"
	"strings"
	"time"
)

// Policy is what the operator wants. Durations count the janitor's clock.
type Policy struct {
	DryRun      bool // decide and report, remove nothing
	DefaultTTL  time.Duration
	MaxTTL      time.Duration // the cap
	CreateGrace time.Duration
	OwnerGrace  time.Duration // also the reconnect grace
	Classes     []Class

	ReportOnly   bool // orphans are reported and kept
	OrphanGrace  time.Duration
	Protect      []string // patterns (path.Match) of names of found clusters
	MaxPerHour   int      // the brake
	ContextGrace time.Duration

	StuckAfter int // failed attempts
}

// Class gives the jobs that match its pattern times of their own.
type Class struct {
	Jobs               string // path.Match; a trailing /** matches everything below
	DefaultTTL, MaxTTL time.Duration
}

// Defaults are the documented defaults.
func Defaults() Policy {
	return Policy{
		DefaultTTL: 2*time.Hour + 15*time.Minute, MaxTTL: 12 * time.Hour,
		CreateGrace: 20 * time.Minute, OwnerGrace: 5 * time.Minute,
		OrphanGrace: 3 * time.Hour, MaxPerHour: 3, ContextGrace: 10 * time.Minute,
		StuckAfter: 5,
	}
}

// times returns the default TTL and the cap for a job.
func (p Policy) times(job string) (ttl, limit time.Duration) {
	for _, c := range p.Classes {
		if matchJob(c.Jobs, job) {
			return c.DefaultTTL, c.MaxTTL
		}
	}
	return p.DefaultTTL, p.MaxTTL
}

// longestCap is the longest cap any lease can have: the grace of what may have
// been leased in an inventory that was lost.
func (p Policy) longestCap() time.Duration {
	longest := p.MaxTTL
	for _, c := range p.Classes {
		longest = max(longest, c.MaxTTL)
	}
	return longest
}

func (p Policy) protects(name string) bool {
	if CheckName(name) != nil {
		return true // no job can have made it by kind, so it is not ours to judge
	}
	for _, pattern := range p.Protect {
		if ok, err := path.Match(pattern, name); ok || err != nil {
			return true // a pattern that cannot be read protects
		}
	}
	return false
}

func matchJob(pattern, job string) bool {
	if job == "" {
		return false
	}
	if below, ok := strings.CutSuffix(pattern, "/**"); ok {
		parts := strings.Split(job, "/")
		for n := 1; n < len(parts); n++ {
			if m, _ := path.Match(below, strings.Join(parts[:n], "/")); m {
				return true
			}
		}
		return false
	}
	m, _ := path.Match(pattern, job)
	return m
}
