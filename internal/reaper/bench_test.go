package reaper_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/testbed-janitor/janitor/internal/inventory"
	"github.com/testbed-janitor/janitor/internal/reaper"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// minutely fires on each full minute of the wall clock.
type minutely struct{}

func (minutely) Next(t time.Time) time.Time { return t.Truncate(time.Minute).Add(time.Minute) }

// tester is what *testing.T and *rapid.T have in common.
type tester interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
	Context() context.Context
}

// bench is a loop over a fake world and memory, in a bubble's time.
type bench struct {
	t        tester
	mem      *fakeMemory
	world    *fakeWorld
	policy   inventory.Policy
	schedule reaper.Schedule
	start    time.Time
	loop     *reaper.Loop
	timeout  time.Duration

	mu       sync.Mutex
	wallStep time.Duration
	progress int
}

func newBench(t tester) *bench {
	b := &bench{t: t, world: newWorld(), policy: inventory.Defaults(), schedule: minutely{}, start: time.Now(), timeout: 2 * time.Minute}
	b.mem = &fakeMemory{}
	b.mem.recs.Birth = b.now()
	b.mem.recs.HeardFrom = b.now().At
	b.renew()
	return b
}

// renew makes the loop anew, as after a restart.
func (b *bench) renew() {
	b.loop = reaper.New(b.mem, b.world, reaper.Options{
		Policy: func() inventory.Policy { return b.policy }, Schedule: b.schedule, Clock: b.now,
		Workers: 4, Timeout: b.timeout,
		Progress: func() { b.mu.Lock(); b.progress++; b.mu.Unlock() },
	})
}

func (b *bench) now() inventory.Stamp {
	b.mu.Lock()
	defer b.mu.Unlock()
	return inventory.Stamp{
		At:   inventory.Instant(time.Hour + time.Since(b.start)),
		Wall: time.Now().Add(b.wallStep).UTC().Round(0),
	}
}

func (b *bench) step(d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.wallStep += d
}

func (b *bench) progressed() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.progress
}

// run starts the loop; the returned function stops it and waits.
func (b *bench) run() (stop func()) {
	ctx, cancel := context.WithCancel(b.t.Context())
	done := make(chan error, 1)
	loop := b.loop
	go func() { done <- loop.Run(ctx) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			b.t.Errorf("Run: %v", err)
		}
	}
}

func (b *bench) pass() reaper.Report {
	b.t.Helper()
	r, err := b.loop.Pass(b.t.Context())
	if err != nil {
		b.t.Fatalf("Pass: %v", err)
	}
	return r
}

// register takes a lease for an owner whose kubeconfig is /home/OWNER/config.
func (b *bench) register(name, owner string) inventory.Cluster {
	b.t.Helper()
	c, err := b.mem.Change(b.t.Context(), name, "", func(recs inventory.Records) (inventory.Change, error) {
		return inventory.Register(b.policy, recs, inventory.Registration{
			Name: name, Owner: owner, NewLease: "lease-" + name + "-" + owner, Kubeconfig: "/home/" + owner + "/config",
			Caller: inventory.Caller{UID: 1000}, Boot: "boot-1",
		}, b.now())
	})
	if err != nil {
		b.t.Fatalf("register %s: %v", name, err)
	}
	return c.Cluster
}

func (b *bench) release(row inventory.Cluster) {
	b.t.Helper()
	_, err := b.mem.Change(b.t.Context(), row.Name, row.Lease, func(recs inventory.Records) (inventory.Change, error) {
		return inventory.Release(b.policy, recs, row.Name, inventory.Claim{Lease: row.Lease, Caller: inventory.Caller{UID: 1000}}, b.now())
	})
	if err != nil {
		b.t.Fatalf("release %s: %v", row.Name, err)
	}
}

func equal[T any](t *testing.T, what string, got, want T, same func(a, b T) bool) {
	t.Helper()
	if !same(got, want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func same(t *testing.T, what string, got, want []string) {
	t.Helper()
	slices.Sort(got)
	equal(t, what, got, want, slices.Equal)
}
