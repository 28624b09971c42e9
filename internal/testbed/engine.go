package testbed

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"
)

// step bounds one call of the docker command, loading an image included. It
// only guards against hanging.
const step = 2 * time.Minute

// Docker is an engine, spoken to through the docker command.
type Docker struct {
	// Host is the engine's address as in DOCKER_HOST.
	Host string
	// private says that the engine and all that is in it are the test's own.
	private bool
	// image is the stand-in node's reference, once loaded.
	image string
}

// Engine returns the engine under test, with the stand-in node image loaded.
// It skips (tier engine) when none answers.
func Engine(t testing.TB) *Docker {
	t.Helper()
	d := &Docker{Host: dockerHost()}
	if err := d.prepare(); err != nil {
		Skip(t, TierEngine, fmt.Sprintf("no Docker engine at %s: %s", d.Host, reason(err)))
	}
	return d
}

func dockerHost() string {
	return cmp.Or(os.Getenv("JANITOR_TEST_DOCKER_HOST"), os.Getenv("DOCKER_HOST"), "unix:///var/run/docker.sock")
}

// images remembers per engine address what prepare found, for this process.
var images sync.Map // address -> func() (string, error)

// prepare loads the stand-in image, which is also the proof that the engine
// answers.
func (d *Docker) prepare() error {
	load, _ := images.LoadOrStore(d.Host, sync.OnceValues(func() (string, error) {
		ctx, cancel := context.WithTimeout(context.Background(), step)
		defer cancel()
		return LoadImage(ctx, d.Host)
	}))
	var err error
	d.image, err = load.(func() (string, error))()
	return err
}

// Image is the reference of the stand-in node image in this engine.
func (d *Docker) Image() string { return d.image }

// Command prepares a docker command against this engine, whatever the
// environment says about contexts.
func (d *Docker) Command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "docker", args...)
	cmd.Env = d.env()
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

// env is the environment for the docker and kind commands: the caller's,
// pinned to this engine.
func (d *Docker) env(more ...string) []string {
	var env []string
	for _, kv := range os.Environ() {
		switch key, _, _ := strings.Cut(kv, "="); key {
		case "DOCKER_HOST", "DOCKER_CONTEXT", "KUBECONFIG", "KIND_CLUSTER_NAME", "KIND_EXPERIMENTAL_PROVIDER", "KIND_EXPERIMENTAL_DOCKER_NETWORK":
		default:
			env = append(env, kv)
		}
	}
	return append(append(env, "DOCKER_HOST="+d.Host), more...)
}

// Output runs a docker command and returns its standard output without the
// last newline. The error carries what the command said.
func (d *Docker) Output(ctx context.Context, args ...string) (string, error) {
	return output(d.Command(ctx, args...))
}

// Run is Output for tests: two minutes, and the test fails on an error.
func (d *Docker) Run(t testing.TB, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), step)
	defer cancel()
	out, err := d.Output(ctx, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func output(cmd *exec.Cmd) (string, error) {
	var out, msg bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &msg
	err := cmd.Run()
	if err != nil {
		err = &commandError{args: cmd.Args, err: err, said: string(bytes.TrimSpace(msg.Bytes()))}
	}
	return strings.TrimSuffix(out.String(), "\n"), err
}

// commandError is a command that failed, with what it wrote to standard error.
type commandError struct {
	args []string
	err  error
	said string
}

func (e *commandError) Error() string {
	return fmt.Sprintf("%s: %v: %s", strings.Join(e.args, " "), e.err, e.said)
}

func (e *commandError) Unwrap() error { return e.err }

// reason is an error in the engine's words, for a skip: without the long
// command that brought it up.
func reason(err error) string {
	var c *commandError
	if !errors.As(err, &c) || c.said == "" {
		return err.Error()
	}
	said, _, _ := strings.Cut(c.said, "\n")
	return strings.TrimPrefix(said, "docker: ")
}
