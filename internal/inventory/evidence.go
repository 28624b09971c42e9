package inventory

import "slices"

// Sources of evidence whose names the rules know.
const (
	FromSession = "session"
	FromProcess = "process"
	FromReboot  = "reboot"
)

// owner is the whole verdict about a row's owner. Any "alive" wins, also the
// last word of a source that is silent now; while a source that has spoken is
// silent nothing is dead; else "dead" wins over no opinion.
func (c *Cluster) owner() Life {
	verdict := Unknown
	silent := false
	for _, e := range c.Evidence {
		switch {
		case e.Says == Alive:
			return Alive
		case e.Silent:
			silent = true
		case e.Says == Dead && e.Source != FromProcess: // a process proves life only
			verdict = Dead
		}
	}
	if silent {
		return Unknown
	}
	return verdict
}

// hear notes what each source says now. A source that cannot be asked keeps
// its last word and is marked silent; it never says anything for itself.
func (c *Cluster) hear(said []Evidence, boot string, now Instant) {
	rebooted := c.Boot != "" && boot != "" && c.Boot != boot
	words := make([]Evidence, 0, len(c.Evidence)+len(said))
	for _, last := range c.Evidence {
		i := slices.IndexFunc(said, func(e Evidence) bool { return e.Source == last.Source })
		if i >= 0 && said[i].Says != Unreadable || last.Source == FromReboot {
			continue
		}
		if rebooted && (last.Source == FromSession || last.Source == FromProcess) {
			continue // no process and no connection survives a boot
		}
		last.Silent = true
		words = append(words, last)
	}
	for _, e := range said {
		if e.Says == Unreadable || e.Source == FromReboot {
			continue
		}
		e.Silent = false
		words = append(words, e)
		if e.Says == Alive {
			c.HadSession = c.HadSession || e.Source == FromSession
			c.HadProcess = c.HadProcess || e.Source == FromProcess
		}
	}
	// A lease that never had a process or a session of its own loses nothing
	// by a boot: its TTL speaks for it.
	if rebooted && (c.HadSession || c.HadProcess) {
		words = append(words, Evidence{Source: FromReboot, Says: Dead, Detail: "the machine has booted since the registration"})
	}
	if len(words) == 0 {
		words = nil
	}
	c.Evidence = words

	// The grace counts from the first pass whose whole verdict is dead, and
	// anew after any other.
	switch {
	case c.owner() != Dead:
		c.DeadSince = 0
	case c.DeadSince == 0:
		c.DeadSince = now
	}
}
