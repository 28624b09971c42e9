package api

import (
	"errors"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/testbed-janitor/janitor/internal/inventory"
)

func TestRegisterForm(t *testing.T) {
	b := newBed(t)
	r := b.post("/v1/clusters", "name", "e2e", "ttl", "90m", "owner", "ci/e2e/7", "labels", "team=net", "labels", "eq=a=b",
		"kubeconfig", "/home/ci/.kube/config", "job", "ci/e2e", "build", "7", "url", "https://ci.example/job/e2e/7/", "marker", "M-1").is(201)
	c := r.cluster()
	if r.Header().Get("Content-Type") != "application/json" || r.Header().Get("Location") != "/v1/clusters/e2e" {
		t.Errorf("headers %v", r.Header())
	}
	if !regexp.MustCompile(`^[a-z2-7]{26}$`).MatchString(c.Lease) {
		t.Errorf("lease %q", c.Lease)
	}
	if *c.UID != job.uid || *c.GID != job.gid || c.PID != job.pid {
		t.Errorf("the caller is %d %d %d", *c.UID, *c.GID, c.PID)
	}
	now := b.clock()
	if got := c.ExpiresAt.Sub(now.Wall); got > 90*time.Minute || got < 89*time.Minute {
		t.Errorf("expires in %s", got)
	}
	if c.Labels["team"] != "net" || c.Labels["eq"] != "a=b" || c.State != "active" || c.Origin != "registered" || c.Repeated {
		t.Errorf("%+v", c)
	}
	row := b.row("e2e")
	if row.Owner != "ci/e2e/7" || row.Job != "ci/e2e" || row.Build != "7" || row.URL != "https://ci.example/job/e2e/7/" ||
		row.Marker != "M-1" || row.Kubeconfig != "/home/ci/.kube/config" || row.Boot != "boot-1" || row.Lease != c.Lease {
		t.Errorf("stored: %+v", row)
	}
	// Absent rather than null, whole seconds, UTC.
	if s := r.Body.String(); strings.Contains(s, "null") || strings.Contains(s, "closed_at") ||
		!regexp.MustCompile(`"registered_at":"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"`).MatchString(s) {
		t.Errorf("body %s", s)
	}
}

func TestRegisterJSON(t *testing.T) {
	b := newBed(t)
	body := `{"name":"e2e","ttl":90,"owner":"a/b","labels":{"team":"net"},"wait":"1s","pid":77}`
	c := b.do(b.request("POST", "/v1/clusters", "application/json; charset=UTF-8", strings.NewReader(body))).is(201).cluster()
	if got := c.ExpiresAt.Sub(b.clock().Wall).Round(10 * time.Second); got != 90*time.Second {
		t.Errorf("ttl 90 gave %s", got)
	}
	if c.PID != job.pid || len(c.Warnings) != 1 || !strings.Contains(c.Warnings[0], "pid") {
		t.Errorf("a pid of the body was taken, or ignored in silence: %+v", c)
	}
}

func TestRegisterRepeated(t *testing.T) {
	b := newBed(t)
	first := b.post("/v1/clusters", "name", "e2e", "owner", "o", "ttl", "8h").is(201).cluster()
	b.later(time.Minute)
	b.loop.stand("e2e", "c1")
	b.loop.sight()
	b.loop.stand("e2e", "foreign")
	r := b.post("/v1/clusters", "name", "e2e", "owner", "o").is(200).cluster()
	if !r.Repeated || r.Lease != first.Lease || !r.RegisteredAt.Equal(first.RegisteredAt) {
		t.Errorf("%+v after %+v", r, first)
	}
	if len(r.Nodes) != 1 || r.Nodes[0] != (Node{"c1", "e2e-control-plane", "control-plane", "running"}) {
		t.Errorf("nodes %+v", r.Nodes)
	}
	if r.Verdict != "keep" || r.Reason != "leased" {
		t.Errorf("decision %s %s", r.Verdict, r.Reason)
	}
}

func TestRegisterOfAnother(t *testing.T) {
	b := newBed(t)
	b.post("/v1/clusters", "name", "e2e", "owner", "mine").is(201)
	p := b.post("/v1/clusters", "name", "e2e", "owner", "yours").refused(409, "occupied")
	if p.Cluster == nil || p.Cluster.Owner != "mine" || !strings.Contains(p.Detail, `"mine"`) {
		t.Errorf("%+v", p)
	}
	b.peer = peer{uid: 1001, pid: 1}
	b.post("/v1/clusters", "name", "e2e", "owner", "mine").refused(409, "occupied")
}

// H4: two jobs of one agent share a uid; without an owner they are two.
func TestH4(t *testing.T) {
	b := newBed(t)
	a := b.post("/v1/clusters", "name", "kind").is(201).cluster()
	p := b.post("/v1/clusters", "name", "kind").refused(409, "occupied")
	b.post("/v1/clusters/kind/release").refused(422, "invalid")
	b.post("/v1/clusters/kind/release", "owner", "").refused(422, "invalid")
	b.post("/v1/clusters/kind/release", "owner", "1000").refused(410, "lease-lost")
	if p.Cluster.Owner != "" || b.row("kind").State != inventory.Active {
		t.Errorf("%+v", p)
	}
	b.post("/v1/clusters/kind/release", "lease", a.Lease).is(202)

	// The owner of a build is the path of its URL, under whatever name of the
	// server, and as it is escaped.
	b.post("/v1/clusters", "name", "u", "url", "https://ci.example/job/a%2Fb/7/").is(201)
	if o := b.row("u").Owner; o != "/job/a%2Fb/7/" {
		t.Errorf("owner %q", o)
	}
	b.post("/v1/clusters", "name", "u", "url", "http://10.0.0.1:8080/job/a%2Fb/7/").is(200)
	b.post("/v1/clusters", "name", "u", "url", "https://ci.example/job/a/b/7/").refused(409, "occupied")
	b.post("/v1/clusters", "name", "root", "url", "https://ci.example/").is(201)
	b.post("/v1/clusters", "name", "root", "url", "https://ci.example/").refused(409, "occupied")
}

// H12: nothing shortens a granted lease.
func TestH12(t *testing.T) {
	b := newBed(t)
	first := b.post("/v1/clusters", "name", "e2e", "owner", "o", "ttl", "8h").is(201).cluster()
	if r := b.post("/v1/clusters", "name", "e2e", "owner", "o").is(200).cluster(); r.ExpiresAt.Before(first.ExpiresAt) {
		t.Errorf("a repeat moved %s to %s", first.ExpiresAt, r.ExpiresAt)
	}
	if r := b.post("/v1/clusters/e2e/renew", "owner", "o", "ttl", "1m").is(200).cluster(); r.ExpiresAt.Before(first.ExpiresAt) {
		t.Errorf("a renewal moved %s to %s", first.ExpiresAt, r.ExpiresAt)
	}
	b.policy.MaxTTL = 12 * time.Minute
	b.later(9 * time.Hour) // past its end, not past its cap
	r := b.post("/v1/clusters/e2e/renew", "lease", first.Lease, "ttl", "40h").is(200).cluster()
	if !near(r.ExpiresAt, first.CapAt) || len(r.Warnings) != 1 {
		t.Errorf("renewed to %s under the cap of %s: %v", r.ExpiresAt, first.CapAt, r.Warnings)
	}
}

// near allows for the second that showing cuts off.
func near(a, b time.Time) bool { return a.Sub(b).Abs() <= 2*time.Second }

// H13: what may have been leased in a lost inventory is not replaced.
func TestH13(t *testing.T) {
	b := newBed(t)
	b.mem.m.Recs.LastList, b.mem.m.Recs.LastLook = inventory.Stamp{}, 0 // a new inventory
	b.loop.stand("old", "c1")
	b.loop.sight()
	b.later(2 * time.Hour)
	p := b.post("/v1/clusters", "name", "old", "owner", "o", "on_occupied", "replace").refused(409, "occupied")
	if !strings.Contains(p.Detail, "before this inventory") {
		t.Error(p.Detail)
	}
	b.post("/v1/clusters", "name", "old", "owner", "o", "on_occupied", "adopt").is(201)
}

// H14: replace takes what is nobody's and known for long enough, exactly what
// stands; a stale look refuses nobody.
func TestH14(t *testing.T) {
	replace := func(b *bed) reply {
		return b.post("/v1/clusters", "name", "left", "owner", "o", "on_occupied", "replace")
	}
	t.Run("kind delete, register", func(t *testing.T) {
		b := newBed(t)
		b.loop.stand("left", "c1")
		b.loop.sight()
		b.loop.fall("c1")
		b.post("/v1/clusters", "name", "left", "owner", "o").is(201)
		if b.loop.looks != 1 {
			t.Errorf("%d looks", b.loop.looks)
		}
	})
	t.Run("it stands", func(t *testing.T) {
		b := newBed(t)
		b.loop.stand("left", "c1")
		b.loop.sight()
		p := b.post("/v1/clusters", "name", "left", "owner", "o").refused(409, "occupied")
		if p.Cluster == nil || p.Cluster.Origin != "found" || p.Cluster.UID != nil || b.loop.looks != 1 {
			t.Errorf("%+v after %d looks", p.Cluster, b.loop.looks)
		}
	})
	t.Run("no look, no verdict", func(t *testing.T) {
		b := newBed(t)
		b.loop.stand("left", "c1")
		b.loop.sight()
		b.later(time.Hour)
		b.loop.fall("c1")
		b.loop.lookErr = errors.New("the engine hangs")
		b.post("/v1/clusters", "name", "left", "owner", "o").refused(409, "occupied")
		replace(b).refused(409, "occupied")
	})
	t.Run("young", func(t *testing.T) {
		b := newBed(t)
		b.loop.stand("left", "c1")
		b.loop.sight()
		b.later(b.policy.CreateGrace - 10*time.Second)
		if p := replace(b).refused(409, "occupied"); !strings.Contains(p.Detail, "may be replaced from") {
			t.Error(p.Detail)
		}
	})
	t.Run("replaced", func(t *testing.T) {
		b := newBed(t)
		b.loop.stand("left", "c1")
		b.loop.sight()
		b.later(b.policy.CreateGrace)
		b.loop.onPoke = func() { go b.loop.pass() }
		c := replace(b).is(201).cluster()
		if c.State != "active" || c.Owner != "o" || len(b.loop.seen().Containers) != 0 {
			t.Errorf("%+v, standing %v", c, b.loop.seen().Containers)
		}
	})
	t.Run("adopted", func(t *testing.T) {
		b := newBed(t)
		b.loop.stand("left", "c1")
		b.loop.sight()
		c := b.post("/v1/clusters", "name", "left", "owner", "o", "on_occupied", "adopt").is(201).cluster()
		if c.Origin != "adopted" || len(c.Nodes) != 1 {
			t.Errorf("%+v", c)
		}
	})
	t.Run("dry run", func(t *testing.T) {
		b := newBed(t)
		b.policy.DryRun = true
		b.loop.stand("left", "c1")
		b.loop.sight()
		b.later(b.policy.CreateGrace)
		replace(b).refused(409, "dry-run")
	})
}

// H15: the boot of the registration is stored, so that a later one can be told.
func TestH15(t *testing.T) {
	b := newBed(t)
	b.post("/v1/clusters", "name", "e2e").is(201)
	if b.row("e2e").Boot != "boot-1" {
		t.Errorf("%+v", b.row("e2e"))
	}
}

var _ http.Handler = (*Server)(nil)
