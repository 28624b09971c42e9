package api

import (
	"encoding/json"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestListenMode(t *testing.T) {
	for _, umask := range []int{0, 0o022, 0o077, 0o777} {
		path := filepath.Join(shortDir(t), "j.sock")
		old := syscall.Umask(umask)
		l, err := Listen(path)
		syscall.Umask(old)
		if err != nil {
			t.Fatal(err)
		}
		is, err := os.Lstat(path)
		if err != nil || is.Mode() != os.ModeSocket|0o660 {
			t.Errorf("umask %o: %v, %v", umask, is.Mode(), err)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if _, err := os.Lstat(path); !os.IsNotExist(err) {
			t.Errorf("left behind: %v", err)
		}
	}
}

// At no moment may more connect than in the end: a file that is born under a
// umask that takes nothing has the mode already, before any chmod.
func TestListenIsBornWithItsMode(t *testing.T) {
	path := filepath.Join(shortDir(t), "j.sock")
	old := syscall.Umask(0)
	defer syscall.Umask(old)
	l, err := bind(path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if is, err := os.Lstat(path); err != nil || is.Mode().Perm() != 0o660 {
		t.Errorf("%v, %v", is.Mode(), err)
	}
}

func TestListenRefuses(t *testing.T) {
	dir := shortDir(t)
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := os.WriteFile(at("file"), []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	os.Mkdir(at("dir"), 0o700)
	os.Symlink(at("nowhere"), at("dangling"))
	live, err := net.Listen("unix", at("live"))
	if err != nil {
		t.Fatal(err)
	}
	defer live.Close()
	os.Symlink(at("live"), at("link"))
	for path, says := range map[string]string{
		at("file"):                     "not a socket",
		at("dir"):                      "not a socket",
		at("dangling"):                 "not a socket",
		at("link"):                     "not a socket",
		at("live"):                     "running already",
		at("none/j.sock"):              "folder does not exist",
		at("file/j.sock"):              "not a directory",
		"j.sock":                       "absolute",
		"@abstract":                    "absolute",
		"":                             "absolute",
		at(strings.Repeat("x", 108)):   "at most 107",
		"/" + strings.Repeat("x", 107): "at most 107",
	} {
		before, _ := os.Lstat(path)
		l, err := Listen(path)
		if err == nil {
			l.Close()
			t.Errorf("%s is listened on", path)
			continue
		}
		if !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", path, err, says)
		}
		if after, _ := os.Lstat(path); before != nil && (after == nil || !os.SameFile(before, after)) {
			t.Errorf("%s is not what it was", path)
		}
	}
	if text, _ := os.ReadFile(at("file")); string(text) != "precious" {
		t.Errorf("file holds %q", text)
	}
	// One byte less fits.
	fits := dir + "/" + strings.Repeat("x", maxSocketPath-len(dir)-1)
	l, err := Listen(fits)
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
}

// A socket that a killed process left behind is replaced.
func TestListenStale(t *testing.T) {
	path := filepath.Join(shortDir(t), "j.sock")
	if err := child(t, "listen-and-die", path).Run(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(path); err != nil {
		t.Fatal(err)
	}
	l, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	if _, err := Listen(path); err == nil || !strings.Contains(err.Error(), "running already") {
		t.Errorf("a second one: %v", err)
	}
}

// Close leaves alone what another has put in its place.
func TestCloseRemovesOnlyItsOwn(t *testing.T) {
	path := filepath.Join(shortDir(t), "j.sock")
	l, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	os.Remove(path)
	other, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(path); err != nil {
		t.Errorf("another's socket was removed: %v", err)
	}
	l.Close()
}

// Sockets come from systemd by LISTEN_FDS, with a pid that a shell fills in.
func inherit(t *testing.T, files ...*os.File) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-c", `LISTEN_PID=$$ exec "$0"`, self)
	cmd.Env = append(os.Environ(), "API_TEST_CHILD=inherit", "LISTEN_FDS="+string(rune('0'+len(files))))
	cmd.ExtraFiles = files
	return cmd
}

func TestListenInherited(t *testing.T) {
	path := filepath.Join(shortDir(t), "systemd.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	f, err := l.(*net.UnixListener).File()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	cmd := inherit(t, f)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(soon))
	if hello, err := io.ReadAll(c); string(hello) != "hello" {
		t.Errorf("%q, %v", hello, err)
	}
	var said map[string]string
	if err := json.NewDecoder(out).Decode(&said); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if said["fds"] != "" || said["addr"] != path {
		t.Errorf("the child says %v", said)
	}
	if _, err := os.Lstat(path); err != nil {
		t.Errorf("systemd's socket was removed: %v", err)
	}
}

func TestListenInheritedWrong(t *testing.T) {
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	f, err := tcp.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	for _, files := range [][]*os.File{{f}, {null}, {f, f}} {
		if out, err := inherit(t, files...).CombinedOutput(); err == nil || !strings.Contains(string(out), "exactly one") {
			t.Errorf("%v: %s", err, out)
		}
	}
}
