package testbed

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func playedDaemon(t *testing.T, config map[string]any, env ...string) *Daemon {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("JANITOR_TEST_BINARY", self)
	return StartDaemon(t, config, env...)
}

func ask(t *testing.T, d *Daemon) string {
	t.Helper()
	res, err := d.HTTP().Get(d.URL("/v1/status"))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestDaemon(t *testing.T) {
	d := playedDaemon(t, map[string]any{"orphans": map[string]any{"grace": "1s"}, "lease": map[string]any{"default_ttl": "5s"}})
	want := fmt.Sprintf("%d localhost map[action:report grace:1s] map[default_ttl:5s] unix://%s/no-engine", d.PID(), d.Dir)
	if got := ask(t, d); got != want {
		t.Errorf("it answered %q, want %q", got, want)
	}
	if len(d.Socket) > 107 {
		t.Errorf("the socket's path %q is too long", d.Socket)
	}
	old := d.PID()
	if err := d.Restart(); err != nil || d.PID() == old {
		t.Errorf("restart: %v, pid %d before and %d after", err, old, d.PID())
	}
	ask(t, d)
	d.Kill()
	if d.PID() != 0 || d.Stop() == nil {
		t.Error("a killed daemon runs")
	}
	if res, err := d.HTTP().Get(d.URL("/")); err == nil {
		res.Body.Close()
		t.Error("a killed daemon answers")
	}
	if err := d.Restart(); err != nil {
		t.Error(err)
	}
	if err := d.Start(); err == nil {
		t.Error("one daemon runs twice")
	}
	if err := d.Stop(); err != nil {
		t.Errorf("stop: %v", err)
	}
	if n := strings.Count(d.Stderr(), "played janitor is up\n"); n != 3 {
		t.Errorf("standard error of three runs:\n%s", d.Stderr())
	}
	if err := d.Configure(map[string]any{"refuse": true}); err != nil {
		t.Fatal(err)
	}
	if err := d.Start(); err == nil || !strings.Contains(err.Error(), "bad config") {
		t.Errorf("a daemon that refuses to start: %v", err)
	}
}

func TestDaemonEnvironment(t *testing.T) {
	for _, key := range []string{"DOCKER_HOST", "DOCKER_CONTEXT", "JANITOR_SOCKET", "KUBECONFIG", "BUILD_URL", "HOME", "NOTIFY_SOCKET"} {
		t.Setenv(key, "/the/callers/own")
	}
	d := playedDaemon(t, nil, "X=y")
	if got := ask(t, d); !strings.Contains(got, " map[action:report] ") {
		t.Errorf("without a configuration it answered %q, want orphans only reported", got)
	}
	out, err := output(d.Command(context.Background(), "env"))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(out, "/the/callers/own") {
		t.Errorf("the caller's variables came through:\n%s", out)
	}
	for _, want := range []string{"HOME=" + d.Dir, "KUBECONFIG=" + d.Kubeconfig, "JANITOR_SOCKET=" + d.Socket, "X=y"} {
		if !hasLine(out, want) {
			t.Errorf("no %s in the environment:\n%s", want, out)
		}
	}
}

// TestDaemonEnds: nothing runs and nothing lies about after the test.
func TestDaemonEnds(t *testing.T) {
	var dir string
	var pid int
	t.Run("test", func(t *testing.T) {
		d := playedDaemon(t, nil)
		dir, pid = d.Dir, d.PID()
	})
	if err := syscall.Kill(pid, 0); err == nil {
		t.Errorf("process %d runs on", pid)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("%s stays: %v", dir, err)
	}
}

// TestBuild builds a small command of this module twice; the second is the
// same file, and an old one is removed.
func TestBuild(t *testing.T) {
	dir := t.TempDir()
	old := filepath.Join(dir, "0123456789abcdef")
	if err := os.Mkdir(old, 0o755); err != nil {
		t.Fatal(err)
	}
	long := time.Now().Add(-48 * time.Hour)
	if err := os.Chtimes(old, long, long); err != nil {
		t.Fatal(err)
	}
	var paths [2]string
	for i := range paths {
		path, err := build(context.Background(), nodePackage, dir)
		if err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(path); err != nil || info.Mode()&0o111 == 0 {
			t.Fatalf("%s: %v", path, err)
		}
		paths[i] = path
	}
	if paths[0] != paths[1] {
		t.Errorf("two builds of one source: %v", paths)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v, %v; want the one binary", entries, err)
	}
	if _, err := build(context.Background(), nodePackage+"/no/such", dir); err == nil {
		t.Error("a package that does not exist was built")
	}
}
