package inventory

import (
	"cmp"
	"slices"
	"time"
)

// wallSlack is how far the two clocks may drift apart between two lists before
// the wall clock counts as moved. The engine gives whole seconds.
const wallSlack = time.Second

// Sight returns the records with what was just seen: first sightings, bindings
// of containers to leases, since when something is missing or an owner dead. A
// pass stores its result; a look at the plan does not, so looking never changes
// what will happen. recs is not changed. now is a moment after the observation.
func Sight(p Policy, recs Records, seen Observation, now Stamp) Records {
	out := recs
	out.Clusters = slices.Clone(recs.Clusters)
	out.Containers = slices.Clone(recs.Containers)

	// Owners could not be heard while the loop did not run.
	if recs.LastPass != 0 && now.At.Sub(recs.LastPass) > 3*seen.Interval {
		out.HeardFrom = now.At
	}
	out.LastPass = now.At

	for i := range out.Clusters {
		c := &out.Clusters[i]
		c.Evidence = slices.Clone(c.Evidence)
		if c.Lease != "" {
			c.hear(seen.Evidence[c.Lease], seen.Boot, now.At)
		}
	}
	if seen.Blind != "" {
		return out // not seen is not gone
	}

	look := recs.LastLook == 0 || 2*now.At.Sub(recs.LastLook) >= seen.Interval
	out.LastList = now
	if look {
		out.LastLook = now.At
	}
	sightContainers(&out, recs, seen, now)
	openFound(&out, seen, now)
	for i := range out.Clusters {
		sightRow(&out.Clusters[i], out.Containers, seen, look, now)
	}
	out.Contexts = sightContexts(recs, out.Containers, seen, look, now.At)
	slices.SortFunc(out.Clusters, func(a, b Cluster) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// sightContainers remembers every container seen, and binds it at its first
// sighting.
func sightContainers(out *Records, recs Records, seen Observation, now Stamp) {
	known := make(map[string]int, len(out.Containers))
	for i, c := range out.Containers {
		known[c.ID] = i
	}
	live := liveByName(out.Clusters)
	last := recs.LastList
	if last.IsZero() {
		last = recs.Birth
	}
	moved := time.Duration(now.offset()-last.offset()).Abs() > wallSlack
	birth := now.WallOf(recs.Birth.At).Truncate(time.Second)

	for _, s := range seen.Containers {
		if i, ok := known[s.ID]; ok {
			c := &out.Containers[i]
			c.Last, c.State = now, s.State
			// A stopped node publishes nothing; what it published is remembered.
			if len(s.Servers) > 0 {
				c.Servers = slices.Clone(s.Servers)
			}
			if len(s.Volumes) > 0 {
				c.Volumes = slices.Clone(s.Volumes)
			}
			continue
		}
		c := Container{
			ID: s.ID, Cluster: s.Cluster, Name: s.Name, Role: s.Role, State: s.State, Created: s.Created,
			First: now, Last: now, Servers: slices.Clone(s.Servers), Volumes: slices.Clone(s.Volumes),
			Inherited: recs.LastList.IsZero() || s.Created.Before(birth),
		}
		// What was made in the future was made before the wall clock was set back.
		ahead := s.Created.After(now.Wall.Add(wallSlack))
		if row := live[s.Cluster]; row != nil && !moved && !ahead && bindsTo(row, s.Created, now) {
			c.Lease = row.Lease
		}
		known[s.ID] = len(out.Containers)
		out.Containers = append(out.Containers, c)
	}
}

// bindsTo reports whether a container first seen now was made under the row's
// lease: in or after the second of the registration and before its end. A
// container made in the second in which the lease ended stays foreign.
func bindsTo(row *Cluster, created time.Time, now Stamp) bool {
	if row.Lease == "" {
		return false
	}
	began := now.WallOf(row.Registered.At).Truncate(time.Second)
	if row.Origin != Adopted && created.Before(began) {
		return false
	}
	end := Instant(0)
	if row.owner() != Alive {
		end = row.Expires
	}
	for _, t := range []Instant{row.Let.At, row.Began.At} {
		if t != 0 && (end == 0 || t < end) {
			end = t
		}
	}
	return end == 0 || end > now.At || !created.Add(time.Second).After(now.WallOf(end))
}

// openFound opens a row for each name that stands and that nobody registered.
func openFound(out *Records, seen Observation, now Stamp) {
	live := liveByName(out.Clusters)
	opened := map[string]bool{}
	for _, s := range seen.Containers {
		if live[s.Cluster] == nil && !opened[s.Cluster] {
			opened[s.Cluster] = true
			out.Clusters = append(out.Clusters, Cluster{
				Name: s.Cluster, State: Active, Origin: Found, Version: 1, Registered: now,
			})
		}
	}
}

// sightRow notes whether anything of the row stands. Only looks count what is
// missing: two pokes in one second are not two looks.
func sightRow(c *Cluster, known []Container, seen Observation, look bool, now Stamp) {
	if len(standing(c, known, seen)) > 0 {
		if c.FirstSeen.IsZero() {
			c.FirstSeen = now
		}
		c.LastSeen, c.MissingSince, c.MissingLooks = now, 0, 0
		return
	}
	if look {
		if c.MissingLooks == 0 {
			c.MissingSince = now.At
		}
		c.MissingLooks++
	}
}

// sightContexts notes since when nobody listens at a server that was ours.
// Entries of files that could not be read keep what was known of them.
func sightContexts(recs Records, known []Container, seen Observation, look bool, now Instant) []Context {
	type key struct{ file, name string }
	before := map[key]Context{}
	var out []Context
	for _, c := range recs.Contexts {
		before[key{c.File, c.Name}] = c
		if _, unread := seen.Unread[c.File]; unread {
			out = append(out, c)
		}
	}
	for _, s := range seen.Contexts {
		c := Context{File: s.File, Name: s.Name, Server: s.Server}
		if b := before[key{s.File, s.Name}]; b.Server == s.Server {
			c = b
		}
		silent := s.Listening != nil && !*s.Listening
		switch {
		case !silent || !published(known, s.Name, s.Server):
			c.StaleSince, c.StaleLooks = 0, 0
		case look:
			if c.StaleLooks == 0 {
				c.StaleSince = now
			}
			c.StaleLooks++
		}
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b Context) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.File, b.File))
	})
	return out
}

// published reports whether a node of the cluster was seen here to publish
// this server. Tunnels and other engines' clusters never were.
func published(known []Container, cluster, server string) bool {
	return slices.ContainsFunc(known, func(c Container) bool {
		return c.Cluster == cluster && slices.Contains(c.Servers, server)
	})
}

// standing returns the IDs, sorted, of what stands now and the row's decisions
// are about: of a lease the containers bound to it, of a found row all of the
// name, and where IDs were captured those alone.
func standing(c *Cluster, known []Container, seen Observation) []string {
	var ids []string
	for _, s := range seen.Containers {
		if s.Cluster != c.Name {
			continue
		}
		switch {
		case len(c.Captured) > 0:
			if slices.Contains(c.Captured, s.ID) {
				ids = append(ids, s.ID)
			}
		case c.Origin == Found && c.State == Active:
			ids = append(ids, s.ID)
		case c.Lease != "":
			if slices.ContainsFunc(known, func(k Container) bool { return k.ID == s.ID && k.Lease == c.Lease }) {
				ids = append(ids, s.ID)
			}
		}
	}
	slices.Sort(ids)
	return ids
}

func liveByName(rows []Cluster) map[string]*Cluster {
	live := make(map[string]*Cluster, len(rows))
	for i := range rows {
		if rows[i].State != Closed {
			live[rows[i].Name] = &rows[i]
		}
	}
	return live
}
