package reaper_test

import (
	"context"
	"slices"
	"sync"

	"github.com/testbed-janitor/janitor/internal/inventory"
)

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
