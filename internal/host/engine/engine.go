// Package engine is the Docker engine of this testbed. Its one file is the only
// one of the program that imports the Docker client.
//
// It removes by full container ID and never by name, since a name may belong to
// a newer cluster by now. A list that failed is an error and never an empty
// list.
package engine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/events"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/docker/client"

	"github.com/testbed-janitor/janitor/internal/inventory"
)

// Labels that kind puts on its node containers.
const (
	labelCluster = "io.x-k8s.kind.cluster"
	labelRole    = "io.x-k8s.kind.role"
)

// apiServerPort is where a node, or the load balancer, serves the API.
const apiServerPort = 6443

var fullID = regexp.MustCompile(`^[0-9a-f]{64}$`)

// Engine speaks to one Docker engine. Every call obeys its context's deadline.
type Engine struct {
	api *client.Client
	neg sync.Mutex // guards the negotiation, which races with Events in the client
	ok  bool
}

// Open prepares to speak to the engine at host, or where DOCKER_HOST says, as
// the docker command does, when host is empty. No engine needs to be there yet.
func Open(host string) (*Engine, error) {
	opts := []client.Opt{client.FromEnv}
	if host != "" {
		opts = []client.Opt{client.WithHost(host)}
	}
	api, err := client.NewClientWithOpts(append(opts, client.WithAPIVersionNegotiation())...)
	if err != nil {
		return nil, fmt.Errorf("docker_host %q: %w", host, err)
	}
	return &Engine{api: api}, nil
}

// Close lets go of idle connections.
func (e *Engine) Close() error { return e.api.Close() }

// Host is the engine's address.
func (e *Engine) Host() string { return e.api.DaemonHost() }

// negotiate agrees on an API version, once an engine answers.
func (e *Engine) negotiate(ctx context.Context) error {
	e.neg.Lock()
	defer e.neg.Unlock()
	if e.ok {
		return nil
	}
	ping, err := e.api.Ping(ctx)
	if err != nil {
		return e.explain(err)
	}
	e.api.NegotiateAPIVersionPing(ping)
	e.ok = true
	return nil
}

// explain says what to do about an engine that cannot be reached.
func (e *Engine) explain(err error) error {
	var op *net.OpError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrPermission) || errors.As(err, &op) && errors.Is(op.Err, fs.ErrPermission):
		return fmt.Errorf("no permission to use the Docker engine at %s; add the service's account to the group that owns the socket (docker): %w", e.Host(), err)
	}
	return fmt.Errorf("the Docker engine at %s: %w", e.Host(), err)
}

// List returns the containers that carry kind's cluster label: all, or those of
// one name. The label is compared whole.
func (e *Engine) List(ctx context.Context, name string) ([]inventory.Seen, error) {
	if err := e.negotiate(ctx); err != nil {
		return nil, err
	}
	label := labelCluster
	if name != "" {
		label += "=" + name
	}
	list, err := e.api.ContainerList(ctx, container.ListOptions{All: true, Filters: filters.NewArgs(filters.Arg("label", label))})
	if err != nil {
		return nil, e.explain(err)
	}
	out := make([]inventory.Seen, 0, len(list))
	for _, c := range list {
		cluster, ok := c.Labels[labelCluster]
		if !ok || name != "" && cluster != name {
			continue
		}
		if !fullID.MatchString(c.ID) {
			return nil, fmt.Errorf("the Docker engine at %s listed a container with the ID %q: nothing is concluded from such a list", e.Host(), c.ID)
		}
		s := inventory.Seen{ID: c.ID, Cluster: cluster, Role: c.Labels[labelRole], State: string(c.State), Created: time.Unix(c.Created, 0).UTC()}
		if len(c.Names) > 0 {
			s.Name = c.Names[0][min(1, len(c.Names[0])):] // the engine puts a slash before it
		}
		s.Servers = servers(c.Ports)
		for _, m := range c.Mounts {
			if m.Type == mount.TypeVolume && fullID.MatchString(m.Name) {
				s.Volumes = append(s.Volumes, m.Name)
			}
		}
		slices.Sort(s.Volumes)
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b inventory.Seen) int {
		if a.Cluster != b.Cluster {
			return compare(a.Cluster, b.Cluster)
		}
		return compare(a.ID, b.ID)
	})
	return out, nil
}

func compare(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// servers are the URLs under which kubeconfigs know the API server behind the
// published ports.
func servers(ports []container.Port) []string {
	var out []string
	for _, p := range ports {
		if p.PrivatePort != apiServerPort || p.PublicPort == 0 || p.Type != "tcp" {
			continue
		}
		host := p.IP
		if a, err := netip.ParseAddr(host); err != nil || a.IsUnspecified() {
			continue // kind publishes on one address and writes that one
		}
		out = append(out, "https://"+net.JoinHostPort(host, strconv.Itoa(int(p.PublicPort))))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Remove removes one container and its anonymous volumes. That it is not there,
// or is being removed already, is no error; Exists tells how it came out.
func (e *Engine) Remove(ctx context.Context, id string) error {
	if !fullID.MatchString(id) {
		return fmt.Errorf("not removed: %q is no full container ID", id)
	}
	if err := e.negotiate(ctx); err != nil {
		return err
	}
	err := e.api.ContainerRemove(ctx, id, container.RemoveOptions{Force: true, RemoveVolumes: true})
	if errdefs.IsNotFound(err) || errdefs.IsConflict(err) {
		return nil
	}
	return e.explain(err)
}

// Exists reports whether a container of that full ID still exists.
func (e *Engine) Exists(ctx context.Context, id string) (bool, error) {
	if !fullID.MatchString(id) {
		return false, fmt.Errorf("%q is no full container ID", id)
	}
	if err := e.negotiate(ctx); err != nil {
		return false, err
	}
	_, err := e.api.ContainerInspect(ctx, id)
	if errdefs.IsNotFound(err) {
		return false, nil
	}
	return true, e.explain(err)
}

// RemoveVolume removes an anonymous volume. One that is not there, or that
// somebody uses, is no error.
func (e *Engine) RemoveVolume(ctx context.Context, name string) error {
	if !fullID.MatchString(name) {
		return fmt.Errorf("not removed: %q is no anonymous volume", name)
	}
	if err := e.negotiate(ctx); err != nil {
		return err
	}
	err := e.api.VolumeRemove(ctx, name, false)
	if errdefs.IsNotFound(err) || errdefs.IsConflict(err) {
		return nil
	}
	return e.explain(err)
}

// Version is the engine's version.
func (e *Engine) Version(ctx context.Context) (string, error) {
	if err := e.negotiate(ctx); err != nil {
		return "", err
	}
	v, err := e.api.ServerVersion(ctx)
	return v.Version, e.explain(err)
}

// Events calls changed when a kind container comes or goes, until the stream
// breaks or ctx ends. Events are lossy: a hint to look, and no more.
func (e *Engine) Events(ctx context.Context, changed func()) error {
	if err := e.negotiate(ctx); err != nil {
		return err
	}
	messages, broken := e.api.Events(ctx, events.ListOptions{Filters: filters.NewArgs(
		filters.Arg("type", string(events.ContainerEventType)), filters.Arg("label", labelCluster),
		filters.Arg("event", "create"), filters.Arg("event", "start"), filters.Arg("event", "die"), filters.Arg("event", "destroy"))})
	for {
		select {
		case <-messages:
			changed()
		case err := <-broken:
			return e.explain(err)
		}
	}
}
