package driver

import (
	"errors"
	"time"

	"github.com/testbed-janitor/janitor/internal/inventory"
)

func (w *world) change(name, lease string, rule func(inventory.Records) (inventory.Change, error)) (inventory.Change, bool) {
	c, err := w.mem.Change(ctx, name, lease, rule)
	var p *inventory.Problem
	if err != nil && !errors.As(err, &p) {
		w.harm("the memory failed: %v", err)
	}
	return c, err == nil
}

// startJob registers under a name that others use too.
func (w *world) startJob() {
	j := &job{name: w.name(), owner: w.id("job"), session: w.chance(40), jenkins: w.chance(30)}
	if w.chance(20) {
		j.owner = "" // a plain curl: only the lease id speaks for it
	}
	w.jobs = append(w.jobs, j)
	if len(w.jobs) > 12 {
		w.die(w.jobs[0])
		w.jobs = w.jobs[1:]
	}
	w.register(j)
}

func (w *world) register(j *job) {
	r := inventory.Registration{
		Name: j.name, Owner: j.owner, NewLease: w.id("l"), Boot: w.bootID(), Caller: inventory.Caller{UID: 1000},
		TTL:        []time.Duration{0, 10 * time.Minute, 3 * time.Hour, 20 * time.Hour}[w.rng.IntN(4)],
		OnOccupied: []inventory.OnOccupied{inventory.Fail, inventory.Fail, inventory.Adopt, inventory.Replace}[w.rng.IntN(4)],
	}
	if w.chance(80) {
		r.Looked, r.Standing = true, w.seen(w.standing(j.name))
	}
	was := w.rowOf(j.name)
	c, ok := w.change(j.name, "", func(recs inventory.Records) (inventory.Change, error) {
		return inventory.Register(w.policy, recs, r, w.now())
	})
	if !ok || c.Waiting {
		if ok {
			w.say("%s replaces %s", j.owner, j.name)
			if l := w.leaseOf(c.Cluster.Lease); l != nil {
				w.end(l)
			}
		}
		return
	}
	if old := w.leaseOf(was.Lease); old != nil && old.id != c.Cluster.Lease {
		w.checkYield(old)
		w.end(old)
	}
	row := c.Cluster
	if c.Repeated {
		if l := w.leaseOf(row.Lease); l != nil {
			w.extended(l, row)
		}
		return
	}
	l := &lease{id: row.Lease, name: j.name, job: j, since: w.at, ends: row.Expires, cap: row.Cap, heard: w.at}
	j.lease, j.connected = l, j.session
	w.leases = append(w.leases, l)
	if row.Origin == inventory.Adopted {
		for _, t := range w.standing(j.name) { // also what no pass has seen yet
			t.adopted, l.made = l, true
		}
	}
	w.say("%q registered %s as %s until %s (%s)", j.owner, j.name, l.id, time.Duration(l.ends), r.OnOccupied)
}

// extended checks that a renewal gave no less and no more than it may.
func (w *world) extended(l *lease, row inventory.Cluster) {
	if row.Expires < l.ends {
		w.harm("lease %s was made shorter", l.id)
	}
	if row.Cap != l.cap || row.Expires > l.cap {
		w.harm("the cap of %s moved", l.id)
	}
	l.ends, l.heard = row.Expires, w.at
}

func (w *world) claim(j *job) inventory.Claim {
	return inventory.Claim{Lease: j.lease.id, Caller: inventory.Caller{UID: 1000}}
}

// jobStep lets one job do something.
func (w *world) jobStep() {
	if len(w.jobs) == 0 {
		return
	}
	j := w.jobs[w.rng.IntN(len(w.jobs))]
	if j.died != 0 {
		return
	}
	if j.lease == nil {
		if w.chance(30) {
			w.register(j)
		}
		return
	}
	switch n := w.rng.IntN(100); {
	case n < 40:
		w.create(j.name, j.lease)
	case n < 60:
		w.renew(j)
	case n < 65:
		w.register(j) // a later stage repeats it
	case n < 70: // kind delete, and later kind create
		w.say("%s deletes %s", j.owner, j.name)
		for _, c := range w.standing(j.name) {
			w.gone(c)
		}
	case n < 80:
		w.release(j)
	case n < 88:
		w.say("job %q of %s died", j.owner, j.lease)
		w.die(j)
	case n < 92:
		j.frozen, j.thawed = !j.frozen, w.at
	default:
		if j.session && !j.connected && !j.frozen {
			w.renew(j) // opening a session is an accepted call
			j.connected = j.lease != nil
		}
	}
}

func (w *world) renew(j *job) {
	if j.frozen {
		return
	}
	l := j.lease
	c, ok := w.change(j.name, l.id, func(recs inventory.Records) (inventory.Change, error) {
		return inventory.Renew(w.policy, recs, j.name, w.claim(j), time.Duration(w.rng.IntN(180))*time.Minute, w.now())
	})
	switch {
	case ok:
		w.extended(l, c.Cluster)
		w.say("%s renewed until %s", l.id, time.Duration(l.ends))
	case l.over == 0:
		w.harm("lease %s could not be renewed and is not over", l.id)
	default:
		j.lease, j.connected = nil, false
	}
}

func (w *world) release(j *job) {
	l := j.lease
	_, ok := w.change(j.name, l.id, func(recs inventory.Records) (inventory.Change, error) {
		return inventory.Release(w.policy, recs, j.name, w.claim(j), w.now())
	})
	if !ok && l.over == 0 {
		w.harm("release of the own lease %s was refused", l.id)
	}
	w.say("%s released", l.id)
	w.end(l)
	j.lease, j.connected = nil, false
}

func (w *world) gone(c *container) {
	for i, o := range w.stands {
		if o == c {
			w.stands = append(w.stands[:i], w.stands[i+1:]...)
			return
		}
	}
}

// operator holds, unholds, releases by force, or saves and applies a plan.
func (w *world) operator() {
	root := inventory.Caller{UID: 0, Admin: true}
	name := w.name()
	switch w.rng.IntN(6) {
	case 0:
		h := inventory.Hold{Until: w.at.Add(time.Duration(1+w.rng.IntN(300)) * time.Minute), Reason: "looking"}
		c, ok := w.change(name, "", func(recs inventory.Records) (inventory.Change, error) {
			return inventory.SetHold(recs, name, h, root, w.now())
		})
		if ok {
			w.say("%s held until %s", name, time.Duration(h.Until))
			w.holds[name] = hold{row: c.Cluster.ID, until: h.Until}
		}
	case 1:
		if _, ok := w.change(name, "", func(recs inventory.Records) (inventory.Change, error) {
			return inventory.LiftHold(recs, name, root, w.now())
		}); ok {
			w.say("%s unheld", name)
			delete(w.holds, name)
		}
	case 2:
		c, ok := w.change(name, "", func(recs inventory.Records) (inventory.Change, error) {
			return inventory.Release(w.policy, recs, name, inventory.Claim{Caller: root, Force: true, Reason: "leftover"}, w.now())
		})
		if ok {
			w.say("operator released %s", name)
			w.end(w.leaseOf(c.Cluster.Lease))
		}
	case 3:
		recs := w.records()
		seen := w.observe()
		w.saved = inventory.Plan(w.policy, inventory.Sight(w.policy, recs, seen, w.now()), seen, w.now())
		w.savedAt = w.at
	default:
		if w.saved != nil && w.at.Sub(w.savedAt) < time.Hour {
			w.onePass("uid:0")
		}
	}
}
