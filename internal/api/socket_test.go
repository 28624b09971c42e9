package api

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/testbed-janitor/janitor/internal/inventory"
)

// soon is a deadline that only guards against hanging.
const soon = 20 * time.Second

// shortDir is a folder whose path leaves room for a socket's.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "api")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// serve serves a bed on a real socket until the test ends.
func (b *bed) serve() (path string, srv *http.Server) {
	b.t.Helper()
	path = filepath.Join(shortDir(b.t), "j.sock")
	l, err := Listen(path)
	if err != nil {
		b.t.Fatal(err)
	}
	srv = b.s.HTTP()
	done := make(chan error, 1)
	go func() { done <- srv.Serve(l) }()
	b.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), soon)
		defer cancel()
		if err := srv.Shutdown(ctx); err != nil {
			b.t.Error(err)
		}
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			b.t.Error(err)
		}
	})
	return path, srv
}

// child runs this binary as a child of the test.
func child(t *testing.T, what, socket string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), "API_TEST_CHILD="+what, "API_TEST_SOCKET="+socket)
	cmd.Stderr = os.Stderr
	return cmd
}

// raw sends bytes and returns the first line that comes back.
func raw(t *testing.T, path, request string) (status string, rest *bufio.Reader, c net.Conn) {
	t.Helper()
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(soon))
	if _, err := io.WriteString(c, request); err != nil {
		t.Fatal(err)
	}
	rest = bufio.NewReader(c)
	status, err = rest.ReadString('\n')
	if err != nil {
		t.Fatalf("%q then %v", status, err)
	}
	return strings.TrimSpace(status), rest, c
}

func TestRawRequests(t *testing.T) {
	b := newBed(t)
	b.s.bodyTime = 100 * time.Millisecond
	path, _ := b.serve()
	for request, want := range map[string]string{
		"OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n":                                                                                                  "404",
		"GET /v1/clusters HTTP/1.1\r\nHost: localhost\r\nX: " + strings.Repeat("x", 64<<10) + "\r\n\r\n":                                                 "431",
		"POST /v1/clusters HTTP/1.1\r\nHost: localhost\r\nContent-Type: " + formType + "\r\nContent-Length: 100000\r\n\r\n" + strings.Repeat("x", 70000): "413",
		"POST /v1/clusters HTTP/1.1\r\nHost: localhost\r\nContent-Type: " + formType + "\r\nContent-Length: 10\r\n\r\nname":                              "408",
		"GET /healthz HTTP/1.1\r\nHost: localhost\r\nOrigin: http://evil.example\r\n\r\n":                                                                "403",
		"GET http://evil.example/healthz HTTP/1.1\r\nHost: localhost\r\n\r\n":                                                                            "403",
	} {
		if status, _, _ := raw(t, path, request); !strings.HasPrefix(status, "HTTP/1.1 "+want) {
			t.Errorf("%.60q gets %q, want %s", request, status, want)
		}
	}
}

// A call that waits outlives the time in which its body had to arrive.
func TestWaitOutlivesBodyTime(t *testing.T) {
	b := newBed(t)
	b.s.bodyTime = 50 * time.Millisecond
	path, _ := b.serve()
	c := NewClient(path)
	if _, err := c.Register(t.Context(), Registration{Name: "a", Owner: "x"}); err != nil {
		t.Fatal(err)
	}
	_, err := c.Register(t.Context(), Registration{Name: "a", Owner: "y", Wait: 400 * time.Millisecond})
	if e, ok := errors.AsType[*Error](err); !ok || e.Status != 504 {
		t.Errorf("%v", err)
	}
	b.loop.slow = 400 * time.Millisecond
	if _, err := c.Pass(t.Context()); err != nil { // a call without a body
		t.Error(err)
	}
}

// Shutdown answers who waits, ends streams and lets the rest finish.
func TestShutdown(t *testing.T) {
	b := newBed(t)
	path, srv := b.serve()
	c := NewClient(path)
	first, err := c.Register(t.Context(), Registration{Name: "a", Owner: "x"})
	if err != nil {
		t.Fatal(err)
	}
	waited := make(chan error, 2)
	go func() {
		_, err := c.Register(context.Background(), Registration{Name: "a", Owner: "y", Wait: time.Hour})
		waited <- err
	}()
	go func() {
		_, err := c.Release(context.Background(), "a", Letting{Claim: Claim{Lease: first.Lease}, Wait: time.Hour})
		waited <- err
	}()
	followed := make(chan error, 1)
	got := make(chan Event, 10)
	go func() {
		followed <- c.Events(context.Background(), EventQuery{Follow: true}, func(e Event) error { got <- e; return nil })
	}()
	kinds := ""
	for range 2 {
		select {
		case e := <-got:
			kinds += e.Kind + " "
		case <-time.After(soon):
			t.Fatal("no event")
		}
	}
	if kinds != "registered released " {
		t.Errorf("followed %s", kinds)
	}
	until(t, "the loop to be poked", func() bool { b.loop.mu.Lock(); defer b.loop.mu.Unlock(); return b.loop.pokes > 0 })

	ctx, cancel := context.WithTimeout(context.Background(), soon)
	defer cancel()
	if err := srv.Shutdown(ctx); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		err := <-waited
		if e, ok := errors.AsType[*Error](err); !ok || e.Status != 503 || e.Code != "stopping" || e.RetryAfter <= 0 {
			t.Errorf("%v", err)
		}
	}
	if err := <-followed; err != nil {
		t.Errorf("a stream ended with %v", err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket is left behind: %v", err)
	}
}

// until polls for something that happens in another goroutine.
func until(t *testing.T, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(soon); !f(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited for %s", what)
		}
	}
}

// A history that cannot be read to its end must not look whole.
func TestEventsBreakOff(t *testing.T) {
	b := newBed(t)
	b.mem.m.Events = append(b.mem.m.Events, inventory.Event{At: b.clock(), Kind: "k"})
	path, _ := b.serve()
	got := 0
	err := NewClient(path).Events(t.Context(), EventQuery{Follow: true}, func(Event) error {
		got++
		b.mem.mu.Lock()
		defer b.mem.mu.Unlock()
		b.mem.broken = errors.New("disk")
		b.mem.commit()
		return nil
	})
	if got != 1 || !errors.Is(err, ErrUnreachable) {
		t.Errorf("%d events, then %v", got, err)
	}
}
