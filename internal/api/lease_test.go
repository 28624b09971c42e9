package api

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/testbed-janitor/janitor/internal/inventory"
)

var (
	rootPeer = peer{uid: 0, pid: 1}
	admin    = peer{uid: 900, pid: 2}
	stranger = peer{uid: 1001, pid: 3}
)

func TestRenew(t *testing.T) {
	b := newBed(t)
	lease := b.post("/v1/clusters", "name", "e2e", "owner", "o", "ttl", "1h").is(201).cluster().Lease
	b.later(2 * time.Hour)
	c := b.post("/v1/clusters/e2e/renew", "lease", lease, "ttl", "30m").is(200).cluster()
	if !near(c.ExpiresAt, b.clock().Wall.Add(30*time.Minute)) || c.State != "active" {
		t.Errorf("%+v", c)
	}
	// Without ttl it is the default.
	c = b.post("/v1/clusters/e2e/renew", "owner", "o").is(200).cluster()
	if !near(c.ExpiresAt, b.clock().Wall.Add(b.policy.DefaultTTL)) {
		t.Errorf("%s", c.ExpiresAt)
	}
	b.post("/v1/clusters/e2e/renew", "lease", "wrong").refused(410, "lease-lost")
	b.post("/v1/clusters/e2e/renew", "ttl", "1h").refused(422, "invalid")
	b.post("/v1/clusters/none/renew", "lease", lease).refused(404, "not-found")
	b.post("/v1/clusters/Not-A-Name/renew", "lease", lease).refused(422, "invalid")
	b.peer = stranger
	b.post("/v1/clusters/e2e/renew", "lease", lease).refused(410, "lease-lost")
	b.peer = job
	b.post("/v1/clusters/e2e/release", "lease", lease).is(202)
	if p := b.post("/v1/clusters/e2e/renew", "lease", lease).refused(410, "lease-lost"); p.Cluster.State != "released" {
		t.Errorf("%+v", p)
	}
}

func TestRelease(t *testing.T) {
	b := newBed(t)
	lease := b.post("/v1/clusters", "name", "e2e", "owner", "o").is(201).cluster().Lease
	pokes := b.loop.pokes
	if c := b.post("/v1/clusters/e2e/release", "owner", "o").is(202).cluster(); c.State != "released" || c.Lease != lease {
		t.Errorf("%+v", c)
	}
	if b.loop.pokes != pokes+1 {
		t.Error("the loop was not poked")
	}
	b.post("/v1/clusters/none/release", "owner", "o").refused(404, "not-found")
}

func TestReleaseWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		lease := b.post("/v1/clusters", "name", "e2e", "owner", "o").is(201).cluster().Lease
		b.loop.stand("e2e", "c1")
		b.loop.sight()
		b.loop.onPoke = func() {
			go func() { time.Sleep(9 * time.Second); b.loop.pass() }()
		}
		began := time.Now()
		c := b.post("/v1/clusters/e2e/release", "lease", lease, "wait", "1m").is(200).cluster()
		if took := time.Since(began); took != 9*time.Second || c.State != "closed" || c.CloseReason != "released" || c.ClosedAt.IsZero() {
			t.Errorf("after %s: %+v", took, c)
		}
		// A retry of the release is success.
		b.post("/v1/clusters/e2e/release", "lease", lease, "wait", "1m").is(200)

		lease = b.post("/v1/clusters", "name", "e2e", "owner", "o").is(201).cluster().Lease
		b.loop.stand("e2e", "c2")
		b.loop.sight()
		b.loop.onPoke = nil
		began = time.Now()
		p := b.post("/v1/clusters/e2e/release", "lease", lease, "wait", "1m").refused(504, "timeout")
		if took := time.Since(began); took != time.Minute || p.Cluster.State != "released" {
			t.Errorf("after %s: %+v", took, p)
		}
	})
}

// The name may be another's before the one who waits has looked.
func TestReleaseWaitsWhileNameIsTaken(t *testing.T) {
	b := newBed(t)
	mine := b.post("/v1/clusters", "name", "e2e", "owner", "o").is(201).cluster()
	b.post("/v1/clusters/e2e/release", "owner", "o").is(202)
	row := b.row("e2e")
	b.loop.pass()
	b.post("/v1/clusters", "name", "e2e", "owner", "other").is(201)
	gone, err := b.s.waitGone(context.Background(), row, mine.Lease, time.Minute)
	if err != nil || gone.Lease != mine.Lease || gone.State != inventory.Closed || gone.CloseReason != inventory.LetGo {
		t.Errorf("%+v, %v", gone, err)
	}
}

func TestReleaseInDryRun(t *testing.T) {
	b := newBed(t)
	b.policy.DryRun = true
	b.post("/v1/clusters", "name", "e2e", "owner", "o").is(201)
	b.loop.stand("e2e", "c1")
	b.loop.sight()
	p := b.post("/v1/clusters/e2e/release", "owner", "o", "wait", "1h").refused(409, "dry-run")
	if p.Cluster.State != "released" || b.row("e2e").State != inventory.Released {
		t.Errorf("%+v", p)
	}
}

// H16: no hold is acknowledged while a removal is under way; an accepted one
// defeats a removal that was decided before.
func TestH16(t *testing.T) {
	b := newBed(t)
	b.post("/v1/clusters", "name", "e2e", "owner", "o", "ttl", "1m").is(201)
	b.loop.stand("e2e", "c1")
	b.loop.sight()
	b.later(time.Hour)
	recs := b.loop.sight()
	for range 6 { // the owner could not be heard for an hour: it gets its grace
		b.later(time.Minute)
		recs = b.loop.sight()
	}
	begin := func() error {
		ds := inventory.Plan(b.policy, recs, b.loop.seen(), b.clock())
		if len(ds) != 1 || ds[0].Verdict != inventory.Reap {
			t.Fatalf("%+v", ds)
		}
		_, err := b.mem.Change(context.Background(), "e2e", "", func(r inventory.Records) (inventory.Change, error) {
			return inventory.BeginReap(b.policy, r, ds[0], "", b.clock())
		})
		return err
	}
	b.post("/v1/clusters/e2e/hold", "for", "1h", "reason", "look").is(200)
	b.do(b.request("DELETE", "/v1/clusters/e2e/hold", "", nil)).is(200)
	if begin() == nil {
		t.Error("a removal decided before a hold began after it")
	}
	recs, _ = b.mem.Records(context.Background())
	if err := begin(); err != nil {
		t.Fatal(err)
	}
	b.post("/v1/clusters/e2e/hold", "for", "1h", "reason", "look").refused(409, "reaping")
	id := b.row("e2e").ID
	b.mem.Change(context.Background(), "e2e", "", func(r inventory.Records) (inventory.Change, error) {
		return inventory.FailReap(b.policy, r, "e2e", id, time.Minute, "stuck mount", b.clock())
	})
	c := b.post("/v1/clusters/e2e/hold", "for", "1h", "reason", "look").is(200).cluster()
	if c.State != "reaping" || c.LastError != "stuck mount" || c.Attempts != 1 || c.Hold == nil {
		t.Errorf("%+v", c)
	}
}

// H19: a root job is no admin by accident.
func TestH19(t *testing.T) {
	b := newBed(t)
	lease := b.post("/v1/clusters", "name", "e2e", "owner", "o").is(201).cluster().Lease
	release := func(as peer, pairs ...string) reply {
		b.peer = as
		return b.post("/v1/clusters/e2e/release", pairs...)
	}
	release(rootPeer).refused(422, "invalid")
	release(rootPeer, "owner", "other").refused(410, "lease-lost")
	release(admin, "owner", "o").refused(410, "lease-lost")
	release(stranger, "lease", lease).refused(410, "lease-lost")
	release(rootPeer, "force", "true").refused(422, "invalid")
	release(stranger, "force", "true", "reason", "mine now").refused(403, "forbidden")
	if b.row("e2e").State != inventory.Active {
		t.Fatal("released")
	}
	release(admin, "force", "true", "reason", "left over").is(202)
	if e := b.mem.m.Events[len(b.mem.m.Events)-1]; e.Actor != "uid:900" || e.Detail != "left over" {
		t.Errorf("%+v", e)
	}

	// A late release of one's own lease is success, unless the name is another's.
	b.loop.pass()
	release(job, "lease", lease).is(200)
	release(stranger, "lease", lease).refused(410, "lease-lost")
	b.post("/v1/clusters", "name", "e2e", "owner", "next").is(201)
	release(job, "lease", lease).refused(410, "lease-lost")
}

// A forced release of what nobody registered takes what stands at that moment.
func TestForcedReleaseOfFound(t *testing.T) {
	b := newBed(t)
	b.loop.stand("found", "c1")
	b.loop.sight()
	b.loop.stand("found", "c2")
	b.peer = rootPeer
	b.post("/v1/clusters/found/release", "force", "true", "reason", "nobody's").is(202)
	if got := b.row("found").Captured; len(got) != 2 {
		t.Errorf("captured %v", got)
	}
}

func TestHold(t *testing.T) {
	b := newBed(t)
	b.post("/v1/clusters", "name", "e2e", "owner", "o").is(201)
	b.peer = stranger
	c := b.post("/v1/clusters/e2e/hold", "for", "8h", "reason", "looking into it").is(200).cluster()
	if c.Hold == nil || c.Hold.By != "uid:1001" || c.Hold.Reason != "looking into it" || !near(c.Hold.Until, b.clock().Wall.Add(8*time.Hour)) {
		t.Fatalf("%+v", c.Hold)
	}
	until := b.clock().Wall.Add(10 * time.Hour).In(time.FixedZone("", 3600))
	c = b.post("/v1/clusters/e2e/hold", "until", until.Format(time.RFC3339), "reason", "longer").is(200).cluster()
	if !near(c.Hold.Until, until) {
		t.Errorf("held until %s, not %s", c.Hold.Until, until)
	}
	for _, pairs := range [][]string{
		{"for", "8h"}, {"reason", "r"}, {"for", "8h", "until", until.Format(time.RFC3339), "reason", "r"},
		{"until", "tomorrow", "reason", "r"}, {"until", b.clock().Wall.Add(-time.Second).Format(time.RFC3339), "reason", "r"},
		{"until", "9999-12-31T23:59:59Z", "reason", "r"}, {"for", "1d", "reason", "r"},
	} {
		b.post("/v1/clusters/e2e/hold", pairs...).refused(422, "invalid")
	}
	b.post("/v1/clusters/none/hold", "for", "8h", "reason", "r").refused(404, "not-found")

	lift := func(as peer) reply {
		b.peer = as
		return b.do(b.request("DELETE", "/v1/clusters/e2e/hold", "", nil))
	}
	lift(job).refused(403, "forbidden")
	pokes := b.loop.pokes
	if c := lift(admin).is(200).cluster(); c.Hold != nil || b.loop.pokes != pokes+1 {
		t.Errorf("%+v after %d pokes", c, b.loop.pokes-pokes)
	}
	b.do(b.request("DELETE", "/v1/clusters/none/hold", "", nil)).refused(404, "not-found")

	// A hold that is over is not shown.
	b.post("/v1/clusters/e2e/hold", "for", "1m", "reason", "r").is(200)
	b.later(2 * time.Minute)
	if s := b.get("/v1/clusters/e2e").is(200).Body.String(); strings.Contains(s, `"hold"`) {
		t.Error(s)
	}
}
