package main

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/testbed-janitor/janitor/internal/config"
	"github.com/testbed-janitor/janitor/internal/inventory"
)

// settings is the configuration in force. A reload swaps it as a whole, so that
// no pass and no call sees half of one.
type settings struct{ now atomic.Pointer[inForce] }

// inForce is one configuration, with what this machine makes of it.
type inForce struct {
	*config.Config
	policy   inventory.Policy
	adminGID string   // empty: there is no admin group
	warnings []string // shown by status
}

func newSettings(cfg *config.Config) (*settings, error) {
	f, err := weigh(cfg)
	if err != nil {
		return nil, err
	}
	s := &settings{}
	s.now.Store(f)
	return s, nil
}

// weigh looks up what a configuration names on this machine.
func weigh(cfg *config.Config) (*inForce, error) {
	gid, err := groupID(cfg.AdminGroup)
	if err != nil {
		return nil, err
	}
	return &inForce{Config: cfg, policy: policyOf(cfg), adminGID: gid, warnings: slices.Clone(cfg.Warnings)}, nil
}

func groupID(name string) (string, error) {
	if name == "" {
		return "", nil
	}
	g, err := user.LookupGroup(name)
	if _, unknown := errors.AsType[user.UnknownGroupError](err); unknown {
		return "", fmt.Errorf("admin_group: there is no group %q here; make it, or leave the key empty", name)
	}
	if err != nil {
		return "", fmt.Errorf("admin_group: look up %q: %w", name, err)
	}
	return g.Gid, nil
}

// policyOf is a configuration as the rules know it. What no key sets keeps its
// documented default.
func policyOf(c *config.Config) inventory.Policy {
	p := inventory.Defaults()
	p.DryRun = c.DryRun
	p.DefaultTTL, p.MaxTTL = c.Lease.DefaultTTL, c.Lease.MaxTTL
	p.CreateGrace, p.OwnerGrace = c.Lease.CreateGrace, c.Lease.OwnerGrace
	for _, k := range c.Classes {
		p.Classes = append(p.Classes, inventory.Class{Jobs: k.Jobs, DefaultTTL: k.DefaultTTL, MaxTTL: k.MaxTTL})
	}
	p.ReportOnly, p.OrphanGrace = c.Orphans.Action == "report", c.Orphans.Grace
	p.Protect, p.MaxPerHour = slices.Clone(c.Orphans.Protect), c.Orphans.MaxPerHour
	p.StuckAfter = c.Reap.StuckAfter
	return p
}

func (s *settings) policy() inventory.Policy { return s.now.Load().policy }

// kubeconfigs are paths with ~ and patterns; who reads them expands them.
func (s *settings) kubeconfigs() []string { return s.now.Load().Kubeconfigs }

// Next is that of the schedule in force.
func (s *settings) Next(after time.Time) time.Time { return s.now.Load().Schedule.Next(after) }

// interval is the time between the next two moments of the schedule.
func (s *settings) interval(now time.Time) time.Duration {
	next := s.Next(now)
	return s.Next(next).Sub(next)
}

// isAdmin reports whether a peer is root, the service's own account, or in the
// admin group: by the group it runs as, or by those of its account. The
// kernel's word on a peer has no supplementary groups.
func (s *settings) isAdmin(uid, gid uint32, _ int) bool {
	if uid == 0 || int64(uid) == int64(os.Geteuid()) {
		return true
	}
	admins := s.now.Load().adminGID
	if admins == "" {
		return false
	}
	if admins == strconv.FormatUint(uint64(gid), 10) {
		return true
	}
	account, err := user.LookupId(strconv.FormatUint(uint64(uid), 10))
	if err != nil {
		return false
	}
	groups, err := account.GroupIds()
	return err == nil && slices.Contains(groups, admins)
}

// needStart are the keys that a running service does not take over, besides
// those that package config knows: the loop is built with them.
var needStart = []string{"reap.workers", "reap.timeout"}

// reload puts another configuration in force, but for what only a start can
// change, and tells what became of each key that differs.
func (s *settings) reload(cfg *config.Config) (applied, restart []string, err error) {
	next, err := weigh(cfg)
	if err != nil {
		return nil, nil, err
	}
	old := s.now.Load()
	changed, restart := config.Reload(old.Config, cfg)
	for _, key := range changed {
		if slices.Contains(needStart, key) {
			restart = append(restart, key)
		} else {
			applied = append(applied, key)
		}
	}
	for _, key := range restart {
		next.warnings = append(next.warnings, key+" has changed in the configuration; restart the service to take it over")
	}
	// What is in force goes on being compared with, and so is named again.
	cfg.Socket, cfg.Database, cfg.DockerHost = old.Socket, old.Database, old.DockerHost
	cfg.Reap.Workers, cfg.Reap.Timeout = old.Reap.Workers, old.Reap.Timeout
	s.now.Store(next)
	return applied, restart, nil
}
