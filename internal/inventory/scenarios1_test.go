package inventory_test

import (
	"testing"
	"time"

	. "github.com/testbed-janitor/janitor/internal/inventory"
)

// Each of TestH1 to TestH19 is a short history in which a plausible policy
// deletes the wrong thing or forgets a promise.

// H1: that a process is not found proves nothing.
func TestH1(t *testing.T) {
	for name, says := range map[string]Life{"no process": "", "curl": Unknown, "step": Dead, "hidepid": Unreadable} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			b.leased("kind", "a", "L", "1")
			if says != "" {
				b.say("L", FromProcess, Alive)
				b.look()
				b.say("L", FromProcess, says)
			}
			for range 50 {
				b.quiet(time.Minute)
				b.want(b.pass(), "kind", Keep, Leased)
			}
		})
	}
}

// H2: a valid lease is not closed for want of containers.
func TestH2(t *testing.T) {
	t.Run("a", func(t *testing.T) { // a build of 25 minutes before kind create
		b := newBed(t)
		b.register("kind", "a", "L")
		for range 25 {
			b.quiet(time.Minute)
			b.want(b.pass(), "kind", Keep, Creating)
		}
		_, code := b.renew("kind", "L", 0)
		b.code(code, "")
	})
	t.Run("b", func(t *testing.T) { // kind delete and create under one lease
		b := newBed(t)
		b.leased("kind", "a", "L", "1")
		b.rm("1")
		for range 3 {
			b.quiet(time.Minute)
			b.want(b.pass(), "kind", Keep, Creating)
		}
		b.mk("kind", "2")
		b.want(b.pass(), "kind", Keep, Leased)
		b.bound("2", "L")
	})
	t.Run("c", func(t *testing.T) { // another engine: an empty list is readable
		b := newBed(t)
		b.leased("kind", "a", "L", "1")
		kept := b.stands
		b.stands = nil
		for range 5 {
			b.quiet(time.Minute)
			b.pass()
		}
		b.stands = kept
		b.want(b.pass(), "kind", Keep, Leased)
	})
}

// H3: a name is not an identity.
func TestH3(t *testing.T) {
	t.Run("a", func(t *testing.T) { // a failed job's release does not take a stranger's
		b := newBed(t)
		b.mk("kind", "stranger")
		b.quiet(10 * time.Second)
		b.register("kind", "a", "L", func(r *Registration) { r.Looked = false })
		b.release("kind", claim("L"))
		for range 5 {
			b.quiet(time.Minute)
			b.pass()
		}
		if !b.stand("stranger") {
			t.Error("the stranger's cluster was removed")
		}
	})
	t.Run("b", func(t *testing.T) { // a second life after the release, also between reading and listing
		b := newBed(t)
		b.leased("kind", "a", "L", "1")
		before := b.recs
		b.rm("1")
		b.quiet(10 * time.Second)
		b.release("kind", claim("L"))
		b.quiet(2 * time.Second)
		b.mk("kind", "2")
		seen := b.observe()
		after := Sight(b.p, before, seen, b.now) // rows read before the release
		if err := b.mem.SaveSight(t.Context(), before, after); err != nil {
			t.Fatal(err)
		}
		for range 5 {
			b.quiet(time.Minute)
			b.pass()
		}
		if !b.stand("2") {
			t.Error("the second incarnation was removed")
		}
	})
	t.Run("c", func(t *testing.T) { // a retry takes only what was captured
		b := newBed(t)
		b.leased("kind", "a", "L", "1")
		b.release("kind", claim("L"))
		b.stuck = true
		b.pass()
		b.mk("kind", "2")
		b.stuck = false
		for range 5 {
			b.quiet(time.Hour)
			b.pass()
			b.mem.Recs.LastPass = b.now.At
			if b.stand("1") == false {
				break
			}
		}
		if b.stand("1") || !b.stand("2") {
			t.Errorf("removed %v", b.removed)
		}
	})
	t.Run("d", func(t *testing.T) { // one list that lacks it does not end a reap
		b := newBed(t)
		b.leased("kind", "a", "L", "1")
		b.release("kind", claim("L"))
		b.stuck = true
		b.pass()
		kept := b.stands
		b.stands = nil
		for range 3 {
			b.quiet(time.Hour)
			d := b.want(b.pass(), "kind", Reap, Retry)
			if len(d.Nodes) != 1 {
				t.Errorf("nodes %v", d.Nodes)
			}
		}
		b.stands, b.stuck = kept, false
		b.quiet(time.Hour)
		b.pass()
		if b.stand("1") {
			t.Error("forgotten")
		}
	})
}

// H4: jobs of one agent share a uid and are not one owner.
func TestH4(t *testing.T) {
	b := newBed(t)
	b.register("kind", "", "L")
	b.mk("kind", "1")
	b.look()
	_, code := b.register("kind", "", "M")
	b.code(code, CodeOccupied)
	_, code = b.release("kind", Claim{Caller: job})
	b.code(code, CodeLeaseLost)
	_, code = b.release("kind", claim("M"))
	b.code(code, CodeLeaseLost)
	b.want(b.look(), "kind", Keep, Leased)
	_, code = b.release("kind", claim("L"))
	b.code(code, "")
}

// H5: our own silence is not the owner's.
func TestH5(t *testing.T) {
	t.Run("a", func(t *testing.T) { // keepalive past its TTL, and a restart
		b := newBed(t)
		b.leased("kind", "a", "L", "1")
		b.say("L", FromSession, Alive)
		b.quiet(2 * time.Hour)
		b.want(b.pass(), "kind", Keep, OwnerAlive)
		b.mem.Restart(b.now)
		b.say("L", FromSession, Unknown)
		b.want(b.pass(), "kind", Keep, Reconnecting)
		b.quiet(time.Minute)
		b.say("L", FromSession, Alive)
		b.want(b.pass(), "kind", Keep, OwnerAlive)
	})
	t.Run("b", func(t *testing.T) { // down, or unable to write, for longer than was left
		for _, down := range []bool{true, false} {
			b := newBed(t)
			b.leased("kind", "a", "L", "1")
			b.after(3 * time.Hour)
			if down {
				b.mem.Restart(b.now)
			} else {
				b.mem.Recs.LastPass = b.now.At
				b.mem.Recs.HeardFrom = b.now.At // a write was refused
			}
			b.want(b.pass(), "kind", Keep, Reconnecting)
			_, code := b.renew("kind", "L", time.Hour)
			b.code(code, "")
			b.want(b.pass(), "kind", Keep, Leased)
		}
	})
}

// H6: no step of the wall clock moves a deadline.
func TestH6(t *testing.T) {
	for name, step := range map[string]time.Duration{"a": -time.Hour, "c": 24 * time.Hour, "e": -8760 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			c := b.leased("kind", "a", "L", "1")
			b.mk("x", "x")
			b.look()
			end := b.now.At.Add(b.p.OrphanGrace)
			b.now.Wall = b.now.Wall.Add(step)
			b.quiet(time.Minute)
			young, _ := b.register("young", "b", "Y", ttl(time.Hour))
			b.blind = "away" // b) a blind pass in between moves nothing either
			b.pass()
			b.blind = ""
			b.pass()
			if b.row("kind").Expires != c.Expires || young.Expires != b.now.At.Add(time.Hour) {
				t.Error("a deadline moved")
			}
			b.edge("kind", c.Expires, Keep, Leased, Reap, Expired)
			b.edge("x", end, Keep, OrphanGrace, Reap, Orphan)
		})
	}
	// d) every deadline is an Instant; the clock itself is tested in internal/host.
}

// H7: a name made anew between two passes has a grace of its own.
func TestH7(t *testing.T) {
	b := newBed(t)
	b.mk("x", "1")
	b.look()
	b.quiet(3*time.Hour - 10*time.Minute)
	b.rm("1")
	b.mk("x", "2")
	b.look()
	b.quiet(10 * time.Minute)
	b.want(b.pass(), "x", Keep, OrphanGrace)
	b.quiet(3*time.Hour - 10*time.Minute)
	b.want(b.pass(), "x", Reap, Orphan)
}

// H8: orphans that fall due one after another are braked together.
func TestH8(t *testing.T) {
	for _, apart := range []time.Duration{300 * time.Millisecond, time.Second, time.Minute, 11 * time.Minute} {
		b := newBed(t)
		for _, n := range []string{"a", "b", "c", "d", "e", "f"} {
			b.mk(n, n)
			b.look()
			b.quiet(apart)
		}
		b.quiet(3*time.Hour - 6*apart)
		for range 120 {
			b.quiet(30 * time.Second)
			b.pass()
		}
		if len(b.removed) != 0 {
			t.Errorf("%s apart: %v removed without an operator", apart, b.removed)
		}
	}
}
