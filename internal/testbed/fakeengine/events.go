package fakeengine

import (
	"encoding/json"
	"net/http"
	"slices"
	"time"
)

// event is what happened to a container, in Docker's words.
type event struct {
	action, id string
	attributes map[string]string // its labels, and its name
	at         time.Time
}

// streamed is how many events a slow reader may be behind. Like Docker, the
// fake loses what is beyond: the stream ends.
const streamed = 256

// publish tells all streams; e.mu is held.
func (e *Engine) publish(action string, c *Container) {
	attributes := labels(c)
	attributes["name"], attributes["image"] = c.Name, "fake"
	ev := event{action, c.ID, attributes, time.Now()}
	for s := range e.streams {
		select {
		case s <- ev:
		default:
			e.end(s)
		}
	}
}

// end ends a stream once; e.mu is held.
func (e *Engine) end(s chan event) {
	if e.streams[s] {
		delete(e.streams, s)
		close(s)
	}
}

// Streams is the number of event streams that are open.
func (e *Engine) Streams() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.streams)
}

// BreakStreams ends all event streams, without telling the last events.
func (e *Engine) BreakStreams() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for s := range e.streams {
		e.end(s)
	}
}

// events serves a stream until the client leaves or it is ended.
func (e *Engine) events(w http.ResponseWriter, r *http.Request, n int, f Fault) {
	if !e.wait(r.Context(), f) || f.Drop {
		panic(http.ErrAbortHandler)
	}
	if f.Status != 0 {
		e.answer(w, n, reply{status: f.Status, message: f.Message}, false)
		return
	}
	want, bad := readFilters(r.URL.Query(), "label", "type", "event")
	if r.URL.Query().Get("until") != "" {
		bad = refuse(http.StatusBadRequest, "the fake engine does not know the parameter \"until\"")
	}
	if bad.status != 0 {
		e.answer(w, n, bad, false)
		return
	}
	s := make(chan event, streamed)
	e.mu.Lock()
	e.streams[s] = true
	e.requests[n].Status = http.StatusOK
	e.mu.Unlock()
	defer func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.end(s)
	}()
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Api-Version", e.APIVersion)
	w.WriteHeader(http.StatusOK)
	flush := http.NewResponseController(w).Flush
	flush()
	for {
		select {
		case <-r.Context().Done():
			return
		case ev, ok := <-s:
			if !ok {
				panic(http.ErrAbortHandler)
			}
			if len(want["type"]) > 0 && !slices.Contains(want["type"], "container") ||
				len(want["event"]) > 0 && !slices.Contains(want["event"], ev.action) ||
				!hasLabels(ev.attributes, want["label"]) {
				continue
			}
			b, _ := json.Marshal(map[string]any{ // strings and numbers only
				"Type": "container", "Action": ev.action, "status": ev.action, "id": ev.id, "scope": "local",
				"Actor": map[string]any{"ID": ev.id, "Attributes": ev.attributes},
				"time":  ev.at.Unix(), "timeNano": ev.at.UnixNano(),
			})
			if f.Half {
				w.Write(b[:len(b)/2])
				flush()
				panic(http.ErrAbortHandler)
			}
			w.Write(append(b, '\n'))
			flush()
		}
	}
}
