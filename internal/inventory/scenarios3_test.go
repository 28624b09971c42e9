package inventory_test

import (
	"testing"
	"time"

	. "github.com/testbed-janitor/janitor/internal/inventory"
)

// H14: replace is no delete without evidence.
func TestH14(t *testing.T) {
	for name, c := range map[string]struct {
		set  func(b *bed)
		want Code
	}{
		"leftover":    {func(*bed) {}, ""},
		"young":       {func(b *bed) { b.now.At-- }, CodeOccupied},
		"held":        {func(b *bed) { b.hold("x", time.Hour) }, CodeOccupied},
		"protected":   {func(b *bed) { b.p.Protect = []string{"x"} }, CodeOccupied},
		"report only": {func(b *bed) { b.p.ReportOnly = true }, CodeOccupied},
		"dry run":     {func(b *bed) { b.p.DryRun = true }, CodeDryRun},
		"unseen":      {func(b *bed) { b.mk("x", "9") }, CodeOccupied},
	} {
		b := newBed(t)
		b.mk("x", "1", "2")
		b.look()
		b.quiet(b.p.CreateGrace)
		c.set(b)
		_, code := b.register("x", "a", "L", occupied(Replace))
		if code != c.want {
			t.Errorf("%s: %q, want %q", name, code, c.want)
		}
		b.mk("x", "new")
		b.pass()
		if b.stand("1") != (c.want != "") || !b.stand("new") {
			t.Errorf("%s: removed %v", name, b.removed)
		}
	}
	// kind delete; register; kind create
	b := newBed(t)
	b.mk("x", "1")
	b.look()
	b.rm("1")
	_, code := b.register("x", "a", "L", func(r *Registration) { r.Looked = false })
	b.code(code, CodeOccupied)
	_, code = b.register("x", "a", "L")
	b.code(code, "")
	// a lease of another, even if over, is neither adopted nor replaced
	b = newBed(t)
	b.leased("kind", "a", "L", "1")
	b.quiet(5 * time.Hour)
	for _, o := range []OnOccupied{Adopt, Replace} {
		_, code = b.register("kind", "b", "M", occupied(o))
		b.code(code, CodeOccupied)
	}
}

// H15: a boot ends the life of sessions and processes, and of nothing else.
func TestH15(t *testing.T) {
	for source, want := range map[string]Reason{"": Leased, FromSession: OwnerGone, FromProcess: OwnerGone, "jenkins": Leased} {
		b := newBed(t)
		b.leased("kind", "a", "L", "1")
		if source != "" {
			b.say("L", source, Alive)
			b.look()
			b.say("L")
		}
		b.boot = "boot-2"
		b.mem.Restart(b.now)
		b.look()
		b.quiet(6 * time.Minute)
		if d := about(b.look(), "kind"); d.Reason != want {
			t.Errorf("%q: %s, want %s", source, d.Reason, want)
		}
	}
}

// H16: see TestRuleHold and TestRuleVersions; here, that a hold before the
// begin wins.
func TestH16(t *testing.T) {
	b := newBed(t)
	b.leased("kind", "a", "L", "1")
	b.quiet(2 * time.Hour)
	d := b.want(b.look(), "kind", Reap, Expired)
	b.code(b.hold("kind", time.Hour), "")
	b.carryOut([]Decision{d}, "")
	if !b.stand("1") {
		t.Error("removed under a hold")
	}
}

// H17: a frozen wrapper is unknown, not dead. That a missing answer is unknown
// is tested in internal/api.
func TestH17(t *testing.T) {
	b := newBed(t)
	b.leased("kind", "a", "L", "1")
	b.say("L", FromSession, Alive)
	b.look()
	b.say("L", FromSession, Unknown)
	for range 50 {
		b.quiet(time.Minute)
		b.want(b.pass(), "kind", Keep, Leased)
	}
}

// H18: the table is total; looking changes nothing; pokes are not looks. See
// TestInvariant8.
func TestH18(t *testing.T) {
	b := newBed(t)
	b.leased("kind", "a", "L", "1")
	b.rm("1")
	b.quiet(2 * time.Hour)
	for range 20 { // pokes, one a second
		b.after(time.Second)
		b.want(b.look(), "kind", Keep, Missing)
	}
	b.quiet(30 * time.Second)
	b.want(b.look(), "kind", Close, Vanished)
}

// H19: rights. Exit codes are tested in cmd/janitor, the kernel's word in api.
func TestH19(t *testing.T) {
	b := newBed(t)
	b.leased("kind", "a", "L", "1")
	other := Caller{UID: 1001}
	for _, c := range []struct {
		claim Claim
		want  Code
	}{
		{Claim{Caller: root}, CodeLeaseLost}, // a root job's mistaken release
		{Claim{Owner: "b", Caller: root}, CodeLeaseLost},
		{Claim{Lease: "L", Caller: other}, CodeLeaseLost},
		{Claim{Owner: "a", Caller: other}, CodeLeaseLost},
		{Claim{Caller: root, Force: true}, CodeForbidden}, // no reason
		{Claim{Caller: job, Force: true, Reason: "mine"}, CodeForbidden},
		{Claim{Lease: "L", Owner: "b", Caller: job}, CodeLeaseLost},
		{Claim{Caller: root, Force: true, Reason: "leftover"}, ""},
	} {
		if _, code := b.release("kind", c.claim); code != c.want {
			t.Errorf("%+v: %q, want %q", c.claim, code, c.want)
		}
	}
}
