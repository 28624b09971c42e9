package api

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/testbed-janitor/janitor/internal/inventory"
)

// pathName is the name in the path of a call. Rows of names that kind itself
// would refuse can be found on a testbed, so it need not be legal.
func pathName(r *http.Request) (string, error) {
	name := r.PathValue("name")
	if unfit(name, inventory.MaxName) != "" {
		return "", inventory.CheckName(name)
	}
	return name, nil
}

// leaseName is the name of a lease, which is always legal.
func leaseName(r *http.Request) (string, error) {
	name := r.PathValue("name")
	return name, inventory.CheckName(name)
}

// claim reads for which lease a call speaks.
func (f *reader) claim() inventory.Claim {
	return inventory.Claim{Lease: f.text("lease", maxText), Owner: f.text("owner", maxText)}
}

func (f *reader) needClaim(c inventory.Claim) {
	if f.err == nil && c.Lease == "" && c.Owner == "" {
		f.err = refuse(inventory.CodeInvalid, "one of the fields lease and owner is required")
	}
}

var renewFields = map[string]kind{"lease": text, "owner": text, "ttl": duration}

func (s *Server) renew(w http.ResponseWriter, r *http.Request) error {
	in, err := s.readFields(w, r, renewFields)
	if err != nil {
		return err
	}
	name, err := leaseName(r)
	if err != nil {
		return err
	}
	f := &reader{fields: in}
	c, ttl := f.claim(), f.duration("ttl")
	if f.needClaim(c); f.err != nil {
		return f.err
	}
	c.Caller = s.caller(r)
	change, err := s.store.Change(r.Context(), name, c.Lease, func(recs inventory.Records) (inventory.Change, error) {
		return inventory.Renew(s.opt.Policy(), recs, name, c, ttl, s.opt.Clock())
	})
	if err != nil {
		return err
	}
	s.answer(w, r, http.StatusOK, s.view().row(change.Cluster))
	return nil
}

var releaseFields = map[string]kind{"lease": text, "owner": text, "wait": duration, "force": boolean, "reason": text}

func (s *Server) release(w http.ResponseWriter, r *http.Request) error {
	in, err := s.readFields(w, r, releaseFields)
	if err != nil {
		return err
	}
	name, err := pathName(r)
	if err != nil {
		return err
	}
	f := &reader{fields: in}
	c, wait := f.claim(), f.wait()
	c.Force, c.Reason = f.boolean("force"), f.text("reason", maxText)
	c.Caller = s.caller(r)
	switch {
	case !c.Force:
		f.needClaim(c)
	case c.Reason == "":
		f.fail("reason", "it is required with force")
	default:
		c.Caller = s.callerWithRights(r)
	}
	if f.err != nil {
		return f.err
	}
	if c.Force && c.Caller.Admin {
		// A found cluster has no lease that binds its containers: what goes is
		// what stands now.
		if _, err := s.loop.Look(r.Context(), name); err != nil {
			s.log.WarnContext(r.Context(), "look before a forced release failed", "name", name, "error", err)
		}
	}
	change, err := s.store.Change(r.Context(), name, c.Lease, func(recs inventory.Records) (inventory.Change, error) {
		return inventory.Release(s.opt.Policy(), recs, name, c, s.opt.Clock())
	})
	if err != nil {
		return err
	}
	row := change.Cluster
	if row.State == inventory.Closed {
		s.answer(w, r, http.StatusOK, s.view().row(row))
		return nil
	}
	s.loop.Poke()
	if wait == 0 {
		s.answer(w, r, http.StatusAccepted, s.view().row(row))
		return nil
	}
	if s.opt.Policy().DryRun {
		p := refuse(inventory.CodeDryRun, "cluster %q is released; the service runs with dry_run and does not remove it", name)
		p.Cluster = &row
		return p
	}
	gone, err := s.waitGone(r.Context(), row, c.Lease, wait)
	if err != nil {
		return err
	}
	s.answer(w, r, http.StatusOK, s.view().row(gone))
	return nil
}

// waitGone waits until a row is closed, and returns it.
func (s *Server) waitGone(ctx context.Context, row inventory.Cluster, lease string, wait time.Duration) (inventory.Cluster, error) {
	deadline := time.NewTimer(wait)
	defer deadline.Stop()
	for {
		changed := s.store.Changed()
		is, _, err := s.store.Cluster(ctx, row.Name)
		switch {
		case err != nil:
			return row, err
		case is.ID != row.ID: // closed, and the name is somebody else's already
			return s.closedRow(ctx, row, lease)
		case is.State == inventory.Closed:
			return is, nil
		}
		select {
		case <-changed:
		case <-deadline.C:
			p := refuse(inventory.CodeTimeout, "waited in vain: cluster %q is released and not gone yet", row.Name)
			if is.LastError != "" {
				p.Message += ": " + is.LastError
			}
			p.Cluster = &is
			return is, p
		case <-s.stop:
			return is, errStopping()
		case <-ctx.Done():
			return is, ctx.Err()
		}
	}
}

// closedRow reads a closed row whose name has a newer one. Without a lease id
// only what was known of it can be told.
func (s *Server) closedRow(ctx context.Context, row inventory.Cluster, lease string) (inventory.Cluster, error) {
	rows, err := s.store.Clusters(ctx, Filter{State: string(inventory.Closed), Owner: row.Owner})
	if err != nil {
		return row, err
	}
	if i := slices.IndexFunc(rows, func(c inventory.Cluster) bool { return c.ID == row.ID }); i >= 0 {
		return rows[i], nil
	}
	row.State = inventory.Closed // and purged since
	return row, nil
}
