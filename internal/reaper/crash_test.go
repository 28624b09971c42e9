package reaper_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/testbed-janitor/janitor/internal/inventory"
)

var errCrashed = errors.New("crashed")

// crash makes every call to memory and world from the nth on fail without
// effect, which for what is stored and what stands is what a crash before that
// call is. The call of that number, and those that had effects, are counted.
type crash struct {
	mu    sync.Mutex
	calls int
	at    int
	trace []string
}

func (c *crash) call(op string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls++
	if c.calls >= c.at {
		return errCrashed
	}
	c.trace = append(c.trace, op)
	return nil
}

// A reap that a crash cut short anywhere is resumed with the containers that
// were captured and no others; its row is never lost.
func TestACrashBetweenAnyTwoStepsIsResumed(t *testing.T) {
	const before = 1 << 30
	steps := crashed(t, before, false)
	for _, want := range []string{"change", "remove", "look", "forget", "volumes", "standing"} {
		if !slices.Contains(steps, want) {
			t.Fatalf("the whole reap has the steps %v, without %s", steps, want)
		}
	}
	for n := range len(steps) + 1 {
		for _, again := range []bool{false, true} {
			t.Run(fmt.Sprintf("before step %d, new cluster %v", n+1, again), func(t *testing.T) { crashed(t, n+1, again) })
		}
	}
}

// crashed releases a cluster, crashes its removal before the nth call, lets a
// new cluster of the name appear if again, and restarts. It returns the calls.
func crashed(t *testing.T, n int, again bool) (steps []string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		stop := b.run()
		row := b.register("a", "alice")
		b.world.create("a", server, "a1", "a2")
		entry := inventory.SeenContext{File: "/home/alice/config", Name: "a", Server: server}
		b.world.edit(func(w *fakeWorld) { w.contexts = []inventory.SeenContext{entry} })
		b.pass()
		b.release(row)

		c := &crash{at: n}
		b.mem.set(func(op, _ string) error { return c.call(op) })
		b.world.set(func(_ context.Context, op string, _ []string) error { return c.call(op) })
		b.pass()
		stop()
		b.mem.set(nil)
		b.world.set(nil)
		steps = c.trace

		removing := b.mem.row("a") != nil && b.mem.row("a").State == inventory.Reaping
		if again {
			// Somebody makes the cluster anew, on the same fixed port, while the
			// service is down.
			time.Sleep(2 * time.Second)
			b.world.create("a", server, "new1", "new2")
			b.world.edit(func(w *fakeWorld) { w.contexts = []inventory.SeenContext{entry} })
		}
		b.renew()
		defer b.run()()
		time.Sleep(5 * time.Minute)
		synctest.Wait()

		var left []string
		if again {
			left = []string{"new1", "new2"}
		}
		same(t, "standing after the restart", b.world.stands(), left)
		same(t, "removed", slices.Clone(b.world.removed), []string{"a1", "a2"})
		if got := len(b.world.contexts) == 1; got != again {
			t.Errorf("kubeconfig entries: %v, with a new cluster there: %v", b.world.contexts, again)
		}
		for _, v := range []string{"vol-a1", "vol-a2"} {
			if b.world.volumes[v] {
				t.Errorf("volume %s is left", v)
			}
		}
		if len(b.mem.closed) != 1 || b.mem.closed[0].Lease != row.Lease || b.mem.closed[0].CloseReason != inventory.LetGo {
			t.Errorf("closed rows: %+v (was reaping: %v)", b.mem.closed, removing)
		}
		if open := b.mem.row("a"); (open != nil) != again || open != nil && open.Origin != inventory.Found {
			t.Errorf("open row: %+v", open)
		}
	})
	return steps
}

func TestShutdownLetsTheStepsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		stop := b.run()
		entry := inventory.SeenContext{File: "/home/alice/config", Name: "c0", Server: "https://127.0.0.1:1"}
		b.world.edit(func(w *fakeWorld) { w.contexts = []inventory.SeenContext{entry} })
		rows := make([]inventory.Cluster, 6)
		for i := range rows {
			rows[i] = b.register(fmt.Sprintf("c%d", i), "alice")
			b.world.create(fmt.Sprintf("c%d", i), fmt.Sprintf("https://127.0.0.1:%d", i+1), fmt.Sprintf("id%d", i))
		}
		b.pass()
		for _, r := range rows {
			b.release(r)
		}
		b.world.set(func(ctx context.Context, op string, _ []string) error {
			if op != "remove" {
				return ctx.Err()
			}
			select {
			case <-time.After(30 * time.Second):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		b.loop.Poke()
		time.Sleep(10 * time.Second) // four are being removed
		began := time.Now()
		stop()
		if took := time.Since(began); took < 15*time.Second || took > time.Minute {
			t.Errorf("stopping took %s, want the rest of one removal", took)
		}
		if n := len(b.mem.closed); n != 4 {
			t.Errorf("%d rows closed, want those 4 that had begun", n)
		}
		if len(b.world.contexts) != 0 {
			t.Errorf("kubeconfig entries left: %v", b.world.contexts)
		}
		if n := len(b.world.stands()); n != 2 {
			t.Errorf("%d containers stand, want 2", n)
		}
		for _, c := range b.mem.recs.Clusters {
			if c.State != inventory.Released {
				t.Errorf("%s is %s, want released as before", c.Name, c.State)
			}
		}
	})
}

func TestShutdownCutsALookShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		row := b.register("a", "alice")
		b.world.create("a", server, "a1")
		stop := b.run()
		b.pass()
		b.release(row)
		known := fmt.Sprintf("%+v", b.mem.snapshot())
		b.world.set(hang("observe"))
		b.loop.Poke()
		time.Sleep(time.Second)
		began := time.Now()
		stop()
		if took := time.Since(began); took > time.Second {
			t.Errorf("stopping took %s", took)
		}
		if got := fmt.Sprintf("%+v", b.mem.snapshot()); got != known {
			t.Errorf("half a look was stored:\n%s\n%s", known, got)
		}
		same(t, "standing", b.world.stands(), []string{"a1"})
	})
}
