package testbed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
)

// startup bounds how long a daemon may take until it answers, and ending how
// long until it has stopped. Both only guard against hanging.
const (
	startup = 60 * time.Second
	ending  = 60 * time.Second
)

// Daemon is a running "janitor serve" with a folder of its own. Its methods are
// for one goroutine, but for Stderr and HTTP.
type Daemon struct {
	// Dir holds all its files; its path is short enough for sockets.
	Dir string
	// Socket, Database, Kubeconfig and ConfigFile are paths in Dir. The
	// kubeconfig does not exist at first.
	Socket, Database, Kubeconfig, ConfigFile string

	bin    string
	env    []string
	cmd    *exec.Cmd // nil when it does not run
	exited chan struct{}
	err    error // of the process, once exited is closed
	stderr lockedBuffer
	http   *http.Client
}

// StartDaemon writes a configuration, starts "janitor serve" with it and
// returns when it answers on its socket. The daemon is killed when the test
// ends.
//
// config is the content of janitor.yaml. What it leaves out is such that
// nobody's clusters are in danger: socket, database and kubeconfigs lie in
// Daemon.Dir, docker_host is a socket that does not exist, and orphans are only
// reported. The daemon sees none of the caller's JANITOR_, DOCKER_ and
// Jenkins variables; env adds others ("KEY=value").
func StartDaemon(t testing.TB, config map[string]any, env ...string) *Daemon {
	t.Helper()
	bin := Janitor(t)
	dir, err := os.MkdirTemp("/tmp", "jd-") // not t.TempDir(): a socket's path has at most 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	d := &Daemon{
		Dir: dir, Socket: filepath.Join(dir, "s"), Database: filepath.Join(dir, "janitor.db"),
		Kubeconfig: filepath.Join(dir, "kubeconfig"), ConfigFile: filepath.Join(dir, "janitor.yaml"), bin: bin,
	}
	d.env = append(cleanEnv(), append([]string{"HOME=" + dir, "KUBECONFIG=" + d.Kubeconfig}, env...)...)
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", d.Socket)
	}}
	d.http = &http.Client{Transport: transport}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		if d.cmd != nil {
			d.Kill()
		}
		if t.Failed() {
			t.Logf("standard error of janitor serve:\n%s", d.Stderr())
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if err := d.Configure(config); err != nil {
		t.Fatal(err)
	}
	if err := d.Start(); err != nil {
		t.Fatal(err)
	}
	return d
}

// cleanEnv is the environment without what could lead a daemon or a command
// to somebody's engine, clusters, janitor or build.
func cleanEnv() []string {
	var env []string
	for _, kv := range os.Environ() {
		key, _, _ := strings.Cut(kv, "=")
		switch {
		case strings.HasPrefix(key, "JANITOR_"), strings.HasPrefix(key, "DOCKER_"), strings.HasPrefix(key, "JENKINS_"),
			strings.HasPrefix(key, "BUILD_"), key == "JOB_NAME", key == "JOB_URL", key == "HOME", key == "KUBECONFIG",
			strings.HasPrefix(key, "XDG_"), key == "NOTIFY_SOCKET", strings.HasPrefix(key, "LISTEN_"), strings.HasPrefix(key, "WATCHDOG_"):
		default:
			env = append(env, kv)
		}
	}
	return env
}

// Configure writes the configuration anew, with the same care as StartDaemon.
// The daemon reads it at its next start or on SIGHUP.
func (d *Daemon) Configure(config map[string]any) error {
	full := map[string]any{
		"socket": d.Socket, "database": d.Database, "kubeconfigs": []string{d.Kubeconfig},
		"docker_host": "unix://" + filepath.Join(d.Dir, "no-engine"), "orphans": map[string]any{"action": "report"},
	}
	orphans, isMap := config["orphans"].(map[string]any)
	maps.Copy(full, config)
	if isMap {
		full["orphans"] = map[string]any{"action": "report"}
		maps.Copy(full["orphans"].(map[string]any), orphans)
	}
	if s, ok := full["socket"].(string); ok {
		d.Socket = s
	}
	b, err := yaml.Marshal(full)
	if err != nil {
		return err
	}
	return os.WriteFile(d.ConfigFile, b, 0o644)
}

// Start starts the daemon, which must not run, and returns when it answers
// GET /v1/status with any status. The error tells what it said instead.
func (d *Daemon) Start() error {
	if d.cmd != nil {
		return errors.New("the daemon runs already")
	}
	cmd := exec.Command(d.bin, "serve", "--config", d.ConfigFile)
	cmd.Env, cmd.Dir, cmd.Stderr, cmd.Stdout = d.env, d.Dir, &d.stderr, &d.stderr
	cmd.WaitDelay = time.Second // a child of the daemon may hold its output open
	if err := cmd.Start(); err != nil {
		return err
	}
	exited := make(chan struct{})
	d.cmd, d.exited = cmd, exited
	go func() { d.err = cmd.Wait(); close(exited) }()
	for deadline := time.Now().Add(startup); ; {
		if d.answers() {
			return nil
		}
		select {
		case <-exited:
			d.cmd = nil
			return fmt.Errorf("janitor serve ended before it answered: %w\n%s", exitOf(d.err), d.Stderr())
		case <-time.After(5 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			d.Kill()
			return fmt.Errorf("janitor serve does not answer on %s\n%s", d.Socket, d.Stderr())
		}
	}
}

func (d *Daemon) answers() bool {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, d.URL("/v1/status"), nil)
	if err != nil {
		return false
	}
	res, err := d.http.Do(req)
	if err != nil {
		return false
	}
	res.Body.Close()
	return true
}

func exitOf(err error) error {
	if err == nil {
		return errors.New("exit status 0")
	}
	return err
}

// Kill ends the daemon as kill -9 does, and waits until it is gone.
func (d *Daemon) Kill() {
	if d.cmd == nil {
		return
	}
	d.cmd.Process.Kill()
	<-d.exited
	d.gone()
}

// Stop asks the daemon to stop (SIGTERM) and returns how it ended: nil for
// exit status 0. One that does not stop in a minute is killed.
func (d *Daemon) Stop() error {
	if d.cmd == nil {
		return errors.New("the daemon does not run")
	}
	if err := d.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-d.exited:
		d.gone()
		return d.err
	case <-time.After(ending):
		d.Kill()
		return fmt.Errorf("janitor serve did not stop in %v", ending)
	}
}

func (d *Daemon) gone() {
	d.cmd = nil
	d.http.CloseIdleConnections() // they lead to the process that is gone
}

// Restart stops the daemon, if it runs, and starts it again.
func (d *Daemon) Restart() error {
	if d.cmd != nil {
		if err := d.Stop(); err != nil {
			return err
		}
	}
	return d.Start()
}

// Signal sends a signal to the daemon.
func (d *Daemon) Signal(sig os.Signal) error {
	if d.cmd == nil {
		return errors.New("the daemon does not run")
	}
	return d.cmd.Process.Signal(sig)
}

// PID is the daemon's process, 0 when it does not run.
func (d *Daemon) PID() int {
	if d.cmd == nil {
		return 0
	}
	return d.cmd.Process.Pid
}

// Stderr is what all runs of the daemon have written so far, standard output
// included.
func (d *Daemon) Stderr() string { return d.stderr.String() }

// HTTP is a client over the daemon's socket; it has no deadline of its own.
func (d *Daemon) HTTP() *http.Client { return d.http }

// URL is the address of a path for HTTP: URL("/v1/status").
func (d *Daemon) URL(path string) string { return "http://localhost" + path }

// Command prepares a janitor command that talks to this daemon, with the same
// clean environment.
func (d *Daemon) Command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, d.bin, args...)
	cmd.Env = append(d.env[:len(d.env):len(d.env)], "JANITOR_SOCKET="+d.Socket)
	cmd.Dir = d.Dir
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

// lockedBuffer is written by the process and read by the test.
type lockedBuffer struct {
	mu  sync.Mutex // guards buf
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
