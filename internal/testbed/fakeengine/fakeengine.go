// Package fakeengine is a Docker Engine for tests and demonstrations: the part
// of the Engine API that finding and removing kind nodes needs, over a unix
// socket, with faults on demand. Real Docker clients talk to it.
//
// It answers _ping, version, info, containers/json (label filters), a
// container's inspect and removal, a volume's inspect and removal, and the
// event stream; its answers and refusals are worded as those of Engine 20.10.
//
// What it does not do: it runs, creates, starts and stops nothing; containers
// appear by Add and change by Set. It has no images and no networks, refuses
// every filter but label, and keeps no history of events ("since" is ignored).
// Whatever else is asked for is answered 404 "page not found", and shows in
// Requests with that status.
package fakeengine

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"
)

// The labels kind gives its node containers.
const (
	LabelCluster = "io.x-k8s.kind.cluster"
	LabelRole    = "io.x-k8s.kind.role"
)

// Container is one container of the fake engine.
type Container struct {
	ID      string            `json:"id"` // 64 hexadecimal digits; made up when empty
	Name    string            `json:"name"`
	Labels  map[string]string `json:"labels"`
	State   string            `json:"state"`   // created, running (default), paused, exited, removing, dead
	Created time.Time         `json:"created"` // now when zero
	// Volumes are its anonymous volumes; the first is mounted at /var. One is
	// made up when nil.
	Volumes []string `json:"volumes"`
	// Port is the port on 127.0.0.1 that 6443/tcp is published at; 0: none.
	Port int `json:"port,omitempty"`
}

// Request is one call that the engine was asked.
type Request struct {
	Op     Op     `json:"op"`           // empty for what the fake does not know
	ID     string `json:"id,omitempty"` // what stood in the path: an ID, a name, a prefix of an ID
	Method string `json:"method"`
	URL    string `json:"url"`
	Status int    `json:"status"` // of the answer begun; 0: none
}

// Engine is a fake engine. Its methods may be called at any time from any
// goroutine.
type Engine struct {
	socket string
	// APIVersion and MinAPIVersion are what the engine speaks. Set them before
	// the first request; 1.41 and 1.12, as Engine 20.10.
	APIVersion, MinAPIVersion string

	mu         sync.Mutex // guards all below
	containers map[string]*Container
	volumes    map[string]bool
	faults     []*fault
	requests   []Request
	streams    map[chan event]bool
	release    chan struct{}   // closed by Release, then replaced
	server     *http.Server    // nil while down
	served     chan struct{}   // closed when server's accept loop has ended
	life       context.Context // ends with server
	handlers   sync.WaitGroup  // added to only while server is not nil
}

// Listen starts an engine without containers on a unix socket. The path must
// not exist and is at most 107 bytes long. Close ends it.
func Listen(socket string) (*Engine, error) {
	e := &Engine{
		socket: socket, APIVersion: "1.41", MinAPIVersion: "1.12",
		containers: map[string]*Container{}, volumes: map[string]bool{},
		streams: map[chan event]bool{}, release: make(chan struct{}),
	}
	return e, e.Up()
}

// Host is the engine's address as in DOCKER_HOST.
func (e *Engine) Host() string { return "unix://" + e.socket }

// Up listens again after Down, with the same containers.
func (e *Engine) Up() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.server != nil {
		return errors.New("fakeengine: it is up already")
	}
	l, err := net.Listen("unix", e.socket)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	server := &http.Server{
		Handler:     http.HandlerFunc(e.serve),
		BaseContext: func(net.Listener) context.Context { return ctx },
		ErrorLog:    log.New(io.Discard, "", 0), // dropped connections are its trade
	}
	served := make(chan struct{})
	e.server, e.served, e.life = server, served, ctx
	go func() {
		defer close(served)
		server.Serve(l) // returns when Down closes it
		cancel()
	}()
	return nil
}

// Down ends the engine as a crash does: every connection breaks, calls in
// progress get no answer, the socket is gone. What it holds stays. It returns
// when no handler runs any more; it does nothing when the engine is down.
func (e *Engine) Down() error {
	e.mu.Lock()
	server, served := e.server, e.served
	e.server = nil
	e.mu.Unlock()
	if server == nil {
		return nil
	}
	err := server.Close() // also removes the socket file
	<-served
	e.handlers.Wait()
	if rmErr := os.Remove(e.socket); !errors.Is(rmErr, os.ErrNotExist) {
		err = errors.Join(err, rmErr)
	}
	return err
}

// Close ends the engine for good.
func (e *Engine) Close() error { return e.Down() }

// Add puts a container there, with what c leaves out made up, and returns it.
// Its name must be free, as with Docker; else the error is Docker's.
func (e *Engine) Add(c Container) (Container, error) {
	if c.ID == "" {
		c.ID = random()
	}
	if c.Volumes == nil {
		c.Volumes = []string{random()}
	}
	if c.State == "" {
		c.State = "running"
	}
	if c.Created.IsZero() {
		c.Created = time.Now()
	}
	if c.Name == "" {
		c.Name = "c-" + c.ID[:12]
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, o := range e.containers {
		if o.Name == c.Name || o.ID == c.ID {
			return Container{}, errors.New(`Conflict. The container name "/` + c.Name + `" is already in use by container "` + o.ID + `".`)
		}
	}
	kept := c.clone()
	e.containers[c.ID] = &kept
	for _, v := range c.Volumes {
		e.volumes[v] = true
	}
	e.publish("create", &kept)
	if c.State == "running" {
		e.publish("start", &kept)
	}
	return c, nil
}

// AddNode puts a running kind node there, named as kind would name it, with an
// anonymous volume.
func (e *Engine) AddNode(cluster, role string) Container {
	return e.addNode(cluster, role, Container{})
}

func (e *Engine) addNode(cluster, role string, c Container) Container {
	c.Labels = map[string]string{LabelCluster: cluster, LabelRole: role}
	base := cluster + "-" + role
	for i := 1; ; i++ {
		c.Name = base
		if i > 1 {
			c.Name += strconv.Itoa(i)
		}
		if added, err := e.Add(c); err == nil { // else the name is taken, the only reason there is
			return added
		}
	}
}

// Set changes the state of a container, found by ID or name, and says whether
// there is one. "exited" and "running" come with the events die and start.
func (e *Engine) Set(ref, state string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	c, _ := e.find(ref)
	if c == nil {
		return false
	}
	c.State = state
	switch state {
	case "running":
		e.publish("start", c)
	case "exited":
		e.publish("die", c)
	}
	return true
}

// Remove takes a container and its volumes away, as somebody else would do,
// and says whether there was one.
func (e *Engine) Remove(ref string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	c, _ := e.find(ref)
	if c != nil {
		e.destroy(c, true)
	}
	return c != nil
}

// Containers are those there, oldest first.
func (e *Engine) Containers() []Container {
	e.mu.Lock()
	defer e.mu.Unlock()
	list := make([]Container, 0, len(e.containers))
	for _, c := range e.containers {
		list = append(list, c.clone())
	}
	slices.SortFunc(list, byCreated)
	return list
}

// Volumes are the names of the volumes there, sorted.
func (e *Engine) Volumes() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Sorted(maps.Keys(e.volumes))
}

// Requests are the calls so far, in the order of their arrival.
func (e *Engine) Requests() []Request {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.requests)
}

func (c *Container) clone() Container {
	k := *c
	k.Labels, k.Volumes = maps.Clone(c.Labels), slices.Clone(c.Volumes)
	return k
}

func byCreated(a, b Container) int {
	if d := a.Created.Compare(b.Created); d != 0 {
		return d
	}
	return slices.Compare([]byte(a.ID), []byte(b.ID))
}

func random() string {
	b := make([]byte, 32)
	rand.Read(b) // never fails: see crypto/rand
	return hex.EncodeToString(b)
}
