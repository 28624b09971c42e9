// Package examples holds what people run to see the janitor at work, and the
// tests that it works and harms nobody.
package examples

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/testbed-janitor/janitor/internal/testbed"
)

// patience only guards against hanging: a cold build of kind is in it.
const patience = 10 * time.Minute

// The demo works on somebody's own engine: what stands there before it and what
// comes beside it, unregistered both, is there afterwards, and so is every
// context in every kubeconfig. The demo itself leaves nothing.
func TestDemoHarmsNothingAndLeavesNothing(t *testing.T) {
	engine := testbed.Engine(t)
	before := engine.PlainContainer(t, testbed.Name(t), testbed.RoleControlPlane)
	d := newDemo(t, engine.Host)

	beside := ""
	out, err := d.run(func(line string) {
		if beside == "" && strings.Contains(line, "it serves") {
			// Younger than the demo's inventory: not even its birth protects it.
			beside = engine.PlainContainer(t, testbed.Name(t), testbed.RoleControlPlane)
		}
	})
	// Also of a demo that failed: what did it do to others?
	d.leftNothing(engine, out)
	if beside == "" {
		t.Fatalf("the demo never said that it serves: %v\n%s", err, out)
	}
	running := strings.Fields(engine.Run(t, "ps", "--no-trunc", "--quiet"))
	for _, id := range []string{before, beside} {
		if !slices.Contains(running, id) {
			t.Errorf("the foreign container %s does not run any more", id)
		}
	}
	if err != nil {
		t.Fatalf("the demo failed: %v\n%s", err, out)
	}
	for _, want := range []string{
		`"lease"`, "reported", "expired", "reaped", "nothing is left behind",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("the demo did not show %q:\n%s", want, out)
		}
	}
}

// Interrupted at any moment, it leaves as little.
func TestDemoInterrupted(t *testing.T) {
	engine := testbed.Engine(t)
	for _, c := range []struct {
		name, at string
		signal   syscall.Signal
		status   int
	}{
		{"while a cluster is being created", "A job registers", syscall.SIGTERM, 143},
		{"while the lease runs", "The job is gone", syscall.SIGINT, 130},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDemo(t, engine.Host)
			sent := false
			out, err := d.run(func(line string) {
				if !sent && strings.Contains(line, c.at) {
					sent = true
					time.Sleep(500 * time.Millisecond) // into the middle of what was just begun
					// To the group, as a terminal does on Ctrl-C.
					if err := syscall.Kill(-d.cmd.Process.Pid, c.signal); err != nil {
						t.Error(err)
					}
				}
			})
			var exit *exec.ExitError
			if !sent || !errors.As(err, &exit) || exit.ExitCode() != c.status {
				t.Errorf("signal sent: %v; the demo ended with %v, not with status %d:\n%s", sent, err, c.status, out)
			}
			d.leftNothing(engine, out)
		})
	}
}

// Without an engine it says so, and shows the same with the fake one; that is
// its own, so there the orphan goes too.
func TestDemoWithoutEngine(t *testing.T) {
	d := newDemo(t, "unix://"+filepath.Join(t.TempDir(), "no-engine"))
	out, err := d.run(nil)
	if err != nil {
		t.Fatalf("the demo failed: %v\n%s", err, out)
	}
	for _, want := range []string{"no Docker engine answers", "fake engine", "expired", "so it went too"} {
		if !strings.Contains(out, want) {
			t.Errorf("the demo did not say %q:\n%s", want, out)
		}
	}
	d.leftNothing(nil, out)
}

// demo is one run of the script, with a home and kubeconfigs of a person who
// has clusters of their own.
type demo struct {
	t       testing.TB
	cmd     *exec.Cmd
	foreign []string // files that are nobody's but that person's
}

const foreignConfig = `apiVersion: v1
kind: Config
current-context: kind-foreign
clusters:
- name: kind-foreign
  cluster: {server: "https://127.0.0.1:1"}
contexts:
- name: kind-foreign
  context: {cluster: kind-foreign, user: kind-foreign}
users:
- name: kind-foreign
  user: {token: secret}
`

func newDemo(t testing.TB, dockerHost string) *demo {
	home := t.TempDir()
	d := &demo{t: t, foreign: []string{filepath.Join(home, ".kube", "config"), filepath.Join(home, "other")}}
	for _, file := range d.foreign {
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(foreignConfig), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	d.cmd = exec.CommandContext(ctx, "./demo.sh")
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	d.cmd.WaitDelay = time.Minute
	for _, kv := range os.Environ() {
		if key, _, _ := strings.Cut(kv, "="); key != "HOME" && key != "KUBECONFIG" && key != "DOCKER_HOST" && key != "DOCKER_CONTEXT" {
			d.cmd.Env = append(d.cmd.Env, kv)
		}
	}
	for _, key := range []string{"GOCACHE", "GOMODCACHE", "GOPATH"} { // they lie below the real home
		d.cmd.Env = append(d.cmd.Env, key+"="+goEnv(t, key))
	}
	d.cmd.Env = append(d.cmd.Env, "HOME="+home, "KUBECONFIG="+d.foreign[1], "DOCKER_HOST="+dockerHost,
		"JANITOR_BIN="+testbed.Janitor(t),
		// What a person may have set for a janitor of their own.
		"JANITOR_ORPHANS_ACTION=reap", "JANITOR_SOCKET=/nowhere/janitor.sock")
	return d
}

func goEnv(t testing.TB, key string) string {
	t.Helper()
	out, err := exec.Command("go", "env", key).Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(bytes.TrimSpace(out))
}

// run runs the demo, hands on each line it prints, and returns all of them.
func (d *demo) run(line func(string)) (string, error) {
	d.t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		d.t.Fatal(err)
	}
	defer r.Close()
	d.cmd.Stdout, d.cmd.Stderr = w, w
	err = d.cmd.Start()
	w.Close()
	if err != nil {
		d.t.Fatal(err)
	}
	// Should anything outlive the demo, it holds the pipe open and this ends at
	// the deadline only: leaving nothing behind includes processes.
	if err := r.SetReadDeadline(time.Now().Add(patience)); err != nil {
		d.t.Fatal(err)
	}
	var out strings.Builder
	s := bufio.NewScanner(r)
	for s.Scan() {
		out.WriteString(s.Text() + "\n")
		if line != nil {
			line(s.Text())
		}
	}
	if s.Err() != nil {
		d.t.Errorf("read the demo's output: %v", s.Err())
	}
	return out.String(), d.cmd.Wait()
}

var place = regexp.MustCompile(`folder (\S+), clusters (\S+) and (\S+)`)

// leftNothing looks for all that the demo made, and at what it must not touch.
func (d *demo) leftNothing(engine *testbed.Docker, out string) {
	d.t.Helper()
	found := place.FindStringSubmatch(out)
	if found == nil {
		d.t.Fatalf("the demo did not say where it works:\n%s", out)
	}
	if _, err := os.Lstat(found[1]); !errors.Is(err, os.ErrNotExist) {
		d.t.Errorf("its folder %s: %v", found[1], err)
	}
	for _, file := range d.foreign {
		if b, err := os.ReadFile(file); err != nil || string(b) != foreignConfig {
			d.t.Errorf("the foreign kubeconfig %s was touched (%v):\n%s", file, err, b)
		}
	}
	if engine == nil {
		return
	}
	time.Sleep(time.Second) // for what an interrupted create would still bring up
	names := strings.Fields(engine.Run(d.t, "ps", "--all", "--format", "{{.Names}}"))
	networks := strings.Fields(engine.Run(d.t, "network", "ls", "--format", "{{.Name}}"))
	for _, name := range slices.Concat(names, networks) {
		if strings.HasPrefix(name, found[2]) {
			d.t.Errorf("%s is still there", name)
		}
	}
}
