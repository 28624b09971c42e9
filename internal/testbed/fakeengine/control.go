package fakeengine

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
)

// Control is an HTTP handler that works the engine from another process. It
// goes on answering while the engine is down.
//
//	POST   /_fake/nodes?cluster=C&role=R[&port=N][&state=S]  add a kind node; answers with it
//	POST   /_fake/containers      add a container (Container as JSON); answers with it
//	GET    /_fake/containers      the containers
//	POST   /_fake/containers/REF/state?to=S
//	DELETE /_fake/containers/REF  take one away, as somebody else would
//	GET    /_fake/volumes         the names of the volumes
//	GET    /_fake/requests        the calls so far
//	POST   /_fake/faults          inject a fault (Fault as JSON)
//	DELETE /_fake/faults          clear them all
//	POST   /_fake/release         let what hangs go on
//	POST   /_fake/break           end the event streams
//	POST   /_fake/down, /_fake/up
//
// Answers are JSON; an error is a status and a line of text.
func (e *Engine) Control() http.Handler {
	m := http.NewServeMux()
	handle := func(pattern string, f func(r *http.Request) (any, error)) {
		m.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			v, err := f(r)
			switch {
			case errors.Is(err, errUnknown):
				http.Error(w, err.Error(), http.StatusNotFound)
			case err != nil:
				http.Error(w, err.Error(), http.StatusBadRequest)
			case v == nil:
				w.WriteHeader(http.StatusNoContent)
			default:
				w.Header().Set("Content-Type", "application/json")
				json.NewEncoder(w).Encode(v)
			}
		})
	}
	do := func(f func()) func(*http.Request) (any, error) {
		return func(*http.Request) (any, error) { f(); return nil, nil }
	}
	handle("POST /_fake/nodes", e.controlNode)
	handle("POST /_fake/containers", func(r *http.Request) (any, error) {
		var c Container
		if err := strict(r.Body, &c); err != nil {
			return nil, err
		}
		return e.Add(c)
	})
	handle("GET /_fake/containers", func(*http.Request) (any, error) { return e.Containers(), nil })
	handle("POST /_fake/containers/{ref}/state", func(r *http.Request) (any, error) {
		return nil, known(e.Set(r.PathValue("ref"), r.URL.Query().Get("to")))
	})
	handle("DELETE /_fake/containers/{ref}", func(r *http.Request) (any, error) {
		return nil, known(e.Remove(r.PathValue("ref")))
	})
	handle("GET /_fake/volumes", func(*http.Request) (any, error) { return append([]string{}, e.Volumes()...), nil })
	handle("GET /_fake/requests", func(*http.Request) (any, error) { return append([]Request{}, e.Requests()...), nil })
	handle("POST /_fake/faults", func(r *http.Request) (any, error) {
		var f Fault
		if err := strict(r.Body, &f); err != nil {
			return nil, err
		}
		e.Inject(f)
		return nil, nil
	})
	handle("DELETE /_fake/faults", do(e.Clear))
	handle("POST /_fake/release", do(e.Release))
	handle("POST /_fake/break", do(e.BreakStreams))
	handle("POST /_fake/down", func(*http.Request) (any, error) { return nil, e.Down() })
	handle("POST /_fake/up", func(*http.Request) (any, error) { return nil, e.Up() })
	return m
}

func (e *Engine) controlNode(r *http.Request) (any, error) {
	q := r.URL.Query()
	if q.Get("cluster") == "" || q.Get("role") == "" {
		return nil, errors.New("a node needs ?cluster= and &role=")
	}
	port := 0
	if p := q.Get("port"); p != "" {
		var err error
		if port, err = strconv.Atoi(p); err != nil || port < 1 || port > 65535 {
			return nil, errors.New("port is not a number from 1 to 65535")
		}
	}
	return e.addNode(q.Get("cluster"), q.Get("role"), Container{Port: port, State: q.Get("state")}), nil
}

var errUnknown = errors.New("no such container")

func known(ok bool) error {
	if !ok {
		return errUnknown
	}
	return nil
}

func strict(r io.Reader, v any) error {
	d := json.NewDecoder(r)
	d.DisallowUnknownFields()
	return d.Decode(v)
}
