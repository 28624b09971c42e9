package api

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/testbed-janitor/janitor/internal/inventory"
	"github.com/testbed-janitor/janitor/internal/inventory/driver"
)

func TestMain(m *testing.M) {
	childMain() // ends the process if this is a child of a test
	goleak.VerifyTestMain(m)
}

// memory is a Store without a disk, whose rows obey the real rules.
type memory struct {
	mu      sync.Mutex
	m       *driver.Map
	changed chan struct{}
	plans   map[string]savedPlan
	broken  error // what every access answers
	writes  int   // calls of Change
}

type savedPlan struct {
	at inventory.Stamp
	ds []inventory.Decision
}

func (m *memory) lock() func() { m.mu.Lock(); return m.mu.Unlock }

func (m *memory) count() int { defer m.lock()(); return m.writes }

func (m *memory) commit() {
	close(m.changed)
	m.changed = make(chan struct{})
}

func (m *memory) Change(ctx context.Context, name, lease string, rule func(inventory.Records) (inventory.Change, error)) (inventory.Change, error) {
	defer m.lock()()
	m.writes++
	if m.broken != nil {
		return inventory.Change{}, m.broken
	}
	c, err := m.m.Change(ctx, name, lease, rule)
	if err == nil {
		m.commit()
	}
	return c, err
}

func (m *memory) Records(ctx context.Context) (inventory.Records, error) {
	defer m.lock()()
	if m.broken != nil {
		return inventory.Records{}, m.broken
	}
	return m.m.Records(ctx)
}

func (m *memory) saveSight(before, after inventory.Records) {
	defer m.lock()()
	m.m.SaveSight(context.Background(), before, after)
	m.commit()
}

func (m *memory) Clusters(_ context.Context, f Filter) ([]inventory.Cluster, error) {
	defer m.lock()()
	if m.broken != nil {
		return nil, m.broken
	}
	var out []inventory.Cluster
	for _, c := range append(slices.Clone(m.m.Recs.Clusters), m.m.Closed...) {
		state := f.State == "all" || f.State == string(c.State) || f.State == "" && c.State != inventory.Closed
		if state && (f.Owner == "" || f.Owner == c.Owner) && (f.Job == "" || f.Job == c.Job) {
			out = append(out, c)
		}
	}
	return out, nil
}

func (m *memory) Cluster(_ context.Context, name string) (inventory.Cluster, []inventory.Container, error) {
	defer m.lock()()
	if m.broken != nil {
		return inventory.Cluster{}, nil, m.broken
	}
	if row := m.m.Row(name); row != nil {
		return *row, nil, nil
	}
	return inventory.Cluster{}, nil, &inventory.Problem{Code: inventory.CodeNotFound, Message: fmt.Sprintf("no cluster %q is known", name)}
}

func (m *memory) Events(_ context.Context, f EventFilter) ([]inventory.Event, error) {
	defer m.lock()()
	if m.broken != nil {
		return nil, m.broken
	}
	var out []inventory.Event
	for i, e := range m.m.Events {
		e.ID = int64(i + 1)
		if e.ID > f.After && (f.Name == "" || f.Name == e.Name) && !e.At.Wall.Before(f.Since) && len(out) < f.Limit {
			out = append(out, e)
		}
	}
	return out, nil
}

func (m *memory) Changed() <-chan struct{} {
	defer m.lock()()
	return m.changed
}

func (m *memory) SavePlan(_ context.Context, id string, at inventory.Stamp, ds []inventory.Decision) error {
	defer m.lock()()
	m.plans[id] = savedPlan{at, ds}
	return m.broken
}

func (m *memory) Plan(_ context.Context, id string) (inventory.Stamp, []inventory.Decision, error) {
	defer m.lock()()
	p, ok := m.plans[id]
	if !ok {
		return p.at, nil, &inventory.Problem{Code: inventory.CodeNotFound, Message: "no such plan"}
	}
	return p.at, p.ds, nil
}

func (m *memory) Counts(context.Context) (map[inventory.State]int, error) {
	defer m.lock()()
	out := map[inventory.State]int{}
	for _, c := range append(slices.Clone(m.m.Recs.Clusters), m.m.Closed...) {
		out[c.State]++
	}
	return out, m.broken
}
