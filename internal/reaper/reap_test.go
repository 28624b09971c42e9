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
