package reaper_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/testbed-janitor/janitor/internal/inventory"
	"github.com/testbed-janitor/janitor/internal/reaper"
)

func TestPlanIsWhatThePassDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		defer b.run()()
		released := b.register("released", "alice")
		b.register("leased", "bob")
		b.register("creating", "carol")
		b.world.create("released", "https://127.0.0.1:1", "r1")
		b.world.create("leased", "https://127.0.0.1:2", "l1")
		b.world.edit(func(w *fakeWorld) {
			w.contexts = []inventory.SeenContext{{File: "/f", Name: "other", Server: "https://10.0.0.1:1"}}
		})
		b.pass()
		b.world.create("foreign", "https://127.0.0.1:3", "f1") // not sighted yet
		b.release(released)

		before := fmt.Sprintf("%+v", b.mem.snapshot())
		plan, err := b.loop.Plan(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		again, err := b.loop.Plan(t.Context())
		if err != nil || !reflect.DeepEqual(plan, again) {
			t.Errorf("two looks at the plan differ: %v, %v, %v", plan, again, err)
		}
		if after := fmt.Sprintf("%+v", b.mem.snapshot()); after != before {
			t.Errorf("looking at the plan changed what is known:\n%s\n%s", before, after)
		}
		report := b.pass()
		if !reflect.DeepEqual(plan, report.Decisions) {
			t.Errorf("plan and pass differ:\n%+v\n%+v", plan, report.Decisions)
		}
		if len(plan) != 5 {
			t.Errorf("%d decisions, want one for each of the 5 names: %+v", len(plan), plan)
		}
		if want := []reaper.Result{{Name: "released", OK: true}}; !reflect.DeepEqual(report.Results, want) {
			t.Errorf("results %+v, want %+v", report.Results, want)
		}
		if d := decision(report.Decisions, "released"); d.Verdict != inventory.Reap {
			t.Errorf("released: %+v", d)
		}
	})
}

func decision(ds []inventory.Decision, name string) inventory.Decision {
	for _, d := range ds {
		if d.Name == name {
			return d
		}
	}
	return inventory.Decision{}
}

func TestDecideShowsRowsAsTheyAre(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		row := b.register("a", "alice")
		if ds := b.loop.Decide(t.Context(), []inventory.Cluster{row}); len(ds) != 1 || ds[0].Reason != inventory.Blind {
			t.Errorf("before the first pass: %+v", ds)
		}
		defer b.run()()
		b.world.create("a", server, "a1")
		b.world.create("z", server, "z1")
		b.pass()
		if ds := b.loop.Decide(t.Context(), []inventory.Cluster{*b.mem.row("a")}); len(ds) != 1 || ds[0].Reason != inventory.Leased {
			t.Errorf("leased: %+v", ds)
		}
		b.release(*b.mem.row("a"))
		if ds := b.loop.Decide(t.Context(), []inventory.Cluster{*b.mem.row("a")}); len(ds) != 1 || ds[0].Verdict != inventory.Reap {
			t.Errorf("released just now: %+v", ds)
		}
		same(t, "standing", b.world.stands(), []string{"a1", "z1"})
	})
}

func TestALookAtOneNameConcludesNothingAboutTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		defer b.run()()
		a, other := b.register("a", "alice"), b.register("other", "bob")
		alive := []inventory.Evidence{{Source: inventory.FromSession, Says: inventory.Alive}}
		b.world.edit(func(w *fakeWorld) { w.evidence = map[string][]inventory.Evidence{a.Lease: alive, other.Lease: alive} })
		b.world.create("other", "https://127.0.0.1:2", "o1")
		b.world.edit(func(w *fakeWorld) {
			w.contexts = []inventory.SeenContext{{File: "/f", Name: "other", Server: "https://127.0.0.1:2"}}
		})
		b.pass()
		before := b.mem.snapshot()
		b.world.create("a", server, "a1")
		time.Sleep(50 * time.Second)
		for range 3 {
			seen, err := b.loop.Look(t.Context(), "a")
			if err != nil || len(seen) != 1 || seen[0].ID != "a1" {
				t.Fatalf("Look: %v, %v", seen, err)
			}
			if _, err := b.loop.Look(t.Context(), "nobody"); err != nil {
				t.Fatal(err)
			}
		}
		after := b.mem.snapshot()
		if after.LastPass != before.LastPass || after.LastLook != before.LastLook || after.LastList != before.LastList || after.HeardFrom != before.HeardFrom {
			t.Errorf("a look at one name passes for a pass: %+v", after)
		}
		if !reflect.DeepEqual(after.Contexts, before.Contexts) || len(after.Contexts) != 1 {
			t.Errorf("contexts after a look at one name: %+v, before: %+v", after.Contexts, before.Contexts)
		}
		row := b.mem.row("a")
		if row.FirstSeen.IsZero() || row.MissingLooks != 0 || len(row.Evidence) != 1 || row.Evidence[0].Silent {
			t.Errorf("a: %+v", row)
		}
		if o := b.mem.row("other"); o.MissingLooks != 0 || o.Evidence[0].Silent {
			t.Errorf("other: %+v", o)
		}
		if len(after.Containers) != 2 || after.Containers[1].Lease != a.Lease {
			t.Errorf("containers: %+v", after.Containers)
		}
		b.world.edit(func(w *fakeWorld) { clear(w.containers) })
		for range 3 {
			if seen, err := b.loop.Look(t.Context(), "a"); err != nil || len(seen) != 0 {
				t.Fatalf("Look: %v, %v", seen, err)
			}
		}
		if n := b.mem.row("a").MissingLooks; n != 0 {
			t.Errorf("looks at one name count as %d looks", n)
		}
		b.world.set(hang("look"))
		if _, err := b.loop.Look(t.Context(), "a"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a look at a hung engine: %v", err)
		}
		if n := b.mem.row("a").MissingLooks; n != 0 {
			t.Errorf("a failed look counts as %d looks", n)
		}
	})
}
