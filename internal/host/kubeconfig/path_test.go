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
			if errors.Is(test.err, fs.ErrNotExist) {
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

func TestOpeningFollowsNoLink(t *testing.T) {
	path := put(t, config("a"))
	must(t, os.Symlink(path, path+"-link"))
	names, err := resolve(path+"-link", NamedByJob(uint32(os.Getuid())))
	must(t, err)
	defer names.close()
	if fd, err := names.file().descriptor(); !errors.Is(err, ErrUntrusted) {
		t.Errorf("opened %d, %v", fd, err)
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
