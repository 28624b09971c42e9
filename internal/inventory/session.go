package inventory

import "slices"

// OpenSession notes that the holder of a lease holds a connection open. Only
// the id of the lease speaks here, from the uid of the registration: names and
// owners are no secrets, and a session keeps a cluster alive.
func OpenSession(recs Records, lease string, who Caller, now Stamp) (Change, error) {
	i := slices.IndexFunc(recs.Clusters, func(c Cluster) bool { return lease != "" && c.Lease == lease })
	if i < 0 {
		return Change{}, &Problem{Code: CodeNotFound, Message: "no such lease is known"}
	}
	row := recs.Clusters[i]
	switch {
	case !row.claimedBy(Claim{Lease: lease, Caller: who}):
		return Change{}, &Problem{Code: CodeForbidden, Message: "another user registered this lease; only that user, or root, can hold a session for it"}
	case row.State == Closed:
		return Change{}, conflict(CodeLeaseLost, &row, "the lease on %q is over: the cluster was closed as %s", row.Name, row.CloseReason)
	case row.State != Active:
		return Change{}, conflict(CodeLeaseLost, &row, "the lease on %q is lost: the cluster is being removed (%s)", row.Name, row.ReapReason)
	}
	// The next pass may be a while away, and what it would decide without this
	// word is out of date.
	row.Evidence = slices.DeleteFunc(slices.Clone(row.Evidence), func(e Evidence) bool { return e.Source == FromSession })
	row.Evidence = append(row.Evidence, Evidence{Source: FromSession, Says: Alive, Since: now.At})
	row.Heard, row.DeadSince, row.HadSession = now.At, 0, true
	row.Version++
	return Change{Rows: []Cluster{row}, Cluster: row, Events: []Event{row.event("session", who, now, "")}}, nil
}
