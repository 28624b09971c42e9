package reaper_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/testbed-janitor/janitor/internal/inventory"
)

func TestWhatALookDidNotReachIsNotGone(t *testing.T) {
	for _, silent := range []bool{false, true} {
		t.Run(fmt.Sprintf("silent=%v", silent), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				defer b.run()()
				row := b.register("a", "alice")
				b.world.create("a", server, "a1")
				b.pass()
				b.release(row)
				stood := b.world.containers
				b.world.set(func(ctx context.Context, op string, _ []string) error {
					if op != "observe" {
						return nil
					}
					<-ctx.Done()
					if silent { // an empty list, too late
						b.world.edit(func(w *fakeWorld) { w.containers = nil })
						return nil
					}
					return ctx.Err()
				})
				for range 4 {
					time.Sleep(time.Minute)
					if r := b.pass(); r.Error == "" || len(r.Results) != 0 {
						t.Errorf("a pass that saw nothing: %+v", r)
					}
				}
				s := b.loop.Status()
				if s.Blind == "" || !s.LastGood.Before(s.LastPass) {
					t.Errorf("status: %+v", s)
				}
				if row := b.mem.row("a"); row == nil || row.MissingLooks != 0 {
					t.Errorf("the row after blind passes: %+v", row)
				}
				if n := len(b.mem.kinds("blind")); n != 1 {
					t.Errorf("%d events blind, want 1", n)
				}
				b.world.set(nil)
				b.world.edit(func(w *fakeWorld) { w.containers = stood })
				b.pass()
				same(t, "standing", b.world.stands(), nil)
				if n := len(b.mem.kinds("blind")); n != 2 {
					t.Errorf("%d events blind, want one more at its end", n)
				}
				if s := b.loop.Status(); s.Blind != "" {
					t.Errorf("still blind: %q", s.Blind)
				}
			})
		})
	}
}

// What happens to a row between the look and the removal wins.
func TestARowThatChangedIsLeftToTheNextPass(t *testing.T) {
	alice := inventory.Caller{UID: 1000}
	for name, change := range map[string]func(b *bench, row inventory.Cluster) (inventory.Change, error){
		"renewed": func(b *bench, row inventory.Cluster) (inventory.Change, error) {
			return inventory.Renew(b.policy, b.mem.snapshot(), "a", inventory.Claim{Lease: row.Lease, Caller: alice}, time.Hour, b.now())
		},
		"held": func(b *bench, _ inventory.Cluster) (inventory.Change, error) {
			return inventory.SetHold(b.mem.snapshot(), "a", inventory.Hold{Until: b.now().At.Add(time.Hour), Reason: "look"}, alice, b.now())
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				defer b.run()()
				row := b.register("a", "alice")
				b.world.create("a", server, "a1")
				b.pass()
				time.Sleep(time.Until(b.start.Add(2*time.Hour + 15*time.Minute - time.Second)))
				synctest.Wait()
				raced := false
				b.mem.set(func(op, _ string) error {
					if op == "change" && !raced { // BeginReap of the expired lease
						raced = true
						b.mem.mu.Lock()
						defer b.mem.mu.Unlock()
						c, err := change(b, row)
						if err != nil {
							t.Errorf("change: %v", err)
						}
						b.mem.recs.Clusters = c.Rows
					}
					return nil
				})
				time.Sleep(2 * time.Second)
				synctest.Wait()
				if rs := b.loop.Status().Last.Results; !raced || len(rs) != 1 || rs[0].OK || !strings.HasPrefix(rs[0].Error, "skipped: ") {
					t.Fatalf("results %+v, want the row skipped", rs)
				}
				b.pass()
				same(t, "standing", b.world.stands(), []string{"a1"})
				if last := b.loop.Status(); last.Last.Error != "" {
					t.Errorf("a lost race is an error: %q", last.Last.Error)
				}
				if n := len(b.mem.kinds("reap-begun")); n != 0 {
					t.Errorf("%d reaps begun", n)
				}
				if row := b.mem.row("a"); row.State != inventory.Active {
					t.Errorf("the row is %s", row.State)
				}
			})
		})
	}
}

func TestDryRunRemovesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.policy.DryRun = true
		defer b.run()()
		row := b.register("a", "alice")
		b.world.create("a", server, "a1")
		b.pass()
		b.release(row)
		r := b.pass()
		same(t, "standing", b.world.stands(), []string{"a1"})
		if d := decision(r.Decisions, "a"); d.Verdict != inventory.Keep || d.Would != inventory.Reap || len(r.Results) != 0 {
			t.Errorf("decision %+v, results %+v", d, r.Results)
		}
	})
}

func TestTheBrakeKeepsOrphansAndIsLoggedOncePerChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		defer b.run()()
		synctest.Wait() // the first list is empty, so what comes is not inherited
		time.Sleep(time.Second)
		for i := range 5 {
			b.world.create(fmt.Sprintf("o%d", i), fmt.Sprintf("https://127.0.0.1:%d", i+1), fmt.Sprintf("id%d", i))
		}
		time.Sleep(4 * time.Hour)
		synctest.Wait()
		if n := len(b.world.stands()); n != 5 {
			t.Fatalf("%d of 5 orphans stand under the brake", n)
		}
		if s := b.loop.Status(); !s.Brake || s.BrakeCount != 5 {
			t.Errorf("status: brake %v, %d", s.Brake, s.BrakeCount)
		}
		if n := len(b.mem.kinds("brake")); n != 1 {
			t.Errorf("%d events brake, want 1", n)
		}
		if ds := b.loop.Decide(t.Context(), []inventory.Cluster{*b.mem.row("o3")}); len(ds) != 1 || ds[0].Reason != inventory.Brake {
			t.Errorf("one of five under the brake, shown alone: %+v", ds)
		}
		// An operator's plan lifts it, for exactly what was saved.
		saved, err := b.loop.Plan(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		b.world.create("o1", "https://127.0.0.1:2", "new")
		r, err := b.loop.Apply(t.Context(), saved, "uid:0")
		if err != nil {
			t.Fatal(err)
		}
		same(t, "standing", b.world.stands(), []string{"id1", "new"})
		for _, res := range r.Results {
			if changed := res.Name == "o1"; res.OK == changed || strings.HasPrefix(res.Error, "skipped: ") != changed {
				t.Errorf("result %+v", res)
			}
		}
		if len(r.Results) != 5 || len(r.Decisions) != 5 {
			t.Errorf("%d results, %d decisions, want 5 each", len(r.Results), len(r.Decisions))
		}
		for _, e := range b.mem.kinds("reap-begun") {
			if e.Actor != "uid:0" {
				t.Errorf("begun by %q", e.Actor)
			}
		}
		b.pass()
		if n := len(b.mem.kinds("brake")); n != 2 {
			t.Errorf("%d events brake, want one more at its end", n)
		}
	})
}

func TestNothingIsDecidedOnSightingsThatAreNotStored(t *testing.T) {
	full := &inventory.Problem{Code: inventory.CodeStorage, Message: "disk full"}
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		defer b.run()()
		begun, idle := b.register("begun", "alice"), b.register("idle", "bob")
		b.world.create("begun", "https://127.0.0.1:1", "b1", "b2")
		b.world.create("idle", "https://127.0.0.1:2", "i1")
		b.pass()
		b.release(begun)
		b.world.edit(func(w *fakeWorld) { w.stubborn["b1"] = errors.New("busy") })
		b.pass()
		b.release(idle)
		b.mem.set(func(op, _ string) error {
			if op == "records" {
				return nil
			}
			return full
		})
		b.world.edit(func(w *fakeWorld) { clear(w.stubborn) })
		b.world.create("begun", "https://127.0.0.1:3", "new")
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		same(t, "standing on a full disk", b.world.stands(), []string{"i1", "new"})
		if s := b.loop.Status(); s.Last.Error == "" || !s.LastGood.Before(s.LastPass) {
			t.Errorf("status: %+v", s)
		}
		if row := b.mem.row("begun"); row == nil || row.State != inventory.Reaping {
			t.Errorf("begun: %+v", row)
		}
		b.mem.set(nil)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		same(t, "standing with room again", b.world.stands(), []string{"new"})
		if row := b.mem.row("begun"); row == nil || row.Origin != inventory.Found {
			t.Errorf("what was made meanwhile has no row of its own: %+v", row)
		}
	})
}

// Sightings may fail to be stored while rows can be changed.
func TestOnlyRetriesRestOnNoSighting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		defer b.run()()
		begun, held, idle := b.register("begun", "alice"), b.register("held", "bob"), b.register("idle", "carol")
		b.world.create("begun", "https://127.0.0.1:1", "b1")
		b.world.create("held", "https://127.0.0.1:2", "h1")
		b.world.create("idle", "https://127.0.0.1:3", "i1")
		b.pass()
		b.release(begun)
		b.release(held)
		b.world.edit(func(w *fakeWorld) { w.stubborn["b1"] = errors.New("busy"); w.stubborn["h1"] = errors.New("busy") })
		b.pass()
		b.release(idle)
		b.world.edit(func(w *fakeWorld) { clear(w.stubborn) })
		raced := false
		b.mem.set(func(op, name string) error {
			if op == "sight" {
				return errors.New("database is locked")
			}
			if op == "change" && name == "held" && !raced { // a hold between the look and the attempt
				raced = true
				b.mem.mu.Lock()
				defer b.mem.mu.Unlock()
				for i := range b.mem.recs.Clusters {
					if c := &b.mem.recs.Clusters[i]; c.Name == "held" {
						c.Hold = &inventory.Hold{Until: b.now().At.Add(time.Hour), By: "uid:0", Reason: "look"}
						c.Version++
					}
				}
			}
			return nil
		})
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		if !raced {
			t.Fatal("the retry was not tried")
		}
		same(t, "standing", b.world.stands(), []string{"h1", "i1"})
	})
}

func TestFirstSightingsAndEndsOfHoldsAreInTheHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		defer b.run()()
		synctest.Wait()
		b.world.create("a", server, "old1")
		time.Sleep(2 * time.Second)
		b.register("a", "alice")
		b.world.create("a", server, "mine1")
		b.world.create("found", server, "f1")
		b.world.create("looked", server, "l1")
		if _, err := b.loop.Look(t.Context(), "looked"); err != nil {
			t.Fatal(err)
		}
		if _, err := b.mem.Change(t.Context(), "a", "", func(recs inventory.Records) (inventory.Change, error) {
			return inventory.SetHold(recs, "a", inventory.Hold{Until: b.now().At.Add(time.Minute), Reason: "look"}, inventory.Caller{}, b.now())
		}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		for kind, want := range map[string][]string{"found": {"found", "looked"}, "foreign": {"a"}, "hold-ended": {"a"}} {
			var names []string
			for _, e := range b.mem.kinds(kind) {
				names = append(names, e.Name)
			}
			same(t, kind, names, want)
		}
		if e := b.mem.kinds("foreign"); len(e) == 1 && e[0].Detail != "a-old1 old1 does not belong to this lease" {
			t.Errorf("foreign: %q", e[0].Detail)
		}
	})
}
