package reaper_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/testbed-janitor/janitor/internal/inventory"
	"github.com/testbed-janitor/janitor/internal/reaper"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeWorld is a testbed in memory: containers by ID, kubeconfig entries and
// volumes. It has no processes, networks, images or file locks, gives no
// evidence of its own, and its lists are never inconsistent. at is called at
// the beginning of each call and may hang, change things or fail it.
type fakeWorld struct {
	mu         sync.Mutex
	containers map[string]inventory.Seen
	stubborn   map[string]error // cannot be removed
	contexts   []inventory.SeenContext
	volumes    map[string]bool
	evidence   map[string][]inventory.Evidence
	removed    []string
	asked      []string // to forget: file, name, server, uid of the job that named the file
	observed   int
	at         func(ctx context.Context, op string, ids []string) error
}

func newWorld() *fakeWorld {
	return &fakeWorld{containers: map[string]inventory.Seen{}, stubborn: map[string]error{}, volumes: map[string]bool{}}
}

func (w *fakeWorld) enter(ctx context.Context, op string, ids []string) error {
	w.mu.Lock()
	at := w.at
	w.mu.Unlock()
	if at != nil {
		return at(ctx, op, ids)
	}
	return nil
}

func (w *fakeWorld) Observe(ctx context.Context, _ inventory.Records) inventory.Observation {
	err := w.enter(ctx, "observe", nil)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.observed++
	o := inventory.Observation{Boot: "boot-1", Interval: time.Minute, Evidence: w.evidence}
	if err != nil {
		o.Blind = err.Error()
		return o
	}
	for _, id := range slices.Sorted(maps.Keys(w.containers)) {
		o.Containers = append(o.Containers, w.containers[id])
	}
	for _, c := range w.contexts {
		listening := slices.ContainsFunc(o.Containers, func(s inventory.Seen) bool {
			return s.State == "running" && slices.Contains(s.Servers, c.Server)
		})
		c.Listening = &listening
		o.Contexts = append(o.Contexts, c)
	}
	return o
}

func (w *fakeWorld) Look(ctx context.Context, name string) ([]inventory.Seen, error) {
	if err := w.enter(ctx, "look", []string{name}); err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []inventory.Seen
	for _, id := range slices.Sorted(maps.Keys(w.containers)) {
		if c := w.containers[id]; c.Cluster == name {
			out = append(out, c)
		}
	}
	return out, nil
}

func (w *fakeWorld) Remove(ctx context.Context, ids []string) error {
	if err := w.enter(ctx, "remove", ids); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	var failed error
	for _, id := range ids {
		if err := w.stubborn[id]; err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		if _, ok := w.containers[id]; ok {
			delete(w.containers, id)
			w.removed = append(w.removed, id)
		}
	}
	return failed
}

func (w *fakeWorld) Standing(ctx context.Context, ids []string) ([]string, error) {
	if err := w.enter(ctx, "standing", ids); err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(ids), func(id string) bool { _, ok := w.containers[id]; return !ok }), nil
}

func (w *fakeWorld) RemoveVolumes(ctx context.Context, names []string) error {
	if err := w.enter(ctx, "volumes", names); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, n := range names {
		delete(w.volumes, n)
	}
	return nil
}

func (w *fakeWorld) Forget(ctx context.Context, entries []inventory.SeenContext, uidOf func(string) (uint32, bool)) ([]inventory.SeenContext, error) {
	if err := w.enter(ctx, "forget", nil); err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	var gone []inventory.SeenContext
	for _, e := range entries {
		uid, named := uidOf(e.File)
		w.asked = append(w.asked, fmt.Sprintf("%s %s %s %d %v", e.File, e.Name, e.Server, uid, named))
		if i := slices.Index(w.contexts, e); i >= 0 {
			gone = append(gone, e)
			w.contexts = slices.Delete(w.contexts, i, i+1)
		}
	}
	return gone, nil
}

// create makes the containers of a kind cluster: ids[0] is its control plane.
func (w *fakeWorld) create(name, server string, ids ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, id := range ids {
		c := inventory.Seen{ID: id, Cluster: name, Name: name + "-" + id, Role: "worker", State: "running",
			Created: time.Now().Truncate(time.Second), Volumes: []string{"vol-" + id}}
		if i == 0 {
			c.Role, c.Servers = "control-plane", []string{server}
		}
		w.containers[id] = c
		w.volumes["vol-"+id] = true
	}
}

func (w *fakeWorld) set(at func(ctx context.Context, op string, ids []string) error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.at = at
}

func (w *fakeWorld) edit(f func(w *fakeWorld)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f(w)
}

func (w *fakeWorld) stands() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Sorted(maps.Keys(w.containers))
}

// fakeMemory keeps the inventory in memory by the rules of the store: a
// sighting of a row that has changed is left out, a change is atomic. It does
// not survive a process, locks nothing against others and forgets nothing.
type fakeMemory struct {
	mu     sync.Mutex
	recs   inventory.Records
	closed []inventory.Cluster
	events []inventory.Event
	ids    int64
	at     func(op, name string) error // called at the beginning of each call, without the lock
}

func (m *fakeMemory) enter(ctx context.Context, op, name string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	at := m.at
	m.mu.Unlock()
	if at != nil {
		return at(op, name)
	}
	return nil
}

func (m *fakeMemory) set(at func(op, name string) error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.at = at
}

func (m *fakeMemory) snapshot() inventory.Records {
	r := m.recs
	r.Clusters, r.Containers, r.Contexts = slices.Clone(r.Clusters), slices.Clone(r.Containers), slices.Clone(r.Contexts)
	for _, c := range slices.Concat(r.Clusters, m.closed) {
		if c.ReapReason == inventory.Orphan && c.ReapBy == "" && !c.Began.IsZero() {
			r.Begun = append(r.Begun, c.Began.At)
		}
	}
	return r
}

func (m *fakeMemory) Records(ctx context.Context) (inventory.Records, error) {
	if err := m.enter(ctx, "records", ""); err != nil {
		return inventory.Records{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.snapshot(), nil
}

func (m *fakeMemory) SaveSight(ctx context.Context, before, after inventory.Records) error {
	if err := m.enter(ctx, "sight", ""); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	version := map[string]int64{}
	for _, c := range before.Clusters {
		version[c.Name] = c.Version
	}
	changed := map[string]bool{}
	for _, c := range m.recs.Clusters {
		changed[c.Name] = c.Version != version[c.Name]
	}
	for name := range version {
		if !slices.ContainsFunc(m.recs.Clusters, func(c inventory.Cluster) bool { return c.Name == name }) {
			changed[name] = true
		}
	}
	for _, c := range after.Clusters {
		i := slices.IndexFunc(m.recs.Clusters, func(k inventory.Cluster) bool { return k.Name == c.Name })
		switch {
		case changed[c.Name]:
		case i >= 0:
			m.recs.Clusters[i] = c
		default:
			m.ids++
			c.ID = m.ids
			m.recs.Clusters = append(m.recs.Clusters, c)
		}
	}
	for _, c := range after.Containers {
		i := slices.IndexFunc(m.recs.Containers, func(k inventory.Container) bool { return k.ID == c.ID })
		switch {
		case changed[c.Cluster]:
		case i >= 0:
			m.recs.Containers[i] = c
		default:
			m.recs.Containers = append(m.recs.Containers, c)
		}
	}
	if !slices.Equal(before.Contexts, after.Contexts) {
		m.recs.Contexts = after.Contexts
	}
	m.recs.HeardFrom, m.recs.LastPass, m.recs.LastList, m.recs.LastLook = after.HeardFrom, after.LastPass, after.LastList, after.LastLook
	return nil
}

func (m *fakeMemory) Change(ctx context.Context, name, _ string, rule func(inventory.Records) (inventory.Change, error)) (inventory.Change, error) {
	if err := m.enter(ctx, "change", name); err != nil {
		return inventory.Change{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	recs := m.snapshot()
	recs.Clusters = slices.DeleteFunc(recs.Clusters, func(c inventory.Cluster) bool { return c.Name != name })
	recs.Containers = slices.DeleteFunc(recs.Containers, func(c inventory.Container) bool { return c.Cluster != name })
	c, err := rule(recs)
	if err != nil {
		return c, err
	}
	for _, row := range c.Rows {
		m.recs.Clusters = slices.DeleteFunc(m.recs.Clusters, func(k inventory.Cluster) bool { return k.ID == row.ID })
		if row.ID == 0 {
			m.ids++
			row.ID = m.ids
		}
		if row.State == inventory.Closed {
			m.closed = append(m.closed, row)
		} else {
			m.recs.Clusters = append(m.recs.Clusters, row)
		}
		if c.Cluster.Lease == row.Lease {
			c.Cluster.ID = row.ID
		}
	}
	for _, k := range c.Containers {
		m.recs.Containers = slices.DeleteFunc(m.recs.Containers, func(o inventory.Container) bool { return o.ID == k.ID })
		m.recs.Containers = append(m.recs.Containers, k)
	}
	m.events = append(m.events, c.Events...)
	return c, nil
}

func (m *fakeMemory) Log(ctx context.Context, events []inventory.Event) error {
	if err := m.enter(ctx, "log", ""); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.events = append(m.events, events...)
	return nil
}

func (m *fakeMemory) row(name string) *inventory.Cluster {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range m.recs.Clusters {
		if c.Name == name {
			return &c
		}
	}
	return nil
}

func (m *fakeMemory) kinds(kind string) []inventory.Event {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(m.events), func(e inventory.Event) bool { return e.Kind != kind })
}

// minutely fires on each full minute of the wall clock.
type minutely struct{}

func (minutely) Next(t time.Time) time.Time { return t.Truncate(time.Minute).Add(time.Minute) }

// bench is a loop over a fake world and memory, in a bubble's time.
type bench struct {
	t        *testing.T
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

func newBench(t *testing.T) *bench {
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
