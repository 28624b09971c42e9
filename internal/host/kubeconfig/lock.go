package kubeconfig

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// LockedError says which lock is in the way. It is an ErrLocked.
type LockedError struct {
	// Lock is the path of the lock file.
	Lock string
	// Age is how long ago it was made, by the wall clock; never negative.
	// kind and kubectl hold a lock for milliseconds: one of minutes was left
	// behind by a process that was killed, and blocks kind and kubectl too.
	Age time.Duration
}

func (e *LockedError) Error() string {
	return fmt.Sprintf("locked: %s is there, made %s ago; remove it if no kind or kubectl is at work",
		e.Lock, e.Age.Round(time.Second))
}

// Is makes it an ErrLocked.
func (e *LockedError) Is(target error) bool { return target == ErrLocked }

// lockSuffix, O_EXCL and mode 0 are those of client-go's clientcmd/loader.go,
// which kind repeats in internal/kubeconfig/lock.go.
const lockSuffix = ".lock"

// held is a lock that was taken, with what tells it from a later one of the
// same name: inode numbers are used again at once, times of birth are not.
type held struct {
	name
	identity unix.Statx_t
}

// lock takes the locks of all names and returns what releases them. Like
// client-go it takes them in the order of their paths.
func (n names) lock(ctx context.Context, opts Options) (unlock func() error, err error) {
	var taken []*held
	unlock = func() error {
		var errs []error
		for _, h := range slices.Backward(taken) {
			errs = append(errs, h.release())
		}
		return errors.Join(errs...)
	}
	sorted := slices.SortedFunc(slices.Values(n), func(a, b name) int { return strings.Compare(a.path, b.path) })
	wait := newBackoff(opts.lockWait())
	for _, name := range sorted {
		h, err := name.take(ctx, wait, opts)
		if err != nil {
			return nil, errors.Join(err, unlock())
		}
		taken = append(taken, h)
	}
	return unlock, nil
}

func (n name) take(ctx context.Context, wait *backoff, opts Options) (*held, error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, context.Cause(ctx)
		}
		fd, err := openat(n.dir, n.base+lockSuffix, unix.O_RDONLY|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, 0)
		if err == nil {
			h := &held{name: n}
			err = unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_INO|unix.STATX_BTIME, &h.identity)
			_ = unix.Close(fd)
			if err != nil {
				return nil, errors.Join(n.failed("statx the lock of", err), unix.Unlinkat(n.dir, n.base+lockSuffix, 0))
			}
			return h, nil
		}
		if !errors.Is(err, unix.EEXIST) {
			return nil, n.failed("make the lock of", err)
		}
		// Here is the place to heal a lock that was left behind: it is known
		// to be there, and nothing has been changed yet.
		blocked := n.free(opts)
		if waitErr := wait.sleep(ctx); waitErr != nil {
			if blocked == nil { // it went while we looked, and time is up
				blocked = &LockedError{Lock: n.path + lockSuffix}
			}
			return nil, fmt.Errorf("%w (%w)", blocked, waitErr)
		}
	}
}

// release removes the lock, unless it is not ours any more.
func (h *held) release() error {
	var st unix.Statx_t
	err := unix.Statx(h.dir, h.base+lockSuffix, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_INO|unix.STATX_BTIME, &st)
	if err == unix.ENOENT {
		return nil // somebody took it for left behind
	}
	if err == nil {
		if st.Ino != h.identity.Ino || st.Btime != h.identity.Btime {
			return nil
		}
		err = unix.Unlinkat(h.dir, h.base+lockSuffix, 0)
	}
	if err != nil {
		return h.failed("remove the lock of", err)
	}
	return nil
}

// free fails with a *LockedError if the lock of one of the names is held.
func (n names) free(opts Options) error {
	for _, name := range n {
		if err := name.free(opts); err != nil {
			return err
		}
	}
	return nil
}

func (n name) free(opts Options) error {
	var st unix.Stat_t
	err := unix.Fstatat(n.dir, n.base+lockSuffix, &st, unix.AT_SYMLINK_NOFOLLOW)
	if err == unix.ENOENT {
		return nil
	}
	if err != nil {
		return n.failed("stat the lock of", err)
	}
	age := opts.now().Sub(time.Unix(st.Mtim.Unix()))
	return &LockedError{Lock: n.path + lockSuffix, Age: max(age, 0)}
}
