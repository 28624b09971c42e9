package reaper_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/testbed-janitor/janitor/internal/inventory"
)

// fakeWorld is a testbed in memory: containers by ID, kubeconfig entries and
// volumes. It has no processes, networks, images or file locks, gives no
// evidence of its own, and its lists are never inconsistent. at is called at
// the beginning of each call and may hang, change things or fail it.
type fakeWorld struct {
	mu         sync.Mutex
	containers map[string]inventory.Seen
	stubborn   map[string]error // cannot be removed
	contexts   []inventory.SeenContext
	volumes    map[string]bool
	evidence   map[string][]inventory.Evidence
	removed    []string
	asked      []string // to forget: file, name, server, uid of the job that named the file
	observed   int
	at         func(ctx context.Context, op string, ids []string) error
}

func newWorld() *fakeWorld {
	return &fakeWorld{containers: map[string]inventory.Seen{}, stubborn: map[string]error{}, volumes: map[string]bool{}}
}

func (w *fakeWorld) enter(ctx context.Context, op string, ids []string) error {
	w.mu.Lock()
	at := w.at
	w.mu.Unlock()
	if at != nil {
		return at(ctx, op, ids)
	}
	return nil
}

func (w *fakeWorld) Observe(ctx context.Context, _ inventory.Records) inventory.Observation {
	err := w.enter(ctx, "observe", nil)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.observed++
	o := inventory.Observation{Boot: "boot-1", Interval: time.Minute, Evidence: w.evidence}
	if err != nil {
		o.Blind = err.Error()
		return o
	}
	for _, id := range slices.Sorted(maps.Keys(w.containers)) {
		o.Containers = append(o.Containers, w.containers[id])
	}
	for _, c := range w.contexts {
		listening := slices.ContainsFunc(o.Containers, func(s inventory.Seen) bool {
			return s.State == "running" && slices.Contains(s.Servers, c.Server)
		})
		c.Listening = &listening
		o.Contexts = append(o.Contexts, c)
	}
	return o
}

func (w *fakeWorld) Look(ctx context.Context, name string) ([]inventory.Seen, error) {
	if err := w.enter(ctx, "look", []string{name}); err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []inventory.Seen
	for _, id := range slices.Sorted(maps.Keys(w.containers)) {
		if c := w.containers[id]; c.Cluster == name {
			out = append(out, c)
		}
	}
	return out, nil
}

func (w *fakeWorld) Remove(ctx context.Context, ids []string) error {
	if err := w.enter(ctx, "remove", ids); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	var failed error
	for _, id := range ids {
		if err := w.stubborn[id]; err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		if _, ok := w.containers[id]; ok {
			delete(w.containers, id)
			w.removed = append(w.removed, id)
		}
	}
	return failed
}

func (w *fakeWorld) Standing(ctx context.Context, ids []string) ([]string, error) {
	if err := w.enter(ctx, "standing", ids); err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(ids), func(id string) bool { _, ok := w.containers[id]; return !ok }), nil
}

func (w *fakeWorld) RemoveVolumes(ctx context.Context, names []string) error {
	if err := w.enter(ctx, "volumes", names); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, n := range names {
		delete(w.volumes, n)
	}
	return nil
}

func (w *fakeWorld) Forget(ctx context.Context, entries []inventory.SeenContext, uidOf func(string) (uint32, bool)) ([]inventory.SeenContext, error) {
	if err := w.enter(ctx, "forget", nil); err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	var gone []inventory.SeenContext
	for _, e := range entries {
		uid, named := uidOf(e.File)
		w.asked = append(w.asked, fmt.Sprintf("%s %s %s %d %v", e.File, e.Name, e.Server, uid, named))
		if i := slices.Index(w.contexts, e); i >= 0 {
			gone = append(gone, e)
			w.contexts = slices.Delete(w.contexts, i, i+1)
		}
	}
	return gone, nil
}

// create makes the containers of a kind cluster: ids[0] is its control plane.
func (w *fakeWorld) create(name, server string, ids ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, id := range ids {
		c := inventory.Seen{ID: id, Cluster: name, Name: name + "-" + id, Role: "worker", State: "running",
			Created: time.Now().Truncate(time.Second), Volumes: []string{"vol-" + id}}
		if i == 0 {
			c.Role, c.Servers = "control-plane", []string{server}
		}
		w.containers[id] = c
		w.volumes["vol-"+id] = true
	}
}

func (w *fakeWorld) set(at func(ctx context.Context, op string, ids []string) error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.at = at
}

func (w *fakeWorld) edit(f func(w *fakeWorld)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f(w)
}

func (w *fakeWorld) stands() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Sorted(maps.Keys(w.containers))
}
