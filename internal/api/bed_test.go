package api

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/testbed-janitor/janitor/internal/inventory"
	"github.com/testbed-janitor/janitor/internal/inventory/driver"
)

// bed is a server over fakes, and a clock that a test moves.
type bed struct {
	t      *testing.T
	mem    *memory
	loop   *loop
	s      *Server
	policy inventory.Policy
	mu     sync.Mutex
	ahead  time.Duration
	began  time.Time
	peer   peer
}

const firstInstant = inventory.Instant(time.Hour)

func (b *bed) clock() inventory.Stamp {
	b.mu.Lock()
	defer b.mu.Unlock()
	run := time.Since(b.began) + b.ahead
	return inventory.Stamp{At: firstInstant.Add(run), Wall: b.began.Add(run).UTC()}
}

// later moves the clock.
func (b *bed) later(d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ahead += d
}

// job is an ordinary user's process.
var job = peer{uid: 1000, gid: 1000, pid: 4242}

func newBed(t *testing.T) *bed {
	b := &bed{t: t, policy: inventory.Defaults(), began: time.Now(), peer: job}
	b.mem = &memory{m: driver.NewMap(b.clock()), changed: make(chan struct{}), plans: map[string]savedPlan{}}
	b.loop = &loop{b: b}
	b.s = New(b.mem, b.loop, Options{
		Policy: func() inventory.Policy { return b.policy }, Clock: b.clock, Boot: "boot-1", Version: "v1.2.3",
		Interval: func() time.Duration { return time.Minute },
		IsAdmin:  func(uid, _ uint32, _ int) bool { return uid == 0 || uid == 900 },
	})
	b.loop.sight() // what later lists show is not inherited
	b.later(time.Hour)
	return b
}

// reply is what came back.
type reply struct {
	*httptest.ResponseRecorder
	t *testing.T
}

func (r reply) into(out any) {
	r.t.Helper()
	if err := json.Unmarshal(r.Body.Bytes(), out); err != nil {
		r.t.Fatalf("%v in %s", err, r.Body)
	}
}

func (r reply) cluster() Cluster {
	r.t.Helper()
	var c Cluster
	r.into(&c)
	return c
}

// refused wants a problem document.
func (r reply) refused(status int, code string) Problem {
	r.t.Helper()
	var p Problem
	if r.Code != status || r.Header().Get("Content-Type") != "application/problem+json" {
		r.t.Fatalf("got %d %s %s, want a problem %d", r.Code, r.Header().Get("Content-Type"), r.Body, status)
	}
	r.into(&p)
	if p.Code != code || p.Status != status || p.Type != "urn:janitor:problem:"+code || p.Title == "" || p.Detail == "" {
		r.t.Fatalf("got %s, want code %q", r.Body, code)
	}
	return p
}

func (r reply) is(status int) reply {
	r.t.Helper()
	if r.Code != status {
		r.t.Fatalf("got %d %s, want %d", r.Code, r.Body, status)
	}
	return r
}

func (b *bed) request(method, path, contentType string, body io.Reader) *http.Request {
	r := httptest.NewRequest(method, path, body)
	r.Host = "localhost"
	if contentType != "" {
		r.Header.Set("Content-Type", contentType)
	}
	return r.WithContext(withPeer(r.Context(), b.peer))
}

func (b *bed) do(r *http.Request) reply {
	w := httptest.NewRecorder()
	b.s.ServeHTTP(w, r)
	return reply{w, b.t}
}

func (b *bed) get(path string) reply { return b.do(b.request("GET", path, "", nil)) }

const formType = "application/x-www-form-urlencoded"

// post sends a form of pairs: name, value, name, value.
func (b *bed) post(path string, pairs ...string) reply {
	v := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		v.Add(pairs[i], pairs[i+1])
	}
	return b.do(b.request("POST", path, formType, strings.NewReader(v.Encode())))
}

// row is the row of a name as it is stored.
func (b *bed) row(name string) inventory.Cluster {
	b.t.Helper()
	c, _, err := b.mem.Cluster(context.Background(), name)
	if err != nil {
		b.t.Fatal(err)
	}
	return c
}
