package store

import (
	"path/filepath"
	"reflect"
	"strconv"
	"testing"
	"time"

	"github.com/testbed-janitor/janitor/internal/inventory"
)

// fill gives every field, also of a type that grows later, a value of its own
// that is not its zero.
func fill(t testing.TB, v reflect.Value, n *int64) {
	t.Helper()
	*n++
	if at, ok := v.Addr().Interface().(*time.Time); ok {
		*at = time.Unix(1_700_000_000+*n, *n).UTC()
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(t, v.Field(i), n)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem(), n)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(t, v.Index(0), n)
		fill(t, v.Index(1), n)
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(t, key, n)
		fill(t, value, n)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.String:
		v.SetString("text " + strconv.FormatInt(*n, 10) + " ünï\"'\n\x01<&>")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(*n)
	case reflect.Uint32, reflect.Uint64:
		v.SetUint(uint64(*n))
	default:
		t.Fatalf("nobody knows how to fill a %s", v.Type())
	}
}

func filled[T any](t testing.TB) (v T) {
	t.Helper()
	var n int64
	fill(t, reflect.ValueOf(&v).Elem(), &n)
	return v
}

// reopen shows what is on the disk, not what somebody remembers.
func reopen(t *testing.T, s *Store) *Store {
	t.Helper()
	must(t, s.Close())
	return openAt(t, s.Path())
}

func TestClusterKeepsEveryField(t *testing.T) {
	s := open(t)
	for i, state := range []inventory.State{inventory.Active, inventory.Released, inventory.Reaping, inventory.Closed} {
		c := filled[inventory.Cluster](t)
		c.ID, c.State, c.Origin = 0, state, inventory.Adopted
		c.Name += string(state)
		c.Labels[""] = "" // an empty one is one too
		want := add(t, s, c)
		if want.ID != int64(i+1) {
			t.Errorf("row %d has the ID %d", i+1, want.ID)
		}
		s = reopen(t, s)
		got, _, err := s.Cluster(t.Context(), c.Name)
		must(t, err)
		same(t, "inserted "+string(state), got, want)

		want.Version++
		want.LastError, want.Hold, want.Labels, want.Owner = "", nil, nil, "another"
		_, err = s.Change(t.Context(), c.Name, "", put(want))
		must(t, err)
		s = reopen(t, s)
		got, _, err = s.Cluster(t.Context(), c.Name)
		must(t, err)
		same(t, "replaced "+string(state), got, want)
		list, err := s.Clusters(t.Context(), Filter{State: "all", Owner: "another", Job: c.Job})
		must(t, err)
		if len(list) != i+1 {
			t.Errorf("%d rows have the new owner, want %d", len(list), i+1)
		}
	}
	if n := len(records(t, s).Clusters); n != 3 {
		t.Errorf("the records have %d rows, want the 3 that are not closed", n)
	}
}

func TestRecordsKeepEveryField(t *testing.T) {
	s := open(t)
	want := filled[inventory.Records](t)
	for i := range want.Clusters {
		want.Clusters[i].ID, want.Clusters[i].State, want.Clusters[i].Origin = 0, inventory.Active, inventory.Found
	}
	want.Begun = nil // counted from the rows: see TestBegun
	must(t, s.SaveSight(t.Context(), inventory.Records{}, want))
	for i := range want.Clusters {
		want.Clusters[i].ID = int64(i + 1)
	}
	s = reopen(t, s)
	same(t, "records", records(t, s), want)
}

// TestContainersOfAChange: they are written with the rows.
func TestContainersOfAChange(t *testing.T) {
	s := open(t)
	k := filled[inventory.Container](t)
	k.Cluster = "a"
	change := inventory.Change{Rows: []inventory.Cluster{row("a")}, Containers: []inventory.Container{k}}
	_, err := s.Change(t.Context(), "a", "", func(inventory.Records) (inventory.Change, error) { return change, nil })
	must(t, err)
	_, got, err := s.Cluster(t.Context(), "a")
	must(t, err)
	same(t, "containers", got, []inventory.Container{k})
	same(t, "containers of the records", records(t, s).Containers, []inventory.Container{k})
}

func TestEventsAndPlansKeepEveryField(t *testing.T) {
	s := open(t)
	e := filled[inventory.Event](t)
	bare := inventory.Event{Kind: "started"} // a stamp never set stays unset
	must(t, s.Log(t.Context(), []inventory.Event{e, bare}))
	plan := []inventory.Decision{filled[inventory.Decision](t), {}}
	must(t, s.SavePlan(t.Context(), "p", stamp(7), plan))
	s = reopen(t, s)
	e.ID, bare.ID = 1, 2
	got, err := s.Events(t.Context(), EventFilter{})
	must(t, err)
	same(t, "events", got, []inventory.Event{e, bare})
	got, err = s.Events(t.Context(), EventFilter{Name: e.Name, Since: e.At.Wall})
	must(t, err)
	same(t, "events of a name since", got, []inventory.Event{e})
	got, err = s.Events(t.Context(), EventFilter{Name: e.Name, After: e.ID})
	must(t, err)
	same(t, "events after the last", len(got), 0)
	at, ds, err := s.Plan(t.Context(), "p")
	must(t, err)
	same(t, "plan", ds, plan)
	same(t, "plan's time", at, stamp(7))
	if _, _, err := s.Plan(t.Context(), "q"); !isCode(err, inventory.CodeNotFound) {
		t.Errorf("a plan that is not there: %v", err)
	}
}

func TestClockAndStartAreKept(t *testing.T) {
	s := open(t)
	boot, base, last, err := s.Clock(t.Context())
	must(t, err)
	same(t, "a new clock", []any{boot, base, last}, []any{"", int64(0), int64(0)})
	must(t, s.SaveClock(t.Context(), "b1", 2, 3))
	must(t, s.SaveClock(t.Context(), "b2", 4, 5))
	must(t, s.Start(t.Context(), stamp(10)))
	s = reopen(t, s)
	must(t, s.Start(t.Context(), stamp(20)))
	boot, base, last, err = s.Clock(t.Context())
	must(t, err)
	same(t, "the clock", []any{boot, base, last}, []any{"b2", int64(4), int64(5)})
	recs := records(t, s)
	same(t, "birth", recs.Birth, stamp(10))
	same(t, "heard from", recs.HeardFrom, inventory.Instant(20))
}

// TestBegun: orphan reaps of the last hour count, also when closed, but not
// those of an operator or for another reason.
func TestBegun(t *testing.T) {
	s := open(t)
	hour := int(time.Hour)
	s.SetClock(func() inventory.Stamp { return stamp(2 * hour) })
	for i, c := range []inventory.Cluster{
		{ReapReason: inventory.Orphan, Began: stamp(hour + 2), State: inventory.Closed},
		{ReapReason: inventory.Orphan, Began: stamp(hour + 1), State: inventory.Reaping},
		{ReapReason: inventory.Orphan, Began: stamp(hour), State: inventory.Reaping},
		{ReapReason: inventory.Orphan, Began: stamp(hour + 3), State: inventory.Reaping, ReapBy: "uid:0"},
		{ReapReason: "expired", Began: stamp(hour + 4), State: inventory.Reaping},
	} {
		c.Name, c.Origin = "c"+strconv.Itoa(i), inventory.Found
		add(t, s, c)
	}
	same(t, "begun", records(t, s).Begun, []inventory.Instant{inventory.Instant(hour + 1), inventory.Instant(hour + 2)})
}

// TestOddPaths: a path is a path, and never a part of the DSN.
func TestOddPaths(t *testing.T) {
	for _, name := range []string{"a?mode=memory", "b#c", "d%41", "e f", "ü&_query_only=true"} {
		path := filepath.Join(t.TempDir(), name)
		s := openAt(t, path)
		add(t, s, row("x"))
		if s.Size() == 0 {
			t.Errorf("nothing was written to %q", path)
		}
	}
	if _, err := Open(t.Context(), "relative.db"); err == nil {
		t.Error("a relative path was opened")
	}
}
