package store_test

import (
	"fmt"
	"path/filepath"
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

// TestDriver plays random histories of a testbed with the real store as its
// memory: what is stored must hold the rules' promises as a map does.
func TestDriver(t *testing.T) {
	histories := uint64(4)
	if testing.Short() {
		histories = 1
	}
	for seed := uint64(1); seed <= histories; seed++ {
		o := &stores{T: t, dir: t.TempDir()}
		r := driver.Run(o, seed, 200)
		for _, s := range o.open {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
		if r.Harm != "" {
			t.Fatalf("seed %d: %s\n%s", seed, r.Harm, strings.Join(r.Trace, "\n"))
		}
		if r.Begun == 0 {
			t.Errorf("seed %d: no reap was begun", seed)
		}
	}
}
