package testbed

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// The two labels kind gives its node containers, and the roles it knows.
const (
	LabelCluster = "io.x-k8s.kind.cluster"
	LabelRole    = "io.x-k8s.kind.role"

	RoleControlPlane = "control-plane"
	RoleWorker       = "worker"
	RoleLoadBalancer = "external-load-balancer"
)

var (
	prefix = sync.OnceValue(func() string {
		b := make([]byte, 4)
		rand.Read(b) // never fails: see crypto/rand
		return "jt-" + hex.EncodeToString(b) + "-"
	})
	names atomic.Int64
)

// Name returns a cluster name that no other test and no other process uses:
// at most 20 bytes, so that suffixes ("-2", ".b") fit into kind's limits.
func Name(t testing.TB) string {
	t.Helper()
	return prefix() + strconv.FormatInt(names.Add(1), 10)
}

// claim promises to remove the cluster when the test ends, and refuses names
// that may be somebody's own unless the engine is private. It looks again after
// settle for what the engine was still making.
func (d *Docker) claim(t testing.TB, cluster string, settle time.Duration) {
	t.Helper()
	if !d.private && !strings.HasPrefix(cluster, prefix()) {
		t.Fatalf("the cluster name %q is not from Name(t): on an engine that may be somebody's own, only such names are made and removed", cluster)
	}
	if d.private {
		return // it goes as a whole, and may be frozen or gone by then
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), step)
		defer cancel()
		err := d.Remove(ctx, cluster)
		if settle > 0 && err == nil {
			time.Sleep(settle)
			err = d.Remove(ctx, cluster)
		}
		if err != nil {
			t.Errorf("clean up: %v", err)
		}
	})
}

// Nodes lists the full IDs of the cluster's containers in any state, newest
// first.
func (d *Docker) Nodes(ctx context.Context, cluster string) ([]string, error) {
	out, err := d.Output(ctx, "ps", "--all", "--quiet", "--no-trunc", "--filter", "label="+LabelCluster+"="+cluster)
	return strings.Fields(out), err
}

// Remove removes every container with exactly this cluster label, paused ones
// too, with their anonymous volumes, and returns when none is left.
func (d *Docker) Remove(ctx context.Context, cluster string) error {
	for {
		ids, err := d.Nodes(ctx, cluster)
		if err != nil || len(ids) == 0 {
			return err
		}
		_, rmErr := d.Output(ctx, append([]string{"rm", "--force", "--volumes"}, ids...)...)
		select {
		case <-ctx.Done():
			return fmt.Errorf("containers %v of cluster %q are still there: %w (%w)", ids, cluster, ctx.Err(), rmErr)
		case <-time.After(100 * time.Millisecond): // "removal already in progress" passes
		}
	}
}

// PlainContainer starts a container that carries kind's labels and looks like
// a node (stand-in image, anonymous /var volume, on-failure:1) but needs no
// privileges, and returns its full ID. It is named as kind would name it:
// CLUSTER-ROLE, then CLUSTER-ROLE2 and so on. Options for "docker run" may be
// added ("--network=bridge", "--publish=127.0.0.1::6443"); without a --network
// it has none.
func (d *Docker) PlainContainer(t testing.TB, cluster, role string, options ...string) string {
	t.Helper()
	d.claim(t, cluster, 0)
	args := []string{
		"run", "--detach", "--label", LabelCluster + "=" + cluster, "--label", LabelRole + "=" + role,
		"--volume", "/var", "--restart", "on-failure:1",
	}
	network := "--network=none"
	for _, o := range options {
		if strings.HasPrefix(o, "--network") || strings.HasPrefix(o, "--net=") {
			network = ""
		}
	}
	if network != "" {
		args = append(args, network)
	}
	args = append(args, options...)
	ctx, cancel := context.WithTimeout(context.Background(), step)
	defer cancel()
	for i := 1; ; i++ {
		name := cluster + "-" + role
		if i > 1 {
			name += strconv.Itoa(i)
		}
		id, err := d.Output(ctx, append(args[:len(args):len(args)], "--name", name, d.image)...)
		switch {
		case err == nil:
			return id
		case !strings.Contains(err.Error(), "is already in use by container"):
			t.Fatal(err)
		}
	}
}
