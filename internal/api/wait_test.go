package api

import (
	"context"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/testbed-janitor/janitor/internal/inventory"
)

func TestRegisterWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		lease := b.post("/v1/clusters", "name", "e2e", "owner", "a").is(201).cluster().Lease
		go func() {
			time.Sleep(20 * time.Second)
			b.post("/v1/clusters/e2e/release", "lease", lease).is(202)
			time.Sleep(20 * time.Second)
			b.loop.pass()
		}()
		began := time.Now()
		c := b.post("/v1/clusters", "name", "e2e", "owner", "b", "wait", "1m", "ttl", "1h").is(201).cluster()
		if took := time.Since(began); took != 40*time.Second {
			t.Errorf("it took %s", took)
		}
		if c.Owner != "b" || !near(c.ExpiresAt, b.clock().Wall.Add(time.Hour)) {
			t.Errorf("%+v", c)
		}

		began = time.Now()
		p := b.post("/v1/clusters", "name", "e2e", "owner", "c", "wait", "31s").refused(504, "timeout")
		if took := time.Since(began); took != 31*time.Second {
			t.Errorf("it took %s", took)
		}
		if p.Cluster == nil || p.Cluster.Owner != "b" || !strings.Contains(p.Detail, `"b"`) {
			t.Errorf("%+v", p)
		}
	})
}

// Who waits looks at a name every few seconds, not with each commit, and does
// not run a transaction for each commit about other names.
func TestWaitingIsCheap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		b.post("/v1/clusters", "name", "e2e", "owner", "a").is(201)
		done := make(chan reply)
		go func() { done <- b.post("/v1/clusters", "name", "e2e", "owner", "b", "wait", "31s") }()
		time.Sleep(time.Second)
		writes, looks := b.mem.count(), b.loop.count()
		for range 100 {
			b.mem.mu.Lock()
			b.mem.commit()
			b.mem.mu.Unlock()
			time.Sleep(10 * time.Millisecond)
			synctest.Wait()
		}
		if w, l := b.mem.count()-writes, b.loop.count()-looks; w != 0 || l != 0 {
			t.Errorf("%d transactions and %d looks for 100 commits of others", w, l)
		}
		(<-done).refused(504, "timeout")
		if b.loop.looks != 7 {
			t.Errorf("%d looks in 31 s", b.loop.looks)
		}
	})
}

// A name whose owner is silent and of which nothing stands is handed over when
// the create grace ends, also to who waits already.
func TestWaitForYield(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		b.post("/v1/clusters", "name", "e2e", "owner", "a", "ttl", "8h").is(201)
		for range 19 {
			b.later(time.Minute)
			b.loop.sight()
		}
		b.later(b.policy.CreateGrace - 19*time.Minute - 12*time.Second)
		c := b.post("/v1/clusters", "name", "e2e", "owner", "b", "wait", "1m").is(201).cluster()
		if c.Owner != "b" {
			t.Errorf("%+v", c)
		}
	})
}

func TestDrainAnswersWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		lease := b.post("/v1/clusters", "name", "e2e", "owner", "a").is(201).cluster().Lease
		b.loop.hang = true
		calls := make(chan reply)
		go func() { calls <- b.post("/v1/clusters", "name", "e2e", "owner", "b", "wait", "1h") }()
		go func() { calls <- b.post("/v1/clusters/e2e/release", "lease", lease, "wait", "1h") }()
		go func() { calls <- b.post("/v1/passes") }()
		time.Sleep(time.Minute)
		b.s.Drain()
		for range 3 {
			r := <-calls
			r.refused(503, "stopping")
			if r.Header().Get("Retry-After") == "" {
				t.Error("no Retry-After")
			}
		}
		b.get("/readyz").refused(503, "stopping")
	})
}

// Who hangs up while waiting gets no lease.
func TestWaiterHangsUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		lease := b.post("/v1/clusters", "name", "e2e", "owner", "a").is(201).cluster().Lease
		r := b.request("POST", "/v1/clusters", formType, strings.NewReader("name=e2e&owner=b&wait=1h"))
		ctx, cancel := context.WithCancel(r.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			b.s.ServeHTTP(httptest.NewRecorder(), r.WithContext(ctx))
		}()
		time.Sleep(time.Second)
		cancel()
		<-done
		b.post("/v1/clusters/e2e/release", "lease", lease).is(202)
		b.loop.pass()
		if row := b.row("e2e"); row.Owner != "a" || row.State != inventory.Closed {
			t.Errorf("%+v", row)
		}
	})
}

// A replace waits for its own removal without being asked to, and replaces
// once: what its owner registered meanwhile it takes for a repeat.
func TestReplaceWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		old := b.post("/v1/clusters", "name", "e2e", "owner", "o").is(201).cluster()
		b.loop.stand("e2e", "c1")
		b.loop.sight()
		b.loop.slow = 7 * time.Second
		var once sync.Once
		var next Cluster
		b.loop.onPoke = func() {
			once.Do(func() {
				b.loop.pass()
				next = b.post("/v1/clusters", "name", "e2e", "owner", "o").is(201).cluster()
			})
		}
		c := b.post("/v1/clusters", "name", "e2e", "owner", "o", "on_occupied", "replace").is(200).cluster()
		if !c.Repeated || c.Lease != next.Lease || c.Lease == old.Lease || b.loop.pokes != 1 {
			t.Errorf("%+v after %+v and %d pokes", c, next, b.loop.pokes)
		}

		b.loop.stand("e2e", "c2")
		b.loop.sight()
		b.loop.onPoke = func() { go b.loop.pass() }
		began := time.Now()
		c = b.post("/v1/clusters", "name", "e2e", "owner", "o", "on_occupied", "replace").is(201).cluster()
		if took := time.Since(began); took != 7*time.Second || c.Lease == next.Lease {
			t.Errorf("after %s: %+v", took, c)
		}

		b.loop.stand("e2e", "c3")
		b.loop.sight()
		b.loop.onPoke = nil // nobody removes it
		began = time.Now()
		b.post("/v1/clusters", "name", "e2e", "owner", "o", "on_occupied", "replace").refused(504, "timeout")
		if took := time.Since(began); took != replaceTime {
			t.Errorf("it gave up after %s", took)
		}
	})
}
