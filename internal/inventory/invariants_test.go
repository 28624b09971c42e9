package inventory_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	. "github.com/testbed-janitor/janitor/internal/inventory"
	"github.com/testbed-janitor/janitor/internal/inventory/driver"
)

// The invariants of the product that are decided in this package. 4 is tested
// in store and the kind tier, 5's crashes and 9 in reaper, 11 in cmd/janitor;
// the driver checks all of 1 to 8 over random histories as well.

// 1: a cluster with a valid lease, or under a hold, is never reaped: not at any
// moment, whatever is seen and whatever is not.
func TestInvariant1(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		b := newBed(t)
		c := b.leased("kind", "a", "L", "1")
		held := rapid.Bool().Draw(r, "held")
		if held {
			b.hold("kind", 100*time.Hour)
		}
		for range rapid.IntRange(1, 20).Draw(r, "passes") {
			b.after(time.Duration(rapid.Int64Range(0, int64(20*time.Minute)).Draw(r, "time")))
			b.now.Wall = b.now.Wall.Add(time.Duration(rapid.SampledFrom([]int{0, 0, 0, -7200, 86400}).Draw(r, "step")) * time.Second)
			b.blind = rapid.SampledFrom([]string{"", "", "away"}).Draw(r, "blind")
			b.say("L", FromSession, rapid.SampledFrom([]Life{Alive, Unknown, Unreadable}).Draw(r, "session"),
				FromProcess, rapid.SampledFrom([]Life{Alive, Dead, Unknown, Unreadable}).Draw(r, "process"))
			ds := b.pass()
			valid := b.now.At < c.Expires || held
			if d := about(ds, "kind"); valid && d.Verdict != Keep {
				r.Fatalf("%s %s", d.Verdict, d.Reason)
			}
		}
	})
}

// 2: not seen is not gone: a blind pass changes nothing but what is heard.
func TestInvariant2(t *testing.T) {
	b := newBed(t)
	b.leased("kind", "a", "L", "1")
	staleContext(b)
	b.look()
	b.blind = "cannot connect"
	b.quiet(time.Hour)
	for range 10 {
		b.quiet(time.Minute)
		before := b.recs
		for _, d := range b.pass() {
			if d.Verdict != Keep || d.Reason != Blind {
				t.Errorf("%+v", d)
			}
		}
		if !reflect.DeepEqual(b.recs.Clusters, before.Clusters) || !reflect.DeepEqual(b.recs.Containers, before.Containers) ||
			!reflect.DeepEqual(b.recs.Contexts, before.Contexts) || b.recs.LastList != before.LastList || b.recs.LastLook != before.LastLook {
			t.Error("a blind pass changed what is known")
		}
	}
}

// 3: what is deleted is what was decided on: the very IDs, and no other row.
func TestInvariant3(t *testing.T) {
	b := newBed(t)
	b.leased("kind", "a", "L", "1")
	b.release("kind", claim("L"))
	d := b.want(b.look(), "kind", Reap, LetGo)
	b.mk("kind", "2") // a moment later
	row, code := b.begin(d, "")
	if code != "" || !slices.Equal(row.Captured, []string{"1"}) {
		t.Fatalf("%q, captured %v", code, row.Captured)
	}
	if _, code = b.begin(d, ""); code != CodeConflict { // twice
		t.Errorf("the same decision was begun twice: %q", code)
	}
	b.rm("1")
	b.finish(row)
	b.quiet(time.Minute)
	b.look()
	if _, code = b.begin(d, ""); code != CodeConflict { // another row of the name
		t.Errorf("a decision on the old row was begun: %q", code)
	}
	b.code(b.finish(row), CodeConflict)
	if _, code = b.fail(row); code != CodeConflict {
		t.Errorf("failed a closed row: %q", code)
	}
	d.Nodes = nil
	d.Row, d.Version = b.row("kind").ID, b.row("kind").Version
	if _, code = b.begin(d, ""); code != CodeConflict {
		t.Errorf("a reap of nothing was begun: %q", code)
	}
}

// 5: nothing that failed is forgotten; it is tried later each time.
func TestInvariant5(t *testing.T) {
	b := newBed(t)
	b.leased("kind", "a", "L", "1")
	b.release("kind", claim("L"))
	b.stuck = true
	began := b.now
	for i, want := range []time.Duration{1, 2, 4, 8, 16, 30, 30, 30} {
		b.pass()
		row := b.row("kind")
		if got := row.NextTry.Sub(b.now.At); got != want*time.Minute || row.Attempts != i+1 || row.LastError != "busy" {
			t.Errorf("attempt %d: next in %s, want %s; %q", row.Attempts, got, want*time.Minute, row.LastError)
		}
		if row.Began != began || row.ReapReason != LetGo {
			t.Errorf("attempt %d forgot when and why it began: %v %s", i+1, row.Began, row.ReapReason)
		}
		other := row
		other.ID++ // a row of before
		b.code(b.finish(other), CodeConflict)
		if row.StuckUnder(b.p) != (i+1 >= b.p.StuckAfter) {
			t.Errorf("attempt %d: stuck %v", i+1, row.StuckUnder(b.p))
		}
		b.quiet(want * time.Minute)
	}
	b.stuck = false
	b.pass()
	if r := b.row("kind"); b.stand("1") || r.State != Closed || r.CloseReason != LetGo {
		t.Errorf("row %+v", r)
	}
}

// 6: see TestH13.
func TestInvariant6(t *testing.T) {
	b := newBed(t)
	b.leased("kind", "a", "L", "1")
	b.quiet(30 * time.Minute)
	b.mem = driver.NewMap(b.now) // lost
	birth := b.now.At
	b.look()
	b.edge("kind", birth.Add(b.p.MaxTTL), Keep, OrphanGrace, Reap, Orphan)
}

// 7: no hour sees more orphans reaped than the brake allows; more are all kept.
func TestInvariant7(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		b := newBed(t)
		b.p.MaxPerHour = rapid.IntRange(0, 3).Draw(r, "brake")
		for i := range rapid.IntRange(1, 8).Draw(r, "orphans") {
			n := string(rune('a' + i))
			b.mk(n, n)
			b.look()
			b.quiet(time.Duration(rapid.IntRange(0, 80).Draw(r, "apart")) * time.Minute)
		}
		var begun []Instant
		for range 150 {
			n := len(b.removed)
			b.pass()
			for range len(b.removed) - n {
				begun = append(begun, b.now.At)
			}
			b.quiet(7 * time.Minute)
		}
		for i := range begun {
			if j := i + b.p.MaxPerHour; j < len(begun) && begun[j].Sub(begun[i]) < time.Hour {
				r.Fatalf("begun %v with a brake of %d", begun, b.p.MaxPerHour)
			}
		}
	})
}

// 8: Sight and Plan are pure: the same input, in any order, gives the same
// output, and the arguments stay as they were.
func TestInvariant8(t *testing.T) {
	b := newBed(t)
	staleContext(b)
	b.look()
	for _, n := range []string{"c", "a", "b"} {
		b.leased(n, "o", "L"+n, n)
		b.say("L"+n, FromSession, Alive, "jenkins", Dead)
	}
	b.mk("z", "z1", "z2")
	b.looks()
	b.mk("y", "y1")
	seen := b.observe()
	frozen := func() string {
		s, err := json.Marshal([]any{b.recs, seen, b.p})
		if err != nil {
			t.Fatal(err)
		}
		return string(s)
	}
	before := frozen()
	recs := Sight(b.p, b.recs, seen, b.now)
	plan := Plan(b.p, recs, seen, b.now)
	for range 20 {
		if again := Plan(b.p, Sight(b.p, b.recs, seen, b.now), seen, b.now); !reflect.DeepEqual(again, plan) {
			t.Fatalf("%+v\nthen\n%+v", plan, again)
		}
	}
	turned := recs
	turned.Clusters, turned.Containers = slices.Clone(recs.Clusters), slices.Clone(recs.Containers)
	slices.Reverse(turned.Clusters)
	slices.Reverse(turned.Containers)
	if again := Plan(b.p, turned, seen, b.now); !reflect.DeepEqual(again, plan) {
		t.Errorf("another order, another plan:\n%+v\n%+v", plan, again)
	}
	if !slices.IsSortedFunc(plan, func(x, y Decision) int { return compare(x.Name, y.Name) }) || len(plan) != 6 {
		t.Errorf("%d decisions: %+v", len(plan), plan)
	}
	if frozen() != before {
		t.Error("an argument was changed")
	}
}

func compare(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// 10: see TestH4 and TestH19; here, renewing.
func TestInvariant10(t *testing.T) {
	b := newBed(t)
	c := b.leased("kind", "a", "L", "1")
	for _, cl := range []Claim{{Caller: job}, {Lease: "X", Caller: job}, {Owner: "b", Caller: job}, {Lease: "L", Caller: Caller{UID: 7}}} {
		_, code := b.apply("kind", cl.Lease, func(recs Records) (Change, error) { return Renew(b.p, recs, "kind", cl, 9*time.Hour, b.now) })
		b.code(code, CodeLeaseLost)
	}
	_, code := b.register("kind", "a", "M", func(r *Registration) { r.Caller.UID = 7 }) // owner strings are no secrets
	b.code(code, CodeOccupied)
	if b.row("kind").Expires != c.Expires {
		t.Error("another renewed the lease")
	}
}
