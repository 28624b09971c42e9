package host

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/testbed-janitor/janitor/internal/host/engine"
	"github.com/testbed-janitor/janitor/internal/inventory"
	"github.com/testbed-janitor/janitor/internal/testbed/fakeengine"
)

// newWorld is a World over a fake engine and these kubeconfigs.
func newWorld(t *testing.T, kubeconfigs ...string) (*fakeengine.Engine, *World) {
	t.Helper()
	started := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, started) })
	dir, err := os.MkdirTemp("", "w") // a socket's path is at most 107 bytes
	noError(t, err)
	t.Cleanup(func() { noError(t, os.RemoveAll(dir)) })
	f, err := fakeengine.Listen(filepath.Join(dir, "s"))
	noError(t, err)
	t.Cleanup(func() { noError(t, f.Close()) })
	e, err := engine.Open(f.Host())
	noError(t, err)
	t.Cleanup(func() { noError(t, e.Close()) })
	return f, &World{
		Engine: e, Boot: "boot", Interval: func() time.Duration { return time.Minute },
		Kubeconfigs: func() []string { return kubeconfigs },
	}
}

func noError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// kubeconfigFile has clusters as kind writes them: NAME SERVER, in turn.
func kubeconfigFile(t *testing.T, namesAndServers ...string) string {
	t.Helper()
	var clusters, contexts, users strings.Builder
	for pair := range slices.Chunk(namesAndServers, 2) {
		fmt.Fprintf(&clusters, "- cluster:\n    server: %s\n  name: kind-%s\n", pair[1], pair[0])
		fmt.Fprintf(&contexts, "- context:\n    cluster: kind-%s\n    user: kind-%[1]s\n  name: kind-%[1]s\n", pair[0])
		fmt.Fprintf(&users, "- name: kind-%s\n  user:\n    token: t\n", pair[0])
	}
	path := filepath.Join(t.TempDir(), "config")
	noError(t, os.WriteFile(path, []byte("apiVersion: v1\nclusters:\n"+clusters.String()+"contexts:\n"+contexts.String()+"kind: Config\nusers:\n"+users.String()), 0o600))
	return path
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	noError(t, err)
	return string(b)
}

// contextsOf are the entries as "NAME SERVER LISTENING", sorted.
func contextsOf(seen inventory.Observation, file string) []string {
	var out []string
	for _, c := range seen.Contexts {
		if c.File != file {
			continue
		}
		listening := "unknown"
		if c.Listening != nil {
			listening = fmt.Sprint(*c.Listening)
		}
		out = append(out, c.Name+" "+c.Server+" "+listening)
	}
	slices.Sort(out)
	return out
}

func equal(t *testing.T, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

// TestObserve reads the engine and the files, and says where somebody listens.
func TestObserve(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	noError(t, err)
	defer l.Close()
	silent, err := net.Listen("tcp4", "127.0.0.1:0")
	noError(t, err)
	noError(t, silent.Close())
	heard, unheard := "https://"+l.Addr().String(), "https://"+silent.Addr().String()

	configured := kubeconfigFile(t, "up", heard, "down", unheard, "elsewhere", "https://192.0.2.1:6443")
	named := kubeconfigFile(t, "of-a-job", heard)
	f, w := newWorld(t, configured, filepath.Join(t.TempDir(), "not-there"))
	node := f.AddNode("up", "control-plane")
	other := kubeconfigFile(t, "not-asked-for", heard)
	seen := w.Observe(t.Context(), inventory.Records{Clusters: []inventory.Cluster{{Name: "of-a-job", Kubeconfig: named, UID: uint32(os.Getuid())}}})

	if seen.Blind != "" || seen.Boot != "boot" || seen.Interval != time.Minute || len(seen.Unread) != 0 {
		t.Errorf("observed %+v", seen)
	}
	if len(seen.Containers) != 1 || seen.Containers[0].ID != node.ID {
		t.Errorf("containers are %+v", seen.Containers)
	}
	equal(t, "configured", contextsOf(seen, configured), []string{"down " + unheard + " false", "elsewhere https://192.0.2.1:6443 unknown", "up " + heard + " true"})
	equal(t, "named by a job", contextsOf(seen, named), []string{"of-a-job " + heard + " true"})
	equal(t, "another", contextsOf(seen, other), nil)
}

// TestObserveIsBlindWithoutAnEngine, which is not the same as seeing nothing;
// the files are read all the same.
func TestObserveIsBlindWithoutAnEngine(t *testing.T) {
	for name, harm := range map[string]func(*fakeengine.Engine) error{
		"down": (*fakeengine.Engine).Down,
		"500": func(f *fakeengine.Engine) error {
			f.Inject(fakeengine.Fault{Op: fakeengine.OpList, Status: 500, Message: "broken"})
			return nil
		},
		"half a list": func(f *fakeengine.Engine) error {
			f.Inject(fakeengine.Fault{Op: fakeengine.OpList, Half: true})
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			file := kubeconfigFile(t, "a", "https://192.0.2.1:6443")
			f, w := newWorld(t, file)
			f.AddNode("a", "control-plane")
			noError(t, harm(f))
			seen := w.Observe(t.Context(), inventory.Records{})
			if seen.Blind == "" || len(seen.Containers) != 0 {
				t.Errorf("blind %q, containers %+v", seen.Blind, seen.Containers)
			}
			equal(t, "entries", contextsOf(seen, file), []string{"a https://192.0.2.1:6443 unknown"})
		})
	}
	t.Run("hanging", func(t *testing.T) {
		f, w := newWorld(t)
		f.Inject(fakeengine.Fault{Op: fakeengine.OpList, Hang: true})
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		seen := make(chan inventory.Observation, 1)
		go func() { seen <- w.Observe(ctx, inventory.Records{}) }()
		select {
		case s := <-seen:
			if s.Blind == "" {
				t.Error("it is not blind")
			}
		case <-time.After(20 * time.Second):
			f.Release()
			t.Fatal("it hangs on after its deadline")
		}
	})
}

// TestWhatIsUnreadSaysSo: a file that cannot be read is not an empty one, and
// keeps nobody from reading the others.
func TestWhatIsUnreadSaysSo(t *testing.T) {
	broken := filepath.Join(t.TempDir(), "broken")
	noError(t, os.WriteFile(broken, []byte("clusters: ["), 0o600))
	locked := kubeconfigFile(t, "a", "https://192.0.2.1:6443")
	noError(t, os.WriteFile(locked+".lock", nil, 0o600))
	target := kubeconfigFile(t, "secret", "https://192.0.2.1:6443")
	link := filepath.Join(t.TempDir(), "link") // as a job may not name one
	noError(t, os.Symlink(target, link))
	whole := kubeconfigFile(t, "b", "https://192.0.2.1:6443")
	_, w := newWorld(t, broken, locked, whole)
	seen := w.Observe(t.Context(), inventory.Records{Clusters: []inventory.Cluster{{Name: "c", Kubeconfig: link, UID: uint32(os.Getuid())}}})
	for _, file := range []string{broken, locked, link} {
		if seen.Unread[file] == "" {
			t.Errorf("nothing says that %s could not be read", file)
		}
		equal(t, "entries of what was not read", contextsOf(seen, file), nil)
	}
	if len(seen.Unread) != 3 {
		t.Errorf("unread are %q", seen.Unread)
	}
	equal(t, "the whole one", contextsOf(seen, whole), []string{"b https://192.0.2.1:6443 unknown"})
}

// TestForgetTakesOnlyWhatIsStillTheSame: an entry with another server is the
// entry of a newer cluster of the name.
func TestForgetTakesOnlyWhatIsStillTheSame(t *testing.T) {
	file := kubeconfigFile(t, "old", "https://192.0.2.1:1111", "new", "https://192.0.2.1:3333", "kept", "https://192.0.2.1:4444")
	_, w := newWorld(t, file)
	entries := []inventory.SeenContext{
		{File: file, Name: "old", Server: "https://192.0.2.1:1111"},
		{File: file, Name: "new", Server: "https://192.0.2.1:2222"},
		{File: file, Name: "gone", Server: "https://192.0.2.1:5555"},
		{File: file, Name: "kept", Server: ""},
	}
	gone, err := w.Forget(t.Context(), entries, nobodysFile)
	noError(t, err)
	if !slices.Equal(gone, entries[:1]) {
		t.Errorf("forgotten are %+v", gone)
	}
	equal(t, "left", contextsOf(w.Observe(t.Context(), inventory.Records{}), file),
		[]string{"kept https://192.0.2.1:4444 unknown", "new https://192.0.2.1:3333 unknown"})
	gone, err = w.Forget(t.Context(), entries, nobodysFile)
	if err != nil || len(gone) != 0 {
		t.Errorf("again: %+v, %v", gone, err)
	}
}

func nobodysFile(string) (uint32, bool) { return 0, false }

// TestForgetOpensNoOtherFile: not one that nobody named, and a job's only as
// that job may.
func TestForgetOpensNoOtherFile(t *testing.T) {
	server := "https://127.0.0.1:1111"
	configured, mine, foreign := kubeconfigFile(t, "a", server), kubeconfigFile(t, "a", server), kubeconfigFile(t, "a", server)
	_, w := newWorld(t, configured)
	entries := []inventory.SeenContext{{File: configured, Name: "a", Server: server}, {File: foreign, Name: "a", Server: server}, {File: mine, Name: "a", Server: server}}
	before := readFile(t, foreign)
	for what, uidOf := range map[string]func(string) (uint32, bool){
		"named by nobody":      nobodysFile,
		"named by another uid": func(string) (uint32, bool) { return uint32(os.Getuid()) + 1, true },
	} {
		gone, err := w.Forget(t.Context(), entries[1:2], uidOf)
		if err == nil || len(gone) != 0 || readFile(t, foreign) != before {
			t.Errorf("%s: forgotten are %+v, %v", what, gone, err)
		}
	}
	gone, err := w.Forget(t.Context(), entries, func(file string) (uint32, bool) { return uint32(os.Getuid()), file == mine })
	if err == nil || !slices.Equal(gone, []inventory.SeenContext{entries[0], entries[2]}) {
		t.Errorf("forgotten are %+v, %v: one error keeps nobody else", gone, err)
	}
	if readFile(t, foreign) != before {
		t.Error("the foreign file was changed")
	}
}

// TestRemoveAndStanding: of several, the one that stays is told.
func TestRemoveAndStanding(t *testing.T) {
	f, w := newWorld(t)
	goes, stays, next := f.AddNode("a", "control-plane"), f.AddNode("a", "worker"), f.AddNode("b", "control-plane")
	f.Inject(fakeengine.Fault{Op: fakeengine.OpRemove, Ref: stays.ID, Stays: true})
	ids := []string{goes.ID, stays.ID, strings.Repeat("0", 64)}
	noError(t, w.Remove(t.Context(), ids))
	left, err := w.Standing(t.Context(), ids)
	noError(t, err)
	equal(t, "standing", left, []string{stays.ID})
	f.Clear()

	f.Inject(fakeengine.Fault{Op: fakeengine.OpRemove, Ref: stays.ID, Status: 500, Message: "device busy"})
	err = w.Remove(t.Context(), []string{stays.ID, next.ID})
	if err == nil || !strings.Contains(err.Error(), "device busy") || strings.Contains(err.Error(), "\n") {
		t.Errorf("the error is %v", err)
	}
	left, err = w.Standing(t.Context(), []string{stays.ID, next.ID})
	noError(t, err)
	equal(t, "an error keeps nobody else", left, []string{stays.ID})
	noError(t, f.Down())
	if left, err := w.Standing(t.Context(), ids); err == nil {
		t.Errorf("without an engine: %v", left)
	}
}

func TestLookAtNoName(t *testing.T) {
	f, w := newWorld(t)
	f.AddNode("kind", "control-plane")
	a := f.AddNode("a", "control-plane")
	if got, err := w.Look(t.Context(), ""); err == nil {
		t.Errorf("no name: %+v", got)
	}
	got, err := w.Look(t.Context(), "a")
	noError(t, err)
	if len(got) != 1 || got[0].ID != a.ID {
		t.Errorf("looked at %+v", got)
	}
}
