package kubeconfig

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// The test binary also plays other processes, when these are set.
const (
	envKindWriter = "KUBECONFIG_TEST_KIND_WRITER" // be kindWriter on this file
	envDropped    = "KUBECONFIG_TEST_DROPPED"     // run as an ordinary user
	envShared     = "KUBECONFIG_TEST_SHARED"      // what root prepared for it
)

// ordinaryUID needs no account.
const ordinaryUID = 47110

func TestMain(m *testing.M) {
	if file := os.Getenv(envKindWriter); file != "" {
		os.Exit(kindWriter(file, os.Args[1]))
	}
	goleak.VerifyTestMain(m)
}

// ordinary runs the calling test as an ordinary user: root may do everything,
// so nothing can be refused to it. It returns true in the process that is to
// go on; prepare runs before that one and may leave things in the folder it is
// given, whose path is then in envShared. It needs root if prepare is given.
func ordinaryUser(t *testing.T, prepare func(dir string)) bool {
	t.Helper()
	if os.Getenv(envDropped) != "" || os.Geteuid() != 0 && prepare == nil {
		return true
	}
	if os.Geteuid() != 0 {
		t.Skip("needs root, to make a file that belongs to somebody else")
	}
	dir, err := os.MkdirTemp("", "dropped-") // t.TempDir lies in a folder closed to others
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	must(t, os.Chmod(dir, 0o755))
	shared, tmp, bin := filepath.Join(dir, "shared"), filepath.Join(dir, "tmp"), filepath.Join(dir, "test")
	for _, d := range []string{shared, tmp} {
		must(t, os.Mkdir(d, 0o755))
		must(t, os.Chown(d, ordinaryUID, ordinaryUID))
	}
	if prepare != nil {
		prepare(shared)
	}
	copyExecutable(t, bin)
	cmd := exec.Command(bin, "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout=60s")
	cmd.Dir = tmp
	cmd.Env = append(os.Environ(), envDropped+"=1", envShared+"="+shared, "TMPDIR="+tmp, "HOME="+tmp)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: ordinaryUID, Gid: ordinaryUID}}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Errorf("as uid %d: %v\n%s", ordinaryUID, err, out)
	}
	return false
}

func copyExecutable(t *testing.T, to string) {
	t.Helper()
	self, err := os.Open("/proc/self/exe")
	must(t, err)
	defer self.Close()
	f, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	must(t, err)
	_, err = io.Copy(f, self)
	must(t, err)
	must(t, f.Close())
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// config is a kubeconfig with these clusters; NAME's server is https://NAME.
func config(names ...string) string {
	if len(names) == 0 {
		return "apiVersion: v1\nclusters: []\ncontexts: []\nkind: Config\nusers: []\n"
	}
	var c, x, u strings.Builder
	for _, n := range names {
		c.WriteString("- cluster:\n    server: https://" + n + "\n  name: kind-" + n + "\n")
		x.WriteString("- context:\n    cluster: kind-" + n + "\n    user: kind-" + n + "\n  name: kind-" + n + "\n")
		u.WriteString("- name: kind-" + n + "\n  user:\n    token: t\n")
	}
	return "apiVersion: v1\nclusters:\n" + c.String() + "contexts:\n" + x.String() + "kind: Config\nusers:\n" + u.String()
}

func entry(name string) Entry { return Entry{Name: name, Server: "https://" + name} }

// put makes a file of its own folder and returns its path.
func put(t testing.TB, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config")
	must(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

func content(t testing.TB, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	must(t, err)
	return string(b)
}

// onlyHas fails if something was left behind beside the files.
func onlyHas(t testing.TB, dir string, want ...string) {
	t.Helper()
	list, err := os.ReadDir(dir)
	must(t, err)
	var got []string
	for _, e := range list {
		got = append(got, e.Name())
	}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("the folder has %q, want %q", got, want)
	}
}

// quick gives up on a lock soon.
var quick = Options{LockWait: 30 * time.Millisecond}
