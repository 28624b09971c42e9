package testbed

import (
	"context"
	"testing"
	"time"
)

// TestPrivate does to an engine of its own what the tests of the janitor will:
// freeze it, kill it, start it again with a kind cluster in it.
func TestPrivate(t *testing.T) {
	e, ctx := Private(t), deadline(t)
	k := e.Kind(t)
	if err := k.Create(ctx, "kind", CreateOptions{}); err != nil { // any name is allowed here
		t.Fatal(err)
	}
	before, err := e.Nodes(ctx, "kind")
	if err != nil || len(before) != 1 {
		t.Fatalf("nodes: %v, %v", before, err)
	}

	e.Freeze(t)
	short, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
	defer cancel()
	if ids, err := e.Nodes(short, "kind"); err == nil {
		t.Errorf("a frozen engine answers: %v", ids)
	}
	e.Thaw(t)
	if ids, err := e.Nodes(ctx, "kind"); err != nil || len(ids) != 1 {
		t.Errorf("after the thaw: %v, %v", ids, err)
	}

	e.Kill(t)
	if ids, err := e.Nodes(ctx, "kind"); err == nil {
		t.Errorf("a killed engine answers: %v", ids)
	}
	e.Start(t)
	// The node comes back by its restart policy, as the same container.
	for {
		state := e.Run(t, "inspect", "--format", "{{.State.Status}}", before[0])
		if state == "running" {
			break
		}
		select {
		case <-ctx.Done():
			t.Fatalf("the node is %s after the restart of the engine", state)
		case <-time.After(50 * time.Millisecond):
		}
	}
}
