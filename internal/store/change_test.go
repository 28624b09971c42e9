package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/testbed-janitor/janitor/internal/inventory"
)

func TestOneLiveRowOfAName(t *testing.T) {
	s := open(t)
	first := add(t, s, row("a"))
	for _, state := range []inventory.State{inventory.Active, inventory.Released, inventory.Reaping} {
		second := row("a")
		second.State, second.Lease = state, "another"
		if _, err := s.Change(t.Context(), "a", "", put(second)); err == nil {
			t.Errorf("a second row, %s, beside a live one", state)
		}
	}
	closed := first
	closed.State, closed.Ended = inventory.Closed, stamp(5)
	second := row("a")
	second.Lease = "second"
	got, err := s.Change(t.Context(), "a", "", put(closed, second)) // in this order, in one transaction
	must(t, err)
	live, _, err := s.Cluster(t.Context(), "a")
	must(t, err)
	same(t, "the live row", live, got.Rows[1])
	if live.ID <= first.ID || live.Lease != "second" {
		t.Errorf("the live row is %+v", live)
	}
	counts, err := s.Counts(t.Context())
	must(t, err)
	same(t, "counts", counts, map[inventory.State]int{inventory.Active: 1, inventory.Closed: 1})
}

// TestARuleSees: the live row, the last closed one, and the claimed one of the
// name; nothing of other names.
func TestARuleSees(t *testing.T) {
	s := open(t)
	for i, lease := range []string{"oldest", "older", "old"} {
		c := row("a")
		c.Lease, c.State, c.Ended = lease, inventory.Closed, stamp(i+1)
		add(t, s, c)
	}
	add(t, s, row("a"))
	add(t, s, row("b"))
	for lease, want := range map[string]string{"": "lease-a old", "oldest": "lease-a old oldest", "lease-b": "lease-a old"} {
		var seen []string
		_, err := s.Change(t.Context(), "a", lease, func(recs inventory.Records) (inventory.Change, error) {
			for _, c := range recs.Clusters {
				seen = append(seen, c.Lease)
			}
			return inventory.Change{}, nil
		})
		must(t, err)
		if got := strings.Join(seen, " "); got != want {
			t.Errorf("claiming %q a rule sees %q, want %q", lease, got, want)
		}
	}
}

var errRefused = errors.New("refused by the rule")

// TestARefusalTakesNobodyAlong: in one batch, every other rule is refused after
// it wrote; the others are kept.
func TestARefusalTakesNobodyAlong(t *testing.T) {
	s := open(t)
	// Hold the writer, so that all below wait together.
	held, hold := make(chan bool), make(chan bool)
	var callers sync.WaitGroup
	callers.Go(func() {
		_, err := s.Change(context.Background(), "holder", "", func(inventory.Records) (inventory.Change, error) {
			close(held)
			<-hold
			return inventory.Change{Rows: []inventory.Cluster{row("holder")}}, nil
		})
		if err != nil {
			t.Error(err)
		}
	})
	<-held
	outcome := make([]error, 20)
	for i := range outcome {
		callers.Go(func() {
			outcome[i] = s.do(context.Background(), func(ctx context.Context, tx *sql.Tx) error {
				c := row(fmt.Sprintf("c%d", i))
				if err := saveCluster(ctx, tx, &c); err != nil {
					return err
				}
				if err := saveEvent(ctx, tx, inventory.Event{Kind: "registered", Name: c.Name}); err != nil {
					return err
				}
				if i%2 == 1 {
					return errRefused
				}
				return nil
			})
		})
	}
	close(hold)
	callers.Wait()
	var want []string
	for i, err := range outcome {
		if i%2 == 1 != errors.Is(err, errRefused) || i%2 == 0 && err != nil {
			t.Errorf("c%d was answered %v", i, err)
		}
		if i%2 == 0 {
			want = append(want, fmt.Sprintf("c%d", i))
		}
	}
	kept := map[string]bool{}
	for _, c := range records(t, s).Clusters {
		kept[c.Name] = true
	}
	for _, name := range want {
		if !kept[name] {
			t.Errorf("%s was answered and is not there", name)
		}
	}
	if len(kept) != len(want)+1 {
		t.Errorf("there are %v", kept)
	}
	events, err := s.Events(t.Context(), EventFilter{})
	must(t, err)
	if len(events) != len(want) {
		t.Errorf("%d events, want %d", len(events), len(want))
	}
}

func TestChangedIsClosedAtACommit(t *testing.T) {
	s := open(t)
	changed := s.Changed()
	select {
	case <-changed:
		t.Fatal("nothing was changed")
	default:
	}
	add(t, s, row("a"))
	select {
	case <-changed:
	case <-after(t, 10*time.Second).Done():
		t.Error("nobody was told")
	}
}

// TestSaveSightLeavesWhatChanged: a row that a call changed while the pass
// looked keeps the call's word, and so do its containers; the rest is stored.
func TestSaveSightLeavesWhatChanged(t *testing.T) {
	s := open(t)
	for _, name := range []string{"changed", "closed", "exchanged", "quiet"} {
		k := inventory.Container{ID: "id-" + name, Cluster: name, State: "running", First: stamp(1), Last: stamp(1)}
		c := inventory.Change{Rows: []inventory.Cluster{row(name)}, Containers: []inventory.Container{k}}
		_, err := s.Change(t.Context(), name, "", func(inventory.Records) (inventory.Change, error) { return c, nil })
		must(t, err)
	}
	must(t, s.SaveSight(t.Context(), inventory.Records{}, inventory.Records{LastList: stamp(50)}))
	before := records(t, s)

	seen := records(t, s) // what the pass makes of it
	for i := range seen.Clusters {
		seen.Clusters[i].LastSeen = stamp(100)
	}
	for i := range seen.Containers {
		seen.Containers[i].Last = stamp(100)
	}
	late := row("late") // found by the pass, registered meanwhile
	late.Lease, late.Origin = "", inventory.Found
	found := row("found")
	found.Lease, found.Origin = "", inventory.Found
	seen.Clusters = append(seen.Clusters, late, found)
	seen.LastList, seen.LastPass, seen.LastLook = stamp(100), 100, 100

	for _, c := range before.Clusters { // meanwhile
		switch c.Name {
		case "changed":
			c.Version, c.Job = c.Version+1, "renewed"
		case "closed", "exchanged":
			c.Version, c.State, c.Ended = c.Version+1, inventory.Closed, stamp(90)
		default:
			continue
		}
		k := inventory.Container{ID: "id-" + c.Name, Cluster: c.Name, State: "exited", First: stamp(1), Last: stamp(90)}
		change := inventory.Change{Rows: []inventory.Cluster{c}, Containers: []inventory.Container{k}}
		_, err := s.Change(t.Context(), c.Name, "", func(inventory.Records) (inventory.Change, error) { return change, nil })
		must(t, err)
	}
	registered := add(t, s, row("late"))
	exchanged := add(t, s, row("exchanged")) // another row, of the version that was read
	must(t, s.SaveSight(t.Context(), before, seen))

	got := map[string]inventory.Cluster{}
	for _, c := range records(t, s).Clusters {
		got[c.Name] = c
	}
	if c := got["changed"]; c.Job != "renewed" || !c.LastSeen.IsZero() {
		t.Errorf("the changed row became %+v", c)
	}
	if c, ok := got["closed"]; ok {
		t.Errorf("the closed row lives again: %+v", c)
	}
	same(t, "registered meanwhile", got["late"], registered)
	same(t, "closed and registered anew", got["exchanged"], exchanged)
	same(t, "a quiet row's sighting", got["quiet"].LastSeen, stamp(100))
	if c := got["found"]; c.ID == 0 || c.Origin != inventory.Found {
		t.Errorf("the found row is %+v", c)
	}
	for _, k := range records(t, s).Containers {
		want := inventory.Instant(90)
		if k.Cluster == "quiet" {
			want = 100
		}
		if k.Last.At != want {
			t.Errorf("%s was last seen at %d, want %d", k.ID, k.Last.At, want)
		}
	}
	same(t, "last list: no first sighting was left out", records(t, s).LastList, stamp(100))
}

// TestAListWithASightingLeftOut is not the last one; see SaveSight.
func TestAListWithASightingLeftOut(t *testing.T) {
	s := open(t)
	c := add(t, s, row("a"))
	must(t, s.SaveSight(t.Context(), inventory.Records{}, inventory.Records{LastList: stamp(50)}))
	before := records(t, s)
	c.Version++
	_, err := s.Change(t.Context(), "a", "", put(c))
	must(t, err)
	seen := before
	seen.Containers = []inventory.Container{{ID: "new", Cluster: "a", First: stamp(100), Last: stamp(100)}}
	seen.LastList, seen.LastPass, seen.LastLook = stamp(100), 100, 100
	must(t, s.SaveSight(t.Context(), before, seen))
	got := records(t, s)
	same(t, "last list", got.LastList, stamp(50))
	same(t, "last pass", got.LastPass, inventory.Instant(100))
	same(t, "containers", len(got.Containers), 0)
}

func TestPruneKeepsWhatLives(t *testing.T) {
	s := open(t)
	old, young := stamp(10), stamp(30)
	live := row("live")
	add(t, s, live)
	for _, c := range []struct {
		name string
		end  inventory.Stamp
	}{{"old", old}, {"young", young}} {
		gone := row(c.name)
		gone.State, gone.Ended = inventory.Closed, c.end
		add(t, s, gone)
		must(t, s.Log(t.Context(), []inventory.Event{{At: c.end, Kind: "closed", Name: c.name}}))
		must(t, s.SavePlan(t.Context(), c.name, c.end, nil))
	}
	containers := []inventory.Container{{ID: "1", Cluster: "live", Last: old}, {ID: "2", Cluster: "old", Last: old}, {ID: "3", Cluster: "young", Last: young}}
	before := records(t, s)
	seen := before
	seen.Containers = containers
	must(t, s.SaveSight(t.Context(), before, seen))
	must(t, s.Prune(t.Context(), stamp(20).Wall))
	counts, err := s.Counts(t.Context())
	must(t, err)
	same(t, "rows", counts, map[inventory.State]int{inventory.Active: 1, inventory.Closed: 1})
	var ids []string
	for _, k := range records(t, s).Containers {
		ids = append(ids, k.ID)
	}
	same(t, "containers", ids, []string{"1", "3"})
	events, err := s.Events(t.Context(), EventFilter{})
	must(t, err)
	if len(events) != 1 || events[0].Name != "young" {
		t.Errorf("events are %+v", events)
	}
	if _, _, err := s.Plan(t.Context(), "old"); !isCode(err, inventory.CodeNotFound) {
		t.Errorf("the old plan: %v", err)
	}
	_, _, err = s.Plan(t.Context(), "young")
	must(t, err)
}
