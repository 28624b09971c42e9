package systemd

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/testbed-janitor/janitor/internal/config"
	"github.com/testbed-janitor/janitor/internal/testbed"
)

// tool runs one of systemd's offline tools, which need no running systemd.
func tool(t *testing.T, name string, args ...string) (string, error) {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		testbed.Skip(t, "systemd", "the tool "+name+" is not installed")
	}
	out, err := exec.Command(name, args...).CombinedOutput()
	return string(out), err
}

func TestUnitsVerify(t *testing.T) {
	dir := t.TempDir()
	// Without DESTDIR, so that the paths in the units exist. install with a
	// DESTDIR of "" starts and enables nothing.
	if out, err := runMake(t, "install", "BIN=/bin/true", "PREFIX="+dir+"/usr", "SYSCONFDIR="+dir+"/etc", "CI_USER=jenkins"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	units := dir + "/usr/lib/systemd/system/"
	out, err := tool(t, "systemd-analyze", "verify", "--man=no", "--recursive-errors=no", units+"janitor.service", units+"janitor.socket")
	if err != nil || strings.TrimSpace(out) != "" { // what it only warns of, such as an unknown key, has exit status 0
		t.Errorf("%v\n%s", err, out)
	}
}

// The thresholds are tenths of systemd's score from 0 to 10.
func TestExposure(t *testing.T) {
	dest, _ := install(t)
	for _, c := range []struct{ dropIn, threshold string }{{"", "15"}, {"jenkins.conf", "20"}, {"shared-host.conf", "25"}} {
		dir := t.TempDir()
		unit := filepath.Join(dir, "janitor.service")
		if err := os.WriteFile(unit, []byte(read(t, dest+"/usr/lib/systemd/system/janitor.service")), 0o600); err != nil {
			t.Fatal(err)
		}
		if c.dropIn != "" {
			if err := os.Mkdir(unit+".d", 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(unit+".d", c.dropIn), []byte(read(t, dest+"/usr/share/doc/janitor/"+c.dropIn)), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if out, err := tool(t, "systemd-analyze", "security", "--offline=true", "--threshold="+c.threshold, "--no-pager", unit); err != nil {
			t.Errorf("drop-in %q: above %s tenths: %v\n%s", c.dropIn, c.threshold, err, out)
		}
	}
}

// A stop must not cut a removal short, and a long removal is no hang.
func TestUnitDeadlinesAreAboveTheReapTimeout(t *testing.T) {
	service := read(t, "janitor.service")
	for _, key := range []string{"TimeoutStopSec", "WatchdogSec"} {
		m := regexp.MustCompile(`(?m)^` + key + `=(\d+)min$`).FindStringSubmatch(service)
		if m == nil {
			t.Errorf("no %s in whole minutes", key)
			continue
		}
		if d, err := time.ParseDuration(m[1] + "m"); err != nil || d <= config.Default().Reap.Timeout {
			t.Errorf("%s is %v, not above reap.timeout; %v", key, d, err)
		}
	}
	if strings.Contains(service, "\nRuntimeDirectory=") {
		t.Error("RuntimeDirectory= re-owns the socket that systemd passes")
	}
	if !strings.Contains(read(t, "janitor.socket"), "\nListenStream="+config.Default().Socket+"\n") {
		t.Error("janitor.socket does not listen on the default socket")
	}
}

// sysusers and tmpfiles of an installed tree give the folder of the socket.
func TestSnippetsMakeTheFolderOfTheSocket(t *testing.T) {
	if os.Getuid() != 0 {
		testbed.Skip(t, "systemd", "systemd-tmpfiles --root changes owners, which needs root")
	}
	dest, _ := install(t)
	for name, content := range map[string]string{"passwd": "root:x:0:0::/root:/bin/sh\njenkins:x:4711:4711::/var/lib/jenkins:/bin/sh\n", "group": "root:x:0:\njenkins:x:4711:\n"} {
		if err := os.WriteFile(filepath.Join(dest, "etc", name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := tool(t, "systemd-sysusers", "--root="+dest, "janitor.conf"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if !regexp.MustCompile(`(?m)^janitor:`).MatchString(read(t, dest+"/etc/group")) {
		t.Fatal("no group janitor")
	}
	if out, err := tool(t, "systemd-tmpfiles", "--root="+dest, "--create", "janitor.conf"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	info, err := os.Stat(dest + "/run/janitor")
	if err != nil {
		t.Fatal(err)
	}
	if uid := info.Sys().(*syscall.Stat_t).Uid; uid != 4711 || info.Mode().Perm() != 0o755 {
		t.Errorf("/run/janitor has uid %d, mode %v", uid, info.Mode())
	}
}
