package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/testbed-janitor/janitor/internal/testbed"
)

// site is the kind tier: the real kind command makes clusters, the real binary
// reaps them. Orphans are only reported, for others may use the engine; they
// are reaped on a private engine alone.
type site struct {
	t *testing.T
	k *testbed.KindEngine
	d *testbed.Daemon
}

const patience = 3 * time.Minute // guards against hanging, no more

func newSite(t *testing.T, k *testbed.KindEngine, orphans map[string]any) *site {
	t.Helper()
	d := testbed.StartDaemon(t, map[string]any{
		"docker_host": k.Host,
		"schedule":    "@every 1s",
		"kubeconfigs": []string{k.Kubeconfig},
		"lease":       map[string]any{"create_grace": "5s", "owner_grace": "1s"},
		"orphans":     orphans,
	})
	return &site{t: t, k: k, d: d}
}

// register is a job's one line of curl.
func (s *site) register(name, ttl string) {
	s.t.Helper()
	body := s.post("/v1/clusters", url.Values{
		"name": {name}, "ttl": {ttl}, "owner": {"job/" + name}, "kubeconfig": {s.k.Kubeconfig},
	}, http.StatusCreated)
	if !strings.Contains(body, `"state":"active"`) {
		s.t.Fatalf("the registration answered %s", body)
	}
}

func (s *site) post(path string, form url.Values, want int) string {
	s.t.Helper()
	res, err := s.d.HTTP().PostForm(s.d.URL(path), form)
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	if res.StatusCode != want {
		s.t.Fatalf("POST %s: %s, not %d: %s", path, res.Status, want, body)
	}
	return string(body)
}

func (s *site) create(name string) []string {
	s.t.Helper()
	if err := s.k.Create(s.t.Context(), name, testbed.CreateOptions{}); err != nil {
		s.t.Fatal(err)
	}
	return s.nodes(name)
}

func (s *site) nodes(name string) []string {
	s.t.Helper()
	ids, err := s.k.Nodes(s.t.Context(), name)
	if err != nil {
		s.t.Fatal(err)
	}
	return ids
}

func (s *site) volumes(id string) []string {
	return strings.Fields(s.k.Run(s.t, "inspect", "-f", "{{range .Mounts}}{{if eq .Type \"volume\"}}{{.Name}} {{end}}{{end}}", id))
}

// until waits for something that a few passes bring about.
func (s *site) until(what string, done func() bool) {
	s.t.Helper()
	for deadline := time.Now().Add(patience); !done(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.t.Fatalf("in %s it did not come about that %s", patience, what)
		}
	}
}

func (s *site) gone(name string) {
	s.t.Helper()
	s.until(name+" is gone", func() bool { return len(s.nodes(name)) == 0 })
}

// closedAs waits for the row to close, and compares why.
func (s *site) closedAs(name, reason string) {
	s.t.Helper()
	var c struct {
		State       string `json:"state"`
		CloseReason string `json:"close_reason"`
	}
	s.until("the row of "+name+" is closed", func() bool {
		res, err := s.d.HTTP().Get(s.d.URL("/v1/clusters/" + name))
		if err != nil {
			s.t.Fatal(err)
		}
		defer res.Body.Close()
		return json.NewDecoder(res.Body).Decode(&c) == nil && c.State == "closed"
	})
	if c.CloseReason != reason {
		s.t.Errorf("%s was closed as %q, not %q", name, c.CloseReason, reason)
	}
}

func (s *site) kubeconfig() string {
	b, err := os.ReadFile(s.k.Kubeconfig)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(b)
}

func TestKindExpired(t *testing.T) {
	k := testbed.Kind(t)
	s := newSite(t, k, nil)
	name, other := testbed.Name(t), testbed.Name(t)
	s.register(name, "40s")
	s.register(other, "10m")
	s.create(other)
	volumes := s.volumes(s.create(name)[0])
	if len(volumes) != 1 {
		t.Fatalf("a kind node has one anonymous volume, not %v", volumes)
	}
	s.gone(name)
	s.closedAs(name, "expired")
	if got := s.kubeconfig(); strings.Contains(got, "kind-"+name) || !strings.Contains(got, "kind-"+other) {
		t.Errorf("of the kubeconfig's entries the reaped one's alone should be gone:\n%s", got)
	}
	if left := k.Run(t, "volume", "ls", "-q"); strings.Contains(left, volumes[0]) {
		t.Errorf("the node's volume stayed behind")
	}
	if len(s.nodes(other)) != 1 {
		t.Errorf("a cluster with a valid lease is gone")
	}
}

func TestKindReleased(t *testing.T) {
	k := testbed.Kind(t)
	s := newSite(t, k, nil)
	name := testbed.Name(t)
	s.register(name, "1h")
	s.create(name)
	s.post("/v1/clusters/"+name+"/release", url.Values{"owner": {"job/" + name}, "wait": {"60s"}}, http.StatusOK)
	if ids := s.nodes(name); len(ids) != 0 {
		t.Errorf("release with wait answered while %v stood", ids)
	}
	s.closedAs(name, "released")

	// The same name again, right after the reap: a new cluster, which stays.
	s.register(name, "1h")
	again := s.create(name)
	for range 3 {
		s.post("/v1/passes", nil, http.StatusOK)
	}
	if now := s.nodes(name); !slices.Equal(now, again) {
		t.Errorf("the cluster made again after the reap did not survive: %v, now %v", again, now)
	}
}

func TestKindHalfMade(t *testing.T) {
	k := testbed.Kind(t)
	s := newSite(t, k, nil)
	name := testbed.Name(t)
	s.register(name, "20s")
	ctx, abort := context.WithCancel(t.Context())
	cmd := k.CreateCommand(ctx, name, testbed.CreateOptions{Workers: 1})
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s.until("kind has made a node", func() bool { return len(s.nodes(name)) > 0 })
	abort() // as an aborted job does: kind is killed in the middle
	if err := cmd.Wait(); err == nil {
		t.Fatalf("kind was not killed in the middle:\n%s", out.String())
	}
	if len(s.nodes(name)) == 0 {
		t.Fatal("nothing half-made was left")
	}
	s.gone(name)
	s.closedAs(name, "expired")
}

func TestKindOrphan(t *testing.T) {
	p := testbed.Private(t) // only there may a test reap what nobody registered
	k := p.Kind(t)
	s := newSite(t, k, map[string]any{"action": "reap", "grace": "30s", "max_per_hour": 1})
	s.post("/v1/passes", nil, http.StatusOK) // the first list: what it shows would be inherited
	time.Sleep(1100 * time.Millisecond)      // the engine gives creation times in whole seconds
	s.create("nobodys")
	s.gone("nobodys")
	s.closedAs("nobodys", "orphan")

	// The hour's orphan is spent: the next waits under the brake.
	s.create("nobodys-2")
	s.until("the brake holds the second orphan", func() bool {
		var plan struct {
			Decisions []struct{ Name, Verdict, Reason, Would string }
		}
		res, err := s.d.HTTP().Get(s.d.URL("/v1/plan"))
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if err := json.NewDecoder(res.Body).Decode(&plan); err != nil {
			t.Fatal(err)
		}
		for _, d := range plan.Decisions {
			if d.Name == "nobodys-2" && d.Reason == "brake" && d.Would == "reap" {
				return true
			}
		}
		return false
	})
	if len(s.nodes("nobodys-2")) != 1 {
		t.Error("the brake did not hold")
	}
}

// A registration that was acknowledged is there after kill -9, and a reap that
// was cut in half is finished.
func TestKindKilledInTheMiddle(t *testing.T) {
	k := testbed.Kind(t)
	s := newSite(t, k, nil)
	name, kept := testbed.Name(t), testbed.Name(t)
	s.register(kept, "1h")
	s.register(name, "1h")
	s.create(name)
	s.post("/v1/passes", nil, http.StatusOK)
	s.post("/v1/clusters/"+name+"/release", url.Values{"owner": {"job/" + name}}, http.StatusAccepted)
	s.d.Kill()
	if err := s.d.Start(); err != nil {
		t.Fatal(err)
	}
	s.gone(name)
	s.closedAs(name, "released")
	res, err := s.d.HTTP().Get(s.d.URL("/v1/clusters/" + kept))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if body, _ := io.ReadAll(res.Body); !bytes.Contains(body, []byte(`"state":"active"`)) {
		t.Errorf("an acknowledged registration was lost: %s", body)
	}
}
