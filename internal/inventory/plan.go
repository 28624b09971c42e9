package inventory

import (
	"cmp"
	"slices"
	"time"
)

// Plan decides, for every cluster known or seen, what to do now and why. It
// takes the records as [Sight] returned them, performs no I/O and reads no
// clock; the same input gives the same output, sorted by name, one decision
// for each name (one for each kubeconfig entry where there is nothing else).
func Plan(p Policy, recs Records, seen Observation, now Stamp) []Decision {
	subjects := subjectsOf(p, recs, seen)
	out := make([]Decision, 0, len(subjects))
	for _, s := range subjects {
		d := s.decide(now.At)
		d.Due = s.due(d, now.At)
		out = append(out, d)
	}
	brake(p, recs, subjects, out, now.At)
	if p.DryRun {
		for i := range out {
			if v := out[i].Verdict; v == Reap || v == Forget {
				out[i].Verdict, out[i].Would = Keep, v
			}
		}
	}
	return out
}

// subject is one name with all that its decision depends on, but the time.
type subject struct {
	policy  Policy
	records Records // its clocks; not searched
	name    string
	row     *Cluster
	nodes   []string // what stands and the decision would be about
	seen    bool     // containers of the name stand, whosoever they are
	blind   bool
	orphan  Instant // found: when its grace is over
	context *Context
}

// The table of docs/policy.md, row by row; the first match wins.
func (s *subject) decide(now Instant) Decision {
	row, stands := s.row, len(s.nodes) > 0
	switch {
	case s.blind:
		return s.is(Keep, Blind)
	case row == nil && s.seen:
		return s.is(Keep, OrphanGrace)
	case row == nil:
		return s.decideContext(now)
	case row.heldAt(now):
		return s.is(Keep, Held)
	case row.State == Reaping && stands && now < row.NextTry:
		return s.is(Keep, BackingOff)
	case row.State == Reaping:
		return s.is(Reap, Retry)
	case row.State == Released && stands:
		return s.is(Reap, LetGo)
	case row.State == Released && !row.FirstSeen.IsZero() && row.MissingLooks < 2:
		return s.is(Keep, Missing)
	case row.State == Released:
		return s.is(Close, LetGo)
	case row.Lease == "":
		return s.decideFound(now)
	}
	return s.decideLease(now)
}

func (s *subject) decideLease(now Instant) Decision {
	row, stands := s.row, len(s.nodes) > 0
	capped := now >= row.Cap
	valid := now < row.Expires && !capped
	awaited := s.awaited(now)
	dead := row.DeadSince != 0 && now >= row.DeadSince.Add(s.policy.OwnerGrace) && !awaited
	switch {
	case stands && capped:
		return s.is(Reap, MaxLifetime)
	case stands && dead:
		return s.is(Reap, OwnerGone)
	case stands && valid:
		return s.is(Keep, Leased)
	case valid && !dead:
		return s.is(Keep, Creating)
	case !capped && row.owner() == Alive:
		return s.is(Keep, OwnerAlive)
	case !capped && awaited:
		return s.is(Keep, Reconnecting)
	case stands:
		return s.is(Reap, Expired)
	}
	return s.gone()
}

func (s *subject) decideFound(now Instant) Decision {
	switch {
	case len(s.nodes) == 0:
		return s.gone()
	case s.policy.protects(s.name):
		return s.is(Keep, Protected)
	case s.policy.ReportOnly:
		return s.is(Keep, Reported)
	case now < s.orphan:
		return s.is(Keep, OrphanGrace)
	}
	return s.is(Reap, Orphan)
}

func (s *subject) decideContext(now Instant) Decision {
	c := s.context
	if c.StaleLooks >= 2 && now >= c.StaleSince.Add(s.policy.ContextGrace) {
		return s.is(Forget, StaleContext)
	}
	return s.is(Keep, HasContext)
}

// gone closes a row of which nothing stands at the second look.
func (s *subject) gone() Decision {
	switch {
	case s.row.MissingLooks < 2:
		return s.is(Keep, Missing)
	case s.row.FirstSeen.IsZero():
		return s.is(Close, NeverCreated)
	}
	return s.is(Close, Vanished)
}

func (s *subject) is(v Verdict, r Reason) Decision {
	d := Decision{Name: s.name, Verdict: v, Reason: r, Nodes: s.nodes}
	if s.row != nil {
		d.Row, d.Version, d.Lease = s.row.ID, s.row.Version, s.row.Lease
		if s.row.State == Reaping { // resumed with what was captured, also when a list lacks it
			d.Nodes = slices.Sorted(slices.Values(s.row.Captured))
		}
	}
	if s.context != nil {
		d.File, d.Server = s.context.File, s.context.Server
	}
	return d
}

// awaited reports whether the owner could not be heard for a while and is
// given time to reconnect. It holds for leases older than the silence.
func (s *subject) awaited(now Instant) bool {
	return s.row.awaited(s.policy, s.records.HeardFrom, now)
}

func (c *Cluster) awaited(p Policy, heardFrom, now Instant) bool {
	return c.Registered.At <= heardFrom && now < heardFrom.Add(p.OwnerGrace)
}

func (c *Cluster) heldAt(now Instant) bool { return c.Hold != nil && now < c.Hold.Until }

// due is the first moment at which the decision would be another if nothing
// but time went by: one of the deadlines it may depend on.
func (s *subject) due(d Decision, now Instant) Instant {
	var moments []Instant
	if r := s.row; r != nil {
		moments = append(moments, r.NextTry, r.Cap, r.Expires, s.orphan,
			s.records.HeardFrom.Add(s.policy.OwnerGrace), r.DeadSince.Add(s.policy.OwnerGrace))
		if r.Hold != nil {
			moments = append(moments, r.Hold.Until)
		}
	}
	if s.context != nil {
		moments = append(moments, s.context.StaleSince.Add(s.policy.ContextGrace))
	}
	slices.Sort(moments)
	for _, m := range moments {
		if m <= now {
			continue
		}
		if then := s.decide(m); then.Verdict != d.Verdict || then.Reason != d.Reason {
			return m
		}
	}
	return 0
}

// subjectsOf gathers every name that is known or seen, sorted.
func subjectsOf(p Policy, recs Records, seen Observation) []*subject {
	shared := Records{Birth: recs.Birth, HeardFrom: recs.HeardFrom}
	byName := map[string]*subject{}
	at := func(name string) *subject {
		s := byName[name]
		if s == nil {
			s = &subject{policy: p, records: shared, name: name, blind: seen.Blind != ""}
			byName[name] = s
		}
		return s
	}
	for i := range recs.Clusters {
		if row := &recs.Clusters[i]; row.State != Closed {
			at(row.Name).row = row
		}
	}
	for _, c := range seen.Containers {
		at(c.Cluster).seen = true
	}
	graces := orphanGraces(p, recs, seen)
	for name, s := range byName {
		if s.row != nil && !s.blind {
			s.nodes = standing(s.row, recs.Containers, seen)
		}
		if s.row != nil && s.row.Lease == "" {
			s.orphan = graces[name]
		}
	}
	subjects := make([]*subject, 0, len(byName))
	for _, s := range byName {
		subjects = append(subjects, s)
	}
	for i := range recs.Contexts {
		c := &recs.Contexts[i]
		if byName[c.Name] == nil {
			subjects = append(subjects, &subject{policy: p, records: shared, name: c.Name, blind: seen.Blind != "", context: c})
		}
	}
	slices.SortFunc(subjects, func(a, b *subject) int {
		byFile := 0
		if a.context != nil && b.context != nil {
			byFile = cmp.Compare(a.context.File, b.context.File)
		}
		return cmp.Or(cmp.Compare(a.name, b.name), byFile)
	})
	return subjects
}

// orphanGraces is, for each name that stands, when its grace as an orphan is
// over: counted from the first sighting of its youngest container; and for
// what may have been leased in a lost inventory, from that one's birth by the
// longest cap.
func orphanGraces(p Policy, recs Records, seen Observation) map[string]Instant {
	known := make(map[string]*Container, len(recs.Containers))
	for i := range recs.Containers {
		known[recs.Containers[i].ID] = &recs.Containers[i]
	}
	ends := map[string]Instant{}
	for _, s := range seen.Containers {
		end := Instant(1<<63 - 1) // never sighted: Sight has not noted it, so nothing is over
		if k := known[s.ID]; k != nil {
			end = k.First.At.Add(p.OrphanGrace)
			if k.Inherited {
				end = max(end, recs.Birth.At.Add(p.longestCap()))
			}
		}
		ends[s.Cluster] = max(ends[s.Cluster], end)
	}
	return ends
}

// brakeSpan is the time over which orphans are counted against the brake.
const brakeSpan = time.Hour

// brake keeps every orphan when more are due now or within the hour, with
// those begun in the last hour without an operator, than the policy allows.
func brake(p Policy, recs Records, subjects []*subject, out []Decision, now Instant) {
	count := func(t Instant) int {
		n := 0
		for _, begun := range recs.Begun {
			if begun.Add(brakeSpan) > t {
				n++
			}
		}
		for _, s := range subjects {
			if s.decide(t).Reason == Orphan || s.decide(t.Add(brakeSpan)).Reason == Orphan {
				n++
			}
		}
		return n
	}
	if !slices.ContainsFunc(out, func(d Decision) bool { return d.Reason == Orphan }) || count(now) <= p.MaxPerHour {
		return
	}
	release := Instant(0)
	for _, begun := range slices.Sorted(slices.Values(recs.Begun)) {
		if end := begun.Add(brakeSpan); end > now && count(end) <= p.MaxPerHour {
			release = end
			break
		}
	}
	for i := range out {
		if out[i].Reason == Orphan {
			out[i].Verdict, out[i].Reason, out[i].Would, out[i].Due = Keep, Brake, Reap, release
		}
	}
}
