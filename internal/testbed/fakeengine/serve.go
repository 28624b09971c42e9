package fakeengine

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
)

// reply is an answer: a status and, below 300, a value for its body; else a
// message. 204 has no body.
type reply struct {
	status  int
	body    any
	message string
}

func refuse(status int, format string, args ...any) reply {
	return reply{status: status, message: fmt.Sprintf(format, args...)}
}

var routes = []struct {
	op      Op
	methods string
	path    *regexp.Regexp // its group is the reference
	act     func(e *Engine, r *http.Request, ref string, f Fault) reply
}{
	{OpPing, "GET HEAD", regexp.MustCompile(`^/_ping()$`), (*Engine).ping},
	{OpVersion, "GET", regexp.MustCompile(`^/version()$`), (*Engine).version},
	{OpInfo, "GET", regexp.MustCompile(`^/info()$`), (*Engine).info},
	{OpList, "GET", regexp.MustCompile(`^/containers/json()$`), (*Engine).list},
	{OpInspect, "GET", regexp.MustCompile(`^/containers/([^/]+)/json$`), (*Engine).inspect},
	{OpRemove, "DELETE", regexp.MustCompile(`^/containers/([^/]+)$`), (*Engine).remove},
	{OpVolumeInspect, "GET", regexp.MustCompile(`^/volumes/([^/]+)$`), (*Engine).volume},
	{OpVolumeRemove, "DELETE", regexp.MustCompile(`^/volumes/([^/]+)$`), (*Engine).removeVolume},
	{OpEvents, "GET", regexp.MustCompile(`^/events()$`), nil},
}

var versionPrefix = regexp.MustCompile(`^/v(\d+)\.(\d+)(/.*)$`)

func (e *Engine) serve(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	if e.server == nil || r.Context().Err() != nil { // read from a connection of an engine that is down by now
		e.mu.Unlock()
		panic(http.ErrAbortHandler)
	}
	e.handlers.Add(1)
	life := e.life
	n := len(e.requests)
	e.requests = append(e.requests, Request{Method: r.Method, URL: r.URL.RequestURI()})
	e.mu.Unlock()
	defer e.handlers.Done()

	path := r.URL.Path
	if m := versionPrefix.FindStringSubmatch(path); m != nil {
		path = m[3]
		if rep := e.speaks(m[1] + "." + m[2]); rep.status != 0 {
			e.answer(w, n, rep, false)
			return
		}
	}
	for _, route := range routes {
		m := route.path.FindStringSubmatch(path)
		if m == nil || !strings.Contains(route.methods, r.Method) {
			continue
		}
		e.mu.Lock()
		e.requests[n].Op, e.requests[n].ID = route.op, m[1]
		f := e.match(route.op, m[1])
		e.mu.Unlock()
		if route.op == OpEvents {
			e.events(w, r, n, f)
			return
		}
		ctx := r.Context()
		if route.op == OpRemove {
			ctx = life // a removal goes on when its client has left
		}
		var rep reply
		if f.After {
			rep = route.act(e, r, m[1], f)
		}
		var undo func()
		if route.op == OpRemove && !f.After && (f.Delay > 0 || f.Hang) {
			if undo, rep = e.removing(m[1]); rep.status != 0 {
				e.answer(w, n, rep, false)
				return
			}
		}
		here := e.wait(ctx, f)
		if undo != nil {
			undo()
		}
		switch {
		case !here, f.Drop:
			panic(http.ErrAbortHandler)
		case f.Status != 0:
			rep = reply{status: f.Status, message: f.Message}
		case !f.After:
			rep = route.act(e, r, m[1], f)
		}
		e.answer(w, n, rep, f.Half)
		return
	}
	e.answer(w, n, refuse(http.StatusNotFound, "page not found"), false)
}

// answer writes a reply, or the first half of it.
func (e *Engine) answer(w http.ResponseWriter, n int, rep reply, half bool) {
	e.mu.Lock()
	e.requests[n].Status = rep.status
	e.mu.Unlock()
	h := w.Header()
	h.Set("Api-Version", e.APIVersion)
	h.Set("Docker-Experimental", "false")
	h.Set("Ostype", "linux")
	h.Set("Server", "fakeengine")
	if rep.status == http.StatusNoContent {
		w.WriteHeader(rep.status)
		return
	}
	body, text := rep.body, "application/json"
	if rep.status >= 300 {
		body = map[string]string{"message": rep.message}
	}
	b, isText := body.([]byte)
	if isText {
		text = "text/plain; charset=utf-8"
	} else {
		b, _ = json.Marshal(body) // maps of strings, numbers and the like only
		b = append(b, '\n')
	}
	h.Set("Content-Type", text)
	h.Set("Content-Length", fmt.Sprint(len(b)))
	w.WriteHeader(rep.status)
	if half {
		w.Write(b[:len(b)/2])
		http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	w.Write(b)
}

// speaks refuses versions of the API that the engine is too old or too new for.
func (e *Engine) speaks(version string) reply {
	switch {
	case newer(version, e.APIVersion):
		return refuse(http.StatusBadRequest, "client version %s is too new. Maximum supported API version is %s", version, e.APIVersion)
	case newer(e.MinAPIVersion, version):
		return refuse(http.StatusBadRequest, "client version %s is too old. Minimum supported API version is %s, please upgrade your client to a newer version", version, e.MinAPIVersion)
	}
	return reply{}
}

func newer(a, b string) bool {
	var a1, a2, b1, b2 int
	fmt.Sscanf(a, "%d.%d", &a1, &a2)
	fmt.Sscanf(b, "%d.%d", &b1, &b2)
	return a1 > b1 || a1 == b1 && a2 > b2
}

func (e *Engine) ping(*http.Request, string, Fault) reply {
	return reply{status: http.StatusOK, body: []byte("OK")}
}

func (e *Engine) version(*http.Request, string, Fault) reply {
	return reply{status: http.StatusOK, body: map[string]any{
		"Version": "20.10.24-fake", "ApiVersion": e.APIVersion, "MinAPIVersion": e.MinAPIVersion,
		"Os": "linux", "Arch": "amd64",
	}}
}

func (e *Engine) info(*http.Request, string, Fault) reply {
	e.mu.Lock()
	defer e.mu.Unlock()
	return reply{status: http.StatusOK, body: map[string]any{
		"ID": "FAKE", "Name": "fakeengine", "ServerVersion": "20.10.24-fake", "OSType": "linux", "Architecture": "x86_64",
		"Containers": len(e.containers), "Driver": "fake", "SecurityOptions": []string{},
	}}
}
