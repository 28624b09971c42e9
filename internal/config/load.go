package config

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"
)

// clientVariables are read by commands that talk to the service or by the
// tests. They are no settings, and no reason for a warning.
var clientVariables = []string{"JANITOR_LOCK_TOKEN", "JANITOR_CLUSTER", "JANITOR_LEASE"}

const testVariables = "JANITOR_TEST_"

// Load reads the configuration: the defaults, above them the file, the
// JANITOR_ variables of env ("KEY=value", as os.Environ has them), and flags,
// which are texts by key. An empty path is no file; one that does not exist is
// an error that is fs.ErrNotExist.
//
// The error is a join of all that is wrong, each naming key and origin. A
// returned Config is valid.
func Load(path string, env []string, flags map[string]string) (*Config, error) {
	c := Default()
	var errs []error
	if path != "" {
		content, err := read(path)
		if err != nil {
			return nil, err
		}
		errs = append(errs, decode(c, path, content))
	}
	errs = append(errs, c.setEnv(env), c.setFlags(flags))
	// Values are compared only when all could be read: one that could not is
	// still its default, and complaints about that would mislead.
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	c.inherit()
	if err := c.Validate(); err != nil {
		return nil, err
	}
	return c, nil
}

func read(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	if len(content) > maxFile {
		return nil, fmt.Errorf("configuration: %s is larger than 1 MiB; is it the right file?", path)
	}
	return content, nil
}

// setEnv applies the variables, and warns of those that look like settings and
// are none.
func (c *Config) setEnv(env []string) error {
	byName := map[string]setting{}
	var names []string
	for _, s := range settings(c) {
		byName[s.variable()] = s
		names = append(names, s.variable())
	}
	given := map[string]string{} // of a variable given twice the last counts, as for os.Getenv in a child
	for _, kv := range env {
		if name, value, ok := strings.Cut(kv, "="); ok && strings.HasPrefix(name, "JANITOR_") {
			given[name] = value
		}
	}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(given)) {
		s, ok := byName[name]
		switch {
		case ok:
			if err := setText(s.target, given[name]); err != nil {
				errs = append(errs, fmt.Errorf("env %s: %s: %w", name, s.key, err))
			}
			c.origins[s.key] = "env " + name
		case slices.Contains(clientVariables, name), strings.HasPrefix(name, testVariables):
		default:
			c.Warnings = append(c.Warnings, fmt.Sprintf("the variable %s sets nothing; %s", name, suggestVariable(name, names)))
		}
	}
	return errors.Join(errs...)
}

// suggestVariable does not list them all, as suggest would: there are thirty.
func suggestVariable(name string, names []string) string {
	if s := suggest(name, names); strings.HasPrefix(s, "did you mean") {
		return s
	}
	return "settings are JANITOR_ and the key, such as JANITOR_LEASE_MAX_TTL"
}

func (c *Config) setFlags(flags map[string]string) error {
	byKey := map[string]setting{}
	for _, s := range settings(c) {
		byKey[s.key] = s
	}
	var errs []error
	for _, key := range slices.Sorted(maps.Keys(flags)) {
		flag := "flag --" + strings.NewReplacer(".", "-", "_", "-").Replace(key)
		s, ok := byKey[key]
		if !ok {
			errs = append(errs, fmt.Errorf("%s: no such key: %s", flag, key))
			continue
		}
		if err := setText(s.target, flags[key]); err != nil {
			errs = append(errs, fmt.Errorf("%s: %s: %w", flag, key, err))
		}
		c.origins[key] = flag
	}
	return errors.Join(errs...)
}

// inherit gives classes the times they do not set themselves.
func (c *Config) inherit() {
	for i := range c.Classes {
		class := &c.Classes[i]
		for _, t := range []struct {
			key  string
			into *time.Duration
			from time.Duration
		}{{"default_ttl", &class.DefaultTTL, c.Lease.DefaultTTL}, {"max_ttl", &class.MaxTTL, c.Lease.MaxTTL}} {
			key := fmt.Sprintf("classes[%d].%s", i, t.key)
			if _, set := c.origins[key]; !set {
				*t.into, c.origins[key] = t.from, "as lease."+t.key
			}
		}
	}
}
