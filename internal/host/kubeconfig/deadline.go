package kubeconfig

import (
	"context"
	"sync"
	"time"
)

// lastGrace is how long a step may take to notice that its time is over, for
// example to remove its lock. A step that works does so at once.
const lastGrace = time.Second

// abandoned are the paths on which a step was left behind. Guarded by mu.
var abandoned = struct {
	mu    sync.Mutex
	paths map[string]int
}{paths: map[string]int{}}

// within runs f, and returns without it when ctx has ended and f has not: a
// system call on a network file system whose server is away cannot be
// interrupted. While such a call hangs, the path is not touched again, so that
// the calls of every pass do not pile up, each with a thread of its own.
// Should it come back, f sees that ctx has ended and changes nothing.
func within[T any](ctx context.Context, path string, f func(context.Context) (T, error)) (T, error) {
	var none T
	if err := ctx.Err(); err != nil {
		return none, context.Cause(ctx)
	}
	abandoned.mu.Lock()
	hangs := abandoned.paths[path] > 0
	abandoned.mu.Unlock()
	if hangs {
		return none, ErrHanging
	}
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		v, err := f(ctx)
		done <- result{v, err}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
	}
	grace := time.NewTimer(lastGrace)
	defer grace.Stop()
	select {
	case r := <-done:
		return r.value, r.err
	case <-grace.C:
	}
	abandoned.mu.Lock()
	abandoned.paths[path]++
	abandoned.mu.Unlock()
	go func() {
		<-done
		abandoned.mu.Lock()
		defer abandoned.mu.Unlock()
		if abandoned.paths[path]--; abandoned.paths[path] == 0 {
			delete(abandoned.paths, path)
		}
	}()
	return none, context.Cause(ctx)
}
