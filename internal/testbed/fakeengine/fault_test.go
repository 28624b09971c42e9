package fakeengine

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/events"
	"github.com/docker/docker/client"
)

func rm(c *client.Client, ctx context.Context, id string) error {
	return c.ContainerRemove(ctx, id, container.RemoveOptions{Force: true, RemoveVolumes: true})
}

// until waits for a condition that another goroutine brings about.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(guard); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for: %s", what)
		}
	}
}

func state(e *Engine, id string) string {
	for _, c := range e.Containers() {
		if c.ID == id {
			return c.State
		}
	}
	return "gone"
}

func TestFaultStatus(t *testing.T) {
	e, c, ctx := start(t)
	a, b := e.AddNode("a", "control-plane"), e.AddNode("b", "control-plane")
	end := e.Inject(Fault{Op: OpInspect, Ref: b.Name, Status: 500, Message: "disk on fire"})
	if _, err := c.ContainerInspect(ctx, b.ID); !errdefs.IsInternal(err) || !strings.Contains(err.Error(), "disk on fire") {
		t.Errorf("inspect b: %v, want 500 disk on fire", err)
	}
	if _, err := c.ContainerInspect(ctx, a.ID); err != nil {
		t.Errorf("inspect a, which the fault is not about: %v", err)
	}
	end()
	if _, err := c.ContainerInspect(ctx, b.ID); err != nil {
		t.Errorf("the fault is over: %v", err)
	}
	e.Inject(Fault{Status: 503, Message: "no", Times: 2})
	for i, want := range []bool{true, true, false} {
		if _, err := c.ContainerList(ctx, container.ListOptions{}); (err != nil) != want {
			t.Errorf("call %d of a fault of two: %v", i, err)
		}
	}
	e.Inject(Fault{Op: OpRemove, Status: 500, Message: "no"})
	if err := rm(c, ctx, a.ID); err == nil || state(e, a.ID) != "running" {
		t.Errorf("a removal that fails: %v, the container is %s; want an error and running", err, state(e, a.ID))
	}
	e.Clear()
	if err := rm(c, ctx, a.ID); err != nil || state(e, a.ID) != "gone" {
		t.Errorf("after Clear: %v, %s", err, state(e, a.ID))
	}
}

func TestFaultHang(t *testing.T) {
	e, c, ctx := start(t)
	c.NegotiateAPIVersion(ctx)
	e.Inject(Fault{Op: OpList, Hang: true})
	left, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	if _, err := c.ContainerList(left, container.ListOptions{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a list that hangs: %v, want the client's deadline", err)
	}
	answered := make(chan error, 1)
	go func() { _, err := c.ContainerList(ctx, container.ListOptions{}); answered <- err }()
	until(t, "the second list", func() bool {
		n := 0
		for _, r := range e.Requests() {
			if r.Op == OpList {
				n++
			}
		}
		return n == 2
	})
	select {
	case err := <-answered:
		t.Errorf("answered before Release: %v", err)
	case <-time.After(30 * time.Millisecond):
	}
	for done := false; !done; e.Release() { // the call may not have got to its wait yet
		select {
		case err := <-answered:
			done = true
			if err != nil {
				t.Errorf("after Release: %v", err)
			}
		case <-time.After(time.Millisecond):
		}
	}
}

func TestFaultLateRemoval(t *testing.T) {
	e, c, ctx := start(t)
	n := e.AddNode("a", "control-plane")
	e.Inject(Fault{Op: OpRemove, Hang: true, Times: 1})
	left, leave := context.WithCancel(ctx)
	gone := make(chan error, 1)
	go func() { gone <- rm(c, left, n.ID) }()
	until(t, "removing", func() bool { return state(e, n.ID) == "removing" })
	if err := rm(c, ctx, n.ID); !errdefs.IsConflict(err) || !strings.Contains(err.Error(), "already in progress") {
		t.Errorf("a second removal: %v, want in progress", err)
	}
	leave()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Errorf("the client that left: %v", err)
	}
	time.Sleep(50 * time.Millisecond) // for the engine to see that the client left
	if got := state(e, n.ID); got != "removing" {
		t.Errorf("the container is %s, want removing: a removal outlives its client", got)
	}
	until(t, "the end of the removal", func() bool { e.Release(); return state(e, n.ID) == "gone" })

	late := e.AddNode("b", "control-plane")
	const delay = 60 * time.Millisecond
	e.Inject(Fault{Op: OpRemove, Delay: delay})
	begun := time.Now()
	if err := rm(c, ctx, late.ID); err != nil || time.Since(begun) < delay {
		t.Errorf("a late removal: %v after %v", err, time.Since(begun))
	}
}

func TestFaultBrokenAnswers(t *testing.T) {
	e, c, ctx := start(t)
	c.NegotiateAPIVersion(ctx)
	a, b := e.AddNode("a", "control-plane"), e.AddNode("b", "control-plane")
	for _, f := range []Fault{{Op: OpList, Half: true}, {Op: OpList, Drop: true}} {
		end := e.Inject(f)
		if list, err := c.ContainerList(ctx, container.ListOptions{}); err == nil {
			t.Errorf("%+v: %d containers and no error", f, len(list))
		}
		end()
	}
	end := e.Inject(Fault{Op: OpRemove, Drop: true})
	if err := rm(c, ctx, a.ID); err == nil || state(e, a.ID) != "running" {
		t.Errorf("dropped before its effect: %v, %s; want an error and running", err, state(e, a.ID))
	}
	end()
	e.Inject(Fault{Op: OpRemove, Drop: true, After: true, Times: 1})
	if err := rm(c, ctx, b.ID); err == nil || state(e, b.ID) != "gone" {
		t.Errorf("dropped after its effect: %v, %s; want an error and gone", err, state(e, b.ID))
	}
	e.Inject(Fault{Op: OpEvents, Half: true})
	_, errs := c.Events(ctx, events.ListOptions{})
	until(t, "a stream", func() bool { return e.Streams() == 1 })
	e.AddNode("c", "control-plane")
	if err := <-errs; err == nil || ctx.Err() != nil {
		t.Errorf("half an event: %v, want an error at once", err)
	}
}

func TestFaultContainers(t *testing.T) {
	e, c, ctx := start(t)
	a, b := e.AddNode("a", "control-plane"), e.AddNode("b", "control-plane")
	end := e.Inject(Fault{Op: OpList, Hide: []string{"a"}})
	if got := names(t, c, ctx, true); !slices.Equal(got, []string{"b-control-plane"}) {
		t.Errorf("a list that lacks a: %v", got)
	}
	if _, err := c.ContainerInspect(ctx, a.ID); err != nil {
		t.Errorf("a is hidden from lists only: %v", err)
	}
	end()
	e.Inject(Fault{Op: OpRemove, Ref: a.ID, Busy: true, Times: 1})
	if err := rm(c, ctx, a.ID); !errdefs.IsConflict(err) || state(e, a.ID) != "running" {
		t.Errorf("busy: %v, %s", err, state(e, a.ID))
	}
	e.Inject(Fault{Op: OpRemove, Ref: a.ID, Stays: true})
	for range 2 {
		if err := rm(c, ctx, a.ID); err != nil || state(e, a.ID) != "dead" {
			t.Errorf("one that never goes: %v, %s; want success and dead", err, state(e, a.ID))
		}
	}
	e.Inject(Fault{Op: OpRemove, KeepVolumes: true})
	if err := rm(c, ctx, b.ID); err != nil || state(e, b.ID) != "gone" || !slices.Contains(e.Volumes(), b.Volumes[0]) {
		t.Errorf("volumes kept: %v, %s, %v", err, state(e, b.ID), e.Volumes())
	}
}

func TestDownAndUp(t *testing.T) {
	e, c, ctx := start(t)
	c.NegotiateAPIVersion(ctx) // the client has a data race between this and Events
	n := e.AddNode("a", "control-plane")
	e.Inject(Fault{Op: OpRemove, Hang: true, Times: 1})
	e.Inject(Fault{Op: OpInspect, Hang: true})
	errs := make(chan error, 3)
	var all sync.WaitGroup
	all.Go(func() { errs <- rm(c, ctx, n.ID) })
	all.Go(func() { _, err := c.ContainerInspect(ctx, n.ID); errs <- err })
	all.Go(func() { _, streamErrs := c.Events(ctx, events.ListOptions{}); errs <- <-streamErrs })
	until(t, "three calls in progress", func() bool {
		var inspecting bool
		for _, r := range e.Requests() {
			inspecting = inspecting || r.Op == OpInspect
		}
		return inspecting && state(e, n.ID) == "removing" && e.Streams() == 1
	})
	if err := e.Down(); err != nil {
		t.Fatal(err)
	}
	all.Wait()
	for range 3 {
		if err := <-errs; err == nil {
			t.Error("a call survived the engine")
		}
	}
	if _, err := c.Ping(ctx); !client.IsErrConnectionFailed(err) {
		t.Errorf("ping of an engine that is down: %v", err)
	}
	if got := state(e, n.ID); got != "dead" {
		t.Errorf("a removal cut short leaves %s, want dead", got)
	}
	if err := e.Up(); err != nil {
		t.Fatal(err)
	}
	if err := rm(c, ctx, n.ID); err != nil || state(e, n.ID) != "gone" {
		t.Errorf("removed again after the restart: %v, %s", err, state(e, n.ID))
	}
}
