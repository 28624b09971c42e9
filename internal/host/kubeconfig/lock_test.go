package kubeconfig

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
)

func TestLockLeftBehind(t *testing.T) {
	path := put(t, config("a"))
	made := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	must(t, os.WriteFile(path+".lock", nil, 0))
	must(t, os.Chtimes(path+".lock", made, made))
	opts := Options{LockWait: 20 * time.Millisecond, Now: func() time.Time { return made.Add(90 * time.Minute) }}
	removed, err := Remove(t.Context(), path, Configured(), []Entry{entry("a")}, opts)
	var locked *LockedError
	if removed != nil || !errors.Is(err, ErrLocked) || !errors.As(err, &locked) ||
		locked.Age != 90*time.Minute || locked.Lock != path+".lock" {
		t.Errorf("removed %q, %v", removed, err)
	}
	if content(t, path) != config("a") {
		t.Error("the file was changed")
	}
	onlyHas(t, filepath.Dir(path), "config", "config.lock")
}

func TestLockWaitEndsWithTheContext(t *testing.T) {
	path := put(t, config("a"))
	must(t, os.WriteFile(path+".lock", nil, 0))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err := Remove(ctx, path, Configured(), []Entry{entry("a")}, Options{LockWait: time.Hour})
	if !errors.Is(err, ErrLocked) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
}

// Who took our lock for left behind and took it anew keeps it.
func TestUnlockRemovesOnlyItsOwn(t *testing.T) {
	path := put(t, config("a"))
	names, err := resolve(path, Configured())
	must(t, err)
	defer names.close()
	unlock, err := names.lock(t.Context(), quick)
	must(t, err)
	if info, err := os.Stat(path + ".lock"); err != nil || info.Mode() != 0 || info.Size() != 0 {
		t.Errorf("the lock: %v, %v", info, err)
	}
	must(t, os.Remove(path+".lock"))
	must(t, os.WriteFile(path+".lock", nil, 0)) // as a rule with the same inode number
	must(t, unlock())
	onlyHas(t, filepath.Dir(path), "config", "config.lock")
	must(t, os.Remove(path+".lock"))

	unlock, err = names.lock(t.Context(), quick)
	must(t, err)
	must(t, unlock())
	must(t, unlock()) // it is gone: no error
	onlyHas(t, filepath.Dir(path), "config")
}

// Several locks are taken all or none.
func TestLockAllOrNone(t *testing.T) {
	file, dir := put(t, config("a")), t.TempDir()
	link := filepath.Join(dir, "config")
	must(t, os.Symlink(file, link))
	for _, blocked := range []string{file, link} {
		must(t, os.WriteFile(blocked+".lock", nil, 0))
		names, err := resolve(link, Configured())
		must(t, err)
		if _, err := names.lock(t.Context(), quick); !errors.Is(err, ErrLocked) {
			t.Error(err)
		}
		names.close()
		must(t, os.Remove(blocked+".lock"))
		onlyHas(t, dir, "config")
		onlyHas(t, filepath.Dir(file), "config")
	}
}

// Other processes add clusters the way kind does while entries are removed.
// None that was to stay is lost, none that was to go comes back.
func TestManyWritersLoseNothing(t *testing.T) {
	const writers, each = 4, 20
	path := put(t, config("old"))
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			cmd := exec.CommandContext(ctx, "/proc/self/exe", fmt.Sprint(w))
			cmd.Env = append(os.Environ(), envKindWriter+"="+path)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("writer: %v\n%s", err, out)
			}
		})
	}
	added := make(chan struct{})
	go func() { all.Wait(); close(added) }()
	var removers sync.WaitGroup
	var mu sync.Mutex
	gone := map[string]bool{} // guarded by mu
	for range 2 {
		removers.Go(func() {
			for last := false; ; {
				mu.Lock()
				goneBefore := maps.Clone(gone)
				mu.Unlock()
				entries, err := Read(ctx, path, Configured(), Options{LockWait: time.Minute})
				if err != nil {
					t.Error(err)
					return
				}
				if !slices.ContainsFunc(entries, func(e Entry) bool { return e.Name == "old" }) {
					t.Errorf("a reader saw half a file: %v", entries)
				}
				for _, e := range entries {
					if goneBefore[e.Name] {
						t.Errorf("%s came back", e.Name)
					}
				}
				odd := slices.DeleteFunc(entries, func(e Entry) bool { return !strings.HasSuffix(e.Name, "-go") })
				removed, err := Remove(ctx, path, Configured(), odd, Options{LockWait: time.Minute})
				if err != nil { // everybody here takes the lock
					t.Error(err)
					return
				}
				mu.Lock()
				for _, name := range removed {
					gone[name] = true
				}
				mu.Unlock()
				if last {
					return
				}
				select {
				case <-added:
					last = true // once more, for what came in between
				case <-time.After(time.Millisecond):
				}
			}
		})
	}
	removers.Wait()
	got := map[string]bool{}
	entries, err := Read(ctx, path, Configured(), Options{})
	must(t, err)
	for _, e := range entries {
		got[e.Name] = true
	}
	want := map[string]bool{"old": true}
	for w := range writers {
		for i := range each {
			want[fmt.Sprintf("w%d-%d-stay", w, i)] = true
		}
	}
	for name := range want {
		if !got[name] {
			t.Errorf("%s was lost", name)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d entries, want %d", len(got), len(want))
	}
	onlyHas(t, filepath.Dir(path), "config")
}

// kindWriter adds clusters as kind's WriteMerged does (pkg/cluster/internal/
// kubeconfig/internal/kubeconfig/merge.go of v0.33): lock, read, append, plain
// truncating write, unlock.
func kindWriter(path, id string) int {
	for i := range 20 {
		for _, kind := range []string{"stay", "go"} {
			if err := addAsKind(path, fmt.Sprintf("w%s-%d-%s", id, i, kind)); err != nil {
				fmt.Println(err)
				return 1
			}
		}
	}
	return 0
}

func addAsKind(path, name string) error {
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		f, err := os.OpenFile(path+".lock", os.O_CREATE|os.O_EXCL, 0)
		if err == nil {
			f.Close()
			break
		}
		if !os.IsExist(err) || time.Now().After(end) {
			return err
		}
	}
	defer os.Remove(path + ".lock")
	var have, add map[string]any
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := errors.Join(yaml.Unmarshal(b, &have), yaml.Unmarshal([]byte(config(name)), &add)); err != nil {
		return err
	}
	time.Sleep(time.Millisecond) // kind takes about as long
	for _, list := range lists {
		items, _ := have[list].([]any)
		have[list] = append(items, add[list].([]any)...)
	}
	have["current-context"] = "kind-" + name
	if b, err = yaml.Marshal(have); err != nil {
		return err
	}
	return os.WriteFile(path, b, 0o600)
}

// The real kind, which needs no engine here: it asks "docker ps", and a script
// answers that there is nothing.
func TestRealKind(t *testing.T) {
	out, err := exec.Command("go", "tool", "-n", "kind").Output()
	if err != nil {
		t.Skipf("no kind command: %v", err)
	}
	bin := t.TempDir()
	must(t, os.WriteFile(filepath.Join(bin, "docker"), []byte("#!/bin/sh\n"), 0o755))
	kind := func(path, name string) (string, error) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, strings.TrimSpace(string(out)), "delete", "cluster", "--name", name, "--kubeconfig", path)
		cmd.Env = append(os.Environ(), "PATH="+bin, "KIND_EXPERIMENTAL_PROVIDER=docker")
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	text := config("a", "b", "c")
	theirs, ours := put(t, text), put(t, text)

	// Each keeps the other out.
	names, err := resolve(theirs, Configured())
	must(t, err)
	defer names.close()
	unlock, err := names.lock(t.Context(), quick)
	must(t, err)
	if out, err := kind(theirs, "b"); err == nil || !strings.Contains(out, "lock") || content(t, theirs) != text {
		t.Errorf("kind under our lock: %v\n%s", err, out)
	}
	must(t, unlock())

	// Both leave the same file.
	if out, err := kind(theirs, "b"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if removed, err := Remove(t.Context(), ours, Configured(), []Entry{entry("b")}, quick); err != nil || len(removed) != 1 {
		t.Fatalf("removed %q, %v", removed, err)
	}
	if a, b := content(t, theirs), content(t, ours); a != b || !bytes.Equal([]byte(a), []byte(config("a", "c"))) {
		t.Errorf("kind left\n%s\nwe left\n%s", a, b)
	}
	if out, err := kind(ours, "a"); err != nil || content(t, ours) != config("c") {
		t.Errorf("kind after us: %v\n%s\n%s", err, out, content(t, ours))
	}
}
