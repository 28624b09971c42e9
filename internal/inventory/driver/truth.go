package driver

import (
	"slices"
	"time"

	"github.com/testbed-janitor/janitor/internal/inventory"
)

func (w *world) die(j *job) {
	if j.died == 0 {
		j.died = w.at
		j.heardEnd = j.connected
		j.connected = false
	}
}

func (w *world) standing(name string) []*container {
	var out []*container
	for _, c := range w.stands {
		if c.name == name {
			out = append(out, c)
		}
	}
	return out
}

func (w *world) seen(cs []*container) []inventory.Seen {
	out := make([]inventory.Seen, 0, len(cs))
	for _, c := range cs {
		out = append(out, inventory.Seen{ID: c.id, Cluster: c.name, Name: c.id, State: "running", Created: c.wall})
	}
	return out
}

// create makes a container, unless kind would refuse: nodes of another stand.
func (w *world) create(name string, by *lease) {
	for _, c := range w.standing(name) {
		if c.under != by {
			return
		}
	}
	c := &container{id: w.id("c"), name: name, made: w.at, wall: w.wall.Truncate(time.Second), under: by, stubborn: w.chance(5)}
	w.stands = append(w.stands, c)
	for _, l := range w.leases { // whoever makes it, it is bound to the lease
		if l.name == name {
			l.made = true
		}
	}
	w.say("container %s of %s made under %v", c.id, name, by)
}

func (l *lease) String() string {
	if l == nil {
		return "no lease"
	}
	return l.id
}

func (w *world) stranger() {
	name := w.name()
	if len(w.standing(name)) == 0 {
		for range 1 + w.rng.IntN(3) {
			w.create(name, nil)
		}
	}
}

func (w *world) name() string {
	return []string{"kind", "kind-2", "e2e", "a.b", "nightly"}[w.rng.IntN(5)]
}

func (w *world) byID(id string) *container {
	i := slices.IndexFunc(w.stands, func(c *container) bool { return c.id == id })
	if i < 0 {
		return nil
	}
	return w.stands[i]
}

func (w *world) leaseOf(id string) *lease {
	for _, l := range w.leases {
		if l.id == id {
			return l
		}
	}
	return nil
}

// ends notes that a lease is over, for a reason that was checked.
func (w *world) end(l *lease) {
	if l != nil {
		l.over = w.at
		w.leases = slices.DeleteFunc(w.leases, func(o *lease) bool { return o == l })
	}
}
