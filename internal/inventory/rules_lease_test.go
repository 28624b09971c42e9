package inventory_test

import (
	"fmt"
	"testing"
	"time"

	. "github.com/testbed-janitor/janitor/internal/inventory"
)

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
