package fakeengine

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/events"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/client"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// guard ends what hangs; no test waits for it otherwise.
const guard = 20 * time.Second

// start gives an engine and the real Docker client to it.
func start(t *testing.T) (*Engine, *client.Client, context.Context) {
	t.Helper()
	dir, err := os.MkdirTemp("", "fe-") // t.TempDir() may be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	e, err := Listen(filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.NewClientWithOpts(client.WithHost(e.Host()), client.WithAPIVersionNegotiation())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), guard)
	t.Cleanup(func() {
		cancel()
		c.Close()
		if err := e.Close(); err != nil {
			t.Error(err)
		}
		os.RemoveAll(dir)
	})
	return e, c, ctx
}

func names(t *testing.T, c *client.Client, ctx context.Context, all bool, labels ...string) []string {
	t.Helper()
	args := filters.NewArgs()
	for _, l := range labels {
		args.Add("label", l)
	}
	list, err := c.ContainerList(ctx, container.ListOptions{All: all, Filters: args})
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, s := range list {
		out = append(out, strings.TrimPrefix(s.Names[0], "/"))
	}
	slices.Sort(out)
	return out
}

func TestNegotiation(t *testing.T) {
	e, c, ctx := start(t)
	e.APIVersion, e.MinAPIVersion = "1.44", "1.24"
	v, err := c.ServerVersion(ctx)
	if err != nil || v.APIVersion != "1.44" || c.ClientVersion() != "1.44" {
		t.Errorf("version %+v, %v, client speaks %s; want 1.44", v, err, c.ClientVersion())
	}
	if info, err := c.Info(ctx); err != nil || info.ServerVersion == "" {
		t.Errorf("info: %+v, %v", info, err)
	}
	for _, version := range []string{"1.45", "1.23"} {
		old, err := client.NewClientWithOpts(client.WithHost(e.Host()), client.WithVersion(version))
		if err != nil {
			t.Fatal(err)
		}
		defer old.Close()
		if _, err := old.Info(ctx); !errdefs.IsInvalidArgument(err) {
			t.Errorf("API %s: %v, want a refusal", version, err)
		}
	}
}

func TestListFilters(t *testing.T) {
	e, c, ctx := start(t)
	e.AddNode("a", "control-plane")
	e.AddNode("a", "worker")
	e.AddNode("a", "worker")
	e.AddNode("a-2", "control-plane")
	e.AddNode("", "control-plane")
	e.Add(Container{Name: "other", Labels: map[string]string{"x": "y"}})
	e.Add(Container{Name: "plain"})
	e.Set("a-worker2", "exited")
	for _, tc := range []struct {
		labels []string
		all    bool
		want   string
	}{
		{[]string{LabelCluster}, true, "-control-plane a-2-control-plane a-control-plane a-worker a-worker2"},
		{[]string{LabelCluster}, false, "-control-plane a-2-control-plane a-control-plane a-worker"},
		{[]string{LabelCluster + "=a"}, true, "a-control-plane a-worker a-worker2"},
		{[]string{LabelCluster + "="}, true, "-control-plane"},
		{[]string{LabelCluster + "=a", LabelRole + "=worker"}, true, "a-worker a-worker2"},
		{[]string{LabelCluster + "=nobody"}, true, ""},
		{nil, true, "-control-plane a-2-control-plane a-control-plane a-worker a-worker2 other plain"},
	} {
		if got := strings.Join(names(t, c, ctx, tc.all, tc.labels...), " "); got != tc.want {
			t.Errorf("labels %v, all %v: %q, want %q", tc.labels, tc.all, got, tc.want)
		}
	}
	_, err := c.ContainerList(ctx, container.ListOptions{Filters: filters.NewArgs(filters.Arg("name", "a"))})
	if !errdefs.IsInvalidArgument(err) {
		t.Errorf("a filter the fake does not know: %v, want a refusal", err)
	}
}

func TestInspectAndRemove(t *testing.T) {
	e, c, ctx := start(t)
	created := time.Date(2024, 5, 6, 7, 8, 9, 123456789, time.UTC)
	n, err := e.Add(Container{Name: "a-control-plane", Labels: map[string]string{LabelCluster: "a"}, Port: 34567, Created: created})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Add(Container{Name: n.Name}); err == nil {
		t.Error("a name was given twice")
	}
	got, err := c.ContainerInspect(ctx, n.ID)
	if err != nil {
		t.Fatal(err)
	}
	if got.ID != n.ID || got.Name != "/a-control-plane" || !got.State.Running || got.Config.Labels[LabelCluster] != "a" ||
		got.Created != created.Format(time.RFC3339Nano) || got.NetworkSettings.Ports["6443/tcp"][0].HostPort != "34567" ||
		len(got.Mounts) != 1 || got.Mounts[0].Name != n.Volumes[0] || got.Mounts[0].Destination != "/var" {
		t.Errorf("inspect: %+v", got)
	}
	for _, ref := range []string{n.ID[:12], n.Name} { // as with Docker
		if got, err := c.ContainerInspect(ctx, ref); err != nil || got.ID != n.ID {
			t.Errorf("inspect %s: %v", ref, err)
		}
	}
	if err := c.VolumeRemove(ctx, n.Volumes[0], false); !errdefs.IsConflict(err) {
		t.Errorf("removing a volume in use: %v, want a conflict", err)
	}
	if err := c.ContainerRemove(ctx, n.ID, container.RemoveOptions{}); !errdefs.IsConflict(err) {
		t.Errorf("removing a running container without force: %v, want a conflict", err)
	}
	if err := c.ContainerRemove(ctx, n.ID, container.RemoveOptions{Force: true}); err != nil {
		t.Error(err)
	}
	if v, err := c.VolumeInspect(ctx, n.Volumes[0]); err != nil || v.Name != n.Volumes[0] {
		t.Errorf("without v the volume stays: %v", err)
	}
	if err := c.VolumeRemove(ctx, n.Volumes[0], false); err != nil {
		t.Error(err)
	}
	m := e.AddNode("a", "control-plane")
	if err := c.ContainerRemove(ctx, m.ID, container.RemoveOptions{Force: true, RemoveVolumes: true}); err != nil {
		t.Error(err)
	}
	if _, err := c.VolumeInspect(ctx, m.Volumes[0]); !errdefs.IsNotFound(err) {
		t.Errorf("with v the volume goes: %v, want not found", err)
	}
	if err := c.VolumeRemove(ctx, m.Volumes[0], false); !errdefs.IsNotFound(err) {
		t.Errorf("volume: %v, want not found", err)
	}
	if _, err := c.ContainerInspect(ctx, m.ID); !errdefs.IsNotFound(err) {
		t.Errorf("inspect: %v, want not found", err)
	}
	if err := c.ContainerRemove(ctx, m.ID, container.RemoveOptions{}); !errdefs.IsNotFound(err) {
		t.Errorf("remove: %v, want not found", err)
	}
	if _, err := c.ImageInspect(ctx, "x"); !errdefs.IsNotFound(err) {
		t.Errorf("what the fake does not know: %v, want not found", err)
	}
	last := e.Requests()[len(e.Requests())-1]
	if last.Op != "" || last.Status != 404 {
		t.Errorf("the unknown call was noted as %+v", last)
	}
}

func TestEvents(t *testing.T) {
	e, c, ctx := start(t)
	sctx, cancel := context.WithCancel(ctx)
	defer cancel()
	msgs, errs := c.Events(sctx, events.ListOptions{Filters: filters.NewArgs(
		filters.Arg("type", "container"), filters.Arg("event", "create"), filters.Arg("event", "destroy"), filters.Arg("label", LabelCluster))})
	for e.Streams() == 0 && ctx.Err() == nil {
		time.Sleep(time.Millisecond)
	}
	e.Add(Container{Name: "not a node"})
	n := e.AddNode("a", "worker")
	if !e.Remove(n.ID) {
		t.Fatal("not removed")
	}
	for _, want := range []events.Action{"create", "destroy"} {
		select {
		case m := <-msgs:
			if m.Action != want || m.Actor.ID != n.ID || m.Actor.Attributes[LabelCluster] != "a" {
				t.Errorf("event %+v, want %s of %s", m, want, n.ID)
			}
		case err := <-errs:
			t.Fatal(err)
		}
	}
	e.BreakStreams()
	select {
	case m := <-msgs:
		t.Errorf("event %+v, want the end", m)
	case err := <-errs:
		if err == nil {
			t.Error("no error at the end of a broken stream")
		}
	}
}
