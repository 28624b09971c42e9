package driver

import (
	"slices"
	"time"

	"github.com/testbed-janitor/janitor/internal/inventory"
)

// slack is what whole seconds and a wall clock that drifts may blur.
const slack = inventory.Instant(3 * time.Second)

// dead reports whether the owner has truly been gone for the owner grace.
func (w *world) dead(l *lease) bool {
	d := l.job.died
	return d != 0 && w.at >= d.Add(w.policy.OwnerGrace)
}

// alive reports whether the owner is alive and the service could know it.
func (w *world) alive(l *lease) bool {
	j := l.job
	return j.died == 0 && j.lease == l && j.session && j.connected && !j.frozen && j.thawed < w.observed
}

// checkOver: nothing ends a lease that is valid, or whose owner is alive.
func (w *world) checkOver(l *lease, how string) {
	switch {
	case w.at >= l.cap:
	case w.at < l.ends && !w.dead(l):
		w.harm("lease %s was %s while valid", l.id, how)
	case w.alive(l):
		w.harm("lease %s was %s while its owner was alive", l.id, how)
	case l.since <= w.heard && w.at < w.heard.Add(w.policy.OwnerGrace) && l.over == 0:
		w.harm("lease %s was %s while its owner was still awaited", l.id, how)
	}
}

// checkHold: nothing is removed or closed under a hold.
func (w *world) checkHold(name string, row int64) {
	if h, ok := w.holds[name]; ok && h.row == row && w.at < h.until {
		w.harm("%s was touched under a hold", name)
	}
}

// checkYield: a name goes to another only when nobody uses it.
func (w *world) checkYield(l *lease) {
	for _, c := range w.standing(l.name) {
		if c.under == l || c.adopted == l {
			w.harm("%s yielded while its %s stood", l.id, c.id)
		}
	}
	if w.alive(l) {
		w.harm("%s yielded while its owner was alive", l.id)
	}
	if h, ok := w.holds[l.name]; ok && w.at < h.until && h.row == w.rowOf(l.name).ID {
		w.harm("%s yielded under a hold", l.id)
	}
	if !l.made && w.at.Sub(l.heard) < w.policy.CreateGrace {
		w.harm("%s yielded %s after its owner was heard", l.id, w.at.Sub(l.heard))
	}
	if w.at.Sub(l.heard) < interval/2 {
		w.harm("%s yielded %s after its owner was heard", l.id, w.at.Sub(l.heard))
	}
	if l.since <= w.heard && w.at < w.heard.Add(w.policy.OwnerGrace) {
		w.harm("%s yielded while its owner was still awaited", l.id)
	}
}

// checkLeases: a lease that was acknowledged and is not over has its row.
func (w *world) checkLeases() {
	if len(w.leases) == 0 {
		return
	}
	active := map[string]bool{}
	for _, c := range w.records().Clusters {
		active[c.Lease] = active[c.Lease] || c.State == inventory.Active
	}
	for _, l := range w.leases {
		if !active[l.id] {
			w.harm("lease %s has lost its row", l.id)
		}
	}
}

// checkReap: what is about to be removed may go.
func (w *world) checkReap(d inventory.Decision, row inventory.Cluster) {
	mine := w.leaseOf(row.Lease)
	if mine != nil {
		w.checkOver(mine, "reaped as "+string(d.Reason))
	}
	if row.ReapReason == inventory.Orphan && row.ReapBy == "" {
		w.begun = append(w.begun, w.at)
		n := 0
		for _, t := range w.begun {
			if w.at.Sub(t) < time.Hour {
				n++
			}
		}
		if n > w.policy.MaxPerHour {
			w.harm("%d orphans were reaped in an hour, the brake is %d", n, w.policy.MaxPerHour)
		}
	}
	for _, id := range row.Captured {
		c := w.byID(id)
		if c == nil {
			continue
		}
		if row.Lease != "" {
			w.checkBelongs(row, c)
		}
		// Made or adopted under a lease that is not over, of this or another row.
		for _, l := range []*lease{c.under, c.adopted} {
			if l != nil && l.over == 0 && l != mine && slices.Contains(w.leases, l) && (c.adopted == nil || l == c.adopted) {
				w.checkOver(l, "robbed of "+id)
			}
		}
		w.checkGrace(row, c)
	}
}

// checkBelongs: a lease's decision touches only what was made under it.
func (w *world) checkBelongs(row inventory.Cluster, c *container) {
	switch {
	case c.under != nil && c.under.id == row.Lease, c.adopted != nil && c.adopted.id == row.Lease:
	case c.made+slack < row.Registered.At:
		w.harm("%s is older than the lease %s it was reaped for", c.id, row.Lease)
	case row.Let.At != 0 && c.made > row.Let.At+slack:
		w.harm("%s was made after %s was released, and reaped for it", c.id, row.Lease)
	}
}

// checkGrace: what nobody leased has its grace, also from replace.
func (w *world) checkGrace(row inventory.Cluster, c *container) {
	grace := time.Duration(0)
	switch {
	case row.Lease == "" && row.ReapReason == inventory.Orphan:
		grace = w.policy.OrphanGrace
	case row.Lease == "" && row.ReapReason == inventory.Replaced:
		grace = w.policy.CreateGrace
	default:
		return
	}
	if w.at.Sub(c.made) < grace {
		w.harm("%s is %s old and was reaped as %s", c.id, w.at.Sub(c.made), row.ReapReason)
	}
	if c.made < w.birth && w.at < w.birth.Add(w.policy.MaxTTL) {
		w.harm("%s was inherited and reaped as %s after %s", c.id, row.ReapReason, w.at.Sub(w.birth))
	}
}
