package inventory_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	. "github.com/testbed-janitor/janitor/internal/inventory"
)

const (
	ns    = time.Nanosecond
	grace = 5 * time.Minute // owner grace
)

func orphan(b *bed, name string, ids ...string) Instant {
	b.mk(name, ids...)
	b.look()
	return b.now.At.Add(b.p.OrphanGrace)
}

// table has a test for each row of the policy table, by its number there.
var table = []struct {
	row  int
	test func(b *bed)
}{
	{1, func(b *bed) { // blind, whatever the rest says
		c := b.leased("kind", "a", "L", "1")
		b.after(time.Hour - time.Minute)
		b.blind = "cannot connect"
		b.want(b.look(), "kind", Keep, Blind)
		b.want(b.replan(c.Cap), "kind", Keep, Blind)
	}},
	{2, func(b *bed) {
		b.leased("kind", "a", "L", "1")
		b.hold("kind", 3*time.Hour)
		until := b.now.At.Add(3 * time.Hour)
		b.quiet(2 * time.Hour)
		b.look()
		b.edge("kind", until, Keep, Held, Reap, Expired)
	}},
	{3, func(b *bed) {
		b.leased("kind", "a", "L", "1")
		b.release("kind", Claim{Lease: "L", Caller: job})
		row, _ := b.begin(b.want(b.look(), "kind", Reap, LetGo), "")
		row, _ = b.fail(row)
		b.look()
		if row.NextTry != b.now.At.Add(time.Minute) {
			b.Errorf("next try in %s", row.NextTry.Sub(b.now.At))
		}
		b.edge("kind", row.NextTry, Keep, BackingOff, Reap, Retry)
	}},
	{4, func(b *bed) { // also when none of the captured is seen, and before the next try
		b.leased("kind", "a", "L", "1")
		b.release("kind", Claim{Lease: "L", Caller: job})
		row, _ := b.begin(b.want(b.look(), "kind", Reap, LetGo), "")
		b.fail(row)
		b.rm("1")
		if d := b.want(b.look(), "kind", Reap, Retry); len(d.Nodes) != 1 || d.Nodes[0] != "1" {
			b.Errorf("retried with %v", d.Nodes)
		}
	}},
	{5, func(b *bed) {
		b.leased("kind", "a", "L", "1")
		b.register("never", "a", "N")
		b.release("kind", Claim{Lease: "L", Caller: job})
		b.release("never", Claim{Lease: "N", Caller: job})
		b.quiet(time.Minute)
		ds := b.look()
		b.want(ds, "kind", Reap, LetGo)
		b.want(ds, "never", Close, LetGo) // nothing was ever seen of it
		b.rm("1")
		b.quiet(time.Minute)
		b.want(b.look(), "kind", Keep, Missing)
		b.quiet(time.Minute)
		b.want(b.look(), "kind", Close, LetGo)
	}},
	{6, func(b *bed) {
		c := b.leased("kind", "a", "L", "1")
		b.renew("kind", "L", 100*time.Hour)
		b.say("L", FromSession, Alive)
		b.look()
		b.edge("kind", c.Cap, Keep, Leased, Reap, MaxLifetime)
	}},
	{7, func(b *bed) {
		b.leased("kind", "a", "L", "1")
		b.say("L", FromSession, Dead)
		b.look()
		b.edge("kind", b.now.At.Add(grace), Keep, Leased, Reap, OwnerGone)
	}},
	{8, func(b *bed) {
		c := b.leased("kind", "a", "L", "1")
		b.edge("kind", c.Expires, Keep, Leased, Reap, Expired)
	}},
	{9, func(b *bed) {
		c, _ := b.register("kind", "a", "L", ttl(time.Hour))
		b.want(b.looks(), "kind", Keep, Creating)
		b.edge("kind", c.Expires, Keep, Creating, Close, NeverCreated)
		b.say("L", FromSession, Dead)
		b.look()
		b.edge("kind", b.now.At.Add(grace), Keep, Creating, Close, NeverCreated)
	}},
	{10, func(b *bed) {
		c := b.leased("kind", "a", "L", "1")
		b.say("L", FromSession, Alive)
		b.look()
		b.edge("kind", c.Expires, Keep, Leased, Keep, OwnerAlive)
		b.edge("kind", c.Cap, Keep, OwnerAlive, Reap, MaxLifetime)
		b.rm("1")
		b.looks()
		b.edge("kind", c.Cap, Keep, OwnerAlive, Close, Vanished)
	}},
	{11, func(b *bed) {
		b.leased("kind", "a", "L", "1")
		b.say("L", FromSession, Dead)
		b.look()
		b.quiet(time.Hour)
		b.mem.Restart(b.now)
		b.look()
		b.edge("kind", b.now.At.Add(grace), Keep, Reconnecting, Reap, OwnerGone)
	}},
	{12, func(b *bed) {
		c := b.leased("kind", "a", "L", "1")
		b.say("L", "jenkins", Unknown)
		b.look()
		b.edge("kind", c.Expires, Keep, Leased, Reap, Expired)
	}},
	{13, func(b *bed) {
		b.leased("kind", "a", "L", "1")
		b.register("never", "a", "N", ttl(time.Hour))
		b.rm("1")
		b.quiet(time.Hour)
		ds := b.look()
		b.want(ds, "kind", Keep, Missing)
		b.want(ds, "never", Keep, Missing)
		b.quiet(30*time.Second - ns) // too early to be a look
		b.want(b.look(), "kind", Keep, Missing)
		b.quiet(ns)
		ds = b.look()
		b.want(ds, "kind", Close, Vanished)
		b.want(ds, "never", Close, NeverCreated)
	}},
	{14, func(b *bed) {
		b.p.Protect = []string{"keep-*"}
		b.mk("", "e")
		b.mk("Kind", "u")
		b.mk("no-keep-1", "n")
		end := orphan(b, "keep-1", "1")
		ds := b.replan(end)
		b.want(ds, "keep-1", Keep, Protected)
		b.want(ds, "", Keep, Protected)
		b.want(ds, "Kind", Keep, Protected)
		b.want(ds, "no-keep-1", Reap, Orphan)
		b.p.Protect = []string{"["} // what cannot be read protects
		b.want(b.replan(end), "no-keep-1", Keep, Protected)
	}},
	{15, func(b *bed) {
		b.p.ReportOnly = true
		b.want(b.replan(orphan(b, "x", "1")), "x", Keep, Reported)
	}},
	{16, func(b *bed) { b.edge("x", orphan(b, "x", "1"), Keep, OrphanGrace, Reap, Orphan) }},
	{17, func(b *bed) {
		end := orphan(b, "x", "2", "1")
		if d := b.want(b.replan(end), "x", Reap, Orphan); fmt.Sprint(d.Nodes) != "[1 2]" {
			b.Errorf("nodes %v", d.Nodes)
		}
	}},
	{18, func(b *bed) {
		orphan(b, "x", "1")
		b.rm("1")
		b.quiet(time.Minute)
		b.want(b.look(), "x", Keep, Missing)
		b.quiet(time.Minute)
		b.want(b.look(), "x", Close, Vanished)
	}},
	{19, func(b *bed) {
		b.mk("x", "1")
		before := b.recs
		b.want(Plan(b.p, before, b.observe(), b.now), "x", Keep, OrphanGrace) // no row yet
		b.want(b.look(), "x", Keep, OrphanGrace)
		if r := b.row("x"); r.Origin != Found || r.State != Active {
			b.Errorf("row %+v", r)
		}
	}},
	{20, func(b *bed) {
		staleContext(b)
		if d := b.want(b.look(), "x", Keep, HasContext); d.Due != 0 {
			b.Errorf("due %d at the first look", d.Due)
		}
		first := b.now.At
		b.quiet(time.Minute)
		b.look()
		b.edge("x", first.Add(10*time.Minute), Keep, HasContext, Forget, StaleContext)
	}},
	{21, func(b *bed) {
		no, yes := false, true
		staleContext(b)
		for _, c := range []SeenContext{
			{File: "f", Name: "x", Server: "https://127.0.0.1:2", Listening: &no}, // never ours
			{File: "f", Name: "y", Server: "https://127.0.0.1:1", Listening: &no}, // another's address
			{File: "f", Name: "x", Server: "https://127.0.0.1:1", Listening: &yes},
			{File: "f", Name: "x", Server: "https://127.0.0.1:1"}, // not known
		} {
			b.contexts = []SeenContext{c}
			b.quiet(time.Minute)
			b.looks()
			b.want(b.replan(b.now.At.Add(time.Hour)), c.Name, Keep, HasContext)
		}
	}},
	{22, func(b *bed) {
		var end Instant
		for _, n := range []string{"a", "b", "c", "d"} {
			end = orphan(b, n, n)
			b.after(time.Second)
		}
		b.look()
		for _, d := range b.replan(end) {
			if d.Verdict != Keep || d.Reason != Brake || d.Would != Reap {
				b.Errorf("%+v", d)
			}
		}
		b.p.MaxPerHour = 4
		b.want(b.replan(end), "d", Reap, Orphan)
	}},
}

// staleContext leaves a context of a cluster that stood here and is gone.
func staleContext(b *bed) {
	no := false
	b.mk("x", "1")
	b.stands[len(b.stands)-1].Servers = []string{"https://127.0.0.1:1"}
	b.look()
	b.rm("1")
	for range 2 {
		b.quiet(time.Minute)
		b.pass()
	}
	b.contexts = []SeenContext{{File: "f", Name: "x", Server: "https://127.0.0.1:1", Listening: &no}}
	b.quiet(time.Minute)
}

func TestTable(t *testing.T) {
	seen := map[int]bool{}
	for _, row := range table {
		seen[row.row] = true
		t.Run(strconv.Itoa(row.row), func(t *testing.T) { row.test(newBed(t)) })
	}
	for n := 1; n <= 22; n++ {
		if !seen[n] {
			t.Errorf("row %d has no test", n)
		}
	}
}
