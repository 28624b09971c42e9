package api

import (
	"cmp"
	"slices"
	"time"

	"github.com/testbed-janitor/janitor/internal/inventory"
)

// view turns what is stored into the shapes of the wire, at one moment.
type view struct {
	policy   inventory.Policy
	now      inventory.Stamp
	lastList inventory.Instant // what was seen since then stands
}

func (s *Server) view() view { return view{policy: s.opt.Policy(), now: s.opt.Clock()} }

// second is a time as it is shown: whole seconds, which every tool can parse.
func second(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return t.UTC().Truncate(time.Second)
}

// millisecond is for what may be shorter than a second.
func millisecond(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }

// wall is an instant by today's wall clock.
func (v view) wall(i inventory.Instant) time.Time { return second(v.now.WallOf(i)) }

// row is a cluster without its containers and the decision about it.
func (v view) row(c inventory.Cluster) Cluster {
	w := Cluster{
		Name: c.Name, Lease: c.Lease, State: string(c.State), Origin: string(c.Origin),
		Owner: c.Owner, Job: c.Job, Build: c.Build, URL: c.URL, Marker: c.Marker, Kubeconfig: c.Kubeconfig, Labels: c.Labels,
		ExpiresAt: v.wall(c.Expires), CapAt: v.wall(c.Cap),
		FirstSeenAt: second(c.FirstSeen.Wall), LastSeenAt: second(c.LastSeen.Wall),
		Attempts: c.Attempts, Stuck: c.StuckUnder(v.policy), LastError: c.LastError,
		ClosedAt: second(c.Ended.Wall), CloseReason: string(c.CloseReason), Warnings: c.Warnings,
	}
	if c.Lease != "" {
		w.UID, w.GID, w.PID = &c.UID, &c.GID, c.PID
		w.RegisteredAt = second(c.Registered.Wall)
	}
	if c.Hold != nil && c.Hold.Until > v.now.At {
		w.Hold = &Hold{Until: v.wall(c.Hold.Until), By: c.Hold.By, Reason: c.Hold.Reason}
	}
	for _, e := range c.Evidence {
		w.Evidence = append(w.Evidence, Evidence{
			Source: e.Source, Says: string(e.Says), Since: v.wall(e.Since), Detail: e.Detail, Silent: e.Silent,
		})
	}
	return w
}

// cluster is a row with the containers of its name and the decision about it,
// where there is one.
func (v view) cluster(c inventory.Cluster, known []inventory.Container, d *inventory.Decision) Cluster {
	w := v.row(c)
	if d != nil {
		w.Verdict, w.Reason, w.Due = string(d.Verdict), string(d.Reason), v.wall(d.Due)
	}
	if c.State == inventory.Closed {
		return w
	}
	w.Nodes = []Node{}
	for _, k := range known {
		if k.Cluster != c.Name || k.Last.At < v.lastList {
			continue
		}
		n := Node{ID: k.ID, Name: k.Name, Role: k.Role, State: k.State}
		if belongs(&c, &k) {
			w.Nodes = append(w.Nodes, n)
		} else {
			w.Foreign = append(w.Foreign, n)
		}
	}
	byName := func(a, b Node) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID)) }
	slices.SortFunc(w.Nodes, byName)
	slices.SortFunc(w.Foreign, byName)
	return w
}

// belongs reports whether decisions on the row are about the container, in the
// words of docs/policy.md: the captured ones, of a found cluster all of the
// name, else those bound to the lease.
func belongs(c *inventory.Cluster, k *inventory.Container) bool {
	switch {
	case len(c.Captured) > 0:
		return slices.Contains(c.Captured, k.ID)
	case c.Lease == "":
		return true
	}
	return k.Lease == c.Lease
}

func (v view) decisions(ds []inventory.Decision) []Decision {
	out := make([]Decision, 0, len(ds))
	for _, d := range ds {
		out = append(out, Decision{
			Name: d.Name, Lease: d.Lease, Verdict: string(d.Verdict), Reason: string(d.Reason), Would: string(d.Would),
			Due: v.wall(d.Due), Nodes: d.Nodes, File: d.File, Server: d.Server,
		})
	}
	return out
}

func (v view) pass(r Report) Pass {
	p := Pass{
		StartedAt: millisecond(r.StartedAt), EndedAt: millisecond(r.EndedAt),
		Decisions: v.decisions(r.Decisions), Results: r.Results, Error: r.Error,
	}
	if p.Results == nil {
		p.Results = []Result{}
	}
	return p
}

func eventOf(e inventory.Event) Event {
	return Event{
		ID: e.ID, At: second(e.At.Wall), Kind: e.Kind, Name: e.Name, Lease: e.Lease,
		Actor: e.Actor, Reason: e.Reason, Detail: e.Detail,
	}
}
