package store

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/testbed-janitor/janitor/internal/inventory"
)

// envChild makes the test binary be the service that is killed: it registers
// rows in the database of this path.
const envChild = "STORE_TEST_CHILD"

func TestMain(m *testing.M) {
	if path := os.Getenv(envChild); path != "" {
		os.Exit(registerForEver(path))
	}
	goleak.VerifyTestMain(m)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func openAt(t testing.TB, path string) *Store {
	t.Helper()
	s, err := Open(t.Context(), path)
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	return s
}

func open(t testing.TB) *Store {
	t.Helper()
	return openAt(t, filepath.Join(t.TempDir(), "janitor.db"))
}

func stamp(n int) inventory.Stamp {
	return inventory.Stamp{At: inventory.Instant(n), Wall: time.Unix(1_700_000_000, int64(n)).UTC()}
}

func row(name string) inventory.Cluster {
	return inventory.Cluster{Name: name, Lease: "lease-" + name, State: inventory.Active, Origin: inventory.Registered, Version: 1, Registered: stamp(1)}
}

// put is a rule that writes these rows.
func put(rows ...inventory.Cluster) func(inventory.Records) (inventory.Change, error) {
	return func(inventory.Records) (inventory.Change, error) {
		return inventory.Change{Rows: rows, Cluster: rows[0]}, nil
	}
}

func add(t testing.TB, s *Store, c inventory.Cluster) inventory.Cluster {
	t.Helper()
	got, err := s.Change(t.Context(), c.Name, "", put(c))
	must(t, err)
	if got.Cluster.ID == 0 {
		t.Fatal("the answer has no row ID")
	}
	return got.Rows[0]
}

func records(t testing.TB, s *Store) inventory.Records {
	t.Helper()
	recs, err := s.Records(t.Context())
	must(t, err)
	return recs
}

func same(t testing.TB, what string, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s:\n got %+v\nwant %+v", what, got, want)
	}
}

func isCode(err error, code inventory.Code) bool {
	var p *inventory.Problem
	return errors.As(err, &p) && p.Code == code
}

// after is a context that guards a test against hanging.
func after(t testing.TB, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}
