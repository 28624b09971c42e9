package api

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/testbed-janitor/janitor/internal/inventory"
)

var registerFields = map[string]kind{
	"name": text, "ttl": duration, "owner": text, "kubeconfig": text, "on_occupied": text, "wait": duration,
	"pid": integer, "marker": text, "job": text, "build": text, "url": text, "labels": labels,
}

// newID is an identifier nobody guesses: 26 characters of base 32.
func newID() string { return strings.ToLower(rand.Text()) }

// registrationOf reads what a job asks for. Who it is comes from the kernel,
// never from here.
func registrationOf(in fields) (reg inventory.Registration, wait time.Duration, err error) {
	f := &reader{fields: in}
	reg.Name = f.text("name", maxText)
	if f.err == nil {
		f.err = inventory.CheckName(reg.Name)
	}
	reg.TTL, wait = f.duration("ttl"), f.wait()
	reg.Owner, reg.Job, reg.Build = f.text("owner", maxText), f.text("job", maxText), f.text("build", maxText)
	reg.Marker = f.text("marker", maxText)
	reg.Kubeconfig = f.path("kubeconfig")
	reg.Labels = f.labelled()
	f.pid("pid")
	url, path := f.address("url")
	reg.URL = url
	// Not the whole URL: one server has many names. A bare "/" is no job's.
	if reg.Owner == "" && strings.Trim(path, "/") != "" {
		reg.Owner = path
		if why := unfit(path, maxText); why != "" {
			f.fail("url", "its path is the owner: %s", why)
		}
	}
	reg.OnOccupied = inventory.OnOccupied(f.text("on_occupied", maxText))
	switch reg.OnOccupied {
	case "":
		reg.OnOccupied = inventory.Fail
	case inventory.Fail, inventory.Adopt, inventory.Replace:
	default:
		f.fail("on_occupied", "it must be fail, adopt or replace")
	}
	return reg, wait, f.err
}

func (f *reader) wait() time.Duration {
	d := f.duration("wait")
	if d > maxWait {
		f.fail("wait", "nobody waits for longer than %s", maxWait)
	}
	return d
}

func (s *Server) register(w http.ResponseWriter, r *http.Request) error {
	in, err := s.readFields(w, r, registerFields)
	if err != nil {
		return err
	}
	reg, wait, err := registrationOf(in)
	if err != nil {
		return err
	}
	reg.Caller, reg.Boot, reg.NewLease = s.caller(r), s.opt.Boot, newID()

	change, err := s.take(r.Context(), reg, wait)
	if err != nil {
		return err
	}
	// From here on the lease is committed: the answer says so, whatever fails.
	v := s.view()
	out := v.row(change.Cluster)
	if change.Repeated || change.Cluster.Origin == inventory.Adopted {
		if shown, err := s.show(r.Context(), change.Cluster); err == nil {
			out = shown
		}
	}
	out.Repeated = change.Repeated
	if _, given := in.values["pid"]; given {
		out.Warnings = append(slices.Clone(out.Warnings), "pid is not looked at: the lease ends with its ttl")
	}
	status := http.StatusCreated
	if change.Repeated {
		status = http.StatusOK
	}
	w.Header().Set("Location", "/v1/clusters/"+change.Cluster.Name)
	s.answer(w, r, status, out)
	return nil
}

// take registers, and waits where waiting was asked for: for another's lease to
// end, for a name that is being removed, or for what is replaced to be gone.
func (s *Server) take(ctx context.Context, reg inventory.Registration, wait time.Duration) (inventory.Change, error) {
	limit := wait
	if limit == 0 {
		limit = replaceTime
	}
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()

	mayLook, replacing := true, false
	for {
		changed := s.store.Changed()
		change, err := s.tryRegister(ctx, reg)
		if mayLook && isOccupied(err) {
			// Perhaps the row is stale: the cluster has been deleted since, or its
			// owner is silent and nothing of it stands. One look, then the rule again.
			mayLook = false
			if standing, lookErr := s.loop.Look(ctx, reg.Name); lookErr == nil {
				looked := reg
				looked.Looked, looked.Standing = true, standing
				change, err = s.tryRegister(ctx, looked)
			} else {
				s.log.WarnContext(ctx, "second look failed", "name", reg.Name, "error", lookErr)
			}
		}
		switch {
		case err == nil && !change.Waiting:
			return change, nil
		case err == nil: // a replace: the old row was let go of
			replacing = true
			// Exactly what stood at that moment is replaced, and nothing twice.
			reg.OnOccupied = inventory.Fail
			s.loop.Poke()
			err = &inventory.Problem{Code: inventory.CodeReaping, Message: "the leftover is being removed", Cluster: &change.Cluster}
		case !waitable(err, wait > 0, replacing):
			return change, err
		}
		waitedFor := rowOf(err)
	sleeping:
		for {
			select {
			case <-changed:
				changed = s.store.Changed()
				// Commits about other names concern nobody here; a read is cheaper
				// than a transaction of the one writer.
				if row, _, readErr := s.store.Cluster(ctx, reg.Name); readErr != nil || !sameRow(&row, waitedFor) {
					break sleeping
				}
			case <-tick.C:
				mayLook = true
				break sleeping
			case <-deadline.C:
				return change, timedOut(err)
			case <-s.stop:
				return change, errStopping()
			case <-ctx.Done():
				return change, ctx.Err()
			}
		}
	}
}

func (s *Server) tryRegister(ctx context.Context, reg inventory.Registration) (inventory.Change, error) {
	return s.store.Change(ctx, reg.Name, "", func(recs inventory.Records) (inventory.Change, error) {
		return inventory.Register(s.opt.Policy(), recs, reg, s.opt.Clock())
	})
}

func isOccupied(err error) bool {
	p, ok := errors.AsType[*inventory.Problem](err)
	return ok && p.Code == inventory.CodeOccupied
}

// waitable reports whether time alone may turn a refusal into a lease. A
// replace waits for its own removal, also when no wait was asked for.
func waitable(err error, asked, replacing bool) bool {
	p, ok := errors.AsType[*inventory.Problem](err)
	if !ok {
		return false
	}
	switch p.Code {
	case inventory.CodeReaping:
		return asked || replacing
	case inventory.CodeOccupied:
		return asked
	}
	return false
}

func rowOf(err error) *inventory.Cluster {
	if p, ok := errors.AsType[*inventory.Problem](err); ok {
		return p.Cluster
	}
	return nil
}

func sameRow(a, b *inventory.Cluster) bool {
	return b != nil && a.ID == b.ID && a.Version == b.Version && a.State == b.State
}

// timedOut says what was waited for in vain.
func timedOut(err error) error {
	p, ok := errors.AsType[*inventory.Problem](err)
	if !ok {
		return err
	}
	out := refuse(inventory.CodeTimeout, "waited in vain: %s", p.Message)
	out.Cluster = p.Cluster
	return out
}
