package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// load loads a file of the given content, with variables "KEY=value".
func load(t *testing.T, content string, env ...string) (*Config, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "janitor.yaml")
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return Load(file, env, nil)
}

func TestDefaultsAreValidAndNothingIsRequired(t *testing.T) {
	if err := Default().Validate(); err != nil {
		t.Error(err)
	}
	for _, content := range []string{"", "\n", "# nothing\n", "---\n", "lease:\n", "lease: {}\nschedule:\n", "null\n"} {
		c, err := load(t, content)
		if err != nil {
			t.Errorf("%q: %v", content, err)
		} else if a, b := Reload(Default(), c); a != nil || b != nil {
			t.Errorf("%q differs from the defaults in %v %v", content, a, b)
		}
	}
	c, err := Load("", nil, nil)
	if err != nil || c.Lease.MaxTTL != 12*time.Hour || c.Origin("lease.max_ttl") != "default" {
		t.Errorf("without a file: %v, %v", c, err)
	}
}

func TestEveryLayerIsAboveTheOneBefore(t *testing.T) {
	file := filepath.Join(t.TempDir(), "j.yaml")
	if err := os.WriteFile(file, []byte("socket: /a\ndatabase: /b\nlease:\n  max_ttl: 20h\n  default_ttl: 3600\nclasses:\n  - jobs: nightly/*\n    max_ttl: 24h\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := Load(file, []string{"JANITOR_DATABASE=/c", "JANITOR_LEASE_MAX_TTL=30h", "JANITOR_DRY_RUN=true", "JANITOR_ORPHANS_PROTECT=a*, b",
		"JANITOR_KUBECONFIGS=", "JANITOR_REAP_WORKERS=1", "JANITOR_REAP_WORKERS=9"}, map[string]string{"lease.max_ttl": "40h"})
	if err != nil {
		t.Fatal(err)
	}
	if c.Socket != "/a" || c.Database != "/c" || c.Lease.MaxTTL != 40*time.Hour || c.Lease.DefaultTTL != time.Hour || !c.DryRun ||
		!slices.Equal(c.Orphans.Protect, []string{"a*", "b"}) || len(c.Kubeconfigs) != 0 || c.Reap.Workers != 9 {
		t.Errorf("got %+v", c)
	}
	if c.Classes[0] != (Class{"nightly/*", time.Hour, 24 * time.Hour}) {
		t.Errorf("the class is %+v", c.Classes[0])
	}
	for key, want := range map[string]string{
		"socket": file + ":1", "database": "env JANITOR_DATABASE", "lease.max_ttl": "flag --lease-max-ttl", "lease.default_ttl": file + ":5",
		"schedule": "default", "orphans.protect[1]": "env JANITOR_ORPHANS_PROTECT",
		"classes[0].max_ttl": file + ":8", "classes[0].default_ttl": "as lease.default_ttl", "classes[0].jobs": file + ":7",
	} {
		if got := c.Origin(key); got != want {
			t.Errorf("origin of %s: %s, want %s", key, got, want)
		}
	}
}

func TestLoadRefusesFiles(t *testing.T) {
	for content, want := range map[string]string{
		"sockett: /a":                                `janitor.yaml:1: sockett: no such key; did you mean socket?`,
		"lease:\n  max_tll: 1h":                      `:2: lease.max_tll: no such key; did you mean max_ttl?`,
		"Socket: /a":                                 `did you mean socket?`,
		"zzzzzzzz: 1":                                `known here: socket, database, schedule`,
		"classes:\n- jobs: a\n  ttl: 1h":             `:3: classes[0].ttl: no such key; known here: jobs, default_ttl, max_ttl`,
		"socket: /a\nsocket: /b":                     `:2: socket: is given twice, first in line 1`,
		"reap: {workers: 1, workers: 2}":             `given twice`,
		"lease: 1h":                                  `lease: must be a section`,
		"- a":                                        `must be a section`,
		"socket: [a]":                                `socket: must be text; put it in quotes, not a list`,
		"jenkins: {user: 1234}":                      `must be text; put it in quotes, not the number 1234`,
		"dry_run: yes":                               `must be true or false, not the text yes`,
		"dry_run: \"true\"":                          `must be true or false`,
		"reap: {workers: four}":                      `must be a whole number, not the text four`,
		"reap: {workers: 1.5}":                       `must be a whole number, not the number 1.5`,
		"reap: {workers: 0x10}":                      `not a whole number`,
		"kubeconfigs: ~/.kube/config":                `must be a list, such as [a, b], not the text ~/.kube/config`,
		"kubeconfigs: [~]":                           `kubeconfigs[0]: must be text; put it in quotes, not nothing ~`,
		"classes: {jobs: a}":                         `must be a list, such as [{jobs`,
		"classes: [~]":                               `classes[0]: is empty`,
		"lease: {default_ttl: 1d}":                   `write 24h`,
		"lease: {default_ttl: 2w}":                   `write 336h`,
		"lease: {default_ttl: -5m}":                  `negative`,
		"lease: {default_ttl: -1}":                   `negative`,
		"lease: {default_ttl: 1.5}":                  `must be a duration`,
		"lease: {default_ttl: true}":                 `must be a duration`,
		"lease: {default_ttl: soon}":                 `"soon" is not a duration`,
		"lease: {max_ttl: 99999999999999999999}":     `must be a duration`,
		"lease: {max_ttl: \"99999999999999999999\"}": `out of range`,
		"lease: {max_ttl: 9999999999}":               `longer than ten years`,
		"lease: {max_ttl: 90000h}":                   `longer than ten years`,
		"schedule: 5":                                `must be a schedule in quotes`,
		"schedule: \"0 0 31 2 *\"":                   `:1: schedule: "0 0 31 2 *" does not fire`,
		"schedule: TZ=UTC":                           `names no time`,
		"schedule: @every 1m":                        `not YAML`,
		"socket: \"/a\\nb\"":                         `control character`,
		"socket: /a\n---\nsocket: /b":                `second document`,
		"socket: [":                                  `not YAML: line 1`,
		"<<: {socket: /a}":                           `<<: no such key`,
		"? [a]\n: b":                                 `must be a word`,
		"lease: &a {max_ttl: 13h}\nreap: *a":         `reap.max_ttl: no such key`,
		"a: &a [*a]":                                 `no such key`,
	} {
		_, err := load(t, content)
		if err == nil {
			t.Errorf("%q: accepted", content)
		} else if !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v\n want it to contain %q", content, err, want)
		}
	}
}

func TestLoadShowsAllErrorsAtOnce(t *testing.T) {
	_, err := load(t, "sockett: a\nlease: {max_ttl: 1d}\nreap: {workers: x}\n", "JANITOR_REAP_TIMEOUT=fast", "JANITOR_DRY_RUN=1", "JANITOR_CLASSES=a")
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range []string{"sockett", "lease.max_ttl", "reap.workers", "env JANITOR_REAP_TIMEOUT: reap.timeout:", "env JANITOR_DRY_RUN", "env JANITOR_CLASSES: classes: can only be set in the file"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v\n does not contain %q", err, want)
		}
	}
	if n := strings.Count(err.Error(), "\n") + 1; n != 6 {
		t.Errorf("%d errors, want 6:\n%v", n, err)
	}
}

func TestLoadWithoutReadableFile(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "none.yaml")
	if _, err := Load(missing, nil, nil); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), missing) {
		t.Errorf("a missing file: %v", err)
	}
	if _, err := Load(t.TempDir(), nil, nil); err == nil {
		t.Error("a folder was read")
	}
	if _, err := Load("/dev/zero", nil, nil); err == nil || !strings.Contains(err.Error(), "larger than 1 MiB") {
		t.Errorf("an endless file: %v", err)
	}
}

func TestVariablesOfClientsAreNoSettings(t *testing.T) {
	c, err := Load("", []string{"JANITOR_LOCK_TOKEN=t", "JANITOR_CLUSTER=c", "JANITOR_LEASE=l", "JANITOR_TEST_SKIPS=f", "HOME=/", "NOT_JANITOR_SOKET=1"}, nil)
	if err != nil || len(c.Warnings) != 0 {
		t.Fatalf("%v, warnings %q", err, c.Warnings)
	}
	c, err = Load("", []string{"JANITOR_SOKET=/x", "JANITOR_HELLO=1", "JANITOR_="}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Warnings) != 3 || !strings.Contains(strings.Join(c.Warnings, "\n"), "JANITOR_SOKET sets nothing; did you mean JANITOR_SOCKET?") {
		t.Errorf("warnings %q", c.Warnings)
	}
}

func TestUnknownFlagIsAnError(t *testing.T) {
	if _, err := Load("", nil, map[string]string{"sock": "/a"}); err == nil || !strings.Contains(err.Error(), "flag --sock") {
		t.Errorf("got %v", err)
	}
}
