package api

import (
	"encoding/json"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// The kernel says who calls, also when they are somebody else.
func TestPeerCredentials(t *testing.T) {
	b := newBed(t)
	path, _ := b.serve()
	c, err := NewClient(path).Register(t.Context(), Registration{Name: "own"})
	if err != nil {
		t.Fatal(err)
	}
	if *c.UID != uint32(os.Getuid()) || *c.GID != uint32(os.Getgid()) || c.PID != os.Getpid() {
		t.Errorf("uid %d, gid %d, pid %d", *c.UID, *c.GID, c.PID)
	}

	if os.Getuid() != 0 {
		t.Skip("only root can call as somebody else")
	}
	os.Chmod(filepath.Dir(path), 0o755)
	if err := os.Chown(path, 65534, 65533); err != nil {
		t.Fatal(err)
	}
	self := filepath.Join(filepath.Dir(path), "api.test") // where that user may read it
	copyFile(t, self)
	cmd := child(t, "register", path)
	cmd.Path = self
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65533}}
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var of Cluster
	if err := json.Unmarshal(out, &of); err != nil {
		t.Fatal(err)
	}
	if *of.UID != 65534 || *of.GID != 65533 || of.PID != cmd.Process.Pid {
		t.Errorf("uid %d, gid %d, pid %d", *of.UID, *of.GID, of.PID)
	}
}

func copyFile(t *testing.T, to string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	in, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, in, 0o755); err != nil {
		t.Fatal(err)
	}
}

// A connection for which the kernel does not vouch is served nothing.
func TestNoPeerOverTCP(t *testing.T) {
	b := newBed(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := b.s.HTTP()
	go srv.Serve(l)
	defer srv.Close()
	transport := &http.Transport{DisableKeepAlives: true}
	res, err := (&http.Client{Transport: transport}).Get("http://" + l.Addr().String() + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != 403 {
		t.Errorf("status %d", res.StatusCode)
	}
}
