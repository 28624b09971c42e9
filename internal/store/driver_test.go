package store_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/testbed-janitor/janitor/internal/inventory"
	"github.com/testbed-janitor/janitor/internal/inventory/driver"
	"github.com/testbed-janitor/janitor/internal/store"
)

// stores opens a new database for each inventory of a history.
type stores struct {
	*testing.T
	dir  string
	open []*store.Store
}

func (o *stores) New(clock func() inventory.Stamp) driver.Memory {
	s, err := store.Open(o.Context(), filepath.Join(o.dir, fmt.Sprintf("%d.db", len(o.open))))
	if err != nil {
		o.Fatal(err)
	}
	s.SetClock(clock)
	o.open = append(o.open, s)
	return s
}

func (o *stores) Restart(m driver.Memory, now inventory.Stamp) {
	if err := m.(*store.Store).Start(o.Context(), now); err != nil {
		o.Fatal(err)
	}
}

const stepsOfOne = 200 // one history; then a new world

func torture(t *testing.T, steps int) {
	t.Helper()
	first := uint64(1)
	if s, err := strconv.ParseUint(os.Getenv("JANITOR_TEST_SEED"), 10, 64); err == nil {
		first, steps = s, stepsOfOne
	}
	begun := 0
	for seed := first; steps > 0; seed, steps = seed+1, steps-stepsOfOne {
		begun += history(t, seed)
	}
	if begun == 0 {
		t.Error("no reap was begun")
	}
	t.Logf("%d reaps begun", begun)
}

func history(t *testing.T, seed uint64) (begun int) {
	t.Helper()
	dir, err := os.MkdirTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir) // a long run would fill the disk
	o := &stores{T: t, dir: dir}
	defer func() {
		for _, s := range o.open {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
	}()
	r := driver.Run(o, seed, stepsOfOne)
	if r.Harm != "" {
		t.Fatalf("seed %d (JANITOR_TEST_SEED): %s\n%s", seed, r.Harm, strings.Join(r.Trace, "\n"))
	}
	return r.Begun
}

// TestDriver plays random histories of a testbed with the real store as its
// memory: what is stored must hold the rules' promises as a map does.
func TestDriver(t *testing.T) {
	steps := 4 * stepsOfOne
	if testing.Short() {
		steps = stepsOfOne
	}
	torture(t, steps)
}

// TestTortureStore is the long run, with JANITOR_TEST_STEPS steps.
func TestTortureStore(t *testing.T) {
	steps, err := strconv.Atoi(os.Getenv("JANITOR_TEST_STEPS"))
	if err != nil {
		t.Skip("set JANITOR_TEST_STEPS, to 10000 say")
	}
	torture(t, steps)
}
