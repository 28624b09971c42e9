package fakeengine

import (
	"context"
	"slices"
	"time"
)

// Op is a call of the Engine API.
type Op string

// The calls the fake knows.
const (
	OpPing          Op = "ping"
	OpVersion       Op = "version"
	OpInfo          Op = "info"
	OpList          Op = "list"
	OpInspect       Op = "inspect"
	OpRemove        Op = "remove"
	OpVolumeInspect Op = "volume-inspect"
	OpVolumeRemove  Op = "volume-remove"
	OpEvents        Op = "events"
)

// Fault is something that goes wrong with a call. The first fault that applies
// to a call is taken. Its parts may be combined: a delay and then a failure;
// an effect whose answer is lost (After and Drop).
type Fault struct {
	Op Op `json:"op"` // empty: every call
	// Ref limits the fault to calls about one container or volume, as its full
	// ID or its name; empty: all.
	Ref string `json:"ref,omitempty"`
	// Times is after how many calls the fault is over; 0: when it is cleared.
	Times int `json:"times,omitempty"`

	// After lets the call have its effect before Delay, Hang, Half or Drop.
	After bool `json:"after,omitempty"`
	// Delay answers late. A removal that is late shows as "removing" meanwhile.
	Delay time.Duration `json:"delay,omitempty"` // nanoseconds in JSON
	// Hang answers only when Release is called; the client may leave earlier.
	Hang bool `json:"hang,omitempty"`
	// Drop breaks the connection without an answer.
	Drop bool `json:"drop,omitempty"`
	// Half breaks the connection in the middle of the answer. It needs one with
	// a body: not a ping or a removal that succeeds.
	Half bool `json:"half,omitempty"`
	// Status answers with an error, worded Message.
	Status  int    `json:"status,omitempty"`
	Message string `json:"message,omitempty"`

	// Hide leaves containers (IDs, names or cluster names) out of lists.
	Hide []string `json:"hide,omitempty"`
	// Busy refuses a removal: 409, removal already in progress.
	Busy bool `json:"busy,omitempty"`
	// Stays answers a removal with success, but the container stays, in the
	// state "dead".
	Stays bool `json:"stays,omitempty"`
	// KeepVolumes removes the container but leaves its volumes.
	KeepVolumes bool `json:"keep_volumes,omitempty"`
}

type fault struct {
	Fault
	left int
}

// Inject adds a fault and returns a function that ends it.
func (e *Engine) Inject(f Fault) (end func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	added := &fault{Fault: f, left: f.Times}
	e.faults = append(e.faults, added)
	return func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.forget(added)
	}
}

// Clear ends all faults for calls to come. Those that hang go on hanging:
// Release.
func (e *Engine) Clear() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.faults = nil
}

// Release lets all calls that hang now go on, as if they had only been late.
func (e *Engine) Release() {
	e.mu.Lock()
	defer e.mu.Unlock()
	close(e.release)
	e.release = make(chan struct{})
}

func (e *Engine) forget(f *fault) {
	e.faults = slices.DeleteFunc(e.faults, func(o *fault) bool { return o == f })
}

// match takes the fault for a call; e.mu is held.
func (e *Engine) match(op Op, ref string) Fault {
	for _, f := range e.faults {
		if f.Op != "" && f.Op != op || f.Ref != "" && !e.same(f.Ref, ref) {
			continue
		}
		if f.left > 0 {
			if f.left--; f.left == 0 {
				e.forget(f)
			}
		}
		return f.Fault
	}
	return Fault{}
}

// same says whether two references are to one container; e.mu is held.
func (e *Engine) same(a, b string) bool {
	if a == b {
		return true
	}
	ca, _ := e.find(a)
	cb, _ := e.find(b)
	return ca != nil && ca == cb
}

// wait plays the delay and the hanging of a fault. It says whether there is
// still somebody to answer.
func (e *Engine) wait(ctx context.Context, f Fault) bool {
	if f.Delay > 0 {
		timer := time.NewTimer(f.Delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return false
		}
	}
	if f.Hang {
		e.mu.Lock()
		release := e.release
		e.mu.Unlock()
		select {
		case <-release:
		case <-ctx.Done():
			return false
		}
	}
	return ctx.Err() == nil
}
