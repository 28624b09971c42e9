package inventory_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	. "github.com/testbed-janitor/janitor/internal/inventory"
	"github.com/testbed-janitor/janitor/internal/inventory/driver"
)

// bed is a small testbed: two clocks, what stands, and a memory that stores
// what the rules say.
type bed struct {
	*testing.T
	p        Policy
	mem      *driver.Map
	now      Stamp
	boot     string
	blind    string
	stands   []Seen
	contexts []SeenContext
	says     map[string][]Evidence // by lease
	last     Observation
	recs     Records // as the last look left them
	stuck    bool    // containers cannot be removed
	removed  []string
}

var start = Stamp{At: Instant(1000 * time.Hour), Wall: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}

// newBed is a testbed whose inventory is old: nothing is inherited, and nobody
// is awaited.
func newBed(t *testing.T) *bed {
	b := freshBed(t)
	b.look()
	b.after(24 * time.Hour)
	b.mem.Recs.LastPass = b.now.At
	b.look()
	return b
}

// freshBed is a testbed whose inventory is born now.
func freshBed(t *testing.T) *bed {
	return &bed{T: t, p: Defaults(), mem: driver.NewMap(start), now: start, boot: "boot-1", says: map[string][]Evidence{}}
}

func (b *bed) after(d time.Duration) {
	b.now = Stamp{At: b.now.At.Add(d), Wall: b.now.Wall.Add(d)}
}

// quiet lets time pass in which the loop ran and the owners could be heard.
func (b *bed) quiet(d time.Duration) {
	b.after(d)
	b.mem.Recs.LastPass = b.now.At
}

func (b *bed) mk(name string, ids ...string) {
	for _, id := range ids {
		b.stands = append(b.stands, Seen{ID: id, Cluster: name, Name: id, State: "running", Created: b.now.Wall.Truncate(time.Second)})
	}
}

func (b *bed) rm(ids ...string) {
	b.stands = slices.DeleteFunc(b.stands, func(s Seen) bool { return slices.Contains(ids, s.ID) })
}

func (b *bed) observe() Observation {
	seen := Observation{Boot: b.boot, Interval: time.Minute, Blind: b.blind, Contexts: b.contexts, Evidence: b.says}
	if b.blind == "" {
		seen.Containers = slices.Clone(b.stands)
	}
	return seen
}

// look is a pass without its last step: what was seen is stored.
func (b *bed) look() []Decision {
	b.Helper()
	before, _ := b.mem.Records(context.Background())
	b.last = b.observe()
	after := Sight(b.p, before, b.last, b.now)
	if err := b.mem.SaveSight(context.Background(), before, after); err != nil {
		b.Fatal(err)
	}
	b.recs, _ = b.mem.Records(context.Background())
	return Plan(b.p, b.recs, b.last, b.now)
}

// looks are two looks, each an interval after the one before.
func (b *bed) looks() []Decision {
	b.quiet(time.Minute)
	b.look()
	b.quiet(time.Minute)
	return b.look()
}

// replan decides at another moment with what was seen last.
func (b *bed) replan(at Instant) []Decision {
	return Plan(b.p, b.recs, b.last, Stamp{At: at, Wall: b.now.WallOf(at)})
}

func about(ds []Decision, name string) Decision {
	for _, d := range ds {
		if d.Name == name {
			return d
		}
	}
	return Decision{}
}

func (b *bed) want(ds []Decision, name string, v Verdict, r Reason) Decision {
	b.Helper()
	d := about(ds, name)
	if d.Verdict != v || d.Reason != r {
		b.Errorf("%s: %s %s, want %s %s", name, d.Verdict, d.Reason, v, r)
	}
	return d
}

// edge checks both sides of a boundary, to the nanosecond, and that it is due.
func (b *bed) edge(name string, at Instant, v1 Verdict, r1 Reason, v2 Verdict, r2 Reason) {
	b.Helper()
	d := b.want(b.replan(at-1), name, v1, r1)
	if d.Due != at && d.Verdict == v1 {
		b.Errorf("%s: due %d, want %d", name, d.Due, at)
	}
	b.want(b.replan(at), name, v2, r2)
}

func (b *bed) apply(name, lease string, rule func(Records) (Change, error)) (Change, Code) {
	b.Helper()
	c, err := b.mem.Change(context.Background(), name, lease, rule)
	if err == nil {
		return c, ""
	}
	p, ok := errors.AsType[*Problem](err)
	if !ok {
		b.Fatal(err)
	}
	return c, p.Code
}

var (
	job  = Caller{UID: 1000, GID: 1000, PID: 4711}
	root = Caller{UID: 0, Admin: true}
)

// register asks for a name, with what stands there just looked at.
func (b *bed) register(name, owner, lease string, change ...func(*Registration)) (Cluster, Code) {
	b.Helper()
	r := Registration{Name: name, Owner: owner, NewLease: lease, Boot: b.boot, Caller: job, Looked: true}
	for _, s := range b.stands {
		if s.Cluster == name {
			r.Standing = append(r.Standing, s)
		}
	}
	for _, f := range change {
		f(&r)
	}
	c, code := b.apply(name, "", func(recs Records) (Change, error) { return Register(b.p, recs, r, b.now) })
	return c.Cluster, code
}

// leased registers for one hour and makes a container of it; both are seen.
func (b *bed) leased(name, owner, lease, id string) Cluster {
	b.Helper()
	c, code := b.register(name, owner, lease, ttl(time.Hour))
	if code != "" {
		b.Fatalf("registering %s: %s", name, code)
	}
	b.mk(name, id)
	b.want(b.look(), name, Keep, Leased)
	return c
}

func ttl(d time.Duration) func(*Registration)   { return func(r *Registration) { r.TTL = d } }
func occupied(o OnOccupied) func(*Registration) { return func(r *Registration) { r.OnOccupied = o } }

func (b *bed) renew(name, lease string, d time.Duration) (Cluster, Code) {
	c, code := b.apply(name, lease, func(recs Records) (Change, error) {
		return Renew(b.p, recs, name, Claim{Lease: lease, Caller: job}, d, b.now)
	})
	return c.Cluster, code
}

func (b *bed) release(name string, c Claim) (Cluster, Code) {
	change, code := b.apply(name, c.Lease, func(recs Records) (Change, error) { return Release(b.p, recs, name, c, b.now) })
	return change.Cluster, code
}

func (b *bed) hold(name string, d time.Duration) Code {
	_, code := b.apply(name, "", func(recs Records) (Change, error) {
		return SetHold(recs, name, Hold{Until: b.now.At.Add(d), Reason: "looking"}, root, b.now)
	})
	return code
}

func (b *bed) begin(d Decision, operator string) (Cluster, Code) {
	c, code := b.apply(d.Name, d.Lease, func(recs Records) (Change, error) { return BeginReap(b.p, recs, d, operator, b.now) })
	return c.Cluster, code
}

func (b *bed) finish(row Cluster) Code {
	_, code := b.apply(row.Name, row.Lease, func(recs Records) (Change, error) {
		return FinishReap(recs, row.Name, row.ID, nil, b.now)
	})
	return code
}

func (b *bed) fail(row Cluster) (Cluster, Code) {
	c, code := b.apply(row.Name, row.Lease, func(recs Records) (Change, error) {
		return FailReap(b.p, recs, row.Name, row.ID, time.Minute, "busy", b.now)
	})
	return c.Cluster, code
}

// pass looks, decides, and carries out.
func (b *bed) pass() []Decision {
	b.Helper()
	ds := b.look()
	b.carryOut(ds, "")
	return ds
}

func (b *bed) carryOut(ds []Decision, operator string) {
	b.Helper()
	for _, d := range ds {
		switch d.Verdict {
		case Close:
			b.apply(d.Name, d.Lease, func(recs Records) (Change, error) { return CloseRow(recs, d, b.now) })
		case Reap:
			row, code := b.begin(d, operator)
			switch {
			case code != "":
			case b.stuck:
				b.fail(row)
			default:
				b.rm(row.Captured...)
				b.removed = append(b.removed, row.Captured...)
				b.finish(row)
			}
		}
	}
}

func (b *bed) row(name string) Cluster {
	if r := b.mem.Row(name); r != nil {
		return *r
	}
	return Cluster{}
}

func (b *bed) stand(id string) bool {
	return slices.ContainsFunc(b.stands, func(s Seen) bool { return s.ID == id })
}

// say makes sources speak about a lease from the next look on.
func (b *bed) say(lease string, said ...any) {
	b.says[lease] = nil
	for i := 0; i < len(said); i += 2 {
		b.says[lease] = append(b.says[lease], Evidence{Source: said[i].(string), Says: said[i+1].(Life)})
	}
}
