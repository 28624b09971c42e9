package api

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/testbed-janitor/janitor/internal/inventory"
)

// Every call of the client against the real server.
func TestClient(t *testing.T) {
	b := newBed(t)
	path, _ := b.serve()
	b.s.opt.IsAdmin = func(uint32, uint32, int) bool { return true }
	c, ctx := NewClient(path), t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	got, err := c.Register(ctx, Registration{
		Name: "e2e", Owner: "ä/o", Job: "j", Build: "7", URL: "https://ci.example/job/j/7/", Kubeconfig: "/k", Marker: "m",
		TTL: 90 * time.Minute, OnOccupied: "fail", Wait: time.Second, PID: 5, Labels: map[string]string{"a": "b=c"},
	})
	must(err)
	row := b.row("e2e")
	if row.Owner != "ä/o" || row.Job != "j" || row.Build != "7" || row.URL != "https://ci.example/job/j/7/" || row.Kubeconfig != "/k" ||
		row.Marker != "m" || row.Labels["a"] != "b=c" || row.Lease != got.Lease || row.Expires.Sub(row.Registered.At) != 90*time.Minute || len(got.Warnings) != 1 {
		t.Errorf("%+v gives %+v", got, row)
	}
	got, err = c.Register(ctx, Registration{Name: "e2e", Owner: "ä/o"})
	if must(err); !got.Repeated {
		t.Errorf("%+v", got)
	}
	got, err = c.Renew(ctx, "e2e", Claim{Owner: "ä/o"}, 3*time.Hour)
	if must(err); !near(got.ExpiresAt, b.clock().Wall.Add(3*time.Hour)) {
		t.Errorf("%+v", got)
	}
	_, err = c.Renew(ctx, "e2e", Claim{Lease: got.Lease}, 0)
	must(err)
	got, err = c.HoldFor(ctx, "e2e", 90*time.Second, "why not")
	if must(err); got.Hold == nil || got.Hold.Reason != "why not" {
		t.Errorf("%+v", got)
	}
	until := b.clock().Wall.Add(time.Hour)
	got, err = c.HoldUntil(ctx, "e2e", until, "r")
	if must(err); !near(got.Hold.Until, until) {
		t.Errorf("%+v", got.Hold)
	}
	got, err = c.Unhold(ctx, "e2e")
	if must(err); got.Hold != nil {
		t.Errorf("%+v", got)
	}
	got, err = c.Get(ctx, "e2e")
	if must(err); got.Owner != "ä/o" {
		t.Errorf("%+v", got)
	}
	all, err := c.List(ctx, Filter{State: "all", Owner: "ä/o", Job: "j"})
	if must(err); len(all) != 1 || all[0].Name != "e2e" {
		t.Errorf("%+v", all)
	}
	none, err := c.List(ctx, Filter{Owner: "x"})
	if must(err); len(none) != 0 {
		t.Errorf("%+v", none)
	}
	plan, err := c.Plan(ctx)
	if must(err); len(plan.Decisions) != 1 {
		t.Errorf("%+v", plan)
	}
	plan, err = c.SavePlan(ctx)
	if must(err); plan.ID == "" {
		t.Errorf("%+v", plan)
	}
	report, err := c.Apply(ctx, plan.ID)
	if must(err); len(report.Decisions) != 1 {
		t.Errorf("%+v", report)
	}
	report, err = c.Pass(ctx)
	if must(err); len(report.Results) != 1 {
		t.Errorf("%+v", report)
	}
	status, err := c.Status(ctx)
	if must(err); status.Version != "v1.2.3" {
		t.Errorf("%+v", status)
	}
	got, err = c.Release(ctx, "e2e", Letting{Force: true, Reason: "mine"})
	if must(err); got.State != "released" {
		t.Errorf("%+v", got)
	}
	var kinds []string
	must(c.Events(ctx, EventQuery{Name: "e2e", Since: b.clock().Wall.Add(-time.Minute), After: 1}, func(e Event) error {
		kinds = append(kinds, e.Kind)
		return nil
	}))
	if s := strings.Join(kinds, " "); s != "repeated renewed renewed held held unheld released" {
		t.Errorf("events %s", s)
	}
	stop := errors.New("enough")
	if err := c.Events(ctx, EventQuery{}, func(Event) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("%v", err)
	}
}

func TestClientErrors(t *testing.T) {
	b := newBed(t)
	path, _ := b.serve()
	c := NewClient(path)
	_, err := c.Get(t.Context(), "none")
	e, ok := errors.AsType[*Error](err)
	if !ok || e.Status != 404 || e.Code != "not-found" || e.Error() != `no cluster "none" is known` || e.Cluster != nil {
		t.Errorf("%#v", err)
	}
	for _, name := range []string{"", "a/b", "..", "A b?c#d", "%2e"} {
		if _, err := c.Renew(t.Context(), name, Claim{Owner: "o"}, 0); !errors.As(err, &e) || e.Status != 404 && e.Status != 422 {
			t.Errorf("%q: %v", name, err)
		}
	}
	if _, err := c.Register(t.Context(), Registration{Name: "a", Owner: "x"}); err != nil {
		t.Fatal(err)
	}
	_, err = c.Register(t.Context(), Registration{Name: "a", Owner: "y"})
	if !errors.As(err, &e) || e.Code != "occupied" || e.Cluster == nil || e.Cluster.Owner != "x" {
		t.Errorf("%#v", err)
	}
	b.mem.mu.Lock()
	b.mem.broken = &inventory.Problem{Code: inventory.CodeStorage, Message: "the disk is full"}
	b.mem.mu.Unlock()
	if _, err = c.Status(t.Context()); !errors.As(err, &e) || e.Code != "storage" || e.RetryAfter != 10*time.Second {
		t.Errorf("%#v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err = c.Status(ctx); !errors.Is(err, context.Canceled) || errors.Is(err, ErrUnreachable) {
		t.Errorf("%v", err)
	}
}

func TestUnreachable(t *testing.T) {
	dir := shortDir(t)
	stale := filepath.Join(dir, "stale")
	if err := child(t, "listen-and-die", stale).Run(); err != nil {
		t.Fatal(err)
	}
	for path, says := range map[string]string{
		filepath.Join(dir, "none"):     "no such socket",
		stale:                          "nobody listens",
		"/" + strings.Repeat("x", 120): "cannot be the path",
	} {
		_, err := NewClient(path).Status(t.Context())
		if !errors.Is(err, ErrUnreachable) || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), path) {
			t.Errorf("%v, want %q", err, says)
		}
	}
}

// answering serves bytes of a test's own and counts connections.
func answering(t *testing.T, answer string) (path string, calls *atomic.Int32) {
	t.Helper()
	path, calls = filepath.Join(shortDir(t), "x.sock"), &atomic.Int32{}
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() { l.Close(); <-done })
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			calls.Add(1)
			r, err := http.ReadRequest(bufio.NewReader(c))
			if err == nil {
				io.Copy(io.Discard, r.Body)
				io.WriteString(c, answer)
			}
			c.Close()
		}
	}()
	return path, calls
}

// What is no answer of a janitor is an error, and nothing is tried twice.
func TestStrangeAnswers(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
	for answer, want := range map[string]string{
		"":                                      "may have been carried out",
		ok + "Content-Length: 100\r\n\r\n{\"na": "may have been carried out",
		ok + "Content-Length: 4\r\n\r\n<ok>":    "read the answer",
		"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n":                                  "status 502",
		"HTTP/1.1 302 Found\r\nLocation: http://evil.example/\r\nContent-Length: 0\r\n\r\n":      "status 302",
		"HTTP/1.1 500 X\r\nContent-Type: application/problem+json\r\nContent-Length: 1\r\n\r\n{": "status 500",
	} {
		path, calls := answering(t, answer)
		c := NewClient(path)
		_, err := c.Get(t.Context(), "a")
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", answer, err, want)
		}
		if n := calls.Load(); n != 1 {
			t.Errorf("%q: %d calls", answer, n)
		}
	}
}

func TestForbiddenSocket(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root may connect to everything")
	}
	path, _ := newBed(t).serve()
	if err := os.Chmod(path, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := NewClient(path).Status(t.Context()); !errors.Is(err, ErrUnreachable) || !strings.Contains(err.Error(), "may not connect") {
		t.Errorf("%v", err)
	}
}
