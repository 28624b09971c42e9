package testbed

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

const janitorPackage = "github.com/testbed-janitor/janitor/cmd/janitor"

// Janitor returns the path of the janitor's binary: JANITOR_TEST_BINARY, else
// it is built, once per test process.
func Janitor(t testing.TB) string {
	t.Helper()
	if path := os.Getenv("JANITOR_TEST_BINARY"); path != "" {
		return path
	}
	path, err := buildJanitor()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

var buildJanitor = sync.OnceValues(func() (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute) // a cold build takes some minutes
	defer cancel()
	return build(ctx, janitorPackage, binaries())
})

// binaries is where built binaries are kept: under the user's cache, since a
// process cannot tell when its last test has ended.
func binaries() string {
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	return filepath.Join(cache, "janitor-testbed")
}

// build builds a command into a folder of dir that is named after the
// content: processes with equal sources share one file, others do not disturb
// each other. Binaries that nobody asked for in a day are removed.
func build(ctx context.Context, pkg, dir string) (string, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	tmp, err := os.MkdirTemp(dir, "new-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(tmp)
	name := filepath.Base(pkg)
	built := filepath.Join(tmp, name)
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", built, pkg).CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build %s: %w\n%s", pkg, err, out)
	}
	b, err := os.ReadFile(built)
	if err != nil {
		return "", err
	}
	home := filepath.Join(dir, sum(b)[:16])
	if err := os.Rename(tmp, home); err != nil {
		// Another process was first, or it is there from an earlier run.
		if _, statErr := os.Stat(filepath.Join(home, name)); statErr != nil {
			return "", errors.Join(err, statErr)
		}
	}
	now := time.Now()
	if err := os.Chtimes(home, now, now); err != nil {
		return "", err
	}
	return filepath.Join(home, name), prune(dir, now.Add(-24*time.Hour))
}

// prune removes what was last asked for before the given time.
func prune(dir string, before time.Time) error {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if info, statErr := e.Info(); statErr == nil && info.ModTime().Before(before) {
			err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
		}
	}
	return err
}
