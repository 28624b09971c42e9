package reaper

import (
	"sync"
	"time"

	"github.com/testbed-janitor/janitor/internal/inventory"
)

// beat is how often a busy loop tells the watchdog that it lives.
const beat = 5 * time.Second

// overdue is how long after its deadline a step still counts as ending.
const overdue = 5 * time.Second

// watch tells the watchdog that the loop lives, for as long as each step under
// way is within its deadline. A step that ignores its deadline stops that, and
// the service is started anew.
type watch struct {
	clock    func() inventory.Stamp
	progress func()

	mu    sync.Mutex
	steps map[*inventory.Instant]struct{}
}

// step notes that something begins that may take limit; call end when it ends.
func (w *watch) step(limit time.Duration) (end func()) {
	until := w.clock().At.Add(limit + overdue)
	w.mu.Lock()
	if w.steps == nil {
		w.steps = map[*inventory.Instant]struct{}{}
	}
	w.steps[&until] = struct{}{}
	w.mu.Unlock()
	w.progress()
	return func() {
		w.mu.Lock()
		delete(w.steps, &until)
		w.mu.Unlock()
		w.beat()
	}
}

// beat calls progress unless a step is late.
func (w *watch) beat() {
	now := w.clock().At
	w.mu.Lock()
	late := false
	for until := range w.steps {
		late = late || now > *until
	}
	w.mu.Unlock()
	if !late {
		w.progress()
	}
}

// during beats until the returned function is called.
func (w *watch) during() (end func()) {
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		ticker := time.NewTicker(beat)
		defer ticker.Stop()
		for {
			select {
			case <-stop:
				return
			case <-ticker.C:
				w.beat()
			}
		}
	}()
	return func() { close(stop); <-done }
}
