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
// for longer than two looks take: empty, then with fewer clusters in good YAML.
// No look may end with less than what was always there.
func TestReadNeverSeesHalfAFile(t *testing.T) {
	path := put(t, config("always"))
	ctx, stop := context.WithCancel(t.Context())
	var writer sync.WaitGroup
	writer.Go(func() {
		const pause = 120 * time.Millisecond
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
			time.Sleep(5 * time.Millisecond)
		}
	})
	for range 12 {
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

// What the lock or the file did between the reading and the end of a look.
func TestLookAtWhatChanges(t *testing.T) {
	path := put(t, config("a"))
	names, err := resolve(path, Configured())
	must(t, err)
	defer names.close()
	_, seen, err := names.look(Configured(), quick)
	must(t, err)
	must(t, names.file().still(seen))
	changes := []func() error{
		func() error { return os.WriteFile(path, []byte(config("b")), 0o600) },
		func() error { return os.Chmod(path, 0o640) },
		func() error {
			return errors.Join(os.WriteFile(path+"2", []byte(config("a")), 0o600), os.Rename(path+"2", path))
		},
		func() error { return os.Remove(path) },
	}
	for i, change := range changes {
		f, err := names.file().open(Configured())
		must(t, err)
		must(t, change())
		if err := names.file().still(f.seen); !errors.Is(err, ErrChanging) {
			t.Errorf("change %d: %v", i, err)
		}
		f.close()
	}
}

func TestJobsMayNameOnlyTheirOwnPlainFiles(t *testing.T) {
	uid := uint32(os.Getuid())
	text := config("a")
	dir := t.TempDir()
	file := func(name string) string {
		path := filepath.Join(dir, name)
		must(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	good, linked := file("good"), file("two-names")
	must(t, os.Link(linked, linked+"-2"))
	must(t, os.Symlink(good, filepath.Join(dir, "link")))
	must(t, os.Symlink("/etc/passwd", filepath.Join(dir, "passwd")))
	must(t, os.Mkdir(filepath.Join(dir, "real"), 0o755))
	must(t, os.WriteFile(filepath.Join(dir, "real", "config"), []byte(text), 0o600))
	must(t, os.Symlink("real", filepath.Join(dir, "by-link")))
	must(t, unix.Mkfifo(filepath.Join(dir, "fifo"), 0o600))
	must(t, os.Symlink("loop", filepath.Join(dir, "loop")))
	tests := map[string]struct {
		path string
		uid  uint32
		err  error
	}{
		"its own":          {good, uid, nil},
		"missing":          {filepath.Join(dir, "none"), uid, fs.ErrNotExist},
		"missing folder":   {filepath.Join(dir, "none", "config"), uid, fs.ErrNotExist},
		"another's":        {good, uid + 1, ErrUntrusted},
		"link":             {filepath.Join(dir, "link"), uid, ErrUntrusted},
		"link elsewhere":   {filepath.Join(dir, "passwd"), uid, ErrUntrusted},
		"loop":             {filepath.Join(dir, "loop"), uid, ErrUntrusted},
		"folder by link":   {filepath.Join(dir, "by-link", "config"), uid, ErrUntrusted},
		"two names":        {linked, uid, ErrUntrusted},
		"pipe":             {filepath.Join(dir, "fifo"), uid, ErrUntrusted},
		"folder":           {dir, uid, ErrUntrusted},
		"relative":         {"good", uid, ErrUntrusted},
		"empty":            {"", uid, ErrUntrusted},
		"root":             {"/", uid, ErrUntrusted},
		"dots":             {dir + "/real/../good", uid, ErrUntrusted},
		"slashes":          {dir + "//good", uid, ErrUntrusted},
		"home":             {"~/.kube/config", uid, ErrUntrusted},
		"glob":             {filepath.Join(dir, "goo?"), uid, fs.ErrNotExist},
		"zero byte":        {good + "\x00", uid, ErrUntrusted},
		"proc":             {"/proc/self/environ", uid, ErrUntrusted},
		"descriptor":       {"/proc/self/fd/0", uid, ErrUntrusted},
		"device":           {"/dev/zero", uid, ErrUntrusted},
		"sys":              {"/sys/kernel/notes", uid, ErrUntrusted},
		"file as folder":   {good + "/config", uid, unix.ENOTDIR},
		"very long":        {dir + "/" + strings.Repeat("x", 300), uid, unix.ENAMETOOLONG},
		"very long folder": {"/" + strings.Repeat("x/", 5000) + "y", uid, fs.ErrNotExist},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			if _, err := Read(ctx, test.path, NamedByJob(test.uid), quick); !errors.Is(err, test.err) {
				t.Errorf("Read: %v, want %v", err, test.err)
			}
			if test.err == nil {
				return
			}
			removed, err := Remove(ctx, test.path, NamedByJob(test.uid), []Entry{entry("a")}, quick)
			if test.err == fs.ErrNotExist {
				if err != nil {
					t.Errorf("Remove of nothing: %v", err)
				}
			} else if !errors.Is(err, test.err) {
				t.Errorf("Remove: %v, want %v", err, test.err)
			}
			if len(removed) > 0 {
				t.Errorf("removed %q", removed)
			}
		})
	}
	if content(t, good) != text || content(t, linked) != text || content(t, filepath.Join(dir, "real", "config")) != text {
		t.Error("a file was changed")
	}
	onlyHas(t, dir, "by-link", "fifo", "good", "link", "loop", "passwd", "real", "two-names", "two-names-2")
	if _, err := Read(t.Context(), good, Trust{}, quick); !errors.Is(err, ErrUntrusted) {
		t.Errorf("the zero Trust: %v", err)
	}
}

// Between the look and the opening a file can become a pipe or a link.
func TestPathsThatChangeDoNotHangOrLeadElsewhere(t *testing.T) {
	path := put(t, config("a"))
	secret := put(t, config("secret"))
	dir := filepath.Dir(path)
	must(t, unix.Mkfifo(filepath.Join(dir, "fifo"), 0o600))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	done := make(chan struct{})
	var swapper sync.WaitGroup
	swapper.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-done:
				return
			default:
			}
			next := filepath.Join(dir, "next")
			switch i % 3 {
			case 0:
				_ = os.WriteFile(next, []byte(config("a")), 0o600)
			case 1:
				_ = unix.Mkfifo(next, 0o600)
			case 2:
				_ = os.Symlink(secret, next)
			}
			_ = os.Rename(next, path)
		}
	})
	defer swapper.Wait()
	defer close(done)
	trust := NamedByJob(uint32(os.Getuid()))
	names, err := resolve(path, trust)
	must(t, err)
	defer names.close()
	for range 5000 {
		_, err := within(ctx, path, func(context.Context) (int, error) {
			f, err := names.file().open(trust)
			if err == nil {
				if got := string(f.content); got != config("a") {
					t.Errorf("led elsewhere: %s", got)
				}
				f.close()
			}
			return 0, nil
		})
		if err != nil {
			_ = os.WriteFile(path, nil, 0o600) // lets a pipe go
			t.Fatalf("hung: %v", err)
		}
	}
}

func TestKernelFileSystemsAreNotOrdinary(t *testing.T) {
	for path, want := range map[string]error{"/proc/self/environ": ErrUntrusted, put(t, ""): nil} {
		f, err := os.Open(path)
		must(t, err)
		defer f.Close()
		if err := ordinary(int(f.Fd())); !errors.Is(err, want) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestExpand(t *testing.T) {
	home, dir := t.TempDir(), t.TempDir()
	t.Setenv("HOME", home)
	must(t, os.Mkdir(filepath.Join(home, ".kube"), 0o755))
	for _, f := range []string{home + "/.kube/config", dir + "/b.yaml", dir + "/a.yaml", dir + "/a.yaml.lock", dir + "/.a.yaml.janitor.tmp"} {
		must(t, os.WriteFile(f, nil, 0o600))
	}
	must(t, os.Mkdir(dir+"/folder.yaml", 0o755))
	must(t, unix.Mkfifo(dir+"/pipe.yaml", 0o600))
	must(t, os.Symlink(home+"/.kube/config", dir+"/linked"))
	must(t, os.Symlink("nowhere", dir+"/dangling.yaml"))
	must(t, os.Link(dir+"/b.yaml", dir+"/c.yaml"))
	must(t, os.Symlink(dir, home+"/again"))

	got, err := Expand([]string{
		"~/.kube/config", dir + "/linked", home + "/.kube/../.kube/config", // one file
		":" + dir + "/none:" + dir + "/b.yaml::" + dir + "/none:" + home + "/again/none",
		dir + "/*", // c.yaml is b.yaml
	})
	want := []string{home + "/.kube/config", dir + "/none", dir + "/b.yaml", dir + "/a.yaml"}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q, %v\nwant %q", got, err, want)
	}
	got, err = Expand([]string{"relative", "~somebody/x", dir + "/[", dir + "/a.yaml"})
	if err == nil || !slices.Equal(got, []string{dir + "/a.yaml"}) {
		t.Errorf("got %q, %v", got, err)
	}
	for _, bad := range []string{"relative", "~somebody/x", dir + "/["} {
		if err == nil || !strings.Contains(err.Error(), bad) {
			t.Errorf("the error does not name %q: %v", bad, err)
		}
	}
	got, err = Expand(nil)
	if got != nil || err != nil {
		t.Errorf("nothing configured: %q, %v", got, err)
	}
	t.Setenv("HOME", "")
	if got, err = Expand([]string{"~/x"}); err != nil || len(got) != 1 || !filepath.IsAbs(got[0]) {
		t.Errorf("without HOME: %q, %v", got, err)
	}
}
