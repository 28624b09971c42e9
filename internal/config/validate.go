package config

import (
	"errors"
	"fmt"
	"net/url"
	"path"
	"path/filepath"
	"strings"
	"time"
)

// checker collects what is wrong. Each message names the key, what to do, and
// where the value came from.
type checker struct {
	c    *Config
	errs []error
}

func (k *checker) fail(key, format string, args ...any) {
	k.errs = append(k.errs, fmt.Errorf("%s: %s (%s)", key, fmt.Sprintf(format, args...), k.c.Origin(key)))
}

// Validate checks each value and the values against each other, and returns
// all that is wrong at once. It looks at no file, group or host: whether those
// exist is for the machine that runs the service.
func (c *Config) Validate() error {
	k := &checker{c: c}
	k.paths()
	k.times()
	k.counts()
	for i, p := range c.Orphans.Protect {
		k.pattern(fmt.Sprintf("orphans.protect[%d]", i), p)
	}
	k.classes()
	k.jenkins()
	if strings.ContainsAny(c.AdminGroup, ":,/ \t\n") {
		k.fail("admin_group", "%q is no group's name; write one name as in /etc/group", c.AdminGroup)
	}
	return errors.Join(k.errs...)
}

func (k *checker) paths() {
	c := k.c
	k.absolute("socket", c.Socket)
	if len(c.Socket) > 107 {
		k.fail("socket", "has %d bytes, a unix socket's path at most 107; choose a shorter one", len(c.Socket))
	}
	k.absolute("database", c.Database)
	if c.Socket == c.Database {
		k.fail("database", "is the same path as socket; choose another")
	}
	if c.Reap.LogsDir != "" {
		k.absolute("reap.logs_dir", c.Reap.LogsDir)
	}
	if c.Jenkins.TokenFile != "" {
		k.absolute("jenkins.token_file", c.Jenkins.TokenFile)
	}
	for i, p := range c.Kubeconfigs {
		key := fmt.Sprintf("kubeconfigs[%d]", i)
		// A service's working directory is nobody's idea of a place.
		if !filepath.IsAbs(p) && !strings.HasPrefix(p, "~/") {
			k.fail(key, "%q must begin with / or ~/", p)
		}
		k.pattern(key, p)
	}
	k.dockerHost(c.DockerHost)
}

func (k *checker) absolute(key, p string) {
	if !filepath.IsAbs(p) || strings.ContainsRune(p, 0) || strings.HasSuffix(p, "/") {
		k.fail(key, "%q must be the absolute path of a file or folder, without a slash at its end", p)
	}
}

func (k *checker) dockerHost(host string) {
	if host == "" {
		return
	}
	scheme, address, found := strings.Cut(host, "://")
	switch {
	case !found || address == "":
		k.fail("docker_host", "%q is no address; write unix:///var/run/docker.sock, or leave it empty", host)
	case scheme == "unix" && !filepath.IsAbs(address):
		k.fail("docker_host", "%q needs an absolute path: unix:///var/run/docker.sock has three slashes", host)
	case scheme != "unix" && scheme != "tcp" && scheme != "http" && scheme != "https":
		// The Engine API's client does not run ssh, as the docker command does.
		k.fail("docker_host", "%q: the scheme %s is not spoken; use unix:// or tcp://", host, scheme)
	}
}

func (k *checker) times() {
	c := k.c
	if c.Schedule.fires == nil {
		k.fail("schedule", `is missing; write one such as "@every 1m"`)
	}
	for _, t := range []struct {
		key   string
		value time.Duration
	}{
		{"lease.default_ttl", c.Lease.DefaultTTL}, {"lease.max_ttl", c.Lease.MaxTTL},
		{"lease.create_grace", c.Lease.CreateGrace}, {"lease.owner_grace", c.Lease.OwnerGrace},
		{"orphans.grace", c.Orphans.Grace}, {"reap.timeout", c.Reap.Timeout}, {"jenkins.timeout", c.Jenkins.Timeout},
		{"locks.ttl", c.Locks.TTL}, {"locks.remember", c.Locks.Remember},
	} {
		k.positive(t.key, t.value)
	}
	if c.Locks.Wait < 0 {
		k.fail("locks.wait", "is negative; write 0 for not waiting")
	}
	k.order("lease.", c.Lease.DefaultTTL, c.Lease.MaxTTL)
}

func (k *checker) positive(key string, d time.Duration) {
	if d <= 0 {
		k.fail(key, "must be longer than 0, not %s", formatDuration(d))
	}
}

func (k *checker) order(prefix string, ttl, limit time.Duration) {
	if ttl > limit {
		k.fail(prefix+"default_ttl", "%s is above %smax_ttl, which is %s (%s); lower one or raise the other",
			formatDuration(ttl), prefix, formatDuration(limit), k.c.Origin(prefix+"max_ttl"))
	}
}

func (k *checker) counts() {
	c := k.c
	if c.Orphans.Action != "reap" && c.Orphans.Action != "report" {
		k.fail("orphans.action", "must be reap or report, not %q", c.Orphans.Action)
	}
	if c.Orphans.MaxPerHour < 0 {
		k.fail("orphans.max_per_hour", "is negative; write 0 for none without an operator")
	}
	if c.Reap.Workers < 1 || c.Reap.Workers > 64 {
		k.fail("reap.workers", "must be from 1 to 64, not %d", c.Reap.Workers)
	}
	if c.Reap.StuckAfter < 1 {
		k.fail("reap.stuck_after", "must be 1 or more, not %d", c.Reap.StuckAfter)
	}
}

// pattern checks what path.Match reads. A pattern it cannot read would match
// nothing, and so protect nothing.
func (k *checker) pattern(key, p string) {
	if p == "" {
		k.fail(key, "is empty and would match nothing; remove it")
	} else if _, err := path.Match(p, ""); err != nil {
		k.fail(key, `%q is no pattern; close each [ with ], and end with no \`, p)
	}
}

func (k *checker) classes() {
	first := map[string]int{}
	for i, class := range k.c.Classes {
		prefix := fmt.Sprintf("classes[%d].", i)
		if class.Jobs == "" {
			k.fail(prefix+"jobs", `is missing; write a pattern of job names, such as "nightly/*"`)
		} else {
			base := strings.TrimSuffix(class.Jobs, "/**")
			k.pattern(prefix+"jobs", base)
			if strings.Contains(base, "**") {
				k.fail(prefix+"jobs", "%q: ** stands for everything below only at the end, as in nightly/**", class.Jobs)
			}
			if before, twice := first[class.Jobs]; twice {
				k.fail(prefix+"jobs", "%q stands in classes[%d] already, which wins; remove one", class.Jobs, before)
			}
			first[class.Jobs] = i
		}
		k.positive(prefix+"default_ttl", class.DefaultTTL)
		k.positive(prefix+"max_ttl", class.MaxTTL)
		k.order(prefix, class.DefaultTTL, class.MaxTTL)
	}
}

func (k *checker) jenkins() {
	j := k.c.Jenkins
	for i, raw := range j.URLs {
		key := fmt.Sprintf("jenkins.urls[%d]", i)
		u, err := url.Parse(raw)
		switch {
		case err != nil: // not shown: url.Error repeats the value, which may hold a password
			k.fail(key, "is no URL; write the base URL of a controller, such as https://jenkins.example.org/")
		case u.User != nil: // nor here
			k.fail(key, "must not hold a user or password; use jenkins.user and jenkins.token_file")
		case u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
			k.fail(key, "%q must begin with http:// or https:// and a host", raw)
		case u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || strings.Contains(raw, "#"):
			k.fail(key, "%q must be a base URL, without ? or #", raw)
		}
	}
	if (j.User == "") != (j.TokenFile == "") {
		key, other := "jenkins.user", "jenkins.token_file"
		if j.User == "" {
			key, other = other, key
		}
		k.fail(key, "is set without %s; set both or neither", other)
	}
}
