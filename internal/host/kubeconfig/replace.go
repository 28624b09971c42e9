package kubeconfig

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// temporary is the name of the new file until it takes its place. It is always
// the same: whoever holds the lock may remove what a killed janitor left.
func temporary(base string) string { return "." + base + temporarySuffix }

const temporarySuffix = ".janitor.tmp"

// replace puts content in the file's place, with the same owner, mode and
// extended attributes. It reports whether the new content is in place; when it
// is not, nothing has changed. The caller holds the lock.
func (o *opened) replace(ctx context.Context, content []byte) (replaced bool, err error) {
	if o.seen.links != 1 {
		return false, fmt.Errorf("%w: the file has %d names (hard links), which a new file would part", ErrRefused, o.seen.links)
	}
	// Who may not write the file may not replace it either, though the rights
	// on the folder would do: it may be read-only on purpose.
	if err := unix.Faccessat(o.dir, o.base, unix.W_OK, unix.AT_EACCESS); err != nil {
		return false, o.failed("write", err)
	}
	tmp := temporary(o.base)
	if err := unix.Unlinkat(o.dir, tmp, 0); err != nil && err != unix.ENOENT {
		return false, o.failed("make room for a new file beside", err)
	}
	fd, err := openat(o.dir, tmp, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return false, o.failed("make a new file beside", err)
	}
	f := os.NewFile(uintptr(fd), o.path+" (new)")
	defer func() {
		if f != nil {
			_ = f.Close()
		}
		if !replaced {
			err = errors.Join(err, unix.Unlinkat(o.dir, tmp, 0))
		}
	}()
	if err := o.dress(fd); err != nil {
		return false, err
	}
	if _, err := f.Write(content); err != nil {
		return false, err
	}
	if err := f.Sync(); err != nil {
		return false, err
	}
	err = f.Close()
	f = nil
	if err != nil {
		return false, err
	}
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	// Editors take no lock.
	if err := o.still(o.seen); err != nil {
		return false, err
	}
	if err := unix.Renameat(o.dir, tmp, o.dir, o.base); err != nil {
		return false, o.failed("replace", err)
	}
	return true, o.syncFolder()
}

// dress gives the new file the owner, mode and attributes of the old one, or
// fails: a kubeconfig holds credentials, so nobody may gain or lose it by this.
func (o *opened) dress(fd int) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return o.failed("stat the new", err)
	}
	if st.Uid != o.seen.uid || st.Gid != o.seen.gid {
		if err := unix.Fchown(fd, int(o.seen.uid), int(o.seen.gid)); err != nil {
			return fmt.Errorf("%w: its owner %d:%d cannot be kept: %w", ErrRefused, o.seen.uid, o.seen.gid, err)
		}
	}
	// Attributes before the mode: an access list comes with the group's bits.
	if err := copyAttributes(int(o.f.Fd()), fd); err != nil {
		return fmt.Errorf("%w: its extended attributes cannot be kept: %w", ErrRefused, err)
	}
	if err := unix.Fchmod(fd, o.seen.mode&0o7777); err != nil {
		return fmt.Errorf("%w: its mode %#o cannot be kept: %w", ErrRefused, o.seen.mode&0o7777, err)
	}
	return nil
}

// copyAttributes copies access lists, security labels and users' attributes.
// Without its access list a file of the same mode may be open to its group.
func copyAttributes(from, to int) error {
	list := make([]byte, 64<<10) // the kernel's limit (XATTR_LIST_MAX)
	n, err := unix.Flistxattr(from, list)
	if err == unix.ENOTSUP {
		return nil
	}
	if err != nil {
		return err
	}
	value, is := make([]byte, 64<<10), make([]byte, 64<<10) // XATTR_SIZE_MAX
	for attr := range strings.SplitSeq(strings.TrimSuffix(string(list[:n]), "\x00"), "\x00") {
		if attr == "" {
			continue
		}
		size, err := unix.Fgetxattr(from, attr, value)
		if err != nil {
			return fmt.Errorf("%s: %w", attr, err)
		}
		if got, err := unix.Fgetxattr(to, attr, is); err == nil && bytes.Equal(is[:got], value[:size]) {
			continue // by inheritance, which may be all an ordinary user can have
		}
		if err := unix.Fsetxattr(to, attr, value[:size], 0); err != nil {
			return fmt.Errorf("%s: %w", attr, err)
		}
	}
	return nil
}

// syncFolder makes the rename durable. A folder that may be written but not
// listed cannot be opened for it; the new name is then durable a little later.
func (n name) syncFolder() error {
	fd, err := openat(n.dir, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.EACCES) {
		return nil
	}
	if err == nil {
		err = unix.Fsync(fd)
		_ = unix.Close(fd)
	}
	if err != nil && !errors.Is(err, unix.EINVAL) { // not every file system can
		return n.failed("sync the folder of", err)
	}
	return nil
}
