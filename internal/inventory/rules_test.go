package inventory_test

import (
	"context"
	"slices"
	"testing"
	"time"

	. "github.com/testbed-janitor/janitor/internal/inventory"
)

func claim(lease string) Claim { return Claim{Lease: lease, Caller: job} }

func (b *bed) code(got, want Code) {
	b.Helper()
	if got != want {
		b.Errorf("answered %q, want %q", got, want)
	}
}

func (b *bed) bound(id, lease string) {
	b.Helper()
	for _, k := range b.recs.Containers {
		if k.ID == id {
			if k.Lease != lease {
				b.Errorf("container %s is bound to %q, want %q", id, k.Lease, lease)
			}
			return
		}
	}
	b.Errorf("container %s is not known", id)
}

// TestRuleBinding: at its first sighting, from the second of the registration
// to the end of the lease, and never again.
func TestRuleBinding(t *testing.T) {
	b := newBed(t)
	b.after(900 * time.Millisecond)
	b.mk("kind", "before")
	b.stands[0].Created = b.now.Wall.Truncate(time.Second).Add(-time.Second)
	b.mk("kind", "in-the-second")
	c, _ := b.register("kind", "a", "L", ttl(time.Hour))
	b.look()
	b.bound("before", "")
	b.bound("in-the-second", "L")

	b.quiet(time.Hour - time.Second)
	b.mk("kind", "last") // whole seconds: may have been made until 900 ms later
	b.now = Stamp{At: c.Expires.Add(time.Minute), Wall: b.now.WallOf(c.Expires.Add(time.Minute))}
	b.mk("kind", "late")
	b.look()
	b.bound("last", "L")
	b.bound("late", "")
}

func TestRuleBindingEnds(t *testing.T) {
	for _, alive := range []bool{false, true} { // a living owner's lease binds beyond its expiry
		b := newBed(t)
		b.leased("kind", "a", "L", "1")
		b.quiet(2 * time.Hour)
		if alive {
			b.say("L", FromSession, Alive)
		}
		b.mk("kind", "2")
		b.look()
		b.bound("2", map[bool]string{true: "L", false: ""}[alive])
	}
	b := newBed(t)
	b.leased("kind", "a", "L", "1")
	b.quiet(10 * time.Second)
	b.release("kind", claim("L"))
	b.mk("kind", "same-second")
	b.quiet(time.Second)
	b.mk("kind", "after")
	d := b.want(b.look(), "kind", Reap, LetGo)
	if !slices.Equal(d.Nodes, []string{"1"}) {
		t.Errorf("nodes %v", d.Nodes)
	}
}

// TestRuleForeign: what is foreign keeps its own first sighting, and gets a
// found row when the row of its name closes.
func TestRuleForeign(t *testing.T) {
	b := newBed(t)
	b.mk("kind", "old")
	b.after(2 * time.Second)
	b.register("kind", "a", "L", func(r *Registration) { r.Looked = false })
	b.mk("kind", "new")
	b.look()
	first := b.now.At
	b.bound("old", "")
	b.quiet(time.Hour)
	b.release("kind", claim("L"))
	b.pass()
	if b.stand("new") || !b.stand("old") {
		t.Fatalf("removed %v", b.removed)
	}
	b.quiet(time.Minute)
	b.want(b.look(), "kind", Keep, OrphanGrace)
	b.edge("kind", first.Add(b.p.OrphanGrace), Keep, OrphanGrace, Reap, Orphan)
}

// TestRuleWallMoved: with a wall clock that has moved since the last list, no
// creation time says whose a container is.
func TestRuleWallMoved(t *testing.T) {
	for _, step := range []time.Duration{-time.Hour, time.Hour, time.Second + ns, time.Second} {
		b := newBed(t)
		b.look()
		b.register("kind", "a", "L")
		b.mk("kind", "1")
		b.now.Wall = b.now.Wall.Add(step)
		b.stands[0].Created = b.now.Wall.Truncate(time.Second)
		b.look()
		want := ""
		if step == time.Second {
			want = "L"
		}
		b.bound("1", want)
		b.quiet(time.Minute)
		b.mk("kind", "2") // after a list under the new clock all is as ever
		b.look()
		if step != time.Hour && step > 0 {
			b.bound("2", "L")
		}
	}
}

// TestRuleWallMovedUnseen: the moved clock was seen by a pass whose sighting of
// the name was left out, because the row had just changed.
func TestRuleWallMovedUnseen(t *testing.T) {
	for _, back := range []time.Duration{20 * time.Second, time.Hour} {
		b := newBed(t)
		b.look()
		b.mk("kind", "stranger")
		b.quiet(5 * time.Second)
		b.register("kind", "a", "L", func(r *Registration) { r.Looked = false })
		b.now.Wall = b.now.Wall.Add(-back)
		before, _ := b.mem.Records(context.Background())
		after := Sight(b.p, before, b.observe(), b.now)
		b.renew("kind", "L", 0)
		if err := b.mem.SaveSight(context.Background(), before, after); err != nil {
			t.Fatal(err)
		}
		b.quiet(time.Minute)
		b.look()
		b.bound("stranger", "")
	}
	b := newBed(t) // made in the future
	b.register("kind", "a", "L")
	b.mk("kind", "1", "2")
	b.stands[0].Created = b.now.Wall.Add(time.Second)
	b.stands[1].Created = b.now.Wall.Add(time.Second + ns)
	b.look()
	b.bound("1", "L")
	b.bound("2", "")
}

// TestRuleYields: each condition alone keeps the name; without it, it yields.
func TestRuleYields(t *testing.T) {
	idle := func(t *testing.T) *bed { // never created, and idle for the create grace
		b := newBed(t)
		b.register("kind", "a", "L", ttl(10*time.Hour))
		b.looks()
		b.quiet(b.p.CreateGrace - 2*time.Minute)
		return b
	}
	for name, c := range map[string]struct {
		set  func(b *bed)
		want Code
	}{
		"idle":             {func(*bed) {}, ""},
		"heard too lately": {func(b *bed) { b.now.At -= 1 }, CodeOccupied},
		"renewed":          {func(b *bed) { b.renew("kind", "L", 0) }, CodeOccupied},
		"stands":           {func(b *bed) { b.mk("kind", "1") }, CodeOccupied},
		"held":             {func(b *bed) { b.hold("kind", time.Hour) }, CodeOccupied},
		"alive":            {func(b *bed) { b.say("L", "jenkins", Alive); b.look() }, CodeOccupied},
		"awaited":          {func(b *bed) { b.mem.Restart(b.now) }, CodeOccupied},
		"silent": {func(b *bed) {
			b.say("L", "jenkins", Unknown)
			b.look()
			b.say("L", "jenkins", Unreadable)
			b.look()
		}, CodeOccupied},
	} {
		t.Run(name, func(t *testing.T) {
			b := idle(t)
			c.set(b)
			got, code := b.register("kind", "b", "M")
			b.code(code, c.want)
			if code == "" && (got.Lease != "M" || b.mem.Closed[len(b.mem.Closed)-1].CloseReason != Yielded) {
				t.Errorf("row %+v", got)
			}
		})
	}
	t.Run("not looked", func(t *testing.T) {
		b := idle(t)
		_, code := b.register("kind", "b", "M", func(r *Registration) { r.Looked = false })
		b.code(code, CodeOccupied)
	})
	t.Run("seen and gone", func(t *testing.T) { // one look is not two
		b := newBed(t)
		b.leased("kind", "a", "L", "1")
		b.rm("1")
		b.quiet(time.Minute)
		b.look()
		_, code := b.register("kind", "b", "M")
		b.code(code, CodeOccupied)
		b.quiet(time.Minute)
		b.look()
		b.renew("kind", "L", 0)
		_, code = b.register("kind", "b", "M")
		b.code(code, CodeOccupied) // heard since it went missing
	})
	t.Run("seen, gone and silent", func(t *testing.T) {
		b := newBed(t)
		b.leased("kind", "a", "L", "1")
		b.rm("1")
		b.looks()
		_, code := b.register("kind", "b", "M")
		b.code(code, "")
	})
}
