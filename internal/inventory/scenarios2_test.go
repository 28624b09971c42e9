package inventory_test

import (
	"testing"
	"time"

	. "github.com/testbed-janitor/janitor/internal/inventory"
)

// H9: what apply does with what was saved. The hour after which a plan ends,
// and replace under dry_run over the socket, are tested in store and api.
func TestH9(t *testing.T) {
	t.Run("a", func(t *testing.T) { // brake and dry run are lifted
		b := newBed(t)
		b.p.DryRun, b.p.MaxPerHour = true, 0
		b.leased("kind", "a", "L", "1")
		orphan(b, "x", "2")
		b.quiet(4 * time.Hour)
		saved := b.look()
		if d := b.want(saved, "x", Keep, Brake); d.Would != Reap {
			t.Errorf("%+v", d)
		}
		if d := b.want(saved, "kind", Keep, Expired); d.Would != Reap {
			t.Errorf("%+v", d)
		}
		apply, _ := Reconsider(b.p, b.recs, b.last, b.now, saved)
		if len(apply) != 2 {
			t.Errorf("%+v", apply)
		}
	})
	t.Run("b", func(t *testing.T) { // today's evidence, policy, version and containers count
		for name, c := range map[string]struct {
			change func(b *bed)
			want   Reason
		}{
			"alive":     {func(b *bed) { b.say("L", "jenkins", Alive) }, OwnerAlive},
			"renewed":   {func(b *bed) { b.renew("kind", "L", time.Hour) }, Leased},
			"anew":      {func(b *bed) { b.renew("kind", "L", time.Second) }, Expired}, // and over again
			"held":      {func(b *bed) { b.hold("kind", time.Hour) }, Held},
			"container": {func(b *bed) { b.rm("0") }, Expired},
			"gone":      {func(b *bed) { b.rm("0", "1") }, Missing},
			"blind":     {func(b *bed) { b.blind = "away" }, Blind},
		} {
			b := newBed(t)
			b.register("kind", "a", "L", ttl(time.Hour))
			b.mk("kind", "0", "1")
			b.look()
			b.quiet(2 * time.Hour)
			saved := b.look()
			c.change(b)
			b.quiet(time.Minute)
			b.look()
			apply, skipped := Reconsider(b.p, b.recs, b.last, b.now, saved)
			if len(apply) != 0 || len(skipped) != 1 || skipped[0].Reason != c.want {
				t.Errorf("%s: apply %+v, skipped %+v", name, apply, skipped)
			}
		}
		b := newBed(t)
		orphan(b, "x", "1")
		b.quiet(4 * time.Hour)
		saved := b.look()
		b.p.Protect = []string{"x"}
		apply, skipped := Reconsider(b.p, b.recs, b.last, b.now, saved)
		if len(apply) != 0 || len(skipped) != 1 || skipped[0].Reason != Protected {
			t.Errorf("apply %+v, skipped %+v", apply, skipped)
		}
	})
}

// H10: credentials of living clusters of other engines and tunnels. The
// comparison under the file's lock is tested in internal/host/kubeconfig.
func TestH10(t *testing.T) {
	no := false
	b := newBed(t)
	b.contexts = []SeenContext{{File: "f", Name: "tunnel", Server: "https://127.0.0.1:9", Listening: &no}}
	for range 30 {
		b.quiet(time.Minute)
		b.want(b.pass(), "tunnel", Keep, HasContext)
	}
	b = newBed(t) // a file that cannot be read keeps what is known, and its looks
	staleContext(b)
	b.looks()
	b.last.Unread = map[string]string{"f": "denied"}
	b.last.Contexts = nil
	after := Sight(b.p, b.recs, b.last, b.now)
	if len(after.Contexts) != 1 || after.Contexts[0] != b.recs.Contexts[0] {
		t.Errorf("%+v", after.Contexts)
	}
	b.contexts[0].Server = "https://127.0.0.1:2" // kind create wrote it anew
	b.quiet(time.Hour)
	b.want(b.look(), "x", Keep, HasContext)
}

// H11: an outage of Jenkins shortens no life.
func TestH11(t *testing.T) {
	t.Run("a", func(t *testing.T) { // session dead, Jenkins had said building
		b := newBed(t)
		b.leased("kind", "a", "L", "1")
		b.say("L", "jenkins", Alive)
		b.look()
		b.say("L", "jenkins", Unreadable, FromSession, Dead)
		for range 50 {
			b.quiet(time.Minute)
			b.want(b.pass(), "kind", Keep, Leased)
		}
	})
	t.Run("b", func(t *testing.T) { // past its TTL, kept by its last word, up to the cap
		b := newBed(t)
		c := b.leased("kind", "a", "L", "1")
		b.say("L", "jenkins", Alive)
		b.look()
		b.say("L", "jenkins", Unreadable)
		b.look()
		b.edge("kind", c.Cap, Keep, OwnerAlive, Reap, MaxLifetime)
	})
	t.Run("anew", func(t *testing.T) { // any other verdict starts the grace anew
		b := newBed(t)
		b.leased("kind", "a", "L", "1")
		for range 3 {
			b.say("L", FromSession, Dead)
			b.look()
			b.quiet(grace - ns)
			b.want(b.pass(), "kind", Keep, Leased)
			b.say("L", FromSession, Unknown)
			b.look()
			b.quiet(time.Minute)
		}
	})
}

// H12: see TestRuleNeverShorten and TestRuleCap; here, that neither resets
// when it was registered.
func TestH12(t *testing.T) {
	b := newBed(t)
	c, _ := b.register("kind", "a", "L", ttl(8*time.Hour))
	b.mk("kind", "1")
	for range 30 { // repeated and renewed for ever
		b.quiet(30 * time.Minute)
		b.renew("kind", "L", 8*time.Hour)
		b.register("kind", "a", "M", ttl(8*time.Hour))
		b.look()
	}
	b.edge("kind", c.Cap, Keep, Leased, Reap, MaxLifetime)
}

// H13: a lost database makes no orphans. That the wrapper registers again with
// adopt (b) is tested in cmd/janitor.
func TestH13(t *testing.T) {
	b := freshBed(t)
	b.p.Classes = []Class{{Jobs: "nightly/*", MaxTTL: 24 * time.Hour}}
	b.p.MaxPerHour = 10
	b.mk("kind", "1")
	b.quiet(time.Minute)
	b.mk("late", "2")
	b.look() // the first readable list
	b.quiet(time.Minute)
	b.mk("young", "3")
	b.mk("before", "4") // first seen later, and made before the birth
	b.stands[3].Created = start.Wall.Add(-time.Second)
	b.look()
	young := b.now.At.Add(b.p.OrphanGrace)
	for _, name := range []string{"kind", "late", "before"} {
		b.edge(name, start.At.Add(24*time.Hour), Keep, OrphanGrace, Reap, Orphan)
	}
	b.edge("young", young, Keep, OrphanGrace, Reap, Orphan)
	b.quiet(20 * time.Hour)
	_, code := b.register("kind", "a", "L", occupied(Replace)) // c
	b.code(code, CodeOccupied)
	_, code = b.register("kind", "a", "L", occupied(Adopt)) // b
	b.code(code, "")
	b.want(b.look(), "kind", Keep, Leased)
}
