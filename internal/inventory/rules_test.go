package inventory_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
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

// TestRuleNeverShorten: renew and repeat, whatever they ask for.
func TestRuleNeverShorten(t *testing.T) {
	b := newBed(t)
	c, _ := b.register("kind", "a", "L", ttl(8*time.Hour))
	for i := range 3 {
		r, _ := b.renew("kind", "L", time.Minute)
		again, _ := b.register("kind", "a", fmt.Sprint("M", i), ttl(time.Minute))
		if r.Expires != c.Expires || again.Expires != c.Expires || again.Lease != "L" {
			t.Errorf("expires %d, then %d and %d", c.Expires, r.Expires, again.Expires)
		}
	}
	b.after(time.Hour)
	if r, _ := b.renew("kind", "L", 8*time.Hour); r.Expires != c.Expires.Add(time.Hour) {
		t.Errorf("renewed by %s", r.Expires.Sub(c.Expires))
	}
	b.quiet(9 * time.Hour) // over, and still active
	if r, code := b.renew("kind", "L", time.Hour); code != "" || r.Expires != b.now.At.Add(time.Hour) {
		t.Errorf("after the expiry: %q %v", code, r.Expires)
	}
}

// TestRuleCap: fixed at registration; above it, granted up to it, and said so.
func TestRuleCap(t *testing.T) {
	b := newBed(t)
	b.p.Classes = []Class{{Jobs: "nightly/*", DefaultTTL: 8 * time.Hour, MaxTTL: 24 * time.Hour}}
	c, _ := b.register("kind", "a", "L", ttl(100*time.Hour))
	if c.Cap != b.now.At.Add(b.p.MaxTTL) || c.Expires != c.Cap || len(c.Warnings) != 1 {
		t.Errorf("cap %s, expires %s, warnings %q", c.Cap.Sub(b.now.At), c.Expires.Sub(b.now.At), c.Warnings)
	}
	n, _ := b.register("n", "a", "N", func(r *Registration) { r.Job = "nightly/x" })
	if n.Expires != b.now.At.Add(8*time.Hour) || n.Cap != b.now.At.Add(24*time.Hour) || len(n.Warnings) != 0 {
		t.Errorf("a class: cap %s, expires %s, warnings %q", n.Cap.Sub(b.now.At), n.Expires.Sub(b.now.At), n.Warnings)
	}
	b.p.MaxTTL = 12 * time.Minute // a reload
	b.after(time.Hour)
	r, _ := b.renew("kind", "L", 100*time.Hour)
	again, _ := b.register("kind", "a", "M", ttl(100*time.Hour), func(r *Registration) { r.Job = "nightly/x" })
	if r.Cap != c.Cap || again.Cap != c.Cap || r.Expires != c.Cap || again.Registered != c.Registered {
		t.Errorf("the cap moved: %v %v", r, again)
	}
	b.mk("kind", "1")
	b.want(b.look(), "kind", Keep, Leased)
}

// TestRuleVersions: each accepted call on a row makes an older decision lose.
func TestRuleVersions(t *testing.T) {
	for name, call := range map[string]func(b *bed) Code{
		"renew":   func(b *bed) Code { _, c := b.renew("kind", "L", 0); return c },
		"repeat":  func(b *bed) Code { _, c := b.register("kind", "a", "M"); return c },
		"release": func(b *bed) Code { _, c := b.release("kind", claim("L")); return c },
		"hold":    func(b *bed) Code { return b.hold("kind", time.Minute) },
		"unhold": func(b *bed) Code {
			b.hold("kind", time.Minute)
			_, c := b.apply("kind", "", func(recs Records) (Change, error) { return LiftHold(recs, "kind", root, b.now) })
			return c
		},
	} {
		b := newBed(t)
		b.leased("kind", "a", "L", "1")
		b.quiet(2 * time.Hour)
		d := b.want(b.look(), "kind", Reap, Expired)
		b.code(call(b), "")
		if r := b.row("kind"); r.Version <= d.Version {
			t.Errorf("%s: version %d after %d", name, r.Version, d.Version)
		}
		if _, code := b.begin(d, ""); code != CodeConflict && code != CodeHeld {
			t.Errorf("%s: the old decision was begun (%q)", name, code)
		}
	}
}

// TestRuleReconnect: anew after a start and after three intervals without the
// loop, for leases older than that.
func TestRuleReconnect(t *testing.T) {
	for gap, want := range map[time.Duration]Reason{3 * time.Minute: Expired, 3*time.Minute + ns: Reconnecting} {
		b := newBed(t)
		b.leased("kind", "a", "L", "1")
		b.quiet(2*time.Hour - gap)
		b.look()
		b.after(gap)
		ds := b.look()
		if d := about(ds, "kind"); d.Reason != want {
			t.Errorf("after %s without the loop: %s, want %s", gap, d.Reason, want)
		}
	}
	b := newBed(t)
	b.mem.Restart(b.now)
	b.after(ns)
	b.register("young", "a", "Y", ttl(time.Minute))
	b.mk("young", "1")
	b.quiet(2 * time.Minute)
	b.want(b.look(), "young", Reap, Expired) // its owner was heard after the start
}

// TestRuleRelease: a closed lease of one's own is success; released is final.
func TestRuleRelease(t *testing.T) {
	b := newBed(t)
	b.leased("kind", "a", "L", "1")
	_, code := b.release("kind", Claim{Lease: "X", Caller: job})
	b.code(code, CodeLeaseLost)
	b.release("kind", claim("L"))
	_, code = b.release("kind", claim("L"))
	b.code(code, "")
	_, code = b.renew("kind", "L", 0)
	b.code(code, CodeLeaseLost)
	_, code = b.register("kind", "a", "M")
	b.code(code, CodeReaping)
	b.pass()
	_, code = b.release("kind", claim("L"))
	b.code(code, "")
	b.register("kind", "b", "M")
	_, code = b.release("kind", claim("L"))
	b.code(code, CodeLeaseLost)
	_, code = b.release("nobody", claim("L"))
	b.code(code, CodeNotFound)
}

func TestRuleReplaceOwn(t *testing.T) {
	b := newBed(t)
	b.leased("kind", "a", "L", "1")
	b.register("kind", "a", "M", occupied(Replace))
	b.pass()
	if r := b.row("kind"); r.CloseReason != Replaced || b.stand("1") {
		t.Errorf("row %+v", r)
	}
	_, code := b.register("kind", "a", "M")
	b.code(code, "")
}

func TestRuleAdopt(t *testing.T) {
	b := newBed(t)
	b.mk("kind", "1")
	b.look()
	b.quiet(time.Hour)
	b.hold("kind", time.Minute)
	c, code := b.register("kind", "a", "L", occupied(Adopt))
	b.code(code, "")
	if c.Origin != Adopted || c.Hold == nil || b.mem.Closed[0].CloseReason != WasTaken {
		t.Errorf("row %+v", c)
	}
	b.look()
	b.bound("1", "L")
}

// TestRuleHold: refused while an attempt is under way, accepted between.
func TestRuleHold(t *testing.T) {
	b := newBed(t)
	b.leased("kind", "a", "L", "1")
	b.release("kind", claim("L"))
	row, _ := b.begin(about(b.look(), "kind"), "")
	b.code(b.hold("kind", time.Hour), CodeReaping)
	row, _ = b.fail(row)
	b.quiet(10 * time.Minute)
	retry := b.want(b.look(), "kind", Reap, Retry)
	b.code(b.hold("kind", time.Hour), "")
	_, code := b.begin(retry, "")
	b.code(code, CodeConflict)
	b.rm("1")
	b.looks()
	b.want(b.look(), "kind", Keep, Held) // and not closed
	if row.State != Reaping || row.LastError == "" {
		t.Errorf("row %+v", row)
	}
}

// TestRuleOwner is the whole verdict of what the sources say, now and before.
func TestRuleOwner(t *testing.T) {
	for _, c := range []struct {
		before, now []any
		dead        bool
		alive       bool
	}{
		{now: []any{"jenkins", Dead}, dead: true},
		{now: []any{"jenkins", Alive, FromSession, Dead}, alive: true},
		{now: []any{"jenkins", Dead, FromSession, Alive}, alive: true},
		{now: []any{"jenkins", Unknown, FromSession, Dead}, dead: true},
		{now: []any{"jenkins", Unknown}},
		{before: []any{"jenkins", Alive}, now: []any{"jenkins", Unreadable, FromSession, Dead}, alive: true},
		{before: []any{"jenkins", Unknown}, now: []any{"jenkins", Unreadable, FromSession, Dead}},
		{before: []any{"jenkins", Dead}, now: []any{"jenkins", Unreadable}},
		{now: []any{"jenkins", Unreadable, FromSession, Dead}, dead: true}, // never spoke for it
		{before: []any{FromSession, Alive}, now: []any{FromSession, Unknown}},
	} {
		b := newBed(t)
		b.leased("kind", "a", "L", "1")
		b.say("L", c.before...)
		b.look()
		b.say("L", c.now...)
		b.look()
		since := b.row("kind").DeadSince
		if (since != 0) != c.dead {
			t.Errorf("%v then %v: dead since %d", c.before, c.now, since)
		}
		b.quiet(2 * time.Hour)
		b.look()
		if d := about(b.look(), "kind"); (d.Reason == OwnerAlive) != c.alive {
			t.Errorf("%v then %v: %s", c.before, c.now, d.Reason)
		}
	}
}

// TestRuleOrphanYoungest: by the youngest container, remembered beyond the row.
func TestRuleOrphanYoungest(t *testing.T) {
	b := newBed(t)
	b.mk("x", "1")
	b.look()
	b.quiet(time.Hour)
	b.mk("x", "2")
	b.look()
	b.edge("x", b.now.At.Add(3*time.Hour), Keep, OrphanGrace, Reap, Orphan)
	young := b.now.At
	kept := slices.Clone(b.stands)
	b.rm("1", "2")
	b.looks()
	b.pass() // the row closes
	b.stands = kept
	b.quiet(time.Minute)
	b.look()
	b.edge("x", young.Add(3*time.Hour), Keep, OrphanGrace, Reap, Orphan)
}

// TestRuleHalfCluster: whatever is left of a cluster is a cluster.
func TestRuleHalfCluster(t *testing.T) {
	for _, state := range []string{"created", "exited", "dead", "paused", "running"} {
		b := newBed(t)
		b.mk("x", "w")
		b.stands[0].Role, b.stands[0].State = "worker", state
		b.look()
		b.want(b.replan(b.now.At.Add(3*time.Hour)), "x", Reap, Orphan)
	}
}

// TestRuleBrake: counts what is due within the hour and what was begun in the
// last; a saved plan releases it.
func TestRuleBrake(t *testing.T) {
	b := newBed(t)
	var ends []Instant
	for i := range 4 { // the last is due just within the hour of the first
		b.mk(fmt.Sprint("x", i), fmt.Sprint(i))
		b.look()
		ends = append(ends, b.now.At.Add(3*time.Hour))
		b.quiet(20 * time.Minute)
	}
	b.want(b.replan(ends[0]-1), "x0", Keep, OrphanGrace)
	b.want(b.replan(ends[0]), "x0", Keep, Brake)
	b.p.MaxPerHour = 4
	b.want(b.replan(ends[0]), "x0", Reap, Orphan)
	b.p.MaxPerHour = 3
	b.now = Stamp{At: ends[3], Wall: b.now.WallOf(ends[3])}
	b.mem.Recs.LastPass = b.now.At
	saved := b.look()
	b.want(saved, "x3", Keep, Brake)
	apply, skipped := Reconsider(b.p, b.recs, b.last, b.now, saved)
	if len(apply) != 4 || len(skipped) != 0 {
		t.Fatalf("apply %v, skipped %v", apply, skipped)
	}
	b.carryOut(apply, "uid:0")
	if len(b.stands) != 0 {
		t.Errorf("still there: %v", b.stands)
	}
	if r, _ := b.mem.Records(context.Background()); len(r.Begun) != 0 {
		t.Errorf("an operator's counted: %v", r.Begun)
	}
}

// TestRuleBrakeBegun: what was begun counts for an hour, to the nanosecond.
func TestRuleBrakeBegun(t *testing.T) {
	b := newBed(t)
	end := orphan(b, "x", "1")
	b.recs.Begun = []Instant{end, end, end}
	b.want(b.replan(end.Add(time.Hour)-1), "x", Keep, Brake)
	if d := b.want(b.replan(end), "x", Keep, Brake); d.Due != end.Add(time.Hour) {
		t.Errorf("due %d", d.Due)
	}
	b.want(b.replan(end.Add(time.Hour)), "x", Reap, Orphan)
}

// TestRuleNames: legal names, the long warned of.
func TestRuleNames(t *testing.T) {
	for name, ok := range map[string]bool{
		"kind": true, "0-a.b": true, "": false, "-a": false, ".a": false, "A": false, "a_b": false, "a/b": false,
		"a b": false, "../x": false, strings.Repeat("a", 200): true, strings.Repeat("a", 201): false,
	} {
		if err := CheckName(name); (err == nil) != ok {
			t.Errorf("%q: %v", name, err)
		}
	}
	b := newBed(t)
	if c, _ := b.register(strings.Repeat("a", 50), "a", "L"); len(c.Warnings) != 0 {
		t.Errorf("%q", c.Warnings)
	}
	if c, _ := b.register(strings.Repeat("a", 51), "a", "M"); len(c.Warnings) != 1 {
		t.Errorf("%q", c.Warnings)
	}
}
