// Package kubeconfig finds the entries that kind wrote into kubeconfig files
// and removes those it is told to.
//
// It takes the lock that kind and kubectl take, edits the YAML in place so that
// comments and unknown fields stay, and replaces the file atomically with its
// owner, mode and extended attributes. It never creates a kubeconfig or its
// folder, never chooses another current context, never follows a link in a
// path that a job named, and changes nothing when it is not certain that the
// result is the old file minus the named entries.
//
// A file that cannot be read is unknown, which is not the same as empty: see
// the errors of [Read].
package kubeconfig

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"strings"
	"time"
)

// MaxSize is the size in bytes above which a file is not read. A kubeconfig
// with a hundred clusters has about half of it.
const MaxSize = 1 << 20

// prefix is what kind puts before the cluster's name to name its context,
// cluster and user (KINDClusterKey in kind's internal/kubeconfig/helpers.go).
const prefix = "kind-"

// Entry is a context that kind made: kind-NAME, whose cluster is kind-NAME.
type Entry struct {
	// File is the path it was read from, as that was given.
	File string
	// Name is the name of the cluster, without "kind-". It is never empty.
	Name string
	// Server is the URL of the cluster's API server, empty if there is none.
	Server string
}

// Context is the name of the context, the cluster and the user in the file.
func (e Entry) Context() string { return prefix + e.Name }

// Beside these, errors of the system keep their kind: errors.Is with
// fs.ErrNotExist (there is no such file, so it is known to have no entries)
// and fs.ErrPermission.
var (
	// ErrUntrusted: not a path that may be used (see [Trust]).
	ErrUntrusted = errors.New("path not trusted")
	// ErrTooLarge: larger than MaxSize.
	ErrTooLarge = fmt.Errorf("larger than %d bytes", MaxSize)
	// ErrBroken: not one YAML document with the lists of a kubeconfig.
	ErrBroken = errors.New("not a valid kubeconfig")
	// ErrLocked: its lock is held; the error is a *LockedError.
	ErrLocked = errors.New("locked")
	// ErrChanging: it changed while it was looked at. Try again later.
	ErrChanging = errors.New("changed meanwhile")
	// ErrRefused: an edit would change more than the named entries, or could
	// not keep what belongs to the file. Nothing was changed.
	ErrRefused = errors.New("edit refused")
	// ErrHanging: an earlier step on the file still hangs in the file system.
	ErrHanging = errors.New("an earlier step on this file still hangs")
)

// Options are the same for Read and Remove. The zero value is useful.
type Options struct {
	// LockWait is how long to wait for the lock, or for a writer to finish;
	// zero is two seconds. kind and kubectl hold it for milliseconds.
	LockWait time.Duration
	// Now is the wall clock, for the age of a lock; nil is time.Now.
	Now func() time.Time

	onRead, onPause func() // for tests: what others do meanwhile
}

func (o Options) lockWait() time.Duration { return cmp.Or(o.LockWait, 2*time.Second) }

func (o Options) now() time.Time {
	if o.Now == nil {
		return time.Now()
	}
	return o.Now()
}

// Read returns the entries of one file. It takes no lock, since it may have no
// right to, but believes only what it read while the lock was free and the
// file stood still; an empty or broken file, which is what a writer shows for
// a moment, only if it is the same at a second look.
//
// An error that is fs.ErrNotExist says that there are no entries. After any
// other error the entries are unknown.
func Read(ctx context.Context, path string, trust Trust, opts Options) ([]Entry, error) {
	entries, err := within(ctx, path, func(ctx context.Context) ([]Entry, error) {
		return read(ctx, path, trust, opts)
	})
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig %s: %w", path, err)
	}
	return entries, nil
}

func read(ctx context.Context, path string, trust Trust, opts Options) ([]Entry, error) {
	names, err := resolve(path, trust)
	if err != nil {
		return nil, err
	}
	defer names.close()
	wait := newBackoff(opts.lockWait())
	var before *snapshot // of a look that gave something doubtful
	for {
		content, now, err := names.look(trust, opts)
		switch {
		case errors.Is(err, ErrLocked), errors.Is(err, ErrChanging):
		case err != nil:
			return nil, err
		default:
			entries, parseErr := entriesOf(path, content)
			doubtful := parseErr != nil || len(content) == 0
			if !doubtful || before != nil && *before == now {
				return entries, parseErr
			}
			before, err = &now, ErrChanging
			wait.next = max(wait.next, doubtPause)
		}
		if opts.onPause != nil {
			opts.onPause()
		}
		if waitErr := wait.sleep(ctx); waitErr != nil {
			return nil, fmt.Errorf("%w (%w)", err, waitErr)
		}
	}
}

// look reads the file as it is while nobody holds a lock on any of its names.
// The order matters: a writer that was at work during the read either has its
// lock still, or has left another file behind than the one that was read.
func (n names) look(trust Trust, opts Options) ([]byte, snapshot, error) {
	f, err := n.file().open(trust)
	if err != nil {
		return nil, snapshot{}, err
	}
	defer f.close()
	if opts.onRead != nil {
		opts.onRead()
	}
	if err := n.free(opts); err != nil {
		return nil, snapshot{}, err
	}
	return f.content, f.seen, n.file().still(f.seen)
}

// Remove removes from the file those of the entries that still have the same
// server, and returns the names of the clusters whose entries it removed. An
// entry that has changed since, or is gone, or has no server, stays out of it.
//
// With a context go its cluster and user, unless another context uses them;
// current-context becomes empty if it named one of them. A file that does not
// exist has nothing to remove. After an error the file is as it was, except
// when names are returned as well: then it was changed, but the lock could not
// be removed or the change may not survive a power failure.
func Remove(ctx context.Context, path string, trust Trust, entries []Entry, opts Options) ([]string, error) {
	removed, err := within(ctx, path, func(ctx context.Context) ([]string, error) {
		return remove(ctx, path, trust, entries, opts)
	})
	if err != nil {
		return removed, fmt.Errorf("edit kubeconfig %s: %w", path, err)
	}
	return removed, nil
}

func remove(ctx context.Context, path string, trust Trust, entries []Entry, opts Options) (removed []string, err error) {
	names, err := resolve(path, trust)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer names.close()
	// Before the lock: where there is nothing, or nothing of ours to touch, no
	// lock file is made either.
	if _, err := names.file().vet(trust); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	unlock, err := names.lock(ctx, opts)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, unlock()) }()

	f, err := names.file().open(trust)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.close()
	content, removed, err := without(f.content, entries)
	if err != nil || len(removed) == 0 {
		return nil, err
	}
	replaced, err := f.replace(ctx, content)
	if !replaced {
		removed = nil
	}
	return removed, err
}

// backoff waits a little longer each time, with jitter so that several who
// wait for one lock do not come back together.
type backoff struct {
	next time.Duration
	ends <-chan time.Time
}

const (
	firstPause = 5 * time.Millisecond
	lastPause  = 100 * time.Millisecond
	// doubtPause parts two looks at a file that is empty or broken: far more
	// than writing a kubeconfig takes, also for those that take no lock.
	doubtPause = 100 * time.Millisecond
)

var errWaited = errors.New("gave up waiting")

func newBackoff(limit time.Duration) *backoff {
	return &backoff{next: firstPause, ends: time.After(limit)}
}

// sleep returns an error when the limit is reached or ctx has ended.
func (b *backoff) sleep(ctx context.Context) error {
	pause := b.next/2 + rand.N(b.next/2+1)
	b.next = min(2*b.next, lastPause)
	t := time.NewTimer(pause)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-b.ends:
		return errWaited
	case <-t.C:
		return nil
	}
}

// clusterName is the cluster's name in the name of a context of kind's, or "".
// An empty rest is not a name: for kind it would mean the cluster "kind".
func clusterName(context string) string {
	name, ok := strings.CutPrefix(context, prefix)
	if !ok {
		return ""
	}
	return name
}
