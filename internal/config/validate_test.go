package config

import (
	"strings"
	"testing"
	"time"
)

func TestValidateRefuses(t *testing.T) {
	longSocket := "/" + strings.Repeat("s", 107)
	for content, want := range map[string]string{
		"socket: janitor.sock":                         `socket: "janitor.sock" must be the absolute path`,
		"socket: \"\"":                                 `socket: "" must be the absolute path`,
		"socket: /run/janitor/":                        `without a slash`,
		"socket: " + longSocket:                        `has 108 bytes, a unix socket's path at most 107`,
		"{socket: /a, database: /a}":                   `is the same path as socket`,
		"database: ~/janitor.db":                       `database: "~/janitor.db" must be the absolute`,
		"reap: {logs_dir: logs}":                       `reap.logs_dir: "logs" must be the absolute`,
		"kubeconfigs: [.kube/config]":                  `kubeconfigs[0]: ".kube/config" must begin with / or ~/`,
		"kubeconfigs: [~bob/.kube/config]":             `must begin with / or ~/`,
		"kubeconfigs: [\"/home/[/config\"]":            `kubeconfigs[0]: "/home/[/config" is no pattern`,
		"orphans: {protect: [ok, \"a[\"]}":             `orphans.protect[1]: "a[" is no pattern`,
		"orphans: {protect: [\"\"]}":                   `orphans.protect[0]: is empty`,
		"orphans: {action: delete}":                    `must be reap or report, not "delete"`,
		"orphans: {max_per_hour: -1}":                  `negative`,
		"orphans: {grace: 0}":                          `orphans.grace: must be longer than 0`,
		"lease: {default_ttl: 13h}":                    `lease.default_ttl: 13h is above lease.max_ttl, which is 12h (default); lower one or raise the other (`,
		"lease: {max_ttl: 0}":                          `lease.max_ttl: must be longer than 0, not 0s`,
		"lease: {owner_grace: 0s}":                     `lease.owner_grace: must be`,
		"lease: {create_grace: 0s}":                    `lease.create_grace: must be`,
		"reap: {timeout: 0}":                           `reap.timeout: must be`,
		"jenkins: {timeout: 0}":                        `jenkins.timeout: must be`,
		"locks: {ttl: 0}":                              `locks.ttl: must be`,
		"locks: {remember: 0}":                         `locks.remember: must be`,
		"reap: {workers: 0}":                           `reap.workers: must be from 1 to 64, not 0`,
		"reap: {workers: 65}":                          `reap.workers: must be from 1 to 64, not 65`,
		"reap: {stuck_after: 0}":                       `reap.stuck_after: must be 1 or more`,
		"classes: [{max_ttl: 24h}]":                    `classes[0].jobs: is missing`,
		"classes: [{jobs: \"a[\"}]":                    `classes[0].jobs: "a[" is no pattern`,
		"classes: [{jobs: \"a/**/b\"}]":                `only at the end`,
		"classes: [{jobs: \"**\"}]":                    `only at the end`,
		"classes: [{jobs: \"/**\"}]":                   `classes[0].jobs: is empty`,
		"classes: [{jobs: a}, {jobs: a}]":              `stands in classes[0] already`,
		"classes: [{jobs: a, default_ttl: 13h}]":       `classes[0].default_ttl: 13h is above classes[0].max_ttl, which is 12h (as lease.max_ttl)`,
		"classes: [{jobs: a, max_ttl: 1h}]":            `classes[0].default_ttl: 2h15m is above classes[0].max_ttl, which is 1h`,
		"classes: [{jobs: a, max_ttl: 0}]":             `classes[0].max_ttl: must be longer than 0`,
		"jenkins: {urls: [\"ftp://j/\"]}":              `must begin with http:// or https://`,
		"jenkins: {urls: [j.example.org]}":             `must begin with http:// or https://`,
		"jenkins: {urls: [\"https:///ci\"]}":           `must begin with http:// or https:// and a host`,
		"jenkins: {urls: [\"https://:80/ci\"]}":        `and a host`,
		"jenkins: {urls: [\"https://j/?a=b\"]}":        `without ? or #`,
		"jenkins: {urls: [\"https://j/?\"]}":           `without ? or #`,
		"jenkins: {urls: [\"https://j/#\"]}":           `without ? or #`,
		"jenkins: {urls: [\"https://u:geheim@j/\"]}":   `must not hold a user or password`,
		"jenkins: {urls: [\"https://u:geheim@j:x/\"]}": `is no URL`,
		"jenkins: {user: bot}":                         `jenkins.user: is set without jenkins.token_file`,
		"jenkins: {token_file: /t}":                    `jenkins.token_file: is set without jenkins.user`,
		"jenkins: {user: bot, token_file: t}":          `jenkins.token_file: "t" must be the absolute`,
		"admin_group: \"a b\"":                         `admin_group: "a b" is no group's name`,
		"docker_host: /var/run/docker.sock":            `docker_host: "/var/run/docker.sock" is no address`,
		"docker_host: unix://var/run/docker.sock":      `three slashes`,
		"docker_host: ssh://ci@host":                   `the scheme ssh is not spoken`,
	} {
		_, err := load(t, content)
		switch {
		case err == nil:
			t.Errorf("%q: accepted", content)
		case !strings.Contains(err.Error(), want):
			t.Errorf("%q: %v\n want it to contain %q", content, err, want)
		case strings.Contains(err.Error(), "geheim"):
			t.Errorf("%q: the password is in the message: %v", content, err)
		case !strings.Contains(err.Error(), "janitor.yaml:1)") && !strings.Contains(err.Error(), "(as lease.") && !strings.Contains(err.Error(), "(default)"):
			t.Errorf("%q: %v\n does not say where the value came from", content, err)
		}
	}
}

// The other side of each boundary above.
func TestValidateAccepts(t *testing.T) {
	for _, content := range []string{
		"socket: /" + strings.Repeat("s", 106),
		"lease: {default_ttl: 12h}",
		"lease: {default_ttl: 1ns, max_ttl: 1ns, owner_grace: 1ns, create_grace: 1ns}",
		"orphans: {max_per_hour: 0, action: report, grace: 1s, protect: [\"keep-*\", \"[ab]\"]}",
		"locks: {wait: 0}",
		"reap: {workers: 64, stuck_after: 1, logs_dir: /var/log/janitor}",
		"reap: {workers: 1}",
		"classes: [{jobs: nightly/**}, {jobs: \"team/*/e2e\", default_ttl: 8h, max_ttl: 24h}]",
		"jenkins: {urls: [\"https://j.example.org\", \"http://j:8080/ci/\"], user: bot, token_file: /etc/janitor/token}",
		"kubeconfigs: [/home/*/.kube/config, ~/.kube/other]",
		"kubeconfigs: []",
		"docker_host: unix:///run/user/1000/docker.sock",
		"docker_host: tcp://127.0.0.1:2375",
		"admin_group: docker-admins",
		"lease: {max_ttl: 87600h}",
	} {
		if _, err := load(t, content); err != nil {
			t.Errorf("%q: %v", content, err)
		}
	}
}

func TestValidateShowsAllErrorsAtOnce(t *testing.T) {
	_, err := load(t, "socket: a\ndatabase: b\nlease: {max_ttl: 1m}\n", "JANITOR_REAP_WORKERS=0")
	if err == nil {
		t.Fatal("accepted")
	}
	if n := strings.Count(err.Error(), "\n") + 1; n != 4 {
		t.Errorf("%d errors, want 4:\n%v", n, err)
	}
	if !strings.Contains(err.Error(), "(env JANITOR_REAP_WORKERS)") {
		t.Errorf("no origin: %v", err)
	}
}

func TestZeroConfigIsInvalidWithoutPanic(t *testing.T) {
	if err := new(Config).Validate(); err == nil || !strings.Contains(err.Error(), "schedule: is missing") {
		t.Errorf("got %v", err)
	}
}

func TestFormatDuration(t *testing.T) {
	for text, d := range map[string]time.Duration{"0s": 0, "1h": time.Hour, "10m": 10 * time.Minute, "2h15m": 135 * time.Minute, "1h0m5s": time.Hour + 5*time.Second, "10s": 10 * time.Second, "1m30s": 90 * time.Second, "720h": 720 * time.Hour} {
		if got := formatDuration(d); got != text {
			t.Errorf("%v: %s, want %s", d, got, text)
		}
	}
}
