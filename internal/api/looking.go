package api

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/testbed-janitor/janitor/internal/inventory"
)

var listFields = map[string]kind{"state": text, "owner": text, "job": text}

func (s *Server) list(w http.ResponseWriter, r *http.Request) error {
	f, err := query(r.URL.RawQuery, listFields)
	if err != nil {
		return err
	}
	filter := Filter{State: f.text("state", maxText), Owner: f.text("owner", maxText), Job: f.text("job", maxText)}
	switch inventory.State(filter.State) {
	case "", "all", inventory.Active, inventory.Released, inventory.Reaping, inventory.Closed:
	default:
		f.fail("state", "it must be active, released, reaping, closed or all")
	}
	if f.err != nil {
		return f.err
	}
	rows, err := s.store.Clusters(r.Context(), filter)
	if err != nil {
		return err
	}
	out, err := s.shown(r.Context(), rows)
	if err != nil {
		return err
	}
	s.answer(w, r, http.StatusOK, clusterList{out})
	return nil
}

func (s *Server) get(w http.ResponseWriter, r *http.Request) error {
	if _, err := query(r.URL.RawQuery, nil); err != nil {
		return err
	}
	name, err := pathName(r)
	if err != nil {
		return err
	}
	row, _, err := s.store.Cluster(r.Context(), name)
	if err != nil {
		return err
	}
	out, err := s.show(r.Context(), row)
	if err != nil {
		return err
	}
	s.answer(w, r, http.StatusOK, out)
	return nil
}

func (s *Server) show(ctx context.Context, row inventory.Cluster) (Cluster, error) {
	out, err := s.shown(ctx, []inventory.Cluster{row})
	if err != nil {
		return Cluster{}, err
	}
	return out[0], nil
}

// shown adds to rows what stands and what is decided about them.
func (s *Server) shown(ctx context.Context, rows []inventory.Cluster) ([]Cluster, error) {
	v := s.view()
	containers := map[string][]inventory.Container{}
	decided := map[int64]*inventory.Decision{}
	open := slices.DeleteFunc(slices.Clone(rows), func(c inventory.Cluster) bool { return c.State == inventory.Closed })
	if len(open) > 0 {
		recs, err := s.store.Records(ctx)
		if err != nil {
			return nil, err
		}
		v.lastList = recs.LastList.At
		for _, k := range recs.Containers {
			containers[k.Cluster] = append(containers[k.Cluster], k)
		}
		for _, d := range s.loop.Decide(ctx, open) {
			decided[d.Row] = &d
		}
	}
	out := make([]Cluster, 0, len(rows))
	for _, c := range rows {
		out = append(out, v.cluster(c, containers[c.Name], decided[c.ID]))
	}
	return out, nil
}

var eventFields = map[string]kind{"name": text, "since": text, "after": integer, "follow": boolean}

// batch is how many events are read at a time.
const batch = 500

// events writes the history as JSON lines: all of it, and with follow what
// comes, until the client goes or the service stops.
func (s *Server) events(w http.ResponseWriter, r *http.Request) error {
	f, err := query(r.URL.RawQuery, eventFields)
	if err != nil {
		return err
	}
	filter := EventFilter{Name: f.text("name", inventory.MaxName), Since: f.since("since", s.opt.Clock().Wall), Limit: batch}
	if f.has("after") {
		if filter.After, err = strconv.ParseInt(f.values["after"], 10, 64); err != nil || filter.After < 0 {
			f.fail("after", "it must be the id of an event")
		}
	}
	follow := f.boolean("follow")
	switch {
	case f.err != nil:
		return f.err
	case follow && s.stopping():
		return errStopping()
	}
	for begun := false; ; begun = true {
		changed := s.store.Changed()
		events, err := s.store.Events(r.Context(), filter)
		if err != nil && !begun {
			return err
		}
		if err != nil {
			s.log.WarnContext(r.Context(), "events end early", "error", err)
			panic(http.ErrAbortHandler) // the client must not take this for the end
		}
		extendWrite(w)
		if !begun {
			w.Header().Set("Content-Type", "application/x-ndjson")
			w.Header().Set("Cache-Control", "no-store")
			w.WriteHeader(http.StatusOK)
		}
		enc := json.NewEncoder(w)
		for _, e := range events {
			filter.After = e.ID
			if enc.Encode(eventOf(e)) != nil {
				return nil // the client has gone
			}
		}
		if len(events) == batch {
			continue
		}
		if !follow {
			return nil
		}
		if http.NewResponseController(w).Flush() != nil {
			return nil
		}
		select {
		case <-changed:
		case <-s.stop:
			return nil
		case <-r.Context().Done():
			return nil
		}
	}
}

// since is a moment, or how long ago it was; the zero time when absent.
func (f *reader) since(name string, now time.Time) time.Time {
	if d, ok := parseDuration(f.values[name]); ok {
		return now.Add(-d)
	}
	return f.moment(name)
}
