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

	"pgregory.net/rapid"

	"github.com/testbed-janitor/janitor/internal/inventory"
)

// machine is a testbed on which jobs come and go, the engine fails and the
// service crashes, with what is true about it: who made which container.
type machine struct {
	*bench
	stop   func()
	truth  sync.Mutex        // of what follows
	made   map[string]string // container: the lease under which it was made
	leases map[string]*tenancy
	ids    int
	blind  bool
}

// tenancy is a lease as its holder knows it.
type tenancy struct {
	row      inventory.Cluster
	until    inventory.Instant
	released bool
}

func (m *machine) good(lease string) bool {
	m.truth.Lock()
	defer m.truth.Unlock()
	return m.valid(lease)
}

func (m *machine) valid(lease string) bool {
	l := m.leases[lease]
	return l != nil && !l.released && m.now().At < l.until
}

// removing checks each removal against the truth, at the moment it happens.
func (m *machine) removing(ids []string) {
	for _, id := range ids {
		m.world.mu.Lock()
		c, stands := m.world.containers[id]
		m.world.mu.Unlock()
		if !stands {
			continue
		}
		row := m.mem.row(c.Cluster)
		m.truth.Lock()
		made := m.made[id]
		m.truth.Unlock()
		switch {
		case row == nil || row.State != inventory.Reaping || !slices.Contains(row.Captured, id):
			m.t.Errorf("%s of %s is removed without a stored intent: %+v", id, c.Cluster, row)
		case m.good(made):
			m.t.Errorf("%s of %s is removed under the valid lease %s, for %s", id, c.Cluster, made, row.ReapReason)
		case row.Lease != "" && made != row.Lease:
			m.t.Errorf("%s of %s, made under %q, is removed for lease %q", id, c.Cluster, made, row.Lease)
		case row.Hold != nil && m.now().At < row.Hold.Until:
			m.t.Errorf("%s of %s is removed under a hold", id, c.Cluster)
		}
	}
}

// listen puts the checks, and the faults there are now, into every call.
func (m *machine) listen(c *crash) {
	blind := m.blind
	m.world.set(func(_ context.Context, op string, ids []string) error {
		if c != nil {
			if err := c.call(op); err != nil {
				return err
			}
		}
		if op == "remove" {
			m.removing(ids)
		}
		if op == "observe" && blind {
			return errors.New("no answer")
		}
		return nil
	})
	m.mem.set(func(op, _ string) error {
		if c != nil {
			return c.call(op)
		}
		return nil
	})
}

// tenant is the lease on a name as its holder, who may be wrong, believes.
func (m *machine) tenant(name string) *tenancy {
	m.truth.Lock()
	defer m.truth.Unlock()
	for _, l := range m.leases {
		if l.row.Name == name && m.valid(l.row.Lease) {
			return l
		}
	}
	return nil
}

func (m *machine) create(name string, n int) {
	lease := ""
	if l := m.tenant(name); l != nil {
		lease = l.row.Lease
	}
	ids := make([]string, n)
	for i := range ids {
		m.ids++
		ids[i] = fmt.Sprintf("id%04d", m.ids)
		m.truth.Lock()
		m.made[ids[i]] = lease
		m.truth.Unlock()
	}
	m.world.create(name, "https://127.0.0.1:6443", ids...)
}

func (m *machine) step(t *rapid.T) {
	name := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "name")
	switch op := rapid.SampledFrom([]string{"register", "create", "create", "grow", "delete", "release", "hold", "wait", "wait", "long", "stubborn", "blind", "crash", "poke"}).Draw(t, "op"); op {
	case "register":
		m.ids++
		lease := fmt.Sprintf("lease%04d", m.ids)
		c, err := m.mem.Change(m.t.Context(), name, "", func(recs inventory.Records) (inventory.Change, error) {
			return inventory.Register(m.policy, recs, inventory.Registration{
				Name: name, Owner: lease, NewLease: lease, Kubeconfig: "/f", Caller: inventory.Caller{UID: 1000}, Boot: "boot-1",
				TTL: time.Duration(rapid.IntRange(1, 120).Draw(t, "minutes")) * time.Minute,
			}, m.now())
		})
		if err == nil {
			old := m.tenant(name)
			m.truth.Lock()
			if old != nil {
				old.released = true // it was idle, and the name has yielded
			}
			m.leases[lease] = &tenancy{row: c.Cluster, until: c.Cluster.Expires}
			m.truth.Unlock()
		}
	case "create": // kind refuses while anything of the name stands
		if standing, _ := m.world.Look(context.Background(), name); len(standing) == 0 {
			m.create(name, rapid.IntRange(1, 3).Draw(t, "nodes"))
		}
	case "grow":
		m.create(name, 1)
	case "delete":
		m.world.edit(func(w *fakeWorld) {
			for id, c := range w.containers {
				if c.Cluster == name {
					delete(w.containers, id)
				}
			}
		})
	case "release":
		if l := m.tenant(name); l != nil {
			m.truth.Lock()
			l.released = true
			m.truth.Unlock()
			m.release(l.row)
			m.loop.Poke()
		}
	case "hold":
		_, _ = m.mem.Change(m.t.Context(), name, "", func(recs inventory.Records) (inventory.Change, error) { // may be refused
			return inventory.SetHold(recs, name, inventory.Hold{Until: m.now().At.Add(20 * time.Minute), Reason: "look"}, inventory.Caller{}, m.now())
		})
	case "wait":
		time.Sleep(time.Duration(rapid.IntRange(1, 150).Draw(t, "seconds")) * time.Second)
	case "long":
		time.Sleep(time.Duration(rapid.IntRange(1, 90).Draw(t, "minutes")) * time.Minute)
	case "stubborn":
		m.world.edit(func(w *fakeWorld) {
			for id, c := range w.containers {
				if c.Cluster == name {
					w.stubborn[id] = errors.New("busy")
				}
			}
		})
	case "blind":
		m.blind = !m.blind
		m.listen(nil)
	case "crash":
		m.listen(&crash{at: rapid.IntRange(1, 12).Draw(t, "at")})
		m.pass()
		m.stop()
		m.listen(nil)
		m.renew()
		m.stop = m.run()
	case "poke":
		m.loop.Poke()
	}
}

// Whatever jobs, the engine and the service do: nothing is removed without a
// stored intent, under a valid lease, under a hold or for another's lease; and
// once all faults are over and all leases and graces too, nothing is left.
func TestNothingIsRemovedThatMustNotBeAndAllElseIs(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var stopped any // by a panic, which is how rapid ends a run early
		synctest.Test(t, func(t *testing.T) {
			defer func() { stopped = recover() }()
			play(rt, bubble{rt, t})
		})
		if stopped != nil {
			panic(stopped)
		}
	})
}

// bubble reports to rapid, and has the context of the bubble it runs in.
type bubble struct {
	*rapid.T
	in *testing.T
}

func (b bubble) Context() context.Context { return b.in.Context() }

func play(t *rapid.T, in bubble) {
	m := &machine{bench: newBench(in), made: map[string]string{}, leases: map[string]*tenancy{}}
	m.policy.MaxTTL, m.policy.OrphanGrace = 3*time.Hour, 30*time.Minute
	m.listen(nil)
	m.stop = m.run()
	defer func() { m.stop() }()
	synctest.Wait()
	for range rapid.IntRange(1, 25).Draw(t, "steps") {
		time.Sleep(1100 * time.Millisecond) // the engine tells whole seconds only
		synctest.Wait()
		m.step(t)
		synctest.Wait()
	}
	m.blind = false
	m.listen(nil)
	m.world.edit(func(w *fakeWorld) { clear(w.stubborn) })
	time.Sleep(8 * time.Hour)
	synctest.Wait()
	if left := m.world.stands(); len(left) > 0 {
		t.Errorf("left for ever: %v, rows %+v", left, m.mem.recs.Clusters)
	}
	if n := len(m.mem.recs.Clusters); n > 0 {
		t.Errorf("%d rows are open for ever: %+v", n, m.mem.recs.Clusters)
	}
}
