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

// TestRuleOrphanYoungest: by the youngest container, remembered beyond the row.
func TestRuleOrphanYoungest(t *testing.T) {
	b := newBed(t)
	b.mk("x", "1")
	b.look()
	b.quiet(time.Hour)
	b.mk("x", "2")
	slices.Reverse(b.stands) // the engine lists the youngest first
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
