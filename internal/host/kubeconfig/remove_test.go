package kubeconfig

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestRemove(t *testing.T) {
	path := put(t, config("a", "b", "c"))
	removed, err := Remove(t.Context(), path, NamedByJob(uint32(os.Getuid())), []Entry{
		entry("c"), entry("a"), {Name: "b", Server: "https://another"}, entry("none"), {Name: "b"},
	}, quick)
	if err != nil || !slices.Equal(removed, []string{"a", "c"}) {
		t.Errorf("removed %q, %v", removed, err)
	}
	if got := content(t, path); got != config("b") {
		t.Errorf("left:\n%s", got)
	}
	onlyHas(t, filepath.Dir(path), "config")
}

// What is not to be changed is not written, and nothing is made.
func TestRemoveNothing(t *testing.T) {
	path := put(t, config("a"))
	before, err := os.Stat(path)
	must(t, err)
	removed, err := Remove(t.Context(), path, Configured(), []Entry{{Name: "a", Server: "https://b"}}, quick)
	after, statErr := os.Stat(path)
	must(t, statErr)
	if err != nil || removed != nil || !os.SameFile(before, after) || !after.ModTime().Equal(before.ModTime()) {
		t.Errorf("removed %q, %v, %v", removed, err, after)
	}
	empty := put(t, "")
	if removed, err := Remove(t.Context(), empty, Configured(), []Entry{entry("a")}, quick); err != nil || removed != nil {
		t.Errorf("an empty file: %q, %v", removed, err)
	}
	dir := t.TempDir()
	for _, missing := range []string{dir + "/config", dir + "/.kube/config"} {
		if removed, err := Remove(t.Context(), missing, Configured(), []Entry{entry("a")}, quick); err != nil || removed != nil {
			t.Errorf("a missing file: %q, %v", removed, err)
		}
	}
	onlyHas(t, dir)
}

// An error leaves the file as it was, and no lock.
func TestRemoveErrors(t *testing.T) {
	for text, want := range map[string]error{
		"clusters: [": ErrBroken,
		content(t, "testdata/edit/anchor-inside.yaml"): ErrRefused,
		"x: " + strings.Repeat("y", MaxSize):           ErrTooLarge,
	} {
		path := put(t, text)
		removed, err := Remove(t.Context(), path, Configured(), []Entry{{Name: "a", Server: serverA}}, quick)
		if !errors.Is(err, want) || removed != nil || content(t, path) != text {
			t.Errorf("removed %q, %v, want %v", removed, err, want)
		}
		onlyHas(t, filepath.Dir(path), "config")
	}
}

func TestRemoveKeepsOwnerModeAndAttributes(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root, to make a file that belongs to somebody else")
	}
	plain := put(t, config("a", "b"))
	must(t, os.Chmod(plain, 0o664))
	if _, err := Remove(t.Context(), plain, Configured(), []Entry{entry("a")}, quick); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat(plain); err != nil || info.Mode() != 0o664 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}

	path := put(t, config("a", "b"))
	must(t, os.Chown(path, ordinaryUID, ordinaryUID+1))
	must(t, os.Chmod(path, 0o640))
	must(t, unix.Setxattr(path, "user.note", []byte("mine"), 0))
	// An access list: owner rw, uid 1 r, group nothing, mask r, others nothing.
	acl := binary.LittleEndian.AppendUint32(nil, 2)
	for _, e := range [][3]uint32{{1, 6, ^uint32(0)}, {2, 4, 1}, {4, 0, ^uint32(0)}, {16, 4, ^uint32(0)}, {32, 0, ^uint32(0)}} {
		acl = binary.LittleEndian.AppendUint16(acl, uint16(e[0]))
		acl = binary.LittleEndian.AppendUint16(acl, uint16(e[1]))
		acl = binary.LittleEndian.AppendUint32(acl, e[2])
	}
	if err := unix.Setxattr(path, "system.posix_acl_access", acl, 0); err != nil && err != unix.ENOTSUP {
		t.Fatal(err)
	} else if err != nil {
		acl = nil
	}
	old := unix.Umask(0o077)
	removed, err := Remove(t.Context(), path, NamedByJob(ordinaryUID), []Entry{entry("a")}, quick)
	unix.Umask(old)
	if err != nil || !slices.Equal(removed, []string{"a"}) {
		t.Fatalf("removed %q, %v", removed, err)
	}
	var st unix.Stat_t
	must(t, unix.Stat(path, &st))
	if st.Uid != ordinaryUID || st.Gid != ordinaryUID+1 || st.Mode&0o7777 != 0o640 {
		t.Errorf("owner %d:%d, mode %#o", st.Uid, st.Gid, st.Mode&0o7777)
	}
	for attr, want := range map[string][]byte{"user.note": []byte("mine"), "system.posix_acl_access": acl} {
		got := make([]byte, 200)
		n, err := unix.Getxattr(path, attr, got)
		if want != nil && (err != nil || !bytes.Equal(got[:n], want)) {
			t.Errorf("%s: %q, %v, want %q", attr, got[:max(n, 0)], err, want)
		}
	}
}

func TestRemoveInAFolderThatCannotBeWritten(t *testing.T) {
	if !ordinaryUser(t, nil) {
		return
	}
	path := put(t, config("a"))
	must(t, os.Chmod(filepath.Dir(path), 0o500))
	defer os.Chmod(filepath.Dir(path), 0o700)
	removed, err := Remove(t.Context(), path, Configured(), []Entry{entry("a")}, quick)
	if !errors.Is(err, fs.ErrPermission) || removed != nil || content(t, path) != config("a") {
		t.Errorf("removed %q, %v", removed, err)
	}
}

func TestRemoveFromAFileThatCannotBeWritten(t *testing.T) {
	if !ordinaryUser(t, nil) {
		return
	}
	path := put(t, config("a"))
	must(t, os.Chmod(path, 0o400))
	removed, err := Remove(t.Context(), path, Configured(), []Entry{entry("a")}, quick)
	if !errors.Is(err, fs.ErrPermission) || removed != nil || content(t, path) != config("a") {
		t.Errorf("removed %q, %v", removed, err)
	}
	onlyHas(t, filepath.Dir(path), "config")
}

// An ordinary user who may write a file of root's could only replace it by one
// of its own.
func TestRemoveThatWouldChangeTheOwner(t *testing.T) {
	if !ordinaryUser(t, func(dir string) {
		must(t, os.WriteFile(dir+"/config", []byte(config("a")), 0o600))
		must(t, os.Chmod(dir+"/config", 0o666))
	}) {
		return
	}
	dir := os.Getenv(envShared)
	removed, err := Remove(t.Context(), dir+"/config", Configured(), []Entry{entry("a")}, quick)
	if !errors.Is(err, ErrRefused) || removed != nil || content(t, dir+"/config") != config("a") {
		t.Errorf("removed %q, %v", removed, err)
	}
	onlyHas(t, dir, "config")
}

func TestRemoveOnAFullDisk(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root, to mount a small file system")
	}
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("cannot mount a small file system: %v", err)
	}
	defer unix.Unmount(dir, unix.MNT_DETACH)
	text := config("a", "b") + "x: " + strings.Repeat("y", 8<<10) + "\n"
	must(t, os.WriteFile(dir+"/config", []byte(text), 0o600))
	if err := os.WriteFile(dir+"/ballast", make([]byte, 64<<10), 0o600); !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("the disk is not full: %v", err)
	}
	removed, err := Remove(t.Context(), dir+"/config", Configured(), []Entry{entry("a")}, quick)
	if !errors.Is(err, unix.ENOSPC) || removed != nil || content(t, dir+"/config") != text {
		t.Errorf("removed %q, %v", removed, err)
	}
	onlyHas(t, dir, "ballast", "config")
}

// A link stays a link, and the locks of both names count: kind and kubectl
// lock the name they were given.
func TestRemoveThroughALink(t *testing.T) {
	file, dir := put(t, config("a", "b")), t.TempDir()
	link := filepath.Join(dir, "config")
	must(t, os.Symlink("middle", link))
	must(t, os.Symlink(file, filepath.Join(dir, "middle")))
	for _, name := range []string{link, filepath.Join(dir, "middle"), file} {
		must(t, os.WriteFile(name+".lock", nil, 0))
		if removed, err := Remove(t.Context(), link, Configured(), []Entry{entry("a")}, quick); !errors.Is(err, ErrLocked) {
			t.Errorf("with %s.lock: removed %q, %v", name, removed, err)
		}
		if got, err := Read(t.Context(), link, Configured(), quick); !errors.Is(err, ErrLocked) {
			t.Errorf("with %s.lock: read %v, %v", name, got, err)
		}
		must(t, os.Remove(name+".lock"))
	}
	removed, err := Remove(t.Context(), link, Configured(), []Entry{entry("a")}, quick)
	if err != nil || !slices.Equal(removed, []string{"a"}) || content(t, file) != config("b") {
		t.Errorf("removed %q, %v", removed, err)
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&fs.ModeSymlink == 0 {
		t.Errorf("the link: %v, %v", info, err)
	}
	onlyHas(t, dir, "config", "middle")
	onlyHas(t, filepath.Dir(file), "config")

	must(t, os.Symlink("loop", filepath.Join(dir, "loop")))
	if _, err := Remove(t.Context(), filepath.Join(dir, "loop"), Configured(), []Entry{entry("a")}, quick); !errors.Is(err, unix.ELOOP) {
		t.Errorf("a loop: %v", err)
	}
	must(t, os.Symlink("gone", filepath.Join(dir, "dangling")))
	if _, err := Read(t.Context(), filepath.Join(dir, "dangling"), Configured(), quick); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a dangling link: %v", err)
	}
}

func TestRemoveWouldPartHardLinks(t *testing.T) {
	path := put(t, config("a"))
	must(t, os.Link(path, path+"-2"))
	removed, err := Remove(t.Context(), path, Configured(), []Entry{entry("a")}, quick)
	if !errors.Is(err, ErrRefused) || removed != nil || content(t, path) != config("a") {
		t.Errorf("removed %q, %v", removed, err)
	}
	onlyHas(t, filepath.Dir(path), "config", "config-2")
}

// A janitor killed half-way leaves a file with credentials; the next one
// clears it away.
func TestRemoveClearsWhatAKilledJanitorLeft(t *testing.T) {
	path := put(t, config("a", "b"))
	must(t, os.WriteFile(filepath.Join(filepath.Dir(path), temporary("config")), []byte("half"), 0o600))
	if removed, err := Remove(t.Context(), path, Configured(), []Entry{entry("a")}, quick); err != nil || len(removed) != 1 {
		t.Errorf("removed %q, %v", removed, err)
	}
	onlyHas(t, filepath.Dir(path), "config")
}

// Editors know nothing of the lock.
func TestReplaceAfterAnEdit(t *testing.T) {
	path := put(t, config("a"))
	names, err := resolve(path, Configured())
	must(t, err)
	defer names.close()
	edits := map[string]func() error{
		"written": func() error { return os.WriteFile(path, []byte(config("x")), 0o600) },
		"replaced": func() error {
			return errors.Join(os.WriteFile(path+"2", []byte(config("x")), 0o600), os.Rename(path+"2", path))
		},
		"closed":  func() error { return os.Chmod(path, 0o400) },
		"removed": func() error { return os.Remove(path) },
	}
	for _, name := range []string{"written", "replaced", "closed", "removed"} {
		f, err := names.file().open(Configured())
		must(t, err)
		must(t, edits[name]())
		replaced, err := f.replace(context.Background(), []byte("new"))
		f.close()
		if replaced || err == nil {
			t.Errorf("%s: replaced %v, %v", name, replaced, err)
		}
	}
	onlyHas(t, filepath.Dir(path))
}

func TestRemoveStopsWithItsContext(t *testing.T) {
	path := put(t, config("a"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if removed, err := Remove(ctx, path, Configured(), []Entry{entry("a")}, quick); !errors.Is(err, context.Canceled) || removed != nil {
		t.Errorf("removed %q, %v", removed, err)
	}
	names, err := resolve(path, Configured())
	must(t, err)
	defer names.close()
	f, err := names.file().open(Configured())
	must(t, err)
	defer f.close()
	if replaced, err := f.replace(ctx, []byte("new")); replaced || !errors.Is(err, context.Canceled) {
		t.Errorf("replaced %v, %v", replaced, err)
	}
	onlyHas(t, filepath.Dir(path), "config")
}
