package api

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/testbed-janitor/janitor/internal/inventory"
	"github.com/testbed-janitor/janitor/internal/inventory/driver"
)

func TestMain(m *testing.M) {
	childMain() // ends the process if this is a child of a test
	goleak.VerifyTestMain(m)
}

// memory is a Store without a disk, whose rows obey the real rules.
type memory struct {
	mu      sync.Mutex
	m       *driver.Map
	changed chan struct{}
	plans   map[string]savedPlan
	broken  error // what every access answers
	writes  int   // calls of Change
}

type savedPlan struct {
	at inventory.Stamp
	ds []inventory.Decision
}

func (m *memory) lock() func() { m.mu.Lock(); return m.mu.Unlock }

func (m *memory) count() int { defer m.lock()(); return m.writes }

func (m *memory) commit() {
	close(m.changed)
	m.changed = make(chan struct{})
}

func (m *memory) Change(ctx context.Context, name, lease string, rule func(inventory.Records) (inventory.Change, error)) (inventory.Change, error) {
	defer m.lock()()
	m.writes++
	if m.broken != nil {
		return inventory.Change{}, m.broken
	}
	c, err := m.m.Change(ctx, name, lease, rule)
	if err == nil {
		m.commit()
	}
	return c, err
}

func (m *memory) Records(ctx context.Context) (inventory.Records, error) {
	defer m.lock()()
	if m.broken != nil {
		return inventory.Records{}, m.broken
	}
	return m.m.Records(ctx)
}

func (m *memory) saveSight(before, after inventory.Records) {
	defer m.lock()()
	m.m.SaveSight(context.Background(), before, after)
	m.commit()
}

func (m *memory) Clusters(_ context.Context, f Filter) ([]inventory.Cluster, error) {
	defer m.lock()()
	if m.broken != nil {
		return nil, m.broken
	}
	var out []inventory.Cluster
	for _, c := range append(slices.Clone(m.m.Recs.Clusters), m.m.Closed...) {
		state := f.State == "all" || f.State == string(c.State) || f.State == "" && c.State != inventory.Closed
		if state && (f.Owner == "" || f.Owner == c.Owner) && (f.Job == "" || f.Job == c.Job) {
			out = append(out, c)
		}
	}
	return out, nil
}

func (m *memory) Cluster(_ context.Context, name string) (inventory.Cluster, []inventory.Container, error) {
	defer m.lock()()
	if m.broken != nil {
		return inventory.Cluster{}, nil, m.broken
	}
	if row := m.m.Row(name); row != nil {
		return *row, nil, nil
	}
	return inventory.Cluster{}, nil, &inventory.Problem{Code: inventory.CodeNotFound, Message: fmt.Sprintf("no cluster %q is known", name)}
}

func (m *memory) Events(_ context.Context, f EventFilter) ([]inventory.Event, error) {
	defer m.lock()()
	if m.broken != nil {
		return nil, m.broken
	}
	var out []inventory.Event
	for i, e := range m.m.Events {
		e.ID = int64(i + 1)
		if e.ID > f.After && (f.Name == "" || f.Name == e.Name) && !e.At.Wall.Before(f.Since) && len(out) < f.Limit {
			out = append(out, e)
		}
	}
	return out, nil
}

func (m *memory) Changed() <-chan struct{} {
	defer m.lock()()
	return m.changed
}

func (m *memory) SavePlan(_ context.Context, id string, at inventory.Stamp, ds []inventory.Decision) error {
	defer m.lock()()
	m.plans[id] = savedPlan{at, ds}
	return m.broken
}

func (m *memory) Plan(_ context.Context, id string) (inventory.Stamp, []inventory.Decision, error) {
	defer m.lock()()
	p, ok := m.plans[id]
	if !ok {
		return p.at, nil, &inventory.Problem{Code: inventory.CodeNotFound, Message: "no such plan"}
	}
	return p.at, p.ds, nil
}

func (m *memory) Counts(context.Context) (map[inventory.State]int, error) {
	defer m.lock()()
	out := map[inventory.State]int{}
	for _, c := range append(slices.Clone(m.m.Recs.Clusters), m.m.Closed...) {
		out[c.State]++
	}
	return out, m.broken
}

// loop is a Loop over containers that a test puts there. Its passes follow the
// real policy.
type loop struct {
	b        *bed
	mu       sync.Mutex
	standing []inventory.Seen
	lookErr  error
	looks    int
	pokes    int
	onPoke   func()
	passErr  error
	hang     bool // Pass waits for its context
	applied  []inventory.Decision
	operator string
	status   LoopStatus
}

func (l *loop) seen() inventory.Observation {
	l.mu.Lock()
	defer l.mu.Unlock()
	return inventory.Observation{Interval: time.Minute, Containers: slices.Clone(l.standing)}
}

// stand makes a container of a cluster, as kind would.
func (l *loop) stand(name, id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.standing = append(l.standing, inventory.Seen{
		ID: id, Cluster: name, Name: name + "-control-plane", Role: "control-plane", State: "running", Created: l.b.clock().Wall.Truncate(time.Second),
	})
}

func (l *loop) fall(ids ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.standing = slices.DeleteFunc(l.standing, func(s inventory.Seen) bool { return slices.Contains(ids, s.ID) })
}

// sight stores what stands now.
func (l *loop) sight() inventory.Records {
	before, _ := l.b.mem.Records(context.Background())
	after := inventory.Sight(l.b.policy, before, l.seen(), l.b.clock())
	l.b.mem.saveSight(before, after)
	return after
}

// pass looks, decides and removes.
func (l *loop) pass() {
	l.sight()
	recs, _ := l.b.mem.Records(context.Background())
	for _, d := range inventory.Plan(l.b.policy, recs, l.seen(), l.b.clock()) {
		ctx := context.Background()
		switch d.Verdict {
		case inventory.Reap:
			c, err := l.b.mem.Change(ctx, d.Name, "", func(r inventory.Records) (inventory.Change, error) {
				return inventory.BeginReap(l.b.policy, r, d, "", l.b.clock())
			})
			if err != nil {
				continue
			}
			l.fall(c.Cluster.Captured...)
			l.b.mem.Change(ctx, d.Name, "", func(r inventory.Records) (inventory.Change, error) {
				return inventory.FinishReap(r, d.Name, c.Cluster.ID, nil, l.b.clock())
			})
		case inventory.Close:
			l.b.mem.Change(ctx, d.Name, "", func(r inventory.Records) (inventory.Change, error) {
				return inventory.CloseRow(r, d, l.b.clock())
			})
		}
	}
}

func (l *loop) count() int { l.mu.Lock(); defer l.mu.Unlock(); return l.looks }

func (l *loop) Poke() {
	l.mu.Lock()
	l.pokes++
	f := l.onPoke
	l.mu.Unlock()
	if f != nil {
		f()
	}
}

func (l *loop) Pass(ctx context.Context) (Report, error) {
	if l.hang {
		<-ctx.Done()
		return Report{}, ctx.Err()
	}
	ds, _ := l.Plan(ctx)
	now := l.b.clock().Wall
	return Report{StartedAt: now, EndedAt: now.Add(1500 * time.Millisecond), Decisions: ds, Results: []Result{{Name: "x", OK: true}}}, l.passErr
}

func (l *loop) Plan(context.Context) ([]inventory.Decision, error) {
	recs, _ := l.b.mem.Records(context.Background())
	seen := l.seen()
	return inventory.Plan(l.b.policy, inventory.Sight(l.b.policy, recs, seen, l.b.clock()), seen, l.b.clock()), nil
}

func (l *loop) Apply(_ context.Context, saved []inventory.Decision, operator string) (Report, error) {
	l.applied, l.operator = saved, operator
	return Report{Decisions: saved}, nil
}

func (l *loop) Look(_ context.Context, name string) ([]inventory.Seen, error) {
	l.mu.Lock()
	l.looks++
	err := l.lookErr
	l.mu.Unlock()
	if err != nil {
		return nil, err
	}
	l.sight()
	return slices.DeleteFunc(l.seen().Containers, func(s inventory.Seen) bool { return s.Cluster != name }), nil
}

func (l *loop) Decide(ctx context.Context, rows []inventory.Cluster) []inventory.Decision {
	ds, _ := l.Plan(ctx)
	return slices.DeleteFunc(ds, func(d inventory.Decision) bool {
		return !slices.ContainsFunc(rows, func(c inventory.Cluster) bool { return c.ID == d.Row })
	})
}

func (l *loop) Status() LoopStatus { return l.status }

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
