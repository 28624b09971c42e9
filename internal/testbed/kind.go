package testbed

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// KindEngine is an engine that can run kind nodes, with the real kind command.
type KindEngine struct {
	*Docker
	// Kubeconfig is the file that kind writes clusters to: the test's own, in
	// its temporary folder.
	Kubeconfig string

	t   testing.TB
	bin string
}

// Kind returns the engine under test for real kind clusters. It skips (tier
// kind) with the engine's words when it does not run privileged containers.
func Kind(t testing.TB) *KindEngine {
	t.Helper()
	d := &Docker{Host: dockerHost()}
	if err := d.prepare(); err != nil {
		Skip(t, TierKind, fmt.Sprintf("no Docker engine at %s: %s", d.Host, reason(err)))
	}
	return d.kind(t)
}

func (d *Docker) kind(t testing.TB) *KindEngine {
	t.Helper()
	if err := d.probe(); err != nil {
		Skip(t, TierKind, fmt.Sprintf("the engine at %s cannot run kind nodes: %s", d.Host, reason(err)))
	}
	bin, err := kindCommand()
	if err != nil {
		Skip(t, TierKind, reason(err))
	}
	return &KindEngine{Docker: d, Kubeconfig: filepath.Join(t.TempDir(), "kubeconfig"), t: t, bin: bin}
}

// kindCommand is the path of the kind that go.mod names, built if need be.
var kindCommand = sync.OnceValues(func() (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute) // a cold build takes most of a minute
	defer cancel()
	bin, err := output(exec.CommandContext(ctx, "go", "tool", "-n", "kind"))
	if err != nil {
		return "", fmt.Errorf("no kind command: %w", err)
	}
	return bin, nil
})

// probes remembers per engine address whether it runs kind nodes.
var probes sync.Map // address -> func() error

// probe runs a container with what kind asks of an engine beyond the usual
// (kind v0.33, providers/docker/provision.go).
func (d *Docker) probe() error {
	p, _ := probes.LoadOrStore(d.Host, sync.OnceValue(func() error {
		ctx, cancel := context.WithTimeout(context.Background(), step)
		defer cancel()
		out, err := d.Output(ctx, "run", "--rm", "--privileged", "--cgroupns=private", "--network=none",
			"--security-opt", "seccomp=unconfined", "--security-opt", "apparmor=unconfined",
			"--tmpfs", "/tmp", "--tmpfs", "/run", "--volume", "/lib/modules:/lib/modules:ro",
			"--entrypoint", "/bin/cat", d.image, "/kind/version")
		if err == nil && !strings.HasPrefix(out, "v1.") {
			err = fmt.Errorf("a privileged container of the stand-in node said %q", out)
		}
		return err
	}))
	return p.(func() error)()
}

// CreateOptions are those of "kind create cluster".
type CreateOptions struct {
	// Workers is the number of worker nodes beside the one control plane.
	Workers int
	// Retain keeps the nodes of a create that failed.
	Retain bool
	// Kubeconfig is the file to write to instead of KindEngine.Kubeconfig.
	Kubeconfig string
}

// Create runs "kind create cluster" and returns when it has; the cluster is
// removed when the test ends. When ctx ends first, kind and its children are
// killed, which leaves what had been made, as an aborted job does. The error
// carries what kind said.
func (k *KindEngine) Create(ctx context.Context, name string, opts CreateOptions) error {
	k.t.Helper()
	cmd := k.CreateCommand(ctx, name, opts)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args[1:], " "), errors.Join(err, ctx.Err()), out)
	}
	return nil
}

// CreateCommand prepares what Create runs, for tests that kill it half-way.
// Wait for it before the test ends.
func (k *KindEngine) CreateCommand(ctx context.Context, name string, opts CreateOptions) *exec.Cmd {
	k.t.Helper()
	k.claim(k.t, name, 200*time.Millisecond) // a killed "docker run" may leave a container a moment later
	config := "kind: Cluster\napiVersion: kind.x-k8s.io/v1alpha4\nnodes:\n- role: control-plane\n" +
		strings.Repeat("- role: worker\n", opts.Workers)
	args := []string{"create", "cluster", "--name", name, "--image", k.image, "--config", "-"}
	if opts.Retain {
		args = append(args, "--retain")
	}
	if opts.Kubeconfig != "" {
		args = append(args, "--kubeconfig", opts.Kubeconfig)
	}
	cmd := k.KindCommand(ctx, args...)
	cmd.Stdin = strings.NewReader(config)
	return cmd
}

// KindCommand prepares any other kind command ("get clusters", "delete cluster
// --name X") against this engine, with KUBECONFIG set to the test's own file.
// The command has a process group of its own, which is killed with ctx.
func (k *KindEngine) KindCommand(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, k.bin, args...)
	cmd.Env = k.env("KUBECONFIG="+k.Kubeconfig, "KIND_EXPERIMENTAL_PROVIDER=docker")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 10 * time.Second
	return cmd
}
