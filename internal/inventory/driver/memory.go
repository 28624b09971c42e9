// Package driver plays random histories of a testbed against the real rules
// of package inventory, and checks after each step that no harm was done. The
// truth it checks against is kept apart from the records. It is for tests, and
// never part of the program: the records may lie in a map here or in the real
// store.
package driver

import (
	"context"
	"fmt"
	"slices"

	"github.com/testbed-janitor/janitor/internal/inventory"
)

// Memory is what a pass and the lease rules need of a store.
type Memory interface {
	Records(ctx context.Context) (inventory.Records, error)
	SaveSight(ctx context.Context, before, after inventory.Records) error
	Change(ctx context.Context, name, lease string, rule func(inventory.Records) (inventory.Change, error)) (inventory.Change, error)
}

// Map is a Memory without a disk. The zero value is not ready: see [NewMap].
type Map struct {
	Recs   inventory.Records // Begun is computed
	Closed []inventory.Cluster
	Events []inventory.Event
	lastID int64
}

// NewMap returns the memory of an inventory that is born now.
func NewMap(now inventory.Stamp) *Map {
	return &Map{Recs: inventory.Records{Birth: now, HeardFrom: now.At}}
}

// Restart notes that owners could not be heard until now.
func (m *Map) Restart(now inventory.Stamp) { m.Recs.HeardFrom = now.At }

// Records returns a copy of what is known.
func (m *Map) Records(context.Context) (inventory.Records, error) {
	r := m.Recs
	r.Clusters = slices.Clone(r.Clusters)
	r.Containers = slices.Clone(r.Containers)
	r.Contexts = slices.Clone(r.Contexts)
	r.Begun = nil
	for _, rows := range [][]inventory.Cluster{m.Recs.Clusters, m.Closed} {
		for _, c := range rows {
			if c.ReapReason == inventory.Orphan && c.ReapBy == "" && !c.Began.IsZero() {
				r.Begun = append(r.Begun, c.Began.At)
			}
		}
	}
	return r, nil
}

// SaveSight stores what a pass saw of rows that have not changed since before.
// If the first sighting of a container was left out for that, the list does not
// count as the last one: a wall clock that moved before it has then moved also
// for the next list, which will be the first to show the container.
func (m *Map) SaveSight(_ context.Context, before, after inventory.Records) error {
	changed := map[string]bool{}
	was := map[int64]int64{}
	known := map[string]bool{} // names that had a live row
	for _, c := range before.Clusters {
		was[c.ID], known[c.Name] = c.Version, true
	}
	for _, c := range m.Recs.Clusters {
		if v, ok := was[c.ID]; !ok || v != c.Version {
			changed[c.Name] = true
		}
	}
	for name := range known {
		if m.live(name) < 0 {
			changed[name] = true
		}
	}
	for _, c := range after.Clusters {
		i := m.live(c.Name)
		switch {
		case changed[c.Name]:
		case c.ID == 0 && i < 0:
			m.insert(&c)
		case c.ID != 0 && i >= 0 && m.Recs.Clusters[i].ID == c.ID:
			m.Recs.Clusters[i] = c
		}
	}
	complete := true
	for _, k := range after.Containers {
		switch {
		case !changed[k.Cluster]:
			m.putContainer(k)
		case k.First == after.LastList:
			complete = false
		}
	}
	m.Recs.Contexts = slices.Clone(after.Contexts)
	m.Recs.HeardFrom = max(m.Recs.HeardFrom, after.HeardFrom)
	m.Recs.LastPass, m.Recs.LastLook = after.LastPass, after.LastLook
	if complete {
		m.Recs.LastList = after.LastList
	}
	return nil
}

// Change runs a rule on one name's rows and stores what it gives.
func (m *Map) Change(ctx context.Context, name, lease string, rule func(inventory.Records) (inventory.Change, error)) (inventory.Change, error) {
	r, _ := m.Records(ctx)
	r.Clusters = slices.DeleteFunc(r.Clusters, func(c inventory.Cluster) bool { return c.Name != name })
	for _, c := range m.Closed {
		if lease != "" && c.Lease == lease {
			r.Clusters = append(r.Clusters, c)
		}
	}
	r.Containers = slices.DeleteFunc(r.Containers, func(k inventory.Container) bool { return k.Cluster != name })
	change, err := rule(r)
	if err != nil {
		return change, err
	}
	for i := range change.Rows {
		row := &change.Rows[i]
		if row.ID == 0 {
			m.insert(row)
			if change.Cluster.Lease == row.Lease {
				change.Cluster.ID = row.ID
			}
			continue
		}
		j := slices.IndexFunc(m.Recs.Clusters, func(c inventory.Cluster) bool { return c.ID == row.ID })
		if j < 0 {
			return change, fmt.Errorf("a rule changed row %d of %q, which is not open", row.ID, name)
		}
		if row.State == inventory.Closed {
			m.Recs.Clusters = slices.Delete(m.Recs.Clusters, j, j+1)
			m.Closed = append(m.Closed, *row)
		} else {
			m.Recs.Clusters[j] = *row
		}
	}
	for _, k := range change.Containers {
		m.putContainer(k)
	}
	m.Events = append(m.Events, change.Events...)
	return change, nil
}

// Row returns the open row of a name, or the last closed one, or nil.
func (m *Map) Row(name string) *inventory.Cluster {
	if i := m.live(name); i >= 0 {
		return &m.Recs.Clusters[i]
	}
	for i := len(m.Closed) - 1; i >= 0; i-- {
		if m.Closed[i].Name == name {
			return &m.Closed[i]
		}
	}
	return nil
}

func (m *Map) live(name string) int {
	return slices.IndexFunc(m.Recs.Clusters, func(c inventory.Cluster) bool { return c.Name == name })
}

func (m *Map) insert(row *inventory.Cluster) {
	if m.live(row.Name) >= 0 {
		panic("two open rows of " + row.Name)
	}
	m.lastID++
	row.ID = m.lastID
	m.Recs.Clusters = append(m.Recs.Clusters, *row)
}

func (m *Map) putContainer(k inventory.Container) {
	i := slices.IndexFunc(m.Recs.Containers, func(o inventory.Container) bool { return o.ID == k.ID })
	if i < 0 {
		m.Recs.Containers = append(m.Recs.Containers, k)
		return
	}
	m.Recs.Containers[i] = k
}
