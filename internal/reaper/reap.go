package reaper

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/testbed-janitor/janitor/internal/inventory"
)

// removal is one cluster on its way out.
type removal struct {
	sighting
	row      inventory.Cluster // as it was stored before anything was removed
	warnings []string
}

func (r *removal) warn(what string, err error) {
	if err != nil {
		r.warnings = append(r.warnings, what+": "+err.Error())
	}
}

// reap removes one cluster: the intent is stored, then exactly the containers
// stored with it are removed, then what belonged to them, and then they are
// looked for again. Each step has a deadline of its own that no shutdown cuts
// short; after a crash, or if anything is left, all steps are done again.
func (l *Loop) reap(ctx context.Context, s sighting, d inventory.Decision, operator string) Result {
	r := removal{sighting: s}
	begun, err := l.change(ctx, d.Name, d.Lease, func(recs inventory.Records) (inventory.Change, error) {
		return inventory.BeginReap(s.policy, recs, d, operator, l.opt.Clock())
	})
	switch row := rowOf(s.recs, d); {
	case err == nil:
		r.row = begun.Cluster
	case !refused(err) && row != nil && row.State == inventory.Reaping:
		// The intent was stored by an earlier attempt. A disk that is full now
		// does not keep its containers alive.
		r.row = *row
	default:
		return outcome(d.Name, err)
	}

	removing := l.within(ctx, l.opt.Timeout, func(ctx context.Context) error { return l.world.Remove(ctx, r.row.Captured) })
	l.forgetEntries(ctx, &r)
	if volumes := r.volumes(); len(volumes) > 0 {
		r.warn("anonymous volumes were not removed", l.within(ctx, stepLimit, func(ctx context.Context) error {
			return l.world.RemoveVolumes(ctx, volumes)
		}))
	}
	var left []string
	looking := l.within(ctx, stepLimit, func(ctx context.Context) (err error) {
		left, err = l.world.Standing(ctx, r.row.Captured)
		return err
	})
	if looking != nil || len(left) > 0 {
		return l.fail(ctx, r, failure(left, removing, looking))
	}
	_, err = l.change(ctx, d.Name, d.Lease, func(recs inventory.Records) (inventory.Change, error) {
		return inventory.FinishReap(recs, d.Name, r.row.ID, r.warnings, l.opt.Clock())
	})
	return outcome(d.Name, err)
}

// fail keeps the row, for another attempt.
func (l *Loop) fail(ctx context.Context, r removal, cause string) Result {
	_, err := l.change(ctx, r.row.Name, r.row.Lease, func(recs inventory.Records) (inventory.Change, error) {
		return inventory.FailReap(r.policy, recs, r.row.Name, r.row.ID, r.seen.Interval, cause, l.opt.Clock())
	})
	if err != nil {
		cause += "; and that was not stored: " + err.Error()
	}
	return Result{Name: r.row.Name, Error: cause}
}

// failure says what of a cluster stands still, and why.
func failure(left []string, removing, looking error) string {
	var short []string
	for _, id := range left {
		short = append(short, id[:min(len(id), 12)])
	}
	var why []string
	if len(short) > 0 {
		why = append(why, "still there: "+strings.Join(short, ", "))
	}
	if removing != nil {
		why = append(why, "remove: "+removing.Error())
	}
	if looking != nil {
		why = append(why, "look again: "+looking.Error())
	}
	return strings.Join(why, "; ")
}

// within runs a step with a deadline that only time ends.
func (l *Loop) within(ctx context.Context, limit time.Duration, step func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	defer l.watch.step(limit)()
	err := step(ctx)
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("not done in %s: %w", limit, err)
	}
	return err
}

// forgetEntries removes the kubeconfig entries whose server the removed
// containers published, and no others of the name: those belong to somebody
// else, or nobody knows to whom. What fails here is a warning; the entries are
// looked at again by later passes.
func (l *Loop) forgetEntries(ctx context.Context, r *removal) {
	servers := r.servers()
	if len(servers) == 0 {
		return
	}
	// A new cluster of the name may have got the same address, with a fixed
	// API server port it always does. Its entry is not ours.
	var now []inventory.Seen
	err := l.within(ctx, stepLimit, func(ctx context.Context) (err error) {
		now, err = l.world.Look(ctx, r.row.Name)
		return err
	})
	if err != nil {
		r.warn("kubeconfig entries were left", err)
		return
	}
	for _, c := range slices.Concat(now, r.seen.Containers) {
		if c.Cluster == r.row.Name && !slices.Contains(r.row.Captured, c.ID) {
			servers = slices.DeleteFunc(servers, func(s string) bool { return slices.Contains(c.Servers, s) })
		}
	}
	entries := r.entries(servers)
	if len(entries) == 0 {
		return
	}
	_, err = l.forget(ctx, entries, files(r.recs, &r.row), r.row.ReapReason)
	r.warn("kubeconfig entries were left", err)
}

// entries are those of the servers in the row's own kubeconfig and wherever
// they were seen.
func (r *removal) entries(servers []string) []inventory.SeenContext {
	var out []inventory.SeenContext
	for _, server := range servers {
		var in []string
		if r.row.Kubeconfig != "" {
			in = append(in, r.row.Kubeconfig)
		}
		for _, c := range r.seen.Contexts {
			if c.Name == r.row.Name && c.Server == server && !slices.Contains(in, c.File) {
				in = append(in, c.File)
			}
		}
		for _, file := range in {
			out = append(out, inventory.SeenContext{File: file, Name: r.row.Name, Server: server})
		}
	}
	return out
}

// servers are the addresses the captured containers published while they ran.
func (r *removal) servers() []string {
	return r.captured(func(c inventory.Container) []string { return c.Servers })
}

// volumes are the anonymous volumes the captured containers had.
func (r *removal) volumes() []string {
	return r.captured(func(c inventory.Container) []string { return c.Volumes })
}

func (r *removal) captured(of func(inventory.Container) []string) []string {
	var out []string
	for _, c := range r.recs.Containers {
		if slices.Contains(r.row.Captured, c.ID) {
			out = append(out, of(c)...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func rowOf(recs inventory.Records, d inventory.Decision) *inventory.Cluster {
	i := slices.IndexFunc(recs.Clusters, func(c inventory.Cluster) bool { return c.ID == d.Row })
	if i < 0 {
		return nil
	}
	return &recs.Clusters[i]
}
