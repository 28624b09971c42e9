package api

import (
	"net/http"

	"github.com/testbed-janitor/janitor/internal/inventory"
)

var holdFields = map[string]kind{"for": duration, "until": text, "reason": text}

func (s *Server) hold(w http.ResponseWriter, r *http.Request) error {
	in, err := s.readFields(w, r, holdFields)
	if err != nil {
		return err
	}
	name, err := pathName(r)
	if err != nil {
		return err
	}
	f := &reader{fields: in}
	period, until, reason := f.duration("for"), f.moment("until"), f.text("reason", maxText)
	now := s.opt.Clock()
	switch {
	case f.err != nil:
	case f.has("for") == f.has("until"):
		f.err = refuse(inventory.CodeInvalid, "a hold always has an end: give one of the fields for and until")
	case f.has("until"):
		// Converted once: from here on no step of the wall clock moves it.
		period = until.Sub(now.Wall)
		if period <= 0 || period > maxForever {
			f.fail("until", "it must lie in the future, within 10 years")
		}
	}
	if f.err != nil {
		return f.err
	}
	caller := s.callerWithRights(r)
	change, err := s.store.Change(r.Context(), name, "", func(recs inventory.Records) (inventory.Change, error) {
		return inventory.SetHold(recs, name, inventory.Hold{Until: now.At.Add(period), Reason: reason}, caller, s.opt.Clock())
	})
	if err != nil {
		return err
	}
	s.answer(w, r, http.StatusOK, s.view().row(change.Cluster))
	return nil
}

func (s *Server) unhold(w http.ResponseWriter, r *http.Request) error {
	if _, err := s.readFields(w, r, nil); err != nil {
		return err
	}
	name, err := pathName(r)
	if err != nil {
		return err
	}
	caller := s.callerWithRights(r)
	change, err := s.store.Change(r.Context(), name, "", func(recs inventory.Records) (inventory.Change, error) {
		return inventory.LiftHold(recs, name, caller, s.opt.Clock())
	})
	if err != nil {
		return err
	}
	s.loop.Poke() // a release under the hold takes effect now
	s.answer(w, r, http.StatusOK, s.view().row(change.Cluster))
	return nil
}
