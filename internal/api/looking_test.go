package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/testbed-janitor/janitor/internal/inventory"
)

func TestList(t *testing.T) {
	b := newBed(t)
	if s := b.get("/v1/clusters").is(200).Body.String(); s != "{\"clusters\":[]}\n" {
		t.Errorf("%q", s)
	}
	b.post("/v1/clusters", "name", "a", "owner", "o1", "job", "nightly/a").is(201)
	b.post("/v1/clusters", "name", "b", "owner", "o2", "job", "nightly/b").is(201)
	b.later(2 * time.Second)
	b.loop.stand("a", "c1")
	b.loop.stand("a", "c0")
	b.loop.stand("found", "c2")
	b.loop.sight()
	b.later(time.Minute)
	b.loop.fall("c0")
	b.loop.sight()
	b.post("/v1/clusters/b/release", "owner", "o2").is(202)
	b.loop.pass()

	names := func(query string) string {
		t.Helper()
		var l clusterList
		b.get("/v1/clusters" + query).is(200).into(&l)
		var out []string
		for _, c := range l.Clusters {
			out = append(out, c.Name+":"+c.State)
		}
		return strings.Join(out, " ")
	}
	for query, want := range map[string]string{
		"":                         "a:active found:active",
		"?state=all":               "a:active found:active b:closed",
		"?state=closed":            "b:closed",
		"?state=reaping":           "",
		"?owner=o1":                "a:active",
		"?state=all&job=nightly/b": "b:closed",
	} {
		if got := names(query); got != want {
			t.Errorf("%q gives %q, want %q", query, got, want)
		}
	}
	b.get("/v1/clusters?state=gone").refused(422, "invalid")
	b.get("/v1/clusters?status=active").refused(400, "invalid")
	b.get("/v1/clusters?owner=a&owner=b").refused(400, "invalid")

	c := b.get("/v1/clusters/a").is(200).cluster()
	if len(c.Nodes) != 1 || c.Nodes[0].ID != "c1" || c.Verdict != "keep" || c.Reason != "leased" || c.Due.IsZero() || c.LastSeenAt.IsZero() {
		t.Errorf("%+v", c)
	}
	f := b.get("/v1/clusters/found").is(200).cluster()
	if f.Origin != "found" || f.UID != nil || f.Lease != "" || f.Reason != "orphan-grace" || len(f.Nodes) != 1 || !f.RegisteredAt.IsZero() {
		t.Errorf("%+v", f)
	}
	r := b.get("/v1/clusters/b").is(200)
	if d := r.cluster(); d.State != "closed" || d.CloseReason != "released" || d.Verdict != "" || d.Nodes != nil {
		t.Errorf("%s", r.Body)
	}
	b.get("/v1/clusters/none").refused(404, "not-found")
	b.get("/v1/clusters/"+strings.Repeat("x", 201)).refused(422, "invalid")
}

// What stands under the name and is not the lease's is shown apart.
func TestForeign(t *testing.T) {
	b := newBed(t)
	b.loop.stand("e2e", "before")
	b.later(2 * time.Second)
	b.post("/v1/clusters", "name", "e2e", "owner", "o").is(201)
	b.later(2 * time.Second)
	b.loop.stand("e2e", "mine")
	b.loop.sight()
	c := b.get("/v1/clusters/e2e").is(200).cluster()
	if len(c.Nodes) != 1 || c.Nodes[0].ID != "mine" || len(c.Foreign) != 1 || c.Foreign[0].ID != "before" {
		t.Errorf("nodes %+v, foreign %+v", c.Nodes, c.Foreign)
	}
}

// Every field of a row that is shown has its name on the wire.
func TestShapeOfCluster(t *testing.T) {
	b := newBed(t)
	now := b.clock()
	v := view{policy: b.policy, now: now}
	w := v.cluster(inventory.Cluster{
		Name: "n", Lease: "l", State: inventory.Reaping, Origin: inventory.Registered, Owner: "o", Job: "j", Build: "b", URL: "u",
		UID: 0, GID: 0, PID: 3, Marker: "m", Kubeconfig: "/k", Labels: map[string]string{"a": "b"}, Registered: now,
		Expires: now.At, Cap: now.At, FirstSeen: now, LastSeen: now, Hold: &inventory.Hold{Until: now.At.Add(time.Hour), By: "uid:0", Reason: "r"},
		Evidence: []inventory.Evidence{{Source: "process", Says: inventory.Alive, Since: now.At, Detail: "d", Silent: true}},
		Attempts: 5, NextTry: now.At, LastError: "e", Captured: []string{"c1"}, Warnings: []string{"w"},
	}, []inventory.Container{{ID: "c1", Cluster: "n", Name: "n1", Role: "worker", State: "exited"}, {ID: "c2", Cluster: "n"}},
		&inventory.Decision{Verdict: inventory.Keep, Reason: inventory.BackingOff, Due: now.At})
	text, _ := json.Marshal(w)
	var got map[string]any
	json.Unmarshal(text, &got)
	for _, name := range strings.Split("name lease state origin owner job build url uid gid pid marker kubeconfig labels registered_at "+
		"expires_at cap_at first_seen_at last_seen_at hold verdict reason due evidence nodes foreign attempts stuck last_error warnings", " ") {
		if _, ok := got[name]; !ok {
			t.Errorf("%s is missing", name)
		}
		delete(got, name)
	}
	if len(got) > 0 {
		t.Errorf("left: %v", got)
	}
	at := second(now.Wall).Format(time.RFC3339)
	if want := `{"source":"process","says":"alive","since":"` + at + `","detail":"d","silent":true}`; !strings.Contains(string(text), want) {
		t.Errorf("no %s in %s", want, text)
	}
}

func lines(r reply) []Event {
	var out []Event
	for _, line := range strings.Split(strings.TrimSpace(r.Body.String()), "\n") {
		var e Event
		if line != "" && json.Unmarshal([]byte(line), &e) == nil {
			out = append(out, e)
		}
	}
	return out
}

func TestEvents(t *testing.T) {
	b := newBed(t)
	b.post("/v1/clusters", "name", "old", "owner", "o").is(201)
	b.later(time.Hour)
	middle := b.clock().Wall
	b.later(time.Second)
	b.post("/v1/clusters", "name", "new", "owner", "o").is(201)
	r := b.get("/v1/events").is(200)
	if es := lines(r); len(es) != 2 || es[0].Kind != "registered" || es[0].Actor != "uid:1000" || es[0].Name != "old" || es[0].ID != 1 || es[0].Lease == "" {
		t.Errorf("%s", r.Body)
	}
	if ct := r.Header().Get("Content-Type"); ct != "application/x-ndjson" {
		t.Error(ct)
	}
	for query, want := range map[string]string{
		"?name=old": "old", "?after=1": "new", "?since=" + middle.Format(time.RFC3339): "new", "?since=10m": "new", "?since=600": "new", "?name=none": "",
	} {
		es := lines(b.get("/v1/events" + query).is(200))
		if want == "" && len(es) != 0 || want != "" && (len(es) != 1 || es[0].Name != want) {
			t.Errorf("%s gives %+v", query, es)
		}
	}
	for _, query := range []string{"?since=yesterday", "?after=x", "?after=-1", "?follow=maybe", "?since=-5m"} {
		b.get("/v1/events"+query).refused(422, "invalid")
	}
	b.get("/v1/events?limit=5").refused(400, "invalid")
}

// A long history is read in batches and comes whole.
func TestManyEvents(t *testing.T) {
	b := newBed(t)
	for i := range 2*batch + 7 {
		b.mem.m.Events = append(b.mem.m.Events, inventory.Event{At: b.clock(), Kind: "k", Name: fmt.Sprint(i)})
	}
	es := lines(b.get("/v1/events").is(200))
	if len(es) != 2*batch+7 {
		t.Fatalf("%d events", len(es))
	}
	for i, e := range es {
		if e.Name != fmt.Sprint(i) {
			t.Fatalf("event %d is %+v", i, e)
		}
	}
}

func TestPlans(t *testing.T) {
	b := newBed(t)
	b.loop.stand("found", "c1")
	b.loop.sight()
	b.later(b.policy.OrphanGrace)
	var look, saved Plan
	b.get("/v1/plan").is(200).into(&look)
	if look.ID != "" || len(look.Decisions) != 1 || look.Decisions[0].Verdict != "reap" || look.Decisions[0].Reason != "orphan" ||
		look.Decisions[0].Nodes[0] != "c1" || !near(look.MadeAt, b.clock().Wall) {
		t.Errorf("%+v", look)
	}
	b.do(b.request("POST", "/v1/plans", "", nil)).is(201).into(&saved)
	if len(saved.ID) != 26 || len(saved.Decisions) != 1 {
		t.Errorf("%+v", saved)
	}
	apply := func(as peer, id string) reply {
		b.peer = as
		return b.do(b.request("POST", "/v1/plans/"+id+"/apply", "", nil))
	}
	apply(job, saved.ID).refused(403, "forbidden")
	if b.loop.applied != nil {
		t.Fatal("applied by a job")
	}
	apply(admin, "unknown").refused(404, "not-found")
	b.later(planLife - time.Minute)
	var p Pass
	apply(admin, saved.ID).is(200).into(&p)
	if len(b.loop.applied) != 1 || b.loop.operator != "uid:900" || len(p.Decisions) != 1 {
		t.Errorf("%+v by %q", b.loop.applied, b.loop.operator)
	}
	b.later(2 * time.Minute)
	apply(admin, saved.ID).refused(409, "conflict")
}

// Without IsAdmin root alone is one.
func TestDefaultAdmin(t *testing.T) {
	b := newBed(t)
	b.s.opt.IsAdmin = nil
	b.peer = admin
	b.post("/v1/plans/x/apply").refused(403, "forbidden")
	b.peer = rootPeer
	b.post("/v1/plans/x/apply").refused(404, "not-found")
}

func TestPass(t *testing.T) {
	b := newBed(t)
	var got map[string]any
	b.post("/v1/passes").is(200).into(&got)
	if fmt.Sprint(got["results"]) != "[map[name:x ok:true]]" || got["error"] != nil || got["decisions"] == nil {
		t.Errorf("%v", got)
	}
	var p Pass
	b.post("/v1/passes").is(200).into(&p)
	if p.EndedAt.Sub(p.StartedAt) != 1500*time.Millisecond {
		t.Errorf("%s to %s", p.StartedAt, p.EndedAt)
	}
	b.loop.passErr = fmt.Errorf("loop: %w", ErrStopping)
	b.post("/v1/passes").refused(503, "stopping")
	b.post("/v1/passes", "now", "true").refused(400, "invalid")
}

func TestStatus(t *testing.T) {
	b := newBed(t)
	b.s.opt.Status = func(ctx context.Context) Status {
		return Status{Docker: &Docker{Host: "unix:///x", Version: "28"}, Database: &Database{Bytes: 4096}}
	}
	now := b.clock().Wall
	b.loop.status = LoopStatus{
		Started: now, LastPass: now, LastGood: now, Next: now.Add(time.Minute), Passes: 7, Coalesced: 2,
		Blind: "no engine", Brake: true, BrakeCount: 4, Last: Report{Error: "bad"},
	}
	b.policy.DryRun = true
	b.post("/v1/clusters", "name", "e2e").is(201)
	var s Status
	b.get("/v1/status").is(200).into(&s)
	want := Status{
		Version: "v1.2.3", StartedAt: second(now), LastPassAt: second(now), LastGoodPassAt: second(now), NextPassAt: second(now.Add(time.Minute)),
		Passes: 7, Coalesced: 2, LastError: "bad", Blind: "no engine", Brake: true, BrakeCount: 4, DryRun: true,
		InventorySince: second(b.began), Clusters: map[string]int{"active": 1},
		Docker: &Docker{Host: "unix:///x", Version: "28"}, Database: &Database{Bytes: 4096},
	}
	if got, w := mustJSON(s), mustJSON(want); got != w {
		t.Errorf("got  %s\nwant %s", got, w)
	}
}

func TestHealth(t *testing.T) {
	b := newBed(t)
	b.s.started = b.clock() // no pass yet
	b.later(3*time.Minute - time.Second)
	b.get("/healthz").is(200)
	b.later(2 * time.Second)
	b.get("/healthz").refused(503, "unhealthy")
	b.loop.status.LastPass = b.clock().Wall
	b.get("/healthz").is(200)
	b.later(3*time.Minute + time.Second)
	b.get("/healthz").refused(503, "unhealthy")
	b.get("/readyz").is(200)
	b.mem.broken = &inventory.Problem{Code: inventory.CodeStorage, Message: "the disk is full"}
	b.get("/readyz").refused(503, "storage")

	b.get("/metrics").refused(404, "not-found")
	b.s = New(b.mem, b.loop, Options{Clock: b.clock, Policy: b.s.opt.Policy, Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "up 1")
	})})
	if s := b.get("/metrics").is(200).Body.String(); s != "up 1" {
		t.Error(s)
	}
}

func mustJSON(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(text)
}
