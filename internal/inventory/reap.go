package inventory

import (
	"fmt"
	"slices"
	"time"
)

// maxBackOff is the longest wait between two attempts at one cluster.
const maxBackOff = 30 * time.Minute

// BeginReap writes down what is about to be removed, before it is: the intent
// comes before the effect. It is refused when the row has changed since it was
// decided on. operator is empty for the loop's own decisions.
func BeginReap(_ Policy, recs Records, d Decision, operator string, now Stamp) (Change, error) {
	row, err := decidedOn(recs, d, now)
	if err != nil {
		return Change{}, err
	}
	next := *row
	if next.State != Reaping {
		if len(d.Nodes) == 0 {
			return Change{}, conflict(CodeConflict, row, "nothing of cluster %q was seen to remove", d.Name)
		}
		next.Captured, next.Began, next.ReapBy = slices.Clone(d.Nodes), now, operator
		if next.ReapReason == "" {
			next.ReapReason = d.Reason
		}
	}
	next.State, next.NextTry = Reaping, 0
	next.Attempts++
	next.Version++
	actor := "janitor"
	if operator != "" {
		actor = operator
	}
	return Change{
		Rows: []Cluster{next}, Cluster: next,
		Events: []Event{next.eventBy("reap-begun", actor, now, fmt.Sprintf("attempt %d, %d containers", next.Attempts, len(next.Captured)))},
	}, nil
}

// FinishReap closes a row of whose captured containers none stands any more.
func FinishReap(recs Records, name string, row int64, warnings []string, now Stamp) (Change, error) {
	next, err := reaping(recs, name, row)
	if err != nil {
		return Change{}, err
	}
	for _, w := range warnings {
		next.warn(w)
	}
	next.end(next.ReapReason, now)
	next.LastError = ""
	return Change{Rows: []Cluster{next}, Cluster: next, Events: []Event{next.eventBy("reaped", "janitor", now, "")}}, nil
}

// FailReap keeps a row that could not be removed, and says when it is tried
// again: later each time, up to half an hour.
func FailReap(p Policy, recs Records, name string, row int64, interval time.Duration, cause string, now Stamp) (Change, error) {
	next, err := reaping(recs, name, row)
	if err != nil {
		return Change{}, err
	}
	wait := max(interval, time.Second) << min(max(next.Attempts-1, 0), 10)
	next.LastError, next.NextTry = cause, now.At.Add(min(wait, max(maxBackOff, interval)))
	next.Version++
	kind := "reap-failed"
	if next.StuckUnder(p) {
		kind = "stuck"
	}
	return Change{Rows: []Cluster{next}, Cluster: next, Events: []Event{next.eventBy(kind, "janitor", now, cause)}}, nil
}

// CloseRow carries out a decision to close: nothing of the row stands.
func CloseRow(recs Records, d Decision, now Stamp) (Change, error) {
	row, err := decidedOn(recs, d, now)
	if err != nil {
		return Change{}, err
	}
	next := *row
	next.end(d.Reason, now)
	return Change{Rows: []Cluster{next}, Cluster: next, Events: []Event{next.eventBy("closed", "janitor", now, "")}}, nil
}

// StuckUnder reports whether a reap has failed so often that a person should
// look.
func (c *Cluster) StuckUnder(p Policy) bool {
	return c.State == Reaping && c.NextTry != 0 && c.Attempts >= p.StuckAfter
}

// decidedOn returns the row a decision is about if it is still the very same.
func decidedOn(recs Records, d Decision, now Stamp) (*Cluster, error) {
	row := liveByName(recs.Clusters)[d.Name]
	switch {
	case row == nil:
		return nil, &Problem{Code: CodeConflict, Message: fmt.Sprintf("cluster %q has no open row any more", d.Name)}
	case row.ID != d.Row || row.Version != d.Version:
		return nil, conflict(CodeConflict, row, "cluster %q has changed since it was decided on", d.Name)
	case row.heldAt(now.At):
		return nil, conflict(CodeHeld, row, "cluster %q is under a hold", d.Name)
	}
	return row, nil
}

func reaping(recs Records, name string, id int64) (Cluster, error) {
	row := liveByName(recs.Clusters)[name]
	if row == nil || row.ID != id || row.State != Reaping {
		return Cluster{}, &Problem{Code: CodeConflict, Message: fmt.Sprintf("cluster %q is not being removed any more", name)}
	}
	return *row, nil
}
