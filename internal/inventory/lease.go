package inventory

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Register takes the lease on a name, or says who has it. recs holds the row
// of that name that is not closed, and the name's containers.
func Register(p Policy, recs Records, r Registration, now Stamp) (Change, error) {
	if err := CheckName(r.Name); err != nil {
		return Change{}, err
	}
	row := liveByName(recs.Clusters)[r.Name]
	switch {
	case row == nil:
		return adoptOrOpen(p, recs, r, now, Change{}, nil), nil
	case row.State == Released || row.State == Reaping:
		return Change{}, conflict(CodeReaping, row, "cluster %q is being removed; wait for it, or use another name", r.Name)
	case row.Lease == "":
		return registerOverFound(p, recs, *row, r, now)
	case row.ownedBy(r.Owner, r.Caller):
		if r.OnOccupied == Replace {
			return replaceOwn(p, *row, r.Caller, now)
		}
		return repeat(p, *row, r, now), nil
	case r.Looked && row.yields(p, recs, r.Standing, now.At):
		old := *row
		old.end(Yielded, now)
		c := Change{Rows: []Cluster{old}, Events: []Event{old.event("yielded", r.Caller, now, "idle, and registered by "+quoteOwner(r.Owner))}}
		return open(p, r, now, c, nil), nil
	}
	return Change{}, conflict(CodeOccupied, row, "cluster %q is leased by %s until %s; wait for it, or use another name",
		r.Name, quoteOwner(row.Owner), now.WallOf(row.Expires).UTC().Format(time.RFC3339))
}

// registerOverFound decides about a name that stands and that nobody leased.
func registerOverFound(p Policy, recs Records, row Cluster, r Registration, now Stamp) (Change, error) {
	if r.Looked && len(r.Standing) == 0 { // the row is stale: the cluster has just been deleted
		row.end(Vanished, now)
		c := Change{Rows: []Cluster{row}, Events: []Event{row.event("closed", r.Caller, now, "nothing stands any more")}}
		return open(p, r, now, c, nil), nil
	}
	switch r.OnOccupied {
	case Adopt:
		row.end(WasTaken, now)
		c := Change{Rows: []Cluster{row}, Events: []Event{row.event("adopted", r.Caller, now, "")}}
		return adoptOrOpen(p, recs, r, now, c, row.Hold), nil
	case Replace:
		return replaceFound(p, recs, row, r, now)
	}
	return Change{}, conflict(CodeOccupied, &row, "containers of cluster %q stand already and nobody holds a lease; "+
		"delete them, or register with on_occupied=adopt or replace", r.Name)
}

// replaceFound lets go of a leftover: exactly what was just seen standing, and
// only what has been known for the create grace and is nobody's care.
func replaceFound(p Policy, recs Records, row Cluster, r Registration, now Stamp) (Change, error) {
	refuse := func(why string) (Change, error) {
		return Change{}, conflict(CodeOccupied, &row, "cluster %q is not replaced: %s", r.Name, why)
	}
	if !r.Looked {
		return refuse("what stands there could not be looked at just now; try again")
	}
	var ids []string
	youngest := Instant(0)
	for _, s := range r.Standing {
		i := slices.IndexFunc(recs.Containers, func(k Container) bool { return k.ID == s.ID })
		if i < 0 {
			return refuse(fmt.Sprintf("a container of it has just appeared; it may be a neighbour's that is starting; try again in %s", p.CreateGrace))
		}
		if recs.Containers[i].Inherited {
			return refuse("it stood before this inventory and may be somebody's; delete it by hand")
		}
		ids, youngest = append(ids, s.ID), max(youngest, recs.Containers[i].First.At)
	}
	switch may := youngest.Add(p.CreateGrace); {
	case row.heldAt(now.At):
		return refuse("it is under a hold by " + row.Hold.By)
	case p.protects(r.Name):
		return refuse("its name is protected by the configuration")
	case p.ReportOnly:
		return refuse("the configuration says to report orphans only")
	case now.At < may:
		return refuse("it was first seen less than the create grace ago; it may be replaced from " +
			now.WallOf(may).UTC().Format(time.RFC3339))
	case p.DryRun:
		return Change{}, conflict(CodeDryRun, &row, "cluster %q is not replaced: the service runs with dry_run", r.Name)
	}
	slices.Sort(ids)
	return letGo(row, Replaced, ids, "replaced", r.Caller, "", now), nil
}

func replaceOwn(p Policy, row Cluster, who Caller, now Stamp) (Change, error) {
	if p.DryRun {
		return Change{}, conflict(CodeDryRun, &row, "cluster %q is not replaced: the service runs with dry_run", row.Name)
	}
	if row.heldAt(now.At) {
		return Change{}, conflict(CodeHeld, &row, "cluster %q is under a hold by %s", row.Name, row.Hold.By)
	}
	return letGo(row, Replaced, nil, "replaced", who, "", now), nil
}

// letGo releases a row. It is final: from here it can only be removed.
func letGo(row Cluster, why Reason, captured []string, kind string, who Caller, detail string, now Stamp) Change {
	row.State, row.Let, row.ReapReason, row.Captured = Released, now, why, captured
	row.Version++
	return Change{
		Rows: []Cluster{row}, Cluster: row, Waiting: why == Replaced,
		Events: []Event{row.event(kind, who, now, detail)},
	}
}

// adoptOrOpen opens a row where no lease stands. When asked to adopt, it takes
// what stood there before, also what no pass has given a row yet.
func adoptOrOpen(p Policy, recs Records, r Registration, now Stamp, c Change, hold *Hold) Change {
	c = open(p, r, now, c, hold)
	if r.OnOccupied != Adopt {
		return c
	}
	row := &c.Rows[len(c.Rows)-1]
	row.Origin = Adopted
	c.Cluster.Origin = Adopted
	for _, k := range recs.Containers {
		if k.Cluster == r.Name {
			k.Lease = r.NewLease
			c.Containers = append(c.Containers, k)
		}
	}
	return c
}

// open adds the new row of a registration to a change.
func open(p Policy, r Registration, now Stamp, c Change, hold *Hold) Change {
	ttl, limit := p.times(r.Job)
	row := Cluster{
		Version: 1, Name: r.Name, Lease: r.NewLease, State: Active, Origin: Registered,
		Owner: r.Owner, Job: r.Job, Build: r.Build, URL: r.URL,
		UID: r.Caller.UID, GID: r.Caller.GID, PID: r.Caller.PID, Process: r.Process, Marker: r.Marker,
		Kubeconfig: r.Kubeconfig, Labels: maps.Clone(r.Labels), Boot: r.Boot,
		Registered: now, Cap: now.At.Add(limit), Heard: now.At, Hold: hold,
	}
	if r.TTL > 0 {
		ttl = r.TTL
	}
	row.extend(ttl, now)
	if len(r.Name) > maxKindName {
		row.warn(fmt.Sprintf("the name has %d characters; kind fails above %d", len(r.Name), maxKindName))
	}
	c.Rows = append(c.Rows, row)
	c.Cluster = row
	c.Events = append(c.Events, row.event("registered", r.Caller, now, ""))
	return c
}

// repeat answers an owner who registers again: the same lease, never shorter.
func repeat(p Policy, row Cluster, r Registration, now Stamp) Change {
	ttl, _ := p.times(row.Job)
	if r.TTL > 0 {
		ttl = r.TTL
	}
	row.extend(ttl, now)
	row.Heard = now.At
	// A later step of the job may be another process.
	row.Process = cmp.Or(r.Process, row.Process)
	row.Marker = cmp.Or(r.Marker, row.Marker)
	row.Version++
	return Change{Rows: []Cluster{row}, Cluster: row, Repeated: true, Events: []Event{row.event("repeated", r.Caller, now, "")}}
}

// extend moves the expiry to now + ttl if that is later, and never past the
// cap, which was fixed at registration.
func (c *Cluster) extend(ttl time.Duration, now Stamp) {
	until := now.At.Add(ttl)
	if until > c.Cap {
		until = c.Cap
		c.warn("the lease was granted up to its cap, " + now.WallOf(c.Cap).UTC().Format(time.RFC3339))
	}
	c.Expires = max(c.Expires, until)
}

// Renew extends a lease, also after its expiry, as long as the row is active.
func Renew(p Policy, recs Records, name string, c Claim, ttl time.Duration, now Stamp) (Change, error) {
	row := liveByName(recs.Clusters)[name]
	switch {
	case row == nil:
		return Change{}, lost(recs, name)
	case !row.claimedBy(c):
		return Change{}, conflict(CodeLeaseLost, row, "the lease on %q is lost: %s holds it now", name, quoteOwner(row.Owner))
	case row.State != Active:
		return Change{}, conflict(CodeLeaseLost, row, "the lease on %q is lost: the cluster is being removed (%s)", name, row.ReapReason)
	}
	next := *row
	if ttl == 0 {
		ttl, _ = p.times(row.Job)
	}
	next.extend(ttl, now)
	next.Heard = now.At
	next.Version++
	return Change{Rows: []Cluster{next}, Cluster: next, Events: []Event{next.event("renewed", c.Caller, now, "")}}, nil
}

// Release lets go of a lease. To release what is gone already is success, so
// that cleaning up never fails a job; only a name that another holds is not.
func Release(_ Policy, recs Records, name string, c Claim, now Stamp) (Change, error) {
	row := liveByName(recs.Clusters)[name]
	forced := c.Force && c.Caller.Admin && c.Reason != ""
	if row == nil || !row.claimedBy(c) && !forced {
		if row == nil {
			for _, old := range recs.Clusters {
				if old.Name == name && old.State == Closed && old.claimedBy(c) {
					return Change{Cluster: old}, nil
				}
			}
			return Change{}, lost(recs, name)
		}
		if c.Force {
			return Change{}, conflict(CodeForbidden, row, "only root, the service's user and the admin group may force a release, with a reason")
		}
		return Change{}, conflict(CodeLeaseLost, row, "cluster %q is not released: this is not its lease", name)
	}
	if row.State != Active {
		return Change{Cluster: *row}, nil
	}
	var captured []string
	if row.Lease == "" { // no lease binds the containers of a found cluster: name them
		for _, k := range recs.Containers {
			if k.Cluster == name && k.Last.At >= recs.LastList.At {
				captured = append(captured, k.ID)
			}
		}
		slices.Sort(captured)
	}
	return letGo(*row, LetGo, captured, "released", c.Caller, c.Reason, now), nil
}

// ownedBy reports whether an owner string, from a caller, speaks for the row.
// An absent owner is nobody's: all jobs of an agent share one uid.
func (c *Cluster) ownedBy(owner string, who Caller) bool {
	return owner != "" && owner == c.Owner && (who.UID == c.UID || who.UID == 0)
}

// claimedBy reports whether a claim speaks for the row: by lease id or owner,
// and by the uid of the registration or root's.
func (c *Cluster) claimedBy(cl Claim) bool {
	if c.Lease == "" || cl.Caller.UID != c.UID && cl.Caller.UID != 0 {
		return false
	}
	if cl.Lease != "" {
		return cl.Lease == c.Lease && (cl.Owner == "" || cl.Owner == c.Owner)
	}
	return c.ownedBy(cl.Owner, cl.Caller)
}

// yields reports whether an idle name may go to another owner: none of its
// containers stands, by two looks and by the one just taken, nobody is or may
// be alive, no hold, and the owner has not been heard of since.
func (c *Cluster) yields(p Policy, recs Records, standing []Seen, now Instant) bool {
	if len(standing) > 0 {
		return false // its own, or foreign ones that the next owner could not build over either
	}
	silent := slices.ContainsFunc(c.Evidence, func(e Evidence) bool { return e.Silent })
	if c.MissingLooks < 2 || c.owner() == Alive || silent || c.awaited(p, recs.HeardFrom, now) || c.heldAt(now) {
		return false
	}
	if c.FirstSeen.IsZero() {
		return now.Sub(c.Heard) >= p.CreateGrace
	}
	return c.Heard < c.MissingSince
}

func lost(recs Records, name string) error {
	for _, old := range recs.Clusters {
		if old.Name == name && old.State == Closed {
			return conflict(CodeLeaseLost, &old, "the lease on %q is over: the cluster was closed as %s; register it again", name, old.CloseReason)
		}
	}
	return &Problem{Code: CodeNotFound, Message: fmt.Sprintf("no cluster %q is known", name)}
}

func conflict(code Code, row *Cluster, format string, args ...any) *Problem {
	copied := *row
	return &Problem{Code: code, Message: fmt.Sprintf(format, args...), Cluster: &copied}
}
