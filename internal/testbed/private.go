package testbed

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// PrivateEngine is an engine that belongs to one test, which may do to it what
// happens to engines: freeze, kill, start again. Any cluster name is allowed in
// it; all of it is gone when the test ends.
type PrivateEngine struct {
	*Docker
	command, dir string
}

// Private starts a private engine with the command named by
// JANITOR_TEST_ENGINE, which takes:
//
//	start DIR   start an engine whose files lie below DIR, wait until it
//	            answers, print its DOCKER_HOST; again after a kill, with the
//	            same images, containers and volumes
//	stop DIR    stop it, also a frozen or killed one, and remove DIR
//	pid DIR     print the process to freeze or kill
//
// CI provides one. Without it the test is skipped (tier private-engine).
func Private(t testing.TB) *PrivateEngine {
	t.Helper()
	command := os.Getenv("JANITOR_TEST_ENGINE")
	if command == "" {
		Skip(t, TierPrivate, "JANITOR_TEST_ENGINE names no command that starts a private Docker engine")
	}
	// Not t.TempDir(): its path can be too long for the engine's sockets.
	parent, err := os.MkdirTemp("/tmp", "jt-")
	if err != nil {
		t.Fatal(err)
	}
	e := &PrivateEngine{Docker: &Docker{private: true}, command: command, dir: filepath.Join(parent, "e")}
	t.Cleanup(func() {
		if _, err := e.run("stop"); err != nil {
			t.Errorf("stop the private engine: %v", err)
			return
		}
		os.RemoveAll(parent)
	})
	e.Start(t)
	if err := e.prepare(); err != nil {
		t.Fatal(err)
	}
	return e
}

// Start starts the engine again after Kill, and returns when it answers.
func (e *PrivateEngine) Start(t testing.TB) {
	t.Helper()
	host, err := e.run("start")
	if err != nil {
		t.Fatalf("start the private engine: %v", err)
	}
	e.Host = host
}

// Kind returns the same engine for real kind clusters. It skips (tier kind)
// when it does not run privileged containers.
func (e *PrivateEngine) Kind(t testing.TB) *KindEngine {
	t.Helper()
	return e.kind(t)
}

// Freeze stops the engine's process without ending it: connections are taken
// and nothing answers. Thaw ends that; so does the end of the test.
func (e *PrivateEngine) Freeze(t testing.TB) { t.Helper(); e.signal(t, syscall.SIGSTOP) }

// Thaw lets a frozen engine go on.
func (e *PrivateEngine) Thaw(t testing.TB) { t.Helper(); e.signal(t, syscall.SIGCONT) }

// Kill ends the engine's process as kill -9 does, and returns when it is gone.
func (e *PrivateEngine) Kill(t testing.TB) {
	t.Helper()
	e.signal(t, syscall.SIGKILL)
	for deadline := time.Now().Add(step); ; time.Sleep(20 * time.Millisecond) {
		if _, err := e.run("pid"); err != nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("the private engine survives SIGKILL")
		}
	}
}

func (e *PrivateEngine) signal(t testing.TB, sig syscall.Signal) {
	t.Helper()
	out, err := e.run("pid")
	if err != nil {
		t.Fatalf("the private engine does not run: %v", err)
	}
	pid, err := strconv.Atoi(out)
	if err != nil || pid <= 1 {
		t.Fatalf("%s pid printed %q, want a process ID", e.command, out)
	}
	if err := syscall.Kill(pid, sig); err != nil {
		t.Fatal(err)
	}
}

func (e *PrivateEngine) run(verb string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), step)
	defer cancel()
	cmd := exec.CommandContext(ctx, e.command, verb, e.dir)
	// The engine outlives the command and may keep its output open: into a
	// file, so that nobody waits for the engine to close it.
	out, err := os.CreateTemp("", "jt-engine-")
	if err != nil {
		return "", err
	}
	defer out.Close()
	defer os.Remove(out.Name())
	cmd.Stdout, cmd.Stderr = out, out
	runErr := cmd.Run()
	b, err := os.ReadFile(out.Name())
	if err != nil {
		return "", err
	}
	said := strings.TrimSpace(string(b))
	if runErr != nil {
		return "", fmt.Errorf("%s %s: %w: %s", e.command, verb, runErr, said)
	}
	return said[strings.LastIndexByte(said, '\n')+1:], nil
}
