package api

import (
	"net/http"
	"time"
)

func (s *Server) status(w http.ResponseWriter, r *http.Request) error {
	if _, err := query(r.URL.RawQuery, nil); err != nil {
		return err
	}
	counts, err := s.store.Counts(r.Context())
	if err != nil {
		return err
	}
	recs, err := s.store.Records(r.Context())
	if err != nil {
		return err
	}
	var out Status
	if s.opt.Status != nil {
		out = s.opt.Status(r.Context())
	}
	l := s.loop.Status()
	out.Version = s.opt.Version
	out.StartedAt, out.LastPassAt = second(l.Started), second(l.LastPass)
	out.LastGoodPassAt, out.NextPassAt = second(l.LastGood), second(l.Next)
	out.Passes, out.Coalesced, out.LastError = l.Passes, l.Coalesced, l.Last.Error
	out.Blind, out.Brake, out.BrakeCount = l.Blind, l.Brake, l.BrakeCount
	out.DryRun = s.opt.Policy().DryRun
	out.InventorySince = second(recs.Birth.Wall)
	out.Clusters = make(map[string]int, len(counts))
	for state, n := range counts {
		out.Clusters[string(state)] = n
	}
	s.answer(w, r, http.StatusOK, out)
	return nil
}

// lateAfter is how many intervals without a finished pass are too many.
const lateAfter = 3

// healthz says whether the loop keeps up. It goes by the wall clock: after a
// step forward it may cry wolf until the next pass ends.
func (s *Server) healthz(w http.ResponseWriter, r *http.Request) error {
	since := s.started.Wall
	l := s.loop.Status()
	for _, t := range []time.Time{l.Started, l.LastPass} {
		if t.After(since) {
			since = t
		}
	}
	limit := lateAfter * s.opt.Interval()
	if age := s.opt.Clock().Wall.Sub(since); age > limit {
		return refuse(codeUnhealthy, "the loop has not finished a pass for %s; three intervals are %s", age.Round(time.Second), limit)
	}
	s.answer(w, r, http.StatusOK, map[string]string{"status": "ok"})
	return nil
}

// readyz says whether calls are served: not while stopping, and not without
// the database.
func (s *Server) readyz(w http.ResponseWriter, r *http.Request) error {
	if s.stopping() {
		return errStopping()
	}
	if _, err := s.store.Counts(r.Context()); err != nil {
		return err
	}
	s.answer(w, r, http.StatusOK, map[string]string{"status": "ok"})
	return nil
}

func (s *Server) metrics(w http.ResponseWriter, r *http.Request) error {
	extendWrite(w)
	s.opt.Metrics.ServeHTTP(w, r)
	return nil
}
