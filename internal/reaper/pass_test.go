package reaper_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/testbed-janitor/janitor/internal/inventory"
	"github.com/testbed-janitor/janitor/internal/reaper"
)

const server = "https://127.0.0.1:40001"

func TestAReleasedClusterGoesWithAllThatBelongedToIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		defer b.run()()
		row := b.register("a", "alice")
		b.world.create("a", server, "a1", "a2")
		mine := inventory.SeenContext{File: "/home/alice/config", Name: "a", Server: server}
		copied := inventory.SeenContext{File: "/etc/config", Name: "a", Server: server}
		tunnel := inventory.SeenContext{File: "/home/bob/config", Name: "a", Server: "https://127.0.0.1:9"}
		b.world.edit(func(w *fakeWorld) { w.contexts = []inventory.SeenContext{mine, copied, tunnel} })
		b.pass()
		b.release(row)
		b.loop.Poke()
		time.Sleep(time.Second)
		synctest.Wait()
		same(t, "standing", b.world.stands(), nil)
		if len(b.world.volumes) != 0 {
			t.Errorf("volumes left: %v", b.world.volumes)
		}
		if got := b.world.contexts; !reflect.DeepEqual(got, []inventory.SeenContext{tunnel}) {
			t.Errorf("kubeconfig entries left: %v, want that of the tunnel only", got)
		}
		if b.mem.row("a") != nil || len(b.mem.closed) != 1 || b.mem.closed[0].CloseReason != inventory.LetGo {
			t.Errorf("the row is not closed as released: %+v", b.mem.closed)
		}
		same(t, "asked to forget", b.world.asked, []string{
			"/etc/config a " + server + " 0 false", "/home/alice/config a " + server + " 1000 true",
		})
		if n := len(b.mem.kinds("context-forgotten")); n != 2 {
			t.Errorf("%d events context-forgotten, want 2", n)
		}
	})
}

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

func TestOneBadClusterStopsNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		defer b.run()()
		var rows []inventory.Cluster
		for i, name := range []string{"a", "b", "c", "d", "e", "f"} {
			rows = append(rows, b.register(name, "alice"))
			b.world.create(name, fmt.Sprintf("https://127.0.0.1:%d", i+1), name+"1", name+"2")
		}
		b.pass()
		for _, r := range rows {
			b.release(r)
		}
		b.world.edit(func(w *fakeWorld) { w.stubborn["b1"] = errors.New("device or resource busy") })
		b.world.set(func(ctx context.Context, op string, ids []string) error {
			if op == "remove" && ids[0] == "d1" {
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		})
		began := b.now()
		report := b.pass()
		same(t, "standing", b.world.stands(), []string{"b1", "d1", "d2"})
		for _, r := range report.Results {
			if bad := r.Name == "b" || r.Name == "d"; r.OK == bad {
				t.Errorf("result of %s: %+v", r.Name, r)
			}
		}
		if len(report.Results) != 6 {
			t.Errorf("%d results, want 6", len(report.Results))
		}
		if took := b.now().At.Sub(began.At); took != 2*time.Minute {
			t.Errorf("the pass took %s, want the deadline of one removal", took)
		}
		row := b.mem.row("b")
		if row.State != inventory.Reaping || !strings.Contains(row.LastError, "b1") || !strings.Contains(row.LastError, "busy") || strings.Contains(row.LastError, "b2") {
			t.Errorf("b: %s, %q", row.State, row.LastError)
		}
		if row := b.mem.row("d"); !strings.Contains(row.LastError, "not done in 2m0s") || row.NextTry == 0 {
			t.Errorf("d: next try %d, %q", row.NextTry, row.LastError)
		}
		// Both are tried again, later, and go once they can.
		b.world.edit(func(w *fakeWorld) { clear(w.stubborn) })
		b.world.set(nil)
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		same(t, "standing later", b.world.stands(), nil)
	})
}

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

func TestNothingIsRemovedWithoutAStoredIntent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		defer b.run()()
		row := b.register("a", "alice")
		b.world.create("a", server, "a1")
		b.pass()
		b.release(row)
		b.mem.set(func(op, _ string) error {
			if op == "change" {
				return &inventory.Problem{Code: inventory.CodeStorage, Message: "disk full"}
			}
			return nil
		})
		r := b.pass()
		same(t, "standing", b.world.stands(), []string{"a1"})
		if len(r.Results) != 1 || r.Results[0].OK || strings.HasPrefix(r.Results[0].Error, "skipped: ") {
			t.Errorf("results %+v, want a failure", r.Results)
		}
	})
}

func TestARowIsKeptUntilItsContainersWereSeenToBeGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		defer b.run()()
		row := b.register("a", "alice")
		b.world.create("a", server, "a1")
		b.pass()
		b.release(row)
		b.world.set(func(_ context.Context, op string, _ []string) error {
			if op == "standing" {
				return errors.New("the engine does not answer")
			}
			return nil
		})
		b.pass()
		if row := b.mem.row("a"); row == nil || !strings.Contains(row.LastError, "does not answer") || row.NextTry == 0 {
			t.Fatalf("the row: %+v", row)
		}
		b.world.set(nil)
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		if row := b.mem.row("a"); row != nil {
			t.Errorf("the row: %+v", row)
		}
	})
}

// What cannot be tidied up beside the containers is a warning.
func TestTidyingUpThatFailsKeepsNoRow(t *testing.T) {
	for _, what := range []string{"look", "forget", "volumes"} {
		for _, how := range []string{"fails", "hangs"} {
			t.Run(what+" "+how, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					b := newBench(t)
					defer b.run()()
					row := b.register("a", "alice")
					b.world.create("a", server, "a1")
					b.pass()
					b.release(row)
					b.world.set(func(ctx context.Context, op string, _ []string) error {
						if op != what {
							return nil
						}
						if how == "hangs" {
							<-ctx.Done()
							return ctx.Err()
						}
						return errors.New("read-only file system")
					})
					r := b.pass()
					if len(r.Results) != 1 || !r.Results[0].OK {
						t.Errorf("results %+v", r.Results)
					}
					if len(b.mem.closed) != 1 || len(b.mem.closed[0].Warnings) != 1 {
						t.Errorf("closed rows: %+v, want one with a warning", b.mem.closed)
					}
				})
			})
		}
	}
}

// Two rows may name one kubeconfig; the row that goes says whose it is.
func TestTheKubeconfigIsThatOfTheJobThatNamedIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		defer b.run()()
		b.register("0", "alice")
		row := b.register("a", "alice")
		b.mem.mu.Lock()
		for i := range b.mem.recs.Clusters {
			if b.mem.recs.Clusters[i].Name == "0" {
				b.mem.recs.Clusters[i].UID = 666
			}
		}
		b.mem.mu.Unlock()
		b.world.create("a", server, "a1")
		b.pass()
		b.release(row)
		b.pass()
		same(t, "asked to forget", b.world.asked, []string{"/home/alice/config a " + server + " 1000 true"})
	})
}

func TestStaleContextsAreForgottenAndNoOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		defer b.run()()
		row := b.register("a", "alice")
		b.world.create("a", server, "a1")
		b.pass()
		stale := inventory.SeenContext{File: "/f", Name: "a", Server: server}
		other := inventory.SeenContext{File: "/f", Name: "b", Server: server}
		b.world.edit(func(w *fakeWorld) { clear(w.containers) }) // kind delete, by somebody with another kubeconfig
		b.release(row)
		b.world.edit(func(w *fakeWorld) { w.contexts = []inventory.SeenContext{stale, other} })
		time.Sleep(20 * time.Minute)
		synctest.Wait()
		if got := b.world.contexts; !reflect.DeepEqual(got, []inventory.SeenContext{other}) {
			t.Errorf("entries left: %v, want %v", got, other)
		}
		if n := len(b.mem.kinds("context-forgotten")); n != 1 {
			t.Errorf("%d events context-forgotten, want 1", n)
		}
		if len(b.mem.closed) != 1 {
			t.Errorf("closed rows: %+v", b.mem.closed)
		}
	})
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
