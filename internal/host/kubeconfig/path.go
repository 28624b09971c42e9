package kubeconfig

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Trust says who named a path, and so what it may lead to. The zero value
// trusts nothing.
type Trust struct {
	by  namer
	uid uint32
}

type namer int

const (
	nobody namer = iota
	operator
	job
)

// Configured is for paths of the configuration: absolute, may lead through
// links, and may belong to anybody.
func Configured() Trust { return Trust{by: operator} }

// NamedByJob is for the path of a registration made by uid. It must be
// absolute and clean, lead through no link, not into /proc, /sys or /dev, to a
// regular file that belongs to exactly uid and has no second (hard) name.
func NamedByJob(uid uint32) Trust { return Trust{by: job, uid: uid} }

// maxLinks is the kernel's own limit (path_resolution(7)).
const maxLinks = 40

// name is one name of a file: an open folder and the last part of the path.
// All work goes through the folder's descriptor, so that nothing done to the
// path afterwards leads elsewhere.
type name struct {
	dir  int
	base string
	path string // for messages, and to sort by
}

// names are the name as it was given and, where that is a link, those it leads
// through, up to the file itself. kind and kubectl lock the name they were
// given, so the lock of each of them counts.
type names []name

// file is the name of the file itself.
func (n names) file() name { return n[len(n)-1] }

func (n names) close() {
	for _, name := range n {
		_ = unix.Close(name.dir)
	}
}

// resolve opens the folders of a path. The file itself need not exist.
func resolve(path string, trust Trust) (_ names, err error) {
	if !filepath.IsAbs(path) || filepath.Clean(path) != path || path == "/" || strings.ContainsRune(path, 0) {
		return nil, fmt.Errorf("%w: the path must be absolute and without \"..\", \".\" and doubled slashes", ErrUntrusted)
	}
	switch trust.by {
	case operator:
		return follow(path)
	case job:
		for _, bad := range []string{"/proc", "/sys", "/dev"} {
			if path == bad || strings.HasPrefix(path, bad+"/") {
				return nil, fmt.Errorf("%w: it lies in %s", ErrUntrusted, bad)
			}
		}
		dir, err := openFolder(filepath.Dir(path))
		if err != nil {
			return nil, err
		}
		return names{{dir: dir, base: filepath.Base(path), path: path}}, nil
	default:
		return nil, fmt.Errorf("%w: nobody vouches for it", ErrUntrusted)
	}
}

func follow(path string) (all names, err error) {
	defer func() {
		if err != nil {
			all.close()
			all = nil
		}
	}()
	for range maxLinks {
		folder, err := filepath.EvalSymlinks(filepath.Dir(path))
		if err != nil {
			return all, err
		}
		dir, err := openFolder(folder)
		if err != nil {
			return all, err
		}
		n := name{dir: dir, base: filepath.Base(path), path: filepath.Join(folder, filepath.Base(path))}
		all = append(all, n)
		target, err := os.Readlink(n.path)
		if errors.Is(err, unix.EINVAL) || errors.Is(err, fs.ErrNotExist) {
			return all, nil // not a link; or nothing there, which the caller finds out
		}
		if err != nil {
			return all, err
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(folder, target)
		}
		path = filepath.Clean(target)
	}
	return all, &fs.PathError{Op: "open", Path: path, Err: unix.ELOOP}
}

// openFolder opens an absolute path part by part and refuses every link. That
// is what openat2 with RESOLVE_NO_SYMLINKS does in one call, but works on
// every kernel and under system call filters that do not know openat2.
func openFolder(path string) (int, error) {
	const flags = unix.O_PATH | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := openat(unix.AT_FDCWD, "/", flags, 0)
	if err != nil {
		return -1, &fs.PathError{Op: "open", Path: "/", Err: err}
	}
	at := ""
	for part := range strings.SplitSeq(strings.Trim(path, "/"), "/") {
		if part == "" { // the root itself
			break
		}
		at += "/" + part
		next, err := openat(fd, part, flags, 0)
		if errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
			var st unix.Stat_t
			if unix.Fstatat(fd, part, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK {
				_ = unix.Close(fd)
				return -1, fmt.Errorf("%w: %s is a link", ErrUntrusted, at)
			}
		}
		_ = unix.Close(fd)
		if err != nil {
			return -1, &fs.PathError{Op: "open", Path: at, Err: err}
		}
		fd = next
	}
	return fd, nil
}

func openat(dir int, base string, flags int, mode uint32) (int, error) {
	for {
		fd, err := unix.Openat(dir, base, flags, mode)
		if err != unix.EINTR { // network file systems may
			return fd, err
		}
	}
}

// snapshot is what tells one state of a file from another.
type snapshot struct {
	dev, ino     uint64
	mode         uint32
	uid, gid     uint32
	links        uint64
	size         int64
	mtime, ctime unix.Timespec
}

func snapshotOf(st *unix.Stat_t) snapshot {
	return snapshot{
		dev: uint64(st.Dev), ino: st.Ino, mode: st.Mode, uid: st.Uid, gid: st.Gid,
		links: uint64(st.Nlink), size: st.Size, mtime: st.Mtim, ctime: st.Ctim,
	}
}

// vet looks at the name without opening it: opening alone has effects on a
// device, or starts the other side of a pipe.
func (n name) vet(trust Trust) (snapshot, error) {
	var st unix.Stat_t
	if err := unix.Fstatat(n.dir, n.base, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return snapshot{}, n.failed("stat", err)
	}
	seen := snapshotOf(&st)
	return seen, seen.trusted(trust)
}

func (s snapshot) trusted(trust Trust) error {
	switch {
	case s.mode&unix.S_IFMT != unix.S_IFREG:
		return fmt.Errorf("%w: it is no regular file but a link, folder, pipe or device", ErrUntrusted)
	case s.size > MaxSize:
		return ErrTooLarge
	case trust.by != job:
		return nil
	case s.uid != trust.uid:
		return fmt.Errorf("%w: it belongs to uid %d, not to uid %d", ErrUntrusted, s.uid, trust.uid)
	case s.links != 1:
		return fmt.Errorf("%w: it has %d names (hard links)", ErrUntrusted, s.links)
	}
	return nil
}

// opened is a file that was read, and stays open for what is copied from it.
type opened struct {
	name
	f       *os.File
	content []byte
	seen    snapshot
}

func (o *opened) close() { _ = o.f.Close() }

// open reads the whole file, or fails with ErrChanging. Whether it stood still
// is for the caller to see.
func (n name) open(trust Trust) (_ *opened, err error) {
	if _, err := n.vet(trust); err != nil {
		return nil, err
	}
	fd, err := n.descriptor()
	if err != nil {
		return nil, err
	}
	o := &opened{name: n, f: os.NewFile(uintptr(fd), n.path)}
	defer func() {
		if err != nil {
			o.close()
		}
	}()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, n.failed("stat", err)
	}
	o.seen = snapshotOf(&st)
	if err := o.seen.trusted(trust); err != nil {
		return nil, err
	}
	if trust.by == job {
		if err := ordinary(fd); err != nil {
			return nil, err
		}
	}
	o.content, err = io.ReadAll(io.LimitReader(o.f, MaxSize+1))
	if err != nil {
		return nil, err
	}
	if int64(len(o.content)) != o.seen.size {
		return nil, ErrChanging
	}
	return o, nil
}

// descriptor opens the name, which may be a pipe or a link by now though it was
// a file a moment ago: O_NONBLOCK does not wait for the other side of a pipe.
func (n name) descriptor() (int, error) {
	fd, err := openat(n.dir, n.base, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ELOOP) {
		return -1, fmt.Errorf("%w: it is a link", ErrUntrusted)
	}
	if err != nil {
		return -1, n.failed("open", err)
	}
	return fd, nil
}

// still fails with ErrChanging if the name leads to something else by now.
func (n name) still(before snapshot) error {
	var st unix.Stat_t
	err := unix.Fstatat(n.dir, n.base, &st, unix.AT_SYMLINK_NOFOLLOW)
	if err != nil && err != unix.ENOENT {
		return n.failed("stat", err)
	}
	if err != nil || snapshotOf(&st) != before {
		return ErrChanging
	}
	return nil
}

// ordinary refuses the kernel's own file systems wherever they are mounted.
func ordinary(fd int) error {
	var st unix.Statfs_t
	if err := unix.Fstatfs(fd, &st); err != nil {
		return os.NewSyscallError("fstatfs", err)
	}
	switch int64(st.Type) {
	case unix.PROC_SUPER_MAGIC, unix.SYSFS_MAGIC, unix.DEVPTS_SUPER_MAGIC, unix.CGROUP_SUPER_MAGIC,
		unix.CGROUP2_SUPER_MAGIC, unix.DEBUGFS_MAGIC, unix.TRACEFS_MAGIC, unix.SECURITYFS_MAGIC:
		return fmt.Errorf("%w: it lies in a file system of the kernel", ErrUntrusted)
	}
	return nil
}

func (n name) failed(op string, err error) error {
	return &fs.PathError{Op: op, Path: n.path, Err: err}
}
