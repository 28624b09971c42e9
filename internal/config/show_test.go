package config

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestShow(t *testing.T) {
	c, err := Load("", []string{"JANITOR_LEASE_MAX_TTL=20h"}, map[string]string{"socket": "/s"})
	if err != nil {
		t.Fatal(err)
	}
	c.Jenkins.User = "1234"
	shown, err := c.Show()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"socket: /s # flag --socket\n", "  max_ttl: 20h # env JANITOR_LEASE_MAX_TTL\n", "schedule: \"@every 1m\" # default\n",
		"kubeconfigs: [~/.kube/config] # default\n", "  user: \"1234\" # default\n", "classes: [] # default\n",
	} {
		if !strings.Contains(shown, want) {
			t.Errorf("%s\n lacks %q", shown, want)
		}
	}
	for _, s := range settings(c) {
		if name := s.key[strings.LastIndex(s.key, ".")+1:]; !strings.Contains(shown, name+":") {
			t.Errorf("%s is not shown", s.key)
		}
	}
}

// Whatever is in force, what Show prints loads as the same.
func TestShowLoadsAgain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.StringMatching(`[ -~]{0,12}`), rapid.SampledFrom([]string{"~", "null", "true", "1", "0x1", "1e3", "2026-01-01", "- a", "a: b", "#", "'", `"`, "é, ü", " "}))
		duration := rapid.Map(rapid.Int64Range(0, int64(longest)), func(n int64) time.Duration { return time.Duration(n) })
		c := Default()
		for _, s := range settings(c) {
			switch p := s.target.(type) {
			case *string:
				*p = text.Draw(t, s.key)
			case *bool:
				*p = rapid.Bool().Draw(t, s.key)
			case *int:
				*p = rapid.Int().Draw(t, s.key)
			case *time.Duration:
				*p = duration.Draw(t, s.key)
			case *[]string:
				*p = append([]string{}, rapid.SliceOfN(text, 0, 3).Draw(t, s.key)...)
			case *[]Class:
				*p = append([]Class{}, rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Class {
					return Class{text.Draw(t, "jobs"), duration.Draw(t, "ttl"), duration.Draw(t, "max")}
				}), 0, 3).Draw(t, s.key)...)
			}
		}
		shown, err := c.Show()
		if err != nil {
			t.Fatal(err)
		}
		again := Default()
		if err := decode(again, "shown", []byte(shown)); err != nil {
			t.Fatalf("%v\n%s", err, shown)
		}
		if applied, restart := Reload(c, again); applied != nil || restart != nil {
			t.Fatalf("%v %v changed:\n%s", applied, restart, shown)
		}
	})
}

func TestReload(t *testing.T) {
	base := Default()
	if a, r := Reload(base, Default()); a != nil || r != nil {
		t.Errorf("nothing changed, but %v %v", a, r)
	}
	now, err := Load("", []string{"JANITOR_SOCKET=/a", "JANITOR_DATABASE=/b", "JANITOR_DOCKER_HOST=tcp://h:1", "JANITOR_SCHEDULE=@every 2m",
		"JANITOR_LEASE_MAX_TTL=20h", "JANITOR_ORPHANS_PROTECT=a", "JANITOR_DRY_RUN=true"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	now.Classes = []Class{{Jobs: "x"}}
	applied, restart := Reload(base, now)
	if want := []string{"schedule", "dry_run", "lease.max_ttl", "orphans.protect", "classes"}; !slices.Equal(applied, want) {
		t.Errorf("applied %v, want %v", applied, want)
	}
	if want := []string{"socket", "database", "docker_host"}; !slices.Equal(restart, want) {
		t.Errorf("restart for %v, want %v", restart, want)
	}
}

// The names are an interface: files and units out there use them.
func TestKeys(t *testing.T) {
	want := strings.Fields(`socket database schedule docker_host kubeconfigs dry_run
		lease.default_ttl lease.max_ttl lease.create_grace lease.owner_grace
		orphans.action orphans.grace orphans.protect orphans.max_per_hour classes
		reap.workers reap.timeout reap.logs_dir reap.stuck_after
		jenkins.urls jenkins.user jenkins.token_file jenkins.timeout locks.ttl locks.wait locks.remember admin_group`)
	var got []string
	variables := map[string]bool{}
	for _, s := range settings(Default()) {
		got = append(got, s.key)
		variables[s.variable()] = true
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	if len(variables) != len(want) {
		t.Errorf("two keys share a variable: %v", slices.Sorted(maps.Keys(variables)))
	}
	for _, v := range clientVariables {
		if variables[v] {
			t.Errorf("%s is a setting too", v)
		}
	}
	class := reflect.TypeFor[Class]()
	for i := range class.NumField() {
		if name := class.Field(i).Tag.Get("yaml"); !slices.Contains([]string{"jobs", "default_ttl", "max_ttl"}, name) {
			t.Errorf("class key %q", name)
		}
	}
}

// No file makes decode panic or loop; what it accepts can be shown.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{"socket: /a", "lease: {max_ttl: 1d}", "classes: [{jobs: a}]", "a: &a [*a]", "lease: &l {<<: *l}", "? [a]\n: b", "---\n---\n", "kubeconfigs: [~]", "schedule: TZ=UTC", "\xef\xbb\xbfsocket: /a\r\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, content string) {
		c := Default()
		if decode(c, "f", []byte(content)) != nil {
			return
		}
		_ = c.Validate()
		shown, err := c.Show()
		if err != nil {
			t.Fatal(err)
		}
		again := Default()
		if err := decode(again, "shown", []byte(shown)); err != nil {
			t.Fatalf("%v\n%s", err, shown)
		}
	})
}
