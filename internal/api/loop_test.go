package api

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/testbed-janitor/janitor/internal/inventory"
)

// loop is a Loop over containers that a test puts there. Its passes follow the
// real policy.
type loop struct {
	b        *bed
	mu       sync.Mutex
	standing []inventory.Seen
	lookErr  error
	looks    int
	pokes    int
	onPoke   func()
	passErr  error
	hang     bool          // Pass waits for its context
	slow     time.Duration // of a removal, and of Pass
	applied  []inventory.Decision
	operator string
	status   LoopStatus
}

func (l *loop) seen() inventory.Observation {
	l.mu.Lock()
	defer l.mu.Unlock()
	return inventory.Observation{Interval: time.Minute, Containers: slices.Clone(l.standing)}
}

// stand makes a container of a cluster, as kind would.
func (l *loop) stand(name, id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.standing = append(l.standing, inventory.Seen{
		ID: id, Cluster: name, Name: name + "-control-plane", Role: "control-plane", State: "running", Created: l.b.clock().Wall.Truncate(time.Second),
	})
}

func (l *loop) fall(ids ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.standing = slices.DeleteFunc(l.standing, func(s inventory.Seen) bool { return slices.Contains(ids, s.ID) })
}

// sight stores what stands now.
func (l *loop) sight() inventory.Records {
	before, _ := l.b.mem.Records(context.Background())
	after := inventory.Sight(l.b.policy, before, l.seen(), l.b.clock())
	l.b.mem.saveSight(before, after)
	return after
}

// pass looks, decides and removes.
func (l *loop) pass() {
	l.sight()
	recs, _ := l.b.mem.Records(context.Background())
	for _, d := range inventory.Plan(l.b.policy, recs, l.seen(), l.b.clock()) {
		ctx := context.Background()
		switch d.Verdict {
		case inventory.Reap:
			c, err := l.b.mem.Change(ctx, d.Name, "", func(r inventory.Records) (inventory.Change, error) {
				return inventory.BeginReap(l.b.policy, r, d, "", l.b.clock())
			})
			if err != nil {
				continue
			}
			time.Sleep(l.slow)
			l.fall(c.Cluster.Captured...)
			l.b.mem.Change(ctx, d.Name, "", func(r inventory.Records) (inventory.Change, error) {
				return inventory.FinishReap(r, d.Name, c.Cluster.ID, nil, l.b.clock())
			})
		case inventory.Close:
			l.b.mem.Change(ctx, d.Name, "", func(r inventory.Records) (inventory.Change, error) {
				return inventory.CloseRow(r, d, l.b.clock())
			})
		}
	}
}

func (l *loop) count() int { l.mu.Lock(); defer l.mu.Unlock(); return l.looks }

func (l *loop) Poke() {
	l.mu.Lock()
	l.pokes++
	f := l.onPoke
	l.mu.Unlock()
	if f != nil {
		f()
	}
}

func (l *loop) Pass(ctx context.Context) (Report, error) {
	if l.hang {
		<-ctx.Done()
		return Report{}, ctx.Err()
	}
	select {
	case <-time.After(l.slow):
	case <-ctx.Done():
		return Report{}, ctx.Err()
	}
	ds, _ := l.Plan(ctx)
	now := l.b.clock().Wall
	return Report{StartedAt: now, EndedAt: now.Add(1500 * time.Millisecond), Decisions: ds, Results: []Result{{Name: "x", OK: true}}}, l.passErr
}

func (l *loop) Plan(context.Context) ([]inventory.Decision, error) {
	recs, _ := l.b.mem.Records(context.Background())
	seen := l.seen()
	return inventory.Plan(l.b.policy, inventory.Sight(l.b.policy, recs, seen, l.b.clock()), seen, l.b.clock()), nil
}

func (l *loop) Apply(_ context.Context, saved []inventory.Decision, operator string) (Report, error) {
	l.applied, l.operator = saved, operator
	return Report{Decisions: saved}, nil
}

func (l *loop) Look(_ context.Context, name string) ([]inventory.Seen, error) {
	l.mu.Lock()
	l.looks++
	err := l.lookErr
	l.mu.Unlock()
	if err != nil {
		return nil, err
	}
	l.sight()
	return slices.DeleteFunc(l.seen().Containers, func(s inventory.Seen) bool { return s.Cluster != name }), nil
}

func (l *loop) Decide(ctx context.Context, rows []inventory.Cluster) []inventory.Decision {
	ds, _ := l.Plan(ctx)
	return slices.DeleteFunc(ds, func(d inventory.Decision) bool {
		return !slices.ContainsFunc(rows, func(c inventory.Cluster) bool { return c.ID == d.Row })
	})
}

func (l *loop) Status() LoopStatus { return l.status }
