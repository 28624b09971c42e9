package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/testbed-janitor/janitor/internal/inventory"
)

// smallDisk mounts one of two megabytes.
func smallDisk(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=2m"); err != nil {
		t.Skipf("needs root, to mount a small disk: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// TestAFullDisk: a write is refused with a code a client can act on, what was
// answered stays readable, owners count as not heard until now, and writes go
// on once there is space.
func TestAFullDisk(t *testing.T) {
	dir := smallDisk(t)
	s := openAt(t, filepath.Join(dir, "janitor.db"))
	now := stamp(1000)
	s.SetClock(func() inventory.Stamp { return now })
	must(t, s.Start(t.Context(), now))
	before := records(t, s) // of a pass that looks meanwhile
	now = stamp(2000)

	filler, err := os.Create(filepath.Join(dir, "filler"))
	must(t, err)
	for block := make([]byte, 4096); err == nil; {
		_, err = filler.Write(block)
	}
	must(t, filler.Close())
	if !errors.Is(err, unix.ENOSPC) {
		t.Fatal(err)
	}

	// The log may have room for some more.
	var answered []string
	var refused error
	for i := 0; refused == nil && i < 1000; i++ {
		c := row(fmt.Sprintf("c%d", i))
		c.URL = strings.Repeat("x", 4096)
		if _, refused = s.Change(t.Context(), c.Name, "", put(c)); refused == nil {
			answered = append(answered, c.Name)
		}
	}
	if !isCode(refused, inventory.CodeStorage) {
		t.Fatalf("a full disk is answered with %v, want a Problem with the code %q", refused, inventory.CodeStorage)
	}
	// One that is refused ends the transaction of all that wait with it: each is
	// told of the disk.
	var callers sync.WaitGroup
	for i := range 20 {
		callers.Go(func() {
			c := row(fmt.Sprintf("together%d", i))
			c.URL = strings.Repeat("x", 4096)
			if _, err := s.Change(t.Context(), c.Name, "", put(c)); !isCode(err, inventory.CodeStorage) {
				t.Errorf("a full disk is answered with %v", err)
			}
		})
	}
	callers.Wait()
	recs := records(t, s)
	if len(recs.Clusters) != len(answered) {
		t.Errorf("%d rows are readable, %d were answered", len(recs.Clusters), len(answered))
	}
	same(t, "heard from", recs.HeardFrom, inventory.Instant(2000))
	if _, err := s.Counts(t.Context()); err != nil {
		t.Errorf("reading a full disk: %v", err)
	}

	must(t, os.Remove(filler.Name()))
	now = stamp(3000)
	add(t, s, row("space-again"))
	must(t, s.SaveSight(t.Context(), before, before))
	s = reopen(t, s) // the gap is remembered
	same(t, "heard from, after a restart", records(t, s).HeardFrom, inventory.Instant(2000))
	if got := len(records(t, s).Clusters); got != len(answered)+1 {
		t.Errorf("%d rows, want %d", got, len(answered)+1)
	}
	integrity(t, s.Path())
}
