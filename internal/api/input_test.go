package api

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/testbed-janitor/janitor/internal/inventory"
)

// Anything that cannot be read in exactly one way gets a problem that names
// the field and the rule, and never a lease.
func TestBadInput(t *testing.T) {
	const js = "application/json"
	name := func(s string) string { return `{"name":"` + s + `"}` }
	for _, c := range []struct {
		about, contentType, body string
		status                   int
		says                     string // part of the detail
	}{
		{"no name", formType, "ttl=1h", 422, "name has 0 bytes"},
		{"empty form", formType, "", 422, "name"},
		{"no body at all", "", "", 422, "name"},
		{"empty JSON", js, "  \n", 422, "name"},
		{"capital", formType, "name=E2E", 422, "a cluster name has"},
		{"underscore", formType, "name=a_b", 422, "a cluster name has"},
		{"starts with a dot", formType, "name=.a", 422, "a cluster name has"},
		{"path", formType, "name=../etc/passwd", 422, "a cluster name has"},
		{"long name", formType, "name=" + strings.Repeat("a", 201), 422, "201 bytes"},
		{"umlaut", js, name("ä"), 422, "a cluster name has"},

		{"day", formType, "name=a&ttl=1d", 422, `field "ttl": "1d"`},
		{"zero", formType, "name=a&ttl=0", 422, `field "ttl"`},
		{"zero in JSON", js, `{"name":"a","ttl":0}`, 422, `field "ttl"`},
		{"negative", formType, "name=a&ttl=-5m", 422, `field "ttl"`},
		{"negative number", js, `{"name":"a","ttl":-5}`, 422, `field "ttl"`},
		{"empty ttl", formType, "name=a&ttl=", 422, `field "ttl"`},
		{"fraction", js, `{"name":"a","ttl":1.5}`, 422, `field "ttl"`},
		{"exponent", js, `{"name":"a","ttl":1e3}`, 422, `field "ttl"`},
		{"overflow", formType, "name=a&ttl=2562047h", 422, "10 years"},
		{"more digits than fit", formType, "name=a&ttl=99999999999999999999", 422, `field "ttl"`},
		{"blank", formType, "name=a&ttl=+5m", 422, `field "ttl"`},
		{"wait", formType, "name=a&wait=25h", 422, `field "wait"`},
		{"wait without unit of days", formType, "name=a&wait=1d", 422, `field "wait"`},

		{"unknown field", formType, "name=a&lifetime=1h", 400, `"lifetime"`},
		{"unknown field in JSON", js, `{"name":"a","lifetime":"1h"}`, 400, `"lifetime"`},
		{"the caller is no field", formType, "name=a&uid=0", 400, `"uid"`},
		{"case of names", js, `{"Name":"a"}`, 400, `"Name"`},
		{"case of names in a form", formType, "Name=a", 400, `"Name"`},
		{"twice", formType, "name=a&name=b", 400, `"name" is given more than once`},
		{"twice in JSON", js, `{"name":"a","name":"b"}`, 400, `"name" is given more than once`},
		{"escaped twice in JSON", js, `{"name":"a","n\u0061me":"b"}`, 400, `"name" is given more than once`},
		{"labels twice", js, `{"name":"a","labels":{},"labels":{}}`, 400, `"labels" is given more than once`},
		{"label twice", js, `{"name":"a","labels":{"x":"1","x":"2"}}`, 400, `"x" is given more than once`},
		{"label twice in a form", formType, "name=a&labels=x=1&labels=x=2", 400, `"x" is given more than once`},

		{"not JSON", js, `name=a`, 400, "not JSON"},
		{"cut off", js, `{"name":"a"`, 400, "ends early"},
		{"cut off in a value", js, `{"name":"a`, 400, "ends early"},
		{"array", js, `["a"]`, 400, "one JSON object"},
		{"null", js, `null`, 400, "one JSON object"},
		{"trailing", js, `{"name":"a"} {"name":"b"}`, 400, "follows"},
		{"trailing rubbish", js, `{"name":"a"}x`, 400, "follows"},
		{"null value", js, `{"name":null}`, 422, `field "name" must be a string`},
		{"number for text", js, `{"name":5}`, 422, `field "name" must be a string`},
		{"object for text", js, `{"name":{}}`, 422, `field "name" must be a string`},
		{"bool for duration", js, `{"name":"a","ttl":true}`, 422, `field "ttl" must be`},
		{"labels as a list", js, `{"name":"a","labels":["x"]}`, 422, `field "labels" must be an object`},
		{"label that is a number", js, `{"name":"a","labels":{"x":1}}`, 422, `field "labels.x" must be a string`},
		{"label without =", formType, "name=a&labels=x", 422, `KEY=VALUE`},
		{"label without key", formType, "name=a&labels==x", 422, `a key must not be empty`},
		{"label with = in its key", js, `{"name":"a","labels":{"x=y":"z"}}`, 422, `has no '='`},
		{"long label", js, `{"name":"a","labels":{"x":"` + strings.Repeat("y", 257) + `"}}`, 422, `label "x"`},
		{"many labels", formType, "name=a" + manyLabels(), 422, "33, more than 32"},
		{"bad escape", formType, "name=a&owner=50%", 400, "--data-urlencode"},
		{"semicolon", formType, "name=a;owner=b", 400, "--data-urlencode"},

		{"not UTF-8", js, "{\"name\":\"a\",\"owner\":\"\xff\"}", 422, "UTF-8"},
		{"not UTF-8 in a form", formType, "name=a&owner=%ff", 422, `field "owner": it is not UTF-8`},
		{"half a pair", js, `{"name":"a","owner":"\ud800"}`, 422, `field "owner": it is not UTF-8`},
		{"line feed", formType, "name=a&owner=x%0ay", 422, `field "owner": it has a control character`},
		{"escape", js, `{"name":"a","job":"\u001b[2J"}`, 422, `field "job": it has a control character`},
		{"NUL", formType, "name=a&marker=%00", 422, `field "marker": it has a control character`},
		{"C1", js, `{"name":"a","build":"\u009b"}`, 422, `field "build": it has a control character`},
		{"control in a label", js, `{"name":"a","labels":{"x":"\n"}}`, 422, `label "x"`},
		{"long owner", formType, "name=a&owner=" + strings.Repeat("o", 1025), 422, `field "owner": it has 1025 bytes`},

		{"relative kubeconfig", formType, "name=a&kubeconfig=.kube/config", 422, "absolute path"},
		{"home kubeconfig", formType, "name=a&kubeconfig=~/.kube/config", 422, "absolute path"},
		{"unclean kubeconfig", formType, "name=a&kubeconfig=/home/../etc/shadow", 422, "absolute path"},
		{"slash at the end", formType, "name=a&kubeconfig=/home/ci/", 422, "absolute path"},

		{"no scheme", formType, "name=a&url=ci.example/job", 422, `field "url"`},
		{"script", formType, "name=a&url=javascript:alert(1)", 422, `field "url"`},
		{"no host", formType, "name=a&url=http:///job", 422, `field "url"`},
		{"password", formType, "name=a&url=https://u:p@ci.example/job", 422, "user or password"},
		{"on_occupied", formType, "name=a&on_occupied=force", 422, "fail, adopt or replace"},
		{"pid 0", formType, "name=a&pid=0", 422, `field "pid"`},
		{"pid that is none", formType, "name=a&pid=$$", 422, `field "pid"`},

		{"text", "text/plain", "name=a", 415, "application/json"},
		{"multipart", "multipart/form-data; boundary=x", "--x--", 415, "application/json"},
		{"no type", "", "name=a", 415, "application/json"},
		{"other characters", js + "; charset=latin1", name("a"), 415, "UTF-8"},
		{"no type to be parsed", "a/b/c;;", name("a"), 415, "application/json"},
		{"too large", formType, "name=a&owner=" + strings.Repeat("o", maxBody), 413, "65536"},
	} {
		t.Run(c.about, func(t *testing.T) {
			b := newBed(t)
			code := "invalid"
			p := b.do(b.request("POST", "/v1/clusters", c.contentType, strings.NewReader(c.body))).refused(c.status, code)
			if !strings.Contains(p.Detail, c.says) {
				t.Errorf("%q does not say %q", p.Detail, c.says)
			}
			if len(b.mem.m.Recs.Clusters) != 0 || b.mem.count() != 0 {
				t.Error("something was asked of the store")
			}
		})
	}
}

func manyLabels() string {
	var s strings.Builder
	for i := range maxLabels + 1 {
		fmt.Fprintf(&s, "&labels=k%d=v", i)
	}
	return s.String()
}

// What is right at the limit passes.
func TestGoodInput(t *testing.T) {
	for _, body := range []string{
		"name=" + strings.Repeat("a", 200), "name=0", "name=a&ttl=1", "name=a&ttl=87600h", "name=a&wait=24h",
		"name=a&owner=" + strings.Repeat("o", 1024), "name=a&owner=%C3%A4+b%2Fc", "name=a&kubeconfig=/", "name=a&owner=&url=", "name=a&pid=1",
		"name=a&owner=o" + strings.Replace(manyLabels(), "&labels=k0=v", "", 1),
	} {
		b := newBed(t)
		b.do(b.request("POST", "/v1/clusters", formType, strings.NewReader(body))).is(201)
	}
	b := newBed(t)
	b.do(b.request("POST", "/v1/clusters", formType, strings.NewReader("name=a&owner=%C3%A4+b%2Fc"))).is(201)
	if o := b.row("a").Owner; o != "ä b/c" {
		t.Errorf("owner %q", o)
	}
	c := b.post("/v1/clusters", "name", strings.Repeat("n", 51)).is(201).cluster()
	if len(c.Warnings) != 1 || !strings.Contains(c.Warnings[0], "50") {
		t.Errorf("warnings %v", c.Warnings)
	}
}

func TestQueryOfPost(t *testing.T) {
	b := newBed(t)
	b.do(b.request("POST", "/v1/clusters?name=a", formType, strings.NewReader("name=a"))).refused(400, "invalid")
	r := b.request("POST", "/v1/clusters", formType, strings.NewReader("name=a"))
	r.Header.Set("Content-Encoding", "gzip")
	b.do(r).refused(415, "invalid")
	b.do(b.request("POST", "/v1/clusters", formType, io.MultiReader(strings.NewReader("name=a"), failing{}))).refused(400, "invalid")
	b.do(b.request("DELETE", "/v1/clusters/a/hold", formType, strings.NewReader("force=true"))).refused(400, "invalid")
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

func TestPathsAndMethods(t *testing.T) {
	b := newBed(t)
	for _, path := range []string{"/", "/v1", "/v1/", "/v1/clusters/", "/v1//clusters", "/v1/clusters/a/b/c", "/v1/clusters/a/renew/", "/v2/clusters", "/openapi.json", "/metrics", "/healthz/"} {
		for _, method := range []string{"GET", "POST", "DELETE"} {
			b.do(b.request(method, path, "", nil)).refused(404, "not-found")
		}
	}
	for path, allow := range map[string]string{
		"/v1/clusters": "GET, POST", "/v1/clusters/a": "GET", "/v1/clusters/a/renew": "POST", "/v1/clusters/a/release": "POST",
		"/v1/clusters/a/hold": "DELETE, POST", "/v1/events": "GET", "/v1/plan": "GET", "/v1/plans": "POST",
		"/v1/plans/p/apply": "POST", "/v1/passes": "POST", "/v1/status": "GET", "/healthz": "GET", "/readyz": "GET",
	} {
		for _, method := range []string{"GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"} {
			if strings.Contains(allow, method) {
				continue
			}
			r := b.do(b.request(method, path, "", nil))
			r.refused(405, "invalid")
			if got := r.Header().Get("Allow"); got != allow {
				t.Errorf("%s allows %q, want %q", path, got, allow)
			}
		}
	}
	// A dot in the path is part of a name, a slash that is hidden in one is not.
	b.get("/v1/clusters/a%2Fb").refused(404, "not-found")
	b.get("/v1/clusters/%2e%2e").refused(404, "not-found")
	b.post("/v1/clusters/a%0ab/release", "owner", "o").refused(422, "invalid")
}

func TestGuard(t *testing.T) {
	b := newBed(t)
	for host, ok := range map[string]bool{
		"localhost": true, "localhost:80": true, "": true, "janitor": true, "127.0.0.1:8080": true, "[::1]:80": true, "[::1]": true,
		"evil.example": false, "evil.example:80": false, "192.0.2.1": false, "[2001:db8::1]": false, "localhost.evil.example": false, "localhost.": false, "0.0.0.0": false,
	} {
		r := b.request("GET", "/v1/clusters", "", nil)
		r.Host = host
		if got := b.do(r); ok {
			got.is(200)
		} else {
			got.refused(403, "forbidden")
		}
	}
	for name, value := range map[string]string{"Origin": "null", "Sec-Fetch-Site": "none"} {
		for _, v := range []string{value, ""} {
			r := b.request("GET", "/healthz", "", nil)
			r.Header.Set(name, v)
			b.do(r).refused(403, "forbidden")
		}
	}
	r := b.request("GET", "/healthz", "", nil)
	b.do(r.WithContext(t.Context())).refused(403, "forbidden") // no peer
}

// Each code of a rule has its answer, and what no rule said stays inside.
func TestProblems(t *testing.T) {
	for code, want := range map[inventory.Code]int{
		inventory.CodeInvalid: 422, inventory.CodeOccupied: 409, inventory.CodeReaping: 409, inventory.CodeLeaseLost: 410,
		inventory.CodeNotFound: 404, inventory.CodeForbidden: 403, inventory.CodeHeld: 409, inventory.CodeDryRun: 409,
		inventory.CodeTimeout: 504, inventory.CodeConflict: 409, inventory.CodeStorage: 503,
	} {
		b := newBed(t)
		b.mem.broken = fmt.Errorf("store: %w", &inventory.Problem{Code: code, Message: "m", Cluster: &inventory.Cluster{Name: "n"}})
		r := b.get("/v1/clusters")
		p := r.refused(want, string(code))
		if p.Cluster == nil || p.Cluster.Name != "n" || p.Detail != "m" {
			t.Errorf("%+v", p)
		}
		if (want == 503) != (r.Header().Get("Retry-After") != "") {
			t.Errorf("%s: Retry-After %q", code, r.Header().Get("Retry-After"))
		}
	}
	b := newBed(t)
	b.mem.broken = errors.New("open /var/lib/secret: no")
	for _, r := range []reply{b.get("/v1/clusters"), b.get("/v1/events"), b.get("/v1/status"), b.post("/v1/clusters", "name", "a"), b.post("/v1/clusters/a/renew", "owner", "o")} {
		if p := r.refused(500, "internal"); strings.Contains(p.Detail, "secret") {
			t.Error(p.Detail)
		}
	}
	b = newBed(t)
	b.s.mux.HandleFunc("/panics", func(http.ResponseWriter, *http.Request) { panic("secret") })
	b.get("/panics").refused(500, "internal")
}
