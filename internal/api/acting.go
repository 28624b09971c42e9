package api

import (
	"fmt"
	"net/http"

	"github.com/testbed-janitor/janitor/internal/inventory"
)

func (s *Server) plan(w http.ResponseWriter, r *http.Request) error {
	if _, err := query(r.URL.RawQuery, nil); err != nil {
		return err
	}
	ctx, cancel := s.untilStop(r)
	defer cancel()
	ds, err := s.loop.Plan(ctx)
	if err != nil {
		return err
	}
	v := s.view()
	s.answer(w, r, http.StatusOK, Plan{MadeAt: second(v.now.Wall), Decisions: v.decisions(ds)})
	return nil
}

func (s *Server) savePlan(w http.ResponseWriter, r *http.Request) error {
	if _, err := s.readFields(w, r, nil); err != nil {
		return err
	}
	ctx, cancel := s.untilStop(r)
	defer cancel()
	ds, err := s.loop.Plan(ctx)
	if err != nil {
		return err
	}
	v, id := s.view(), newID()
	if err := s.store.SavePlan(r.Context(), id, v.now, ds); err != nil {
		return err
	}
	w.Header().Set("Location", "/v1/plans/"+id)
	s.answer(w, r, http.StatusCreated, Plan{ID: id, MadeAt: second(v.now.Wall), Decisions: v.decisions(ds)})
	return nil
}

// apply carries out a saved plan in the name of an admin. It overrides the
// brake and a dry run, so it is for few.
func (s *Server) apply(w http.ResponseWriter, r *http.Request) error {
	if _, err := s.readFields(w, r, nil); err != nil {
		return err
	}
	caller := s.callerWithRights(r)
	if !caller.Admin {
		return refuse(inventory.CodeForbidden, "only root, the service's user and the admin group may apply a plan")
	}
	made, ds, err := s.store.Plan(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	if age := s.opt.Clock().At.Sub(made.At); age > planLife {
		return refuse(inventory.CodeConflict, "the plan is older than %s; save a new one", planLife)
	}
	ctx, cancel := s.untilStop(r)
	defer cancel()
	report, err := s.loop.Apply(ctx, ds, fmt.Sprintf("uid:%d", caller.UID))
	if err != nil {
		return err
	}
	s.answer(w, r, http.StatusOK, s.view().pass(report))
	return nil
}

func (s *Server) pass(w http.ResponseWriter, r *http.Request) error {
	if _, err := s.readFields(w, r, nil); err != nil {
		return err
	}
	ctx, cancel := s.untilStop(r)
	defer cancel()
	report, err := s.loop.Pass(ctx)
	if err != nil {
		return err
	}
	s.answer(w, r, http.StatusOK, s.view().pass(report))
	return nil
}
