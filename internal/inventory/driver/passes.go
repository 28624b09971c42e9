package driver

import (
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/testbed-janitor/janitor/internal/inventory"
)

const interval = time.Minute

func (w *world) bootID() string { return fmt.Sprintf("boot-%d", w.boot) }

func (w *world) records() inventory.Records {
	recs, err := w.mem.Records(ctx)
	if err != nil {
		w.harm("the memory failed: %v", err)
	}
	return recs
}

func (w *world) rowOf(name string) inventory.Cluster {
	for _, c := range w.records().Clusters {
		if c.Name == name && c.State != inventory.Closed {
			return c
		}
	}
	return inventory.Cluster{}
}

// observe is what the pass sees: sometimes nothing, sometimes a list that lacks
// a container.
func (w *world) observe() inventory.Observation {
	seen := inventory.Observation{Boot: w.bootID(), Interval: interval, Evidence: map[string][]inventory.Evidence{}}
	for _, l := range w.leases {
		j := l.job
		var said []inventory.Evidence
		if j.session && j.lease == l {
			says := inventory.Unknown
			switch {
			case j.connected && !j.frozen:
				says = inventory.Alive
			case j.heardEnd:
				says = inventory.Dead
			}
			said = append(said, inventory.Evidence{Source: inventory.FromSession, Says: says})
		}
		if j.jenkins && j.lease == l {
			says := inventory.Alive
			switch {
			case w.outage:
				says = inventory.Unreadable
			case j.died != 0:
				says = inventory.Dead
			}
			said = append(said, inventory.Evidence{Source: "jenkins", Says: says})
		}
		seen.Evidence[l.id] = said
	}
	if !w.settling && w.chance(5) {
		seen.Blind = "cannot connect"
		return seen
	}
	seen.Containers = w.seen(w.stands)
	// One lie at a time: with a wall clock that has moved since the last list,
	// no list that lacks a container.
	if n := len(seen.Containers); n > 0 && w.listed && !w.settling && w.chance(5) {
		i := w.rng.IntN(n)
		seen.Containers = slices.Delete(seen.Containers, i, i+1)
	}
	w.fresh = true
	return seen
}

// meanwhile lets the others act between two steps of a pass.
func (w *world) meanwhile() {
	if w.settling || !w.chance(12) {
		return
	}
	w.pass(time.Duration(w.rng.IntN(2000)) * time.Millisecond)
	switch w.rng.IntN(6) {
	case 0:
		w.startJob()
	case 1:
		w.stranger()
	case 2:
		saved := w.saved
		w.saved = nil // no pass within a pass
		w.operator()
		if w.saved == nil {
			w.saved = saved
		}
	default:
		w.jobStep()
	}
}

// onePass is a turn of the loop, or an operator's apply of the saved plan. A
// crash may end it between any two steps.
func (w *world) onePass(operator string) {
	if w.found != "" {
		return
	}
	w.fresh, w.crashed = false, false
	before := w.records()
	w.meanwhile()
	seen := w.observe()
	w.observed = w.at
	w.meanwhile()
	now := w.now()
	recs := inventory.Sight(w.policy, before, seen, now)
	w.meanwhile()
	if w.crash() {
		return
	}
	if err := w.mem.SaveSight(ctx, before, recs); err != nil {
		w.harm("the memory failed: %v", err)
	}
	w.listed, w.fresh = w.listed || w.fresh, false
	ds := inventory.Plan(w.policy, recs, seen, now)
	w.checkPlan(recs, seen, now, ds)
	if operator != "" {
		ds, _ = inventory.Reconsider(w.policy, recs, seen, now, w.saved)
		w.say("%s applies %d decisions", operator, len(ds))
	}
	for _, d := range ds {
		w.meanwhile()
		switch d.Verdict {
		case inventory.Close:
			w.closeRow(d)
		case inventory.Reap:
			w.reap(d, operator)
		}
		if w.found != "" || w.crashed || w.crash() {
			return
		}
	}
}

func (w *world) crash() bool {
	if w.settling || w.rng.IntN(400) != 0 {
		return false
	}
	w.say("service crashed")
	w.crashed = true
	w.restart()
	return true
}

func (w *world) closeRow(d inventory.Decision) {
	_, ok := w.change(d.Name, d.Lease, func(recs inventory.Records) (inventory.Change, error) {
		return inventory.CloseRow(recs, d, w.now())
	})
	if !ok {
		return
	}
	w.say("row of %s (%s) closed as %s", d.Name, d.Lease, d.Reason)
	if l := w.leaseOf(d.Lease); l != nil {
		w.checkOver(l, "closed as "+string(d.Reason))
		w.end(l)
	}
	w.checkHold(d.Name, d.Row)
}

func (w *world) reap(d inventory.Decision, operator string) {
	c, ok := w.change(d.Name, d.Lease, func(recs inventory.Records) (inventory.Change, error) {
		return inventory.BeginReap(w.policy, recs, d, operator, w.now())
	})
	if !ok {
		return
	}
	row := c.Cluster
	w.begins++
	w.say("reap of %s (%s) begun: %s, %v", d.Name, d.Lease, d.Reason, row.Captured)
	if was, again := w.captured[row.ID]; again {
		if !slices.Equal(was, row.Captured) {
			w.harm("captured %v became %v at a retry", was, row.Captured)
		}
	} else {
		w.checkReap(d, row)
		w.captured[row.ID] = row.Captured
		w.end(w.leaseOf(row.Lease))
	}
	w.checkHold(row.Name, row.ID)
	if w.found != "" || w.crash() {
		return
	}
	for _, id := range row.Captured {
		w.meanwhile()
		if t := w.byID(id); t != nil && (!t.stubborn || w.settling) {
			w.checkHold(row.Name, row.ID)
			w.gone(t)
		}
		if w.crash() {
			return
		}
	}
	w.pass(time.Duration(w.rng.IntN(5000)) * time.Millisecond)
	var left []string
	for _, id := range row.Captured {
		if t := w.byID(id); t != nil {
			left = append(left, id)
			t.stubborn = w.chance(50)
		}
	}
	rule := func(recs inventory.Records) (inventory.Change, error) {
		return inventory.FinishReap(recs, row.Name, row.ID, nil, w.now())
	}
	if len(left) > 0 {
		rule = func(recs inventory.Records) (inventory.Change, error) {
			return inventory.FailReap(w.policy, recs, row.Name, row.ID, interval, "still there", w.now())
		}
	}
	if _, ok := w.change(row.Name, row.Lease, rule); !ok {
		w.harm("the end of the reap of %s was refused", row.Name)
	}
}

// settle lets time pass with no jobs, no lies and no faults: in the end nothing
// may be left that the janitor has forgotten.
func (w *world) settle() {
	w.settling, w.outage = true, false
	for _, j := range w.jobs {
		w.die(j)
	}
	w.say("settling")
	for i := 0; i < 150 && w.found == "" && len(w.stands) > 0; i++ {
		w.pass(time.Minute)
		w.onePass("")
		w.pass(29 * time.Minute)
		w.onePass("")
		if i%10 == 9 { // an operator releases the brake
			recs, seen := w.records(), w.observe()
			w.saved = inventory.Plan(w.policy, inventory.Sight(w.policy, recs, seen, w.now()), seen, w.now())
			w.savedAt = w.at
			w.pass(time.Minute)
			w.onePass("uid:0")
		}
	}
	for _, c := range w.stands {
		w.harm("%s of %s was forgotten: row %+v", c.id, c.name, w.rowOf(c.name))
	}
}

// checkPlan samples what must hold of each plan: the same again, nothing
// changed by looking, and Due is the first moment of a change.
func (w *world) checkPlan(recs inventory.Records, seen inventory.Observation, now inventory.Stamp, ds []inventory.Decision) {
	if !w.chance(10) {
		return
	}
	if again := inventory.Plan(w.policy, recs, seen, now); !reflect.DeepEqual(again, ds) {
		w.harm("the same input gave two plans:\n%v\n%v", ds, again)
	}
	at := func(i inventory.Instant) map[string]inventory.Decision {
		m := map[string]inventory.Decision{}
		for _, d := range inventory.Plan(w.policy, recs, seen, inventory.Stamp{At: i, Wall: now.WallOf(i)}) {
			m[d.Name+d.File] = d
		}
		return m
	}
	for _, d := range ds {
		if d.Due == 0 || d.Reason == inventory.Brake {
			continue
		}
		before, then := at(d.Due - 1)[d.Name+d.File], at(d.Due)[d.Name+d.File]
		if before.Reason != d.Reason && before.Reason != inventory.Brake || d.Due <= now.At {
			w.harm("%s was to stay %s until %d, and is %s before", d.Name, d.Reason, d.Due, before.Reason)
		}
		if then.Reason == d.Reason && then.Verdict == d.Verdict {
			w.harm("%s was to change from %s at %d, and does not", d.Name, d.Reason, d.Due)
		}
	}
}
