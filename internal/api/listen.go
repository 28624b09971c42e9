package api

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/activation"
)

const (
	// maxSocketPath is what fits into sun_path of unix(7), without its final NUL.
	maxSocketPath = 107
	socketMode    = 0o660
	// dialTime bounds the question whether somebody answers on a socket.
	dialTime = time.Second
)

// Listen returns the socket that systemd passed to this process, or else makes
// one at path, with mode 0660. A socket on which nobody listens any more is
// replaced; anything else that has the path is refused and left alone. Close
// removes a socket that was made here, and only that.
func Listen(path string) (net.Listener, error) {
	// From here on no child believes that these sockets are for it.
	passed, err := activation.Listeners()
	if err != nil {
		return nil, fmt.Errorf("take the socket that systemd passed: %w", err)
	}
	if len(passed) > 0 {
		return inherited(passed)
	}
	return listenAt(path)
}

func inherited(passed []net.Listener) (net.Listener, error) {
	if len(passed) == 1 {
		if l, ok := passed[0].(*net.UnixListener); ok {
			return l, nil // Close leaves the file: it is systemd's
		}
	}
	for _, l := range passed {
		if l != nil {
			l.Close()
		}
	}
	return nil, fmt.Errorf("systemd passed %d sockets; exactly one is needed, with ListenStream= and a path", len(passed))
}

func listenAt(path string) (net.Listener, error) {
	switch {
	case !filepath.IsAbs(path):
		return nil, fmt.Errorf("socket %q: give an absolute path", path)
	case len(path) > maxSocketPath:
		return nil, fmt.Errorf("socket %q: the path has %d bytes; unix sockets take at most %d; choose a shorter one", path, len(path), maxSocketPath)
	}
	if err := clearStale(path); err != nil {
		return nil, err
	}
	u, err := bind(path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, socketMode); err != nil { // what the umask took
		_ = u.Close()
		os.Remove(path)
		return nil, fmt.Errorf("socket %q: %w", path, err)
	}
	made, err := os.Lstat(path)
	if err != nil {
		_ = u.Close()
		return nil, fmt.Errorf("socket %q: %w", path, err)
	}
	return &ownSocket{UnixListener: u, path: path, made: made}, nil
}

// bind makes the socket file, with what the umask leaves of its mode.
func bind(path string) (*net.UnixListener, error) {
	lc := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		// The file gets the mode that the socket has when it is bound, less the
		// umask: so at no moment may more connect than in the end.
		var err error
		if e := raw.Control(func(fd uintptr) { err = syscall.Fchmod(int(fd), socketMode) }); e != nil {
			return e
		}
		return err
	}}
	l, err := lc.Listen(context.Background(), "unix", path)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("socket %q: its folder does not exist; create it, or choose another path", path)
		}
		return nil, fmt.Errorf("socket %q: %w", path, err)
	}
	u := l.(*net.UnixListener)
	u.SetUnlinkOnClose(false)
	return u, nil
}

// clearStale removes a socket that its process left behind.
func clearStale(path string) error {
	is, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("socket %q: %w", path, err)
	case is.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("socket %q: something that is not a socket is there; move it away, or choose another path", path)
	}
	conn, err := net.DialTimeout("unix", path, dialTime)
	switch {
	case err == nil:
		conn.Close()
		return fmt.Errorf("socket %q: another process answers there; is a janitor running already?", path)
	case errors.Is(err, syscall.ENOENT):
		return nil
	case !errors.Is(err, syscall.ECONNREFUSED): // not allowed, or too busy to answer: alive, perhaps
		return fmt.Errorf("socket %q is there, and whether somebody listens cannot be told: %w", path, err)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("socket %q: remove what a process left behind: %w", path, err)
	}
	return nil
}

// ownSocket removes its file when it is closed, unless another has taken the
// path meanwhile.
type ownSocket struct {
	*net.UnixListener
	path string
	made fs.FileInfo
	once sync.Once
}

func (l *ownSocket) Close() error {
	l.once.Do(func() {
		if is, err := os.Lstat(l.path); err == nil && os.SameFile(is, l.made) {
			os.Remove(l.path)
		}
	})
	return l.UnixListener.Close()
}
