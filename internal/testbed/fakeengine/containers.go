package fakeengine

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// find resolves a reference as Docker does: a full ID, a name, or the unique
// beginning of an ID. Several for one beginning are an error. e.mu is held.
func (e *Engine) find(ref string) (*Container, reply) {
	if c := e.containers[ref]; c != nil {
		return c, reply{}
	}
	var found []*Container
	for id, c := range e.containers {
		if c.Name == strings.TrimPrefix(ref, "/") {
			return c, reply{}
		}
		if ref != "" && strings.HasPrefix(id, ref) {
			found = append(found, c)
		}
	}
	switch len(found) {
	case 0:
		return nil, refuse(http.StatusNotFound, "No such container: %s", ref)
	case 1:
		return found[0], reply{}
	}
	return nil, refuse(http.StatusBadRequest, "Multiple IDs found with provided prefix: %s", ref)
}

// readFilters reads the filters parameter: name -> values, in the map form
// ({"label":{"a=b":true}}) or the old list form. Filters that are not in known
// are refused, rather than ignored.
func readFilters(q url.Values, known ...string) (map[string][]string, reply) {
	out := map[string][]string{}
	text := q.Get("filters")
	if text == "" {
		return out, reply{}
	}
	var sets map[string]map[string]bool
	if err := json.Unmarshal([]byte(text), &sets); err == nil {
		for name, set := range sets {
			out[name] = slices.Sorted(maps.Keys(set))
		}
	} else if err := json.Unmarshal([]byte(text), &out); err != nil {
		return nil, refuse(http.StatusBadRequest, "invalid filter: %v", err)
	}
	for name := range out {
		if !slices.Contains(known, name) {
			return nil, refuse(http.StatusBadRequest, "the fake engine does not know the filter %q", name)
		}
	}
	return out, reply{}
}

// hasLabels says whether all wanted labels ("key" or "key=value") are there.
func hasLabels(labels map[string]string, wanted []string) bool {
	for _, w := range wanted {
		key, value, exact := strings.Cut(w, "=")
		got, ok := labels[key]
		if !ok || exact && got != value {
			return false
		}
	}
	return true
}

func (e *Engine) list(r *http.Request, _ string, f Fault) reply {
	q := r.URL.Query()
	for name := range q {
		if name != "all" && name != "filters" {
			return refuse(http.StatusBadRequest, "the fake engine does not know the parameter %q", name)
		}
	}
	want, bad := readFilters(q, "label")
	if bad.status != 0 {
		return bad
	}
	all, _ := strconv.ParseBool(q.Get("all"))
	e.mu.Lock()
	defer e.mu.Unlock()
	rows := []any{} // never null
	cs := slices.SortedFunc(maps.Values(e.containers), func(a, b *Container) int { return byCreated(*b, *a) })
	for _, c := range cs {
		hidden := slices.ContainsFunc(f.Hide, func(h string) bool { return h == c.ID || h == c.Name || h == c.Labels[LabelCluster] })
		if hidden || !all && c.State != "running" && c.State != "paused" || !hasLabels(c.Labels, want["label"]) {
			continue
		}
		ports := []any{}
		if c.Port != 0 && c.State == "running" {
			ports = append(ports, map[string]any{"IP": "127.0.0.1", "PrivatePort": 6443, "PublicPort": c.Port, "Type": "tcp"})
		}
		rows = append(rows, map[string]any{
			"Id": c.ID, "Names": []string{"/" + c.Name}, "Image": "fake", "ImageID": "sha256:fake", "Command": "fake",
			"Created": c.Created.Unix(), "Ports": ports, "Labels": labels(c), "State": c.State, "Status": c.State,
			"HostConfig": map[string]any{"NetworkMode": "kind"}, "Mounts": c.mounts(),
		})
	}
	return reply{status: http.StatusOK, body: rows}
}

func (e *Engine) inspect(_ *http.Request, ref string, _ Fault) reply {
	e.mu.Lock()
	defer e.mu.Unlock()
	c, bad := e.find(ref)
	if c == nil {
		return bad
	}
	ports := map[string]any{}
	if c.Port != 0 && c.State == "running" {
		ports["6443/tcp"] = []any{map[string]any{"HostIp": "127.0.0.1", "HostPort": strconv.Itoa(c.Port)}}
	}
	return reply{status: http.StatusOK, body: map[string]any{
		"Id": c.ID, "Name": "/" + c.Name, "Created": c.Created.UTC().Format(time.RFC3339Nano), "Image": "sha256:fake",
		"State": map[string]any{
			"Status": c.State, "Running": c.State == "running" || c.State == "paused", "Paused": c.State == "paused", "Dead": c.State == "dead",
		},
		"Config":          map[string]any{"Labels": labels(c), "Image": "fake", "Hostname": c.Name},
		"HostConfig":      map[string]any{"NetworkMode": "kind", "RestartPolicy": map[string]any{"Name": "on-failure", "MaximumRetryCount": 1}},
		"Mounts":          c.mounts(),
		"NetworkSettings": map[string]any{"Ports": ports},
	}}
}

func labels(c *Container) map[string]string {
	if c.Labels == nil {
		return map[string]string{}
	}
	return maps.Clone(c.Labels)
}

func (c *Container) mounts() []any {
	mounts := []any{}
	for i, v := range c.Volumes {
		at := "/var"
		if i > 0 {
			at += strconv.Itoa(i + 1)
		}
		mounts = append(mounts, map[string]any{
			"Type": "volume", "Name": v, "Source": "/fake/volumes/" + v + "/_data", "Destination": at, "Driver": "local", "RW": true,
		})
	}
	return mounts
}

// removing marks a container whose removal takes time. The returned function
// ends that: the container is as before, or "dead" when the engine went down
// in the middle.
func (e *Engine) removing(ref string) (undo func(), bad reply) {
	e.mu.Lock()
	defer e.mu.Unlock()
	c, bad := e.find(ref)
	if c == nil {
		return nil, bad
	}
	if c.State == "removing" {
		return nil, inProgress(c)
	}
	life, before := e.life, c.State
	c.State = "removing"
	return func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		if c.State = before; life.Err() != nil {
			c.State = "dead"
		}
	}, reply{}
}

func inProgress(c *Container) reply {
	return refuse(http.StatusConflict, "removal of container %s is already in progress", c.ID)
}

func (e *Engine) remove(r *http.Request, ref string, f Fault) reply {
	q := r.URL.Query()
	force, _ := strconv.ParseBool(q.Get("force"))
	volumes, _ := strconv.ParseBool(q.Get("v"))
	e.mu.Lock()
	defer e.mu.Unlock()
	c, bad := e.find(ref)
	switch {
	case c == nil:
		return bad
	case f.Busy, c.State == "removing":
		return inProgress(c)
	case !force && c.State == "running":
		return refuse(http.StatusConflict, "You cannot remove a running container %s. Stop the container before attempting removal or force remove", c.ID)
	case f.Stays:
		c.State = "dead"
	default:
		e.destroy(c, volumes && !f.KeepVolumes)
	}
	return reply{status: http.StatusNoContent}
}

// destroy takes a container away, with the events of Docker; e.mu is held.
func (e *Engine) destroy(c *Container, volumes bool) {
	if c.State == "running" || c.State == "paused" {
		e.publish("kill", c)
		e.publish("die", c)
	}
	delete(e.containers, c.ID)
	if volumes {
		for _, v := range c.Volumes {
			delete(e.volumes, v)
		}
	}
	e.publish("destroy", c)
}

func (e *Engine) volume(_ *http.Request, name string, _ Fault) reply {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.volumes[name] {
		return refuse(http.StatusNotFound, "get %s: no such volume", name)
	}
	return reply{status: http.StatusOK, body: map[string]any{
		"Name": name, "Driver": "local", "Scope": "local", "Mountpoint": "/fake/volumes/" + name + "/_data",
		"Labels": nil, "Options": nil, "CreatedAt": "2024-01-01T00:00:00Z",
	}}
}

func (e *Engine) removeVolume(_ *http.Request, name string, _ Fault) reply {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.volumes[name] {
		return refuse(http.StatusNotFound, "get %s: no such volume", name)
	}
	for _, c := range e.containers {
		if slices.Contains(c.Volumes, name) {
			return refuse(http.StatusConflict, "remove %s: volume is in use - [%s]", name, c.ID)
		}
	}
	delete(e.volumes, name)
	return reply{status: http.StatusNoContent}
}
