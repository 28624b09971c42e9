package fakeengine

import (
	"encoding/json"
	"io"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestControl(t *testing.T) {
	e, c, ctx := start(t)
	h := e.Control()
	do := func(method, path, body string, want int) []byte {
		t.Helper()
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(method, path, strings.NewReader(body)))
		b, _ := io.ReadAll(w.Body)
		if w.Code != want {
			t.Errorf("%s %s: %d %s, want %d", method, path, w.Code, b, want)
		}
		return b
	}
	var n Container
	if err := json.Unmarshal(do("POST", "/_fake/nodes?cluster=a&role=worker&port=4444&state=exited", "", 200), &n); err != nil {
		t.Fatal(err)
	}
	if got, err := c.ContainerInspect(ctx, n.ID); err != nil || got.Name != "/a-worker" || got.State.Status != "exited" {
		t.Errorf("the node: %+v, %v", got, err)
	}
	do("POST", "/_fake/nodes?cluster=a", "", 400)
	do("POST", "/_fake/containers", `{"name":"x","labels":{"k":"v"}}`, 200)
	do("POST", "/_fake/containers", `{"name":"x"}`, 400)
	do("POST", "/_fake/containers", `{"nmae":"y"}`, 400)
	do("POST", "/_fake/containers/x/state?to=paused", "", 204)
	if got, err := c.ContainerInspect(ctx, "x"); err != nil || !got.State.Paused {
		t.Errorf("paused: %+v, %v", got, err)
	}
	do("POST", "/_fake/faults", `{"op":"inspect","status":500,"message":"no"}`, 204)
	do("POST", "/_fake/faults", `{"opp":"inspect"}`, 400)
	if _, err := c.ContainerInspect(ctx, "x"); err == nil {
		t.Error("the fault does nothing")
	}
	do("DELETE", "/_fake/faults", "", 204)
	if _, err := c.ContainerInspect(ctx, "x"); err != nil {
		t.Errorf("the fault is cleared: %v", err)
	}
	do("DELETE", "/_fake/containers/x", "", 204)
	do("DELETE", "/_fake/containers/x", "", 404)
	do("POST", "/_fake/release", "", 204)
	do("POST", "/_fake/break", "", 204)
	do("POST", "/_fake/down", "", 204)
	if _, err := c.Ping(ctx); err == nil {
		t.Error("a ping of an engine that is down")
	}
	do("POST", "/_fake/up", "", 204)
	do("POST", "/_fake/up", "", 400)
	var requests []Request
	if err := json.Unmarshal(do("GET", "/_fake/requests", "", 200), &requests); err != nil || len(requests) < 3 {
		t.Errorf("requests: %v, %v", requests, err)
	}
	var cs []Container
	if err := json.Unmarshal(do("GET", "/_fake/containers", "", 200), &cs); err != nil || len(cs) != 1 || cs[0].ID != n.ID {
		t.Errorf("containers: %+v, %v", cs, err)
	}
	do("GET", "/_fake/volumes", "", 200)
}
