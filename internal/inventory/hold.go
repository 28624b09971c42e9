package inventory

import (
	"fmt"
	"time"
)

// SetHold protects a cluster until an end. It is refused while an attempt to
// remove it is under way, and accepted between attempts. Another's hold is
// made shorter only by an admin.
func SetHold(recs Records, name string, h Hold, who Caller, now Stamp) (Change, error) {
	row := liveByName(recs.Clusters)[name]
	switch {
	case row == nil:
		return Change{}, &Problem{Code: CodeNotFound, Message: fmt.Sprintf("no cluster %q is known", name)}
	case h.Reason == "":
		return Change{}, &Problem{Code: CodeInvalid, Message: "a hold needs a reason"}
	case h.Until <= now.At:
		return Change{}, &Problem{Code: CodeInvalid, Message: "a hold needs an end in the future"}
	case row.State == Reaping && row.NextTry == 0:
		return Change{}, conflict(CodeReaping, row, "cluster %q is being removed at this moment", name)
	}
	h.By = fmt.Sprintf("uid:%d", who.UID)
	if row.heldAt(now.At) && row.Hold.By != h.By && h.Until < row.Hold.Until && !who.Admin {
		return Change{}, conflict(CodeForbidden, row, "cluster %q is held longer by %s; only an admin may shorten that", name, row.Hold.By)
	}
	next := *row
	next.Hold = &h
	next.Version++
	detail := fmt.Sprintf("until %s: %s", now.WallOf(h.Until).UTC().Format(time.RFC3339), h.Reason)
	return Change{Rows: []Cluster{next}, Cluster: next, Events: []Event{next.event("held", who, now, detail)}}, nil
}

// LiftHold ends a hold: one's own, or as an admin any.
func LiftHold(recs Records, name string, who Caller, now Stamp) (Change, error) {
	row := liveByName(recs.Clusters)[name]
	switch {
	case row == nil:
		return Change{}, &Problem{Code: CodeNotFound, Message: fmt.Sprintf("no cluster %q is known", name)}
	case !row.heldAt(now.At):
		return Change{Cluster: *row}, nil // nothing to lift
	case row.Hold.By != fmt.Sprintf("uid:%d", who.UID) && !who.Admin:
		return Change{}, conflict(CodeForbidden, row, "cluster %q is held by %s; only they or an admin may lift that", name, row.Hold.By)
	}
	next := *row
	next.Hold = nil
	next.Version++
	return Change{Rows: []Cluster{next}, Cluster: next, Events: []Event{next.event("unheld", who, now, "")}}, nil
}
