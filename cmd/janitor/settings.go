package main

import (
	"os"
	"os/user"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/testbed-janitor/janitor/internal/config"
	"github.com/testbed-janitor/janitor/internal/inventory"
)

// settings is the configuration in force; a reload swaps it as a whole.
type settings struct{ now atomic.Pointer[config.Config] }

// Next is the schedule in force.
func (s *settings) Next(after time.Time) time.Time { return s.now.Load().Schedule.Next(after) }

// interval is the time between two passes at this moment of the schedule.
func (s *settings) interval() time.Duration {
	next := s.Next(time.Now())
	return s.Next(next).Sub(next)
}

// policy is the configuration as the rules know it.
func (s *settings) policy() inventory.Policy {
	c := s.now.Load()
	p := inventory.Defaults()
	p.DryRun = c.DryRun
	p.DefaultTTL, p.MaxTTL, p.CreateGrace, p.OwnerGrace = c.Lease.DefaultTTL, c.Lease.MaxTTL, c.Lease.CreateGrace, c.Lease.OwnerGrace
	p.ReportOnly, p.OrphanGrace = c.Orphans.Action == "report", c.Orphans.Grace
	p.Protect, p.MaxPerHour = c.Orphans.Protect, c.Orphans.MaxPerHour
	p.StuckAfter = c.Reap.StuckAfter
	for _, k := range c.Classes {
		p.Classes = append(p.Classes, inventory.Class{Jobs: k.Jobs, DefaultTTL: k.DefaultTTL, MaxTTL: k.MaxTTL})
	}
	return p
}

// kubeconfigs are the configured files, with ~ and what can be globbed left to
// the package that reads them.
func (s *settings) kubeconfigs() []string { return s.now.Load().Kubeconfigs }

// isAdmin reports whether a caller is root, the service's own user, or in the
// configured group, by its own group or those of its account.
func (s *settings) isAdmin(uid, gid uint32, _ int) bool {
	if uid == 0 || uid == uint32(os.Geteuid()) {
		return true
	}
	name := s.now.Load().AdminGroup
	if name == "" {
		return false
	}
	group, err := user.LookupGroup(name)
	if err != nil {
		return false
	}
	if group.Gid == strconv.FormatUint(uint64(gid), 10) {
		return true
	}
	account, err := user.LookupId(strconv.FormatUint(uint64(uid), 10))
	if err != nil {
		return false
	}
	groups, err := account.GroupIds()
	return err == nil && slices.Contains(groups, group.Gid)
}
