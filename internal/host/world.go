package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/testbed-janitor/janitor/internal/host/engine"
	"github.com/testbed-janitor/janitor/internal/host/kubeconfig"
	"github.com/testbed-janitor/janitor/internal/inventory"
)

// World is what is really on this machine: the engine's containers and the
// kubeconfigs' entries.
type World struct {
	Engine   *engine.Engine
	Boot     string
	Interval func() time.Duration // of the schedule, at this moment
	// Kubeconfigs are the files looked at besides those that jobs name: with
	// ~, globs and lists, as configured.
	Kubeconfigs func() []string
}

const (
	listLimit = 20 * time.Second // the engine's list
	fileLimit = 5 * time.Second  // each kubeconfig, its lock included
)

// Observe looks at everything. It never fails: what could not be read says so.
func (w *World) Observe(ctx context.Context, recs inventory.Records) inventory.Observation {
	seen := inventory.Observation{Boot: w.Boot, Interval: w.Interval(), Unread: map[string]string{}, Evidence: map[string][]inventory.Evidence{}}
	var files sync.WaitGroup
	files.Go(func() { w.observeContexts(ctx, recs, &seen) })
	list, cancel := context.WithTimeout(ctx, listLimit)
	containers, err := w.Engine.List(list, "")
	cancel()
	files.Wait()
	if err != nil {
		seen.Blind = err.Error()
		return seen
	}
	seen.Containers = containers
	return seen
}

// observeContexts reads the configured kubeconfigs and those that live rows
// name. One that the service may not read is not its business.
func (w *World) observeContexts(ctx context.Context, recs inventory.Records, seen *inventory.Observation) {
	type source struct {
		path  string
		trust kubeconfig.Trust
	}
	var sources []source
	expanded, err := kubeconfig.Expand(w.Kubeconfigs())
	if err != nil {
		seen.Unread["kubeconfigs"] = err.Error()
	}
	known := map[string]bool{}
	for _, f := range expanded {
		known[f] = true
		sources = append(sources, source{f, kubeconfig.Configured()})
	}
	for _, c := range recs.Clusters {
		if c.Kubeconfig != "" && !known[c.Kubeconfig] {
			known[c.Kubeconfig] = true
			sources = append(sources, source{c.Kubeconfig, kubeconfig.NamedByJob(c.UID)})
		}
	}
	for _, s := range sources {
		bounded, cancel := context.WithTimeout(ctx, fileLimit)
		entries, err := kubeconfig.Read(bounded, s.path, s.trust, kubeconfig.Options{LockWait: time.Second})
		cancel()
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			seen.Unread[s.path] = err.Error()
			continue
		}
		for _, e := range entries {
			seen.Contexts = append(seen.Contexts, inventory.SeenContext{File: s.path, Name: e.Name, Server: e.Server, Listening: anybodyAt(e.Server)})
		}
	}
}

// anybodyAt reports whether anybody listens at a server of this machine; nil
// when that cannot be known from here.
func anybodyAt(server string) *bool {
	u, err := url.Parse(server)
	if err != nil {
		return nil
	}
	host, port := u.Hostname(), u.Port()
	if strings.EqualFold(host, "localhost") {
		host = "127.0.0.1"
	}
	addr, err := netip.ParseAddrPort(net.JoinHostPort(host, port))
	if err != nil || !addr.Addr().IsLoopback() {
		return nil
	}
	yes, err := Listening(addr)
	if err != nil {
		return nil
	}
	return &yes
}

// Look lists the containers of one name.
func (w *World) Look(ctx context.Context, name string) ([]inventory.Seen, error) {
	if name == "" {
		return nil, errors.New("an empty name is not looked at")
	}
	return w.Engine.List(ctx, name)
}

// Remove removes containers by full ID, all at once, with their volumes. One
// that is not there is a success.
func (w *World) Remove(ctx context.Context, ids []string) error {
	errs := make([]error, len(ids))
	var all sync.WaitGroup
	for i, id := range ids {
		all.Go(func() { errs[i] = w.Engine.Remove(ctx, id) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// removing is how long a container that is being removed is waited for.
const removing = 50 * time.Millisecond

// Standing returns those of the containers that still exist. One that the
// engine is just removing is waited for a little.
func (w *World) Standing(ctx context.Context, ids []string) ([]string, error) {
	for try := 0; ; try++ {
		left, err := w.existing(ctx, ids)
		if err != nil || len(left) == 0 || try == 10 {
			return left, err
		}
		select {
		case <-time.After(removing):
		case <-ctx.Done():
			return left, ctx.Err()
		}
	}
}

func (w *World) existing(ctx context.Context, ids []string) ([]string, error) {
	there := make([]bool, len(ids))
	errs := make([]error, len(ids))
	var all sync.WaitGroup
	for i, id := range ids {
		all.Go(func() { there[i], errs[i] = w.Engine.Exists(ctx, id) })
	}
	all.Wait()
	var left []string
	for i, id := range ids {
		if there[i] {
			left = append(left, id)
		}
	}
	return left, errors.Join(errs...)
}

// RemoveVolumes removes anonymous volumes that stayed behind.
func (w *World) RemoveVolumes(ctx context.Context, names []string) error {
	var errs []error
	for _, n := range names {
		errs = append(errs, w.Engine.RemoveVolume(ctx, n))
	}
	return errors.Join(errs...)
}

// Forget takes entries out of kubeconfigs, each only if it is still what is
// given. Files that no configuration names are opened as the job that named
// them may.
func (w *World) Forget(ctx context.Context, entries []inventory.SeenContext, uidOf func(file string) (uint32, bool)) ([]inventory.SeenContext, error) {
	configured, err := kubeconfig.Expand(w.Kubeconfigs())
	errs := []error{err}
	byFile := map[string][]kubeconfig.Entry{}
	for _, e := range entries {
		byFile[e.File] = append(byFile[e.File], kubeconfig.Entry{File: e.File, Name: e.Name, Server: e.Server})
	}
	var gone []inventory.SeenContext
	for file, list := range byFile {
		trust := kubeconfig.Configured()
		if !slices.Contains(configured, file) {
			uid, ok := uidOf(file)
			if !ok {
				errs = append(errs, fmt.Errorf("%s: neither configured nor named by a job", file))
				continue
			}
			trust = kubeconfig.NamedByJob(uid)
		}
		bounded, cancel := context.WithTimeout(ctx, fileLimit)
		names, err := kubeconfig.Remove(bounded, file, trust, list, kubeconfig.Options{})
		cancel()
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("%s: %w", file, err))
		}
		for _, e := range entries {
			if e.File == file && slices.Contains(names, e.Name) {
				gone = append(gone, e)
			}
		}
	}
	return gone, errors.Join(errs...)
}
