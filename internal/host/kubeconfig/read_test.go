package kubeconfig

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestRead(t *testing.T) {
	path := put(t, config("a", "b"))
	got, err := Read(t.Context(), path, Configured(), quick)
	want := []Entry{{path, "a", "https://a"}, {path, "b", "https://b"}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v", got, err)
	}
	onlyHas(t, filepath.Dir(path), "config")
}

// Known to have none, or unknown: the difference is the point.
func TestReadErrors(t *testing.T) {
	tests := map[string]struct {
		path string
		err  error
	}{
		"missing":        {filepath.Join(t.TempDir(), "config"), fs.ErrNotExist},
		"missing folder": {filepath.Join(t.TempDir(), "x", "config"), fs.ErrNotExist},
		"empty":          {put(t, ""), nil}, // at both looks
		"blank":          {put(t, "\n \n# x\n"), nil},
		"none":           {put(t, config()), nil},
		"broken":         {put(t, "clusters: [\n"), ErrBroken},
		"too large":      {put(t, "x: "+strings.Repeat("y", MaxSize)), ErrTooLarge},
		"largest":        {put(t, "x: "+strings.Repeat("y", MaxSize-3)), nil},
		"folder":         {t.TempDir(), ErrUntrusted},
		"relative":       {"config", ErrUntrusted},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := Read(t.Context(), test.path, Configured(), Options{LockWait: 20 * time.Second})
			if !errors.Is(err, test.err) || len(got) > 0 {
				t.Errorf("got %v, %v, want error %v", got, err, test.err)
			}
		})
	}
}

func TestReadWithoutPermission(t *testing.T) {
	if !ordinaryUser(t, nil) {
		return
	}
	path := put(t, config("a"))
	must(t, os.Chmod(path, 0))
	if got, err := Read(t.Context(), path, Configured(), quick); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("a closed file: %v, %v", got, err)
	}
	must(t, os.Chmod(path, 0o600))
	must(t, os.Chmod(filepath.Dir(path), 0))
	got, err := Read(t.Context(), path, NamedByJob(uint32(os.Getuid())), quick)
	must(t, os.Chmod(filepath.Dir(path), 0o700))
	if !errors.Is(err, fs.ErrPermission) {
		t.Errorf("a file in a closed folder: %v, %v", got, err)
	}
}

// While somebody holds the lock the file may be half of itself.
func TestReadWhileLocked(t *testing.T) {
	for _, text := range []string{config("a"), ""} {
		path := put(t, text)
		must(t, os.WriteFile(path+".lock", nil, 0))
		if got, err := Read(t.Context(), path, Configured(), quick); !errors.Is(err, ErrLocked) {
			t.Errorf("got %v, %v", got, err)
		}
	}
}

// A writer truncates and writes, with the lock, as kind does, but stands still
// in between: empty, then with fewer clusters in good YAML.
// No look may end with less than what was always there.
func TestReadNeverSeesHalfAFile(t *testing.T) {
	path := put(t, config("always"))
	ctx, stop := context.WithCancel(t.Context())
	var writer sync.WaitGroup
	writer.Go(func() {
		const pause = 30 * time.Millisecond
		for ctx.Err() == nil {
			fd, err := unix.Open(path+".lock", unix.O_CREAT|unix.O_EXCL, 0)
			if err != nil {
				t.Error(err)
				return
			}
			_ = unix.Close(fd)
			f, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0)
			if err != nil {
				t.Error(err)
				return
			}
			time.Sleep(pause)
			_, _ = f.WriteString(config("x"))
			time.Sleep(pause)
			_, _ = f.WriteAt([]byte(config("x", "y", "z", "always")), 0)
			_ = f.Close()
			_ = os.Remove(path + ".lock")
			time.Sleep(pause)
		}
	})
	for range 20 {
		got, err := Read(ctx, path, Configured(), Options{LockWait: 20 * time.Second})
		if err != nil || !slices.ContainsFunc(got, func(e Entry) bool { return e.Name == "always" }) {
			t.Errorf("got %v, %v", got, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
	stop()
	writer.Wait()
}

// Without the lock, as an editor: what is empty or broken at the first look
// counts only if it is the same at the next.
func TestReadLooksAgainAtWhatIsDoubtful(t *testing.T) {
	for _, doubtful := range []string{"", "clusters: [\n"} {
		path := put(t, doubtful)
		steps := []string{"clusters: [a\n", "", config("a")}
		opts := Options{LockWait: 20 * time.Second, onPause: func() {
			must(t, os.WriteFile(path, []byte(steps[0]), 0o600))
			steps = steps[1:]
		}}
		got, err := Read(t.Context(), path, Configured(), opts)
		if err != nil || len(got) != 1 || len(steps) != 0 {
			t.Errorf("%q: got %v, %v, with %d steps to go", doubtful, got, err, len(steps))
		}
	}
}

// Whatever happens to the file or its lock after the reading, the look does
// not count.
func TestLookAtWhatChanges(t *testing.T) {
	path := put(t, config("a"))
	names, err := resolve(path, Configured())
	must(t, err)
	defer names.close()
	replace := func() error {
		return errors.Join(os.WriteFile(path+"2", []byte(config("a")), 0o600), os.Rename(path+"2", path))
	}
	changes := []struct {
		name string
		do   func() error
		want error
	}{
		{"nothing", func() error { return nil }, nil},
		{"written", func() error { return os.WriteFile(path, []byte(config("b")), 0o600) }, ErrChanging},
		{"mode", func() error { return os.Chmod(path, 0o640) }, ErrChanging},
		{"replaced", replace, ErrChanging},
		{"locked", func() error { return os.WriteFile(path+".lock", nil, 0) }, ErrLocked},
		{"unlocked and written", func() error { return errors.Join(os.Remove(path+".lock"), replace()) }, ErrChanging},
		{"removed", func() error { return os.Remove(path) }, ErrChanging},
	}
	for _, change := range changes {
		_, _, err := names.look(Configured(), Options{onRead: func() { must(t, change.do()) }})
		if !errors.Is(err, change.want) {
			t.Errorf("%s: %v, want %v", change.name, err, change.want)
		}
	}
}
