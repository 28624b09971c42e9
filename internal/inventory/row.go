package inventory

import (
	"fmt"
	"slices"
)

// end closes a row for good.
func (c *Cluster) end(why Reason, now Stamp) {
	c.State, c.CloseReason, c.Ended = Closed, why, now
	c.NextTry = 0
	c.Version++
}

// warn adds a warning once.
func (c *Cluster) warn(w string) {
	if !slices.Contains(c.Warnings, w) {
		c.Warnings = append(slices.Clone(c.Warnings), w)
	}
}

func (c *Cluster) event(kind string, who Caller, now Stamp, detail string) Event {
	return c.eventBy(kind, fmt.Sprintf("uid:%d", who.UID), now, detail)
}

// eventBy is an event whose reason is why the row is going or went, if it is.
func (c *Cluster) eventBy(kind, actor string, now Stamp, detail string) Event {
	reason := c.CloseReason
	if reason == "" {
		reason = c.ReapReason
	}
	return Event{At: now, Kind: kind, Name: c.Name, Lease: c.Lease, Actor: actor, Reason: string(reason), Detail: detail}
}

func quoteOwner(owner string) string {
	if owner == "" {
		return "somebody who gave no owner"
	}
	return fmt.Sprintf("%q", owner)
}
