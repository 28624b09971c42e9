// Package engine lists and removes kind's node containers through the API of a
// Docker Engine. Its file engine.go is the only one of this program that
// imports the Docker client, whose module has a successor.
//
// It never removes a container by its name or by the beginning of an ID: both
// may belong to a newer cluster by now. It never removes networks, images, or
// volumes with a name that a person gave. It decides nothing.
//
// What a call could not find out is an error: a list that failed is never an
// empty list, and after a connection that broke the outcome is unknown.
package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/events"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/docker/client"

	"github.com/testbed-janitor/janitor/internal/inventory"
)

// The two labels kind gives its node containers; there are no others
// (pkg/cluster/internal/providers/docker in kind).
const (
	labelCluster = "io.x-k8s.kind.cluster"
	labelRole    = "io.x-k8s.kind.role"
)

// apiServerPort is where an API server listens in its node, and kind's load
// balancer in front of several.
const apiServerPort = 6443

// Limits for calls whose context has no deadline, and for the beginning of an
// event stream. An engine may accept a connection and never answer.
const (
	callLimit   = 30 * time.Second
	removeLimit = 2 * time.Minute
)

// Engine is one Docker Engine. It is safe for use by several goroutines, and
// need not be there when it is opened.
type Engine struct {
	host              string
	calling, removing time.Duration // callLimit and removeLimit

	// clients holds the client whose API version is negotiated, nil before
	// that. Taking it is the lock: unlike a mutex it can be waited for with a
	// deadline while somebody else's ping hangs.
	clients chan *client.Client
}

// Open prepares to talk to the engine at host, as in DOCKER_HOST: unix://PATH
// or tcp://HOST:PORT, with the docker command's variables for TLS. An empty
// host is that of the docker command without contexts: DOCKER_HOST, else
// unix:///var/run/docker.sock. It connects to nothing yet; the error is about
// host.
func Open(host string) (*Engine, error) {
	e := &Engine{
		host:    cmp.Or(host, os.Getenv(client.EnvOverrideHost), client.DefaultDockerHost),
		calling: callLimit, removing: removeLimit, clients: make(chan *client.Client, 1),
	}
	if scheme, rest, _ := strings.Cut(e.host, "://"); scheme != "unix" && scheme != "tcp" || rest == "" {
		return nil, fmt.Errorf("docker host %q: only unix://PATH and tcp://HOST:PORT can be used", e.host)
	}
	c, err := e.dial()
	if err != nil {
		return nil, err
	}
	_ = c.Close()
	e.clients <- nil
	return e, nil
}

// Host is the address in use, for DOCKER_HOST of commands that must talk to
// the same engine.
func (e *Engine) Host() string { return e.host }

// Local reports whether the engine publishes ports on this machine, as far as
// its address tells.
func (e *Engine) Local() bool { return strings.HasPrefix(e.host, "unix://") }

// Close ends idle connections. Calls under way go on.
func (e *Engine) Close() error {
	c := <-e.clients
	e.clients <- nil
	if c == nil {
		return nil
	}
	return c.Close()
}

func (e *Engine) dial() (*client.Client, error) {
	// The client's own lazy negotiation is not used: in v28.5.2 Events and
	// ContainerList read the version while it may be written.
	var opts []client.Opt
	if !e.Local() {
		opts = append(opts, client.WithTLSClientConfigFromEnv())
	}
	c, err := client.NewClientWithOpts(append(opts, client.WithHost(e.host))...)
	if err != nil {
		return nil, fmt.Errorf("docker host %q: %w", e.host, err)
	}
	return c, nil
}

// negotiated returns a client that speaks a version the engine knows.
func (e *Engine) negotiated(ctx context.Context) (c *client.Client, err error) {
	select {
	case c = <-e.clients:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { e.clients <- c }()
	if c != nil {
		return c, nil
	}
	fresh, err := e.dial()
	if err != nil {
		return nil, err
	}
	ping, err := fresh.Ping(ctx)
	if err == nil && ping.APIVersion == "" {
		err = errors.New("what answers there names no API version; it is no Docker Engine")
	}
	if err != nil {
		_ = fresh.Close()
		return nil, err
	}
	fresh.NegotiateAPIVersionPing(ping)
	c = fresh
	return c, nil
}

// do makes a call. If the engine was exchanged for one that does not know the
// negotiated version any more, that is negotiated anew and the call repeated,
// which is safe: it was refused before it had any effect.
func (e *Engine) do(ctx context.Context, limit time.Duration, what string, call func(context.Context, *client.Client) error) error {
	if _, ok := ctx.Deadline(); !ok && limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	for again := true; ; again = false {
		c, err := e.negotiated(ctx)
		if err == nil {
			err = call(ctx, c)
		}
		if !versionRefused(err) || !again {
			return e.explain(what, err)
		}
		e.drop(c)
	}
}

// drop forgets a client whose version the engine refused.
func (e *Engine) drop(c *client.Client) {
	now := <-e.clients
	if now == c {
		now = nil
		_ = c.Close()
	}
	e.clients <- now
}

// Version is the engine's version, such as 20.10.24.
func (e *Engine) Version(ctx context.Context) (version string, err error) {
	err = e.do(ctx, e.calling, "ask for the version", func(ctx context.Context, c *client.Client) error {
		v, err := c.ServerVersion(ctx)
		version = v.Version
		return err
	})
	return version, err
}

// List returns the containers with kind's cluster label, in whatever state,
// sorted by ID; with a name those of that very cluster. A container whose label
// is empty has the cluster "", and must never be acted on: for kind that means
// the cluster "kind".
func (e *Engine) List(ctx context.Context, name string) ([]inventory.Seen, error) {
	filter := labelCluster
	if name != "" {
		filter += "=" + name
	}
	var list []container.Summary
	err := e.do(ctx, e.calling, "list containers", func(ctx context.Context, c *client.Client) (err error) {
		list, err = c.ContainerList(ctx, container.ListOptions{All: true, Filters: filters.NewArgs(filters.Arg("label", filter))})
		if err == nil && list == nil {
			err = errors.New("the answer is no list")
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	seen := make([]inventory.Seen, 0, len(list))
	for _, c := range list {
		cluster, labelled := c.Labels[labelCluster]
		if !labelled || name != "" && cluster != name {
			continue // an engine that reads the filter in another way
		}
		if !fullID(c.ID) {
			return nil, e.explain("list containers", fmt.Errorf("%.80q is no container ID", c.ID))
		}
		seen = append(seen, seenOf(c, cluster))
	}
	slices.SortFunc(seen, func(a, b inventory.Seen) int { return cmp.Compare(a.ID, b.ID) })
	return seen, nil
}

func seenOf(c container.Summary, cluster string) inventory.Seen {
	s := inventory.Seen{
		ID: c.ID, Cluster: cluster, Role: c.Labels[labelRole], State: c.State, Created: time.Unix(c.Created, 0).UTC(),
	}
	for _, n := range c.Names {
		// Names given by links have a second slash.
		if n = strings.TrimPrefix(n, "/"); s.Name == "" && !strings.Contains(n, "/") {
			s.Name = n
		}
	}
	for _, p := range c.Ports {
		// The address as it is published is what kind writes into kubeconfigs,
		// also 0.0.0.0 (GetAPIServerEndpoint of its docker provider).
		if _, err := netip.ParseAddr(p.IP); err == nil && p.PrivatePort == apiServerPort && p.Type == "tcp" && p.PublicPort != 0 {
			s.Servers = append(s.Servers, "https://"+net.JoinHostPort(p.IP, strconv.Itoa(int(p.PublicPort))))
		}
	}
	for _, m := range c.Mounts {
		if m.Type == mount.TypeVolume && fullID(m.Name) {
			s.Volumes = append(s.Volumes, m.Name)
		}
	}
	slices.Sort(s.Servers)
	s.Servers = slices.Compact(s.Servers)
	slices.Sort(s.Volumes)
	s.Volumes = slices.Compact(s.Volumes)
	return s
}

// Remove kills and removes a container with its anonymous volumes. The id must
// be the full one. No error says that the container was removed, that there was
// none, or that somebody's removal of it is under way; whether it is gone is
// for [Engine.Exists] to say. After an error that is unknown.
func (e *Engine) Remove(ctx context.Context, id string) error {
	if !fullID(id) {
		return fmt.Errorf("remove container %.80q: refused, not a full ID of 64 hexadecimal digits", id)
	}
	return e.do(ctx, e.removing, "remove container "+id[:12], func(ctx context.Context, c *client.Client) error {
		err := c.ContainerRemove(ctx, id, container.RemoveOptions{Force: true, RemoveVolumes: true})
		if noSuch("container", err) || inProgress(err) {
			return nil
		}
		return err
	})
}

// Exists reports whether the engine knows the container with this full ID, in
// whatever state.
func (e *Engine) Exists(ctx context.Context, id string) (exists bool, err error) {
	if !fullID(id) {
		return false, fmt.Errorf("look for container %.80q: refused, not a full ID of 64 hexadecimal digits", id)
	}
	err = e.do(ctx, e.calling, "look for container "+id[:12], func(ctx context.Context, c *client.Client) error {
		got, err := c.ContainerInspect(ctx, id)
		switch {
		case noSuch("container", err):
			return nil
		case err != nil:
			return err
		case got.ContainerJSONBase == nil || !fullID(got.ID):
			return errors.New("the answer is no container")
		}
		exists = got.ID == id // else another one has this ID for a name
		return nil
	})
	return exists, err
}

// RemoveVolume removes an anonymous volume, which is one whose name is 64
// hexadecimal digits. That there is none is no error, nor that a container uses
// it: then it was not left behind, and stays.
func (e *Engine) RemoveVolume(ctx context.Context, name string) error {
	if !fullID(name) {
		return fmt.Errorf("remove volume %.80q: refused, not the name of an anonymous volume", name)
	}
	return e.do(ctx, e.calling, "remove volume "+name[:12], func(ctx context.Context, c *client.Client) error {
		err := c.VolumeRemove(ctx, name, false)
		if noSuch("volume", err) || inUse(err) {
			return nil
		}
		return err
	})
}

// Events calls changed when containers with kind's label are created, start,
// die or are destroyed, and once as soon as it listens, for what happened
// before. It blocks until the stream ends and always returns an error, that of
// ctx if it has ended: wait a little and call it again. Events get lost;
// they are a hint to look earlier and nothing else. changed must not block.
func (e *Engine) Events(ctx context.Context, changed func()) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	return e.do(ctx, 0, "listen to events", func(ctx context.Context, c *client.Client) error {
		// The stream has no deadline, but its beginning has.
		late := time.AfterFunc(e.calling, func() { cancel(context.DeadlineExceeded) })
		messages, failed := c.Events(ctx, events.ListOptions{Filters: filters.NewArgs(
			filters.Arg("type", string(events.ContainerEventType)), filters.Arg("label", labelCluster),
			filters.Arg("event", string(events.ActionCreate)), filters.Arg("event", string(events.ActionStart)),
			filters.Arg("event", string(events.ActionDie)), filters.Arg("event", string(events.ActionDestroy)),
		)})
		late.Stop()
		select {
		case err := <-failed:
			return ended(ctx, err)
		default:
			changed()
		}
		for {
			select {
			case <-messages:
				changed()
			case err := <-failed:
				return ended(ctx, err)
			}
		}
	})
}

// ended is why a stream has ended; never nil.
func ended(ctx context.Context, err error) error {
	return cmp.Or(context.Cause(ctx), err, errors.New("the stream has ended"))
}
