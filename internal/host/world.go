package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/testbed-janitor/janitor/internal/host/engine"
	"github.com/testbed-janitor/janitor/internal/inventory"
)

// World is what is really on this machine: the engine's containers and the
// entries of kubeconfigs. Set its fields before the first use. It is safe for
// use by several goroutines.
type World struct {
	Engine   *engine.Engine
	Boot     string               // as BootID gives it
	Interval func() time.Duration // of the schedule, at this moment
	// Kubeconfigs are the files looked at besides those that jobs name: with
	// ~, globs and lists, as configured. It is asked for each look.
	Kubeconfigs func() []string

	// Owners are asked, all at the same time, what they know about the owners of
	// leases. Each obeys its context.
	Owners []Source

	files files
}

// Source says by lease what it knows about owners. Of a lease that is missing
// in its answer it has no opinion.
type Source func(ctx context.Context, recs inventory.Records) map[string]inventory.Evidence

// listLimit bounds the engine's list of everything.
const listLimit = 20 * time.Second

// Observe looks at everything, at all sources at the same time and at each
// within a limit of its own. It never fails: what could not be read says so.
func (w *World) Observe(ctx context.Context, recs inventory.Records) inventory.Observation {
	seen := inventory.Observation{Boot: w.Boot, Interval: w.Interval()}
	var others sync.WaitGroup
	others.Go(func() { seen.Evidence = w.hearOwners(ctx, recs) })
	others.Go(func() { seen.Contexts, seen.Unread = w.files.observe(ctx, w.Kubeconfigs(), recs) })
	list, cancel := context.WithTimeout(ctx, listLimit)
	defer cancel()
	containers, err := w.Engine.List(list, "")
	others.Wait()
	if err != nil {
		seen.Blind = err.Error()
	}
	seen.Containers = containers
	w.listen(&seen)
	return seen
}

// hearOwners asks all sources. What each says stays in the order of the sources.
func (w *World) hearOwners(ctx context.Context, recs inventory.Records) map[string][]inventory.Evidence {
	answers := make([]map[string]inventory.Evidence, len(w.Owners))
	var all sync.WaitGroup
	for i, ask := range w.Owners {
		all.Go(func() { answers[i] = ask(ctx, recs) })
	}
	all.Wait()
	heard := map[string][]inventory.Evidence{}
	for _, said := range answers {
		for lease, word := range said {
			heard[lease] = append(heard[lease], word)
		}
	}
	return heard
}

// listen notes where somebody listens. Behind a server that a running node
// publishes somebody does, also where Docker runs without its userland proxy
// and no process of this machine holds the port. Of an engine elsewhere this
// machine knows nothing: its 127.0.0.1 is another.
func (w *World) listen(seen *inventory.Observation) {
	if !w.Engine.Local() {
		return
	}
	answers := map[string]*bool{}
	yes := true
	for _, c := range seen.Containers {
		for _, s := range c.Servers {
			answers[s] = &yes
		}
	}
	for i := range seen.Contexts {
		c := &seen.Contexts[i]
		if _, known := answers[c.Server]; !known {
			answers[c.Server] = listeningAt(c.Server)
		}
		c.Listening = answers[c.Server]
	}
}

// Look lists the containers of one name.
func (w *World) Look(ctx context.Context, name string) ([]inventory.Seen, error) {
	if name == "" {
		return nil, errors.New("a cluster without a name is not looked at: to the engine it means all, to kind the cluster \"kind\"")
	}
	return w.Engine.List(ctx, name)
}

// Remove removes containers by full ID, all at once, with their volumes. One
// that is not there is a success. After an error the others are removed all the
// same; [World.Standing] tells what came of it.
func (w *World) Remove(ctx context.Context, ids []string) error {
	return each(ids, func(_ int, id string) error { return w.Engine.Remove(ctx, id) })
}

// RemoveVolumes removes anonymous volumes that stayed behind.
func (w *World) RemoveVolumes(ctx context.Context, names []string) error {
	return each(names, func(_ int, name string) error { return w.Engine.RemoveVolume(ctx, name) })
}

// A container whose removal somebody began before us is gone in less than a
// second as a rule. It is waited for, rather than for the next pass.
const (
	goingPause = 50 * time.Millisecond
	goingTries = 10
)

// Standing returns those of the containers that still exist, after a little
// wait for those that are just going. After an error some may be missing in it.
func (w *World) Standing(ctx context.Context, ids []string) ([]string, error) {
	for try := 1; ; try++ {
		there := make([]bool, len(ids))
		err := each(ids, func(i int, id string) (err error) {
			there[i], err = w.Engine.Exists(ctx, id)
			return err
		})
		var left []string
		for i, id := range ids {
			if there[i] {
				left = append(left, id)
			}
		}
		if err != nil || len(left) == 0 || try == goingTries {
			return left, err
		}
		select {
		case <-time.After(goingPause):
		case <-ctx.Done():
			return left, nil // each was answered for
		}
	}
}

// Forget takes entries out of kubeconfig files, each only if under the file's
// lock it is still what is given, and returns those it took out. A file that no
// configuration names is opened only as a job's, whose uid uidOf gives.
func (w *World) Forget(ctx context.Context, entries []inventory.SeenContext, uidOf func(file string) (uint32, bool)) ([]inventory.SeenContext, error) {
	return w.files.forget(ctx, w.Kubeconfigs(), entries, uidOf)
}

// each calls f for all items at once and joins the errors in the items' order.
func each[T any](items []T, f func(i int, item T) error) error {
	errs := make([]error, len(items))
	var all sync.WaitGroup
	for i, item := range items {
		all.Go(func() { errs[i] = f(i, item) })
	}
	all.Wait()
	return oneLine(errs)
}

// oneLine joins errors as errors.Join does, in one line: they are stored with a
// row and shown in lists.
func oneLine(errs []error) error {
	var wrapped []any
	for _, err := range slices.DeleteFunc(errs, func(err error) bool { return err == nil }) {
		wrapped = append(wrapped, err)
	}
	if len(wrapped) == 0 {
		return nil
	}
	return fmt.Errorf(strings.TrimSuffix(strings.Repeat("%w; ", len(wrapped)), "; "), wrapped...)
}
