// Package config is the janitor's configuration: one struct, read from a YAML
// file, JANITOR_* variables and flags, which can check and print itself and
// knows where each value came from.
//
// It never opens what the settings name (sockets, databases, kubeconfigs, the
// token), asks no user database, and imports nothing else of the janitor's. It
// is the only place that knows cron.
package config

import (
	"strings"
	"time"
)

// DefaultPath is where the service looks for its configuration.
const DefaultPath = "/etc/janitor/janitor.yaml"

// Config holds every setting. Take one from Load or Default.
//
// A key of the file is the path of yaml tags; below a section it is written
// with a dot in messages, and with underscores as a variable: lease.max_ttl is
// JANITOR_LEASE_MAX_TTL. Durations are Go's (90m, 2h15m) or whole seconds.
//
// The tag restart marks what a running service cannot change, see Reload.
type Config struct {
	// Socket is the unix socket to listen on, unless systemd passes one. An
	// absolute path of at most 107 bytes (sun_path of unix(7) holds 108 with
	// the NUL).
	Socket string `yaml:"socket" restart:"yes"`
	// Database is the absolute path of the SQLite file, on a local disk (WAL
	// needs one).
	Database string `yaml:"database" restart:"yes"`
	// Schedule says when passes run.
	Schedule Schedule `yaml:"schedule"`
	// DockerHost is the engine as in DOCKER_HOST. Empty: as for the docker
	// command.
	DockerHost string `yaml:"docker_host" restart:"yes"`
	// Kubeconfigs are the files looked at besides those that jobs name:
	// absolute or below "~/", with the patterns of path.Match.
	Kubeconfigs []string `yaml:"kubeconfigs"`
	// DryRun decides and reports, and deletes nothing.
	DryRun bool `yaml:"dry_run"`

	Lease   Lease   `yaml:"lease"`
	Orphans Orphans `yaml:"orphans"`
	// Classes give jobs of some names other lease times. First match wins.
	Classes []Class `yaml:"classes"`
	Reap    Reap    `yaml:"reap"`
	Jenkins Jenkins `yaml:"jenkins"`
	Locks   Locks   `yaml:"locks"`

	// AdminGroup is the group whose members may apply plans, end the holds of
	// others and force releases, besides root and the service's own user.
	// Empty: nobody else.
	AdminGroup string `yaml:"admin_group"`

	// Warnings are what should be looked at but hinders nothing, such as a
	// JANITOR_ variable that means nothing.
	Warnings []string `yaml:"-"`

	// origins says where each value came from that is not a default, by key.
	origins map[string]string
}

// Lease holds the times of leases.
type Lease struct {
	// DefaultTTL is granted when a job names none. At most MaxTTL.
	DefaultTTL time.Duration `yaml:"default_ttl"`
	// MaxTTL is the cap: no renewal extends a lease beyond it, counted from
	// its registration.
	MaxTTL time.Duration `yaml:"max_ttl"`
	// CreateGrace is how long a silent owner's name does not yield while none
	// of its containers stands, and how old a leftover must be for replace.
	CreateGrace time.Duration `yaml:"create_grace"`
	// OwnerGrace is how long an owner must be dead before its cluster is
	// reaped, and how long after a start owners may reconnect.
	OwnerGrace time.Duration `yaml:"owner_grace"`
}

// Orphans holds what happens to clusters that nobody registered.
type Orphans struct {
	// Action is "reap", or "report" to only show them.
	Action string `yaml:"action"`
	// Grace counts from the first sighting of the youngest container.
	Grace time.Duration `yaml:"grace"`
	// Protect are patterns (path.Match) of cluster names never to touch.
	Protect []string `yaml:"protect"`
	// MaxPerHour is the brake: when more are due within an hour, none is
	// reaped until an operator applies a plan. 0: never without one.
	MaxPerHour int `yaml:"max_per_hour"`
}

// Class gives the jobs of some names lease times of their own.
type Class struct {
	// Jobs is a pattern (path.Match) for the job's full name. "a/**" matches
	// everything below a, at any depth.
	Jobs string `yaml:"jobs"`
	// DefaultTTL and MaxTTL are as in Lease, which is where an absent one is
	// taken from.
	DefaultTTL time.Duration `yaml:"default_ttl"`
	MaxTTL     time.Duration `yaml:"max_ttl"`
}

// Reap holds how clusters are removed.
type Reap struct {
	// Workers is how many clusters are removed at a time, 1 to 64.
	Workers int `yaml:"workers"`
	// Timeout bounds the removal of one cluster. The unit's TimeoutStopSec
	// must stay above it.
	Timeout time.Duration `yaml:"timeout"`
	// LogsDir is the absolute path of a folder that gets the logs of a cluster
	// before it is removed. Empty: none are kept.
	LogsDir string `yaml:"logs_dir"`
	// StuckAfter is the number of failed attempts after which a reap shows as
	// stuck. It goes on all the same.
	StuckAfter int `yaml:"stuck_after"`
}

// Jenkins holds where builds can be asked for.
type Jenkins struct {
	// URLs are the base URLs of controllers. Nothing else is ever asked or
	// gets the token.
	URLs []string `yaml:"urls"`
	// User and TokenFile are the account for the API; both or neither. The
	// token is the file's content, so that it is in no configuration.
	User      string `yaml:"user"`
	TokenFile string `yaml:"token_file"`
	// Timeout bounds one question.
	Timeout time.Duration `yaml:"timeout"`
}

// Locks holds the defaults of environment locks.
type Locks struct {
	// TTL is how long a lock lives without being renewed.
	TTL time.Duration `yaml:"ttl"`
	// Wait is how long a job waits for a lock when it does not say. 0: not at
	// all.
	Wait time.Duration `yaml:"wait"`
	// Remember is how long the last build of an environment is remembered, to
	// refuse an older one.
	Remember time.Duration `yaml:"remember"`
}

// Default returns the configuration without a file, variables or flags.
func Default() *Config {
	schedule, err := ParseSchedule("@every 1m")
	if err != nil {
		panic(err) // a constant of this file
	}
	return &Config{
		Socket:      "/run/janitor/janitor.sock",
		Database:    "/var/lib/janitor/janitor.db",
		Schedule:    schedule,
		Kubeconfigs: []string{"~/.kube/config"},
		Lease:       Lease{DefaultTTL: 2*time.Hour + 15*time.Minute, MaxTTL: 12 * time.Hour, CreateGrace: 20 * time.Minute, OwnerGrace: 5 * time.Minute},
		Orphans:     Orphans{Action: "reap", Grace: 3 * time.Hour, Protect: []string{}, MaxPerHour: 3},
		Classes:     []Class{},
		Reap:        Reap{Workers: 4, Timeout: 2 * time.Minute, StuckAfter: 5},
		Jenkins:     Jenkins{URLs: []string{}, Timeout: 5 * time.Second},
		Locks:       Locks{TTL: 5 * time.Minute, Wait: time.Hour, Remember: 720 * time.Hour},
		origins:     map[string]string{},
	}
}

// Origin says where the value of a key came from: "default", "FILE:LINE",
// "env VARIABLE" or "flag --NAME". A key is written as in messages, such as
// lease.max_ttl or classes[0].jobs.
func (c *Config) Origin(key string) string {
	for key != "" {
		if o, ok := c.origins[key]; ok {
			return o
		}
		key = key[:max(0, strings.LastIndexAny(key, ".["))] // an item comes from where its list does
	}
	return "default"
}
