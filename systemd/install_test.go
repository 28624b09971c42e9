package systemd

import (
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/testbed-janitor/janitor/internal/config"
)

// runMake runs make at the top of the project, without the variables of a make
// that runs this test.
func runMake(t *testing.T, args ...string) (string, error) {
	t.Helper()
	cmd := exec.Command("make", append([]string{"-C", "..", "--no-print-directory"}, args...)...)
	for _, kv := range os.Environ() {
		if key, _, _ := strings.Cut(kv, "="); !slices.Contains([]string{"MAKEFLAGS", "MAKELEVEL", "MFLAGS", "DESTDIR", "PREFIX", "CI_USER", "CI_HOME"}, key) {
			cmd.Env = append(cmd.Env, kv)
		}
	}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// install installs a stand-in for the binary below a new folder.
func install(t *testing.T, args ...string) (dest string, again func() string) {
	t.Helper()
	dir := t.TempDir()
	bin := filepath.Join(dir, "built")
	if err := os.WriteFile(bin, []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	dest = filepath.Join(dir, "dest")
	again = func() string {
		out, err := runMake(t, append([]string{"install", "BIN=" + bin, "DESTDIR=" + dest, "PREFIX=/usr", "CI_USER=jenkins", "CI_HOME=/var/lib/jenkins"}, args...)...)
		if err != nil {
			t.Fatalf("make install: %v\n%s", err, out)
		}
		return out
	}
	again()
	return dest, again
}

func files(t *testing.T, dir string) map[string]fs.FileMode {
	t.Helper()
	found := map[string]fs.FileMode{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		found[strings.TrimPrefix(path, dir)] = info.Mode()
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestInstall(t *testing.T) {
	dest, again := install(t)
	const conf = "/etc/janitor/janitor.yaml"
	want := map[string]fs.FileMode{"/usr/bin/janitor": 0o755}
	for _, f := range []string{"/usr/lib/systemd/system/janitor.service", "/usr/lib/systemd/system/janitor.socket", "/usr/lib/sysusers.d/janitor.conf",
		"/usr/lib/tmpfiles.d/janitor.conf", "/usr/share/doc/janitor/jenkins.conf", "/usr/share/doc/janitor/shared-host.conf", "/usr/share/doc/janitor/janitor.yaml", conf} {
		want[f] = 0o644
	}
	got := files(t, dest)
	if !maps.Equal(got, want) {
		t.Errorf("installed %v\nwant %v", got, want)
	}
	for f := range got {
		if left := regexp.MustCompile(`@[A-Z_]+@`).FindString(read(t, dest+f)); left != "" {
			t.Errorf("%s still has %s", f, left)
		}
	}
	service := read(t, dest+"/usr/lib/systemd/system/janitor.service")
	for _, line := range []string{"User=jenkins", "BindPaths=-/var/lib/jenkins", "ExecStart=/usr/bin/janitor serve --config /etc/janitor/janitor.yaml"} {
		if !strings.Contains(service, "\n"+line+"\n") {
			t.Errorf("the unit lacks %s", line)
		}
	}

	// Again, as for a new version: units are renewed, the configuration stays.
	for _, f := range []string{conf, "/usr/lib/systemd/system/janitor.service"} {
		if err := os.WriteFile(dest+f, []byte("# mine\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if out := again(); !strings.Contains(out, "kept "+dest+conf) {
		t.Errorf("it does not say that the configuration stays:\n%s", out)
	}
	if read(t, dest+conf) != "# mine\n" {
		t.Error("the configuration was overwritten")
	}
	if read(t, dest+"/usr/lib/systemd/system/janitor.service") != service {
		t.Error("the unit was not renewed")
	}
}

func TestUninstall(t *testing.T) {
	dest, _ := install(t)
	database := dest + "/var/lib/janitor/janitor.db"
	if err := os.MkdirAll(filepath.Dir(database), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(database, []byte("rows"), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second finds nothing, which is no error
		out, err := runMake(t, "uninstall", "DESTDIR="+dest, "PREFIX=/usr")
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if !strings.Contains(out, "Left in place: "+dest+"/etc/janitor (configuration) and "+dest+"/var/lib/janitor (database)") {
			t.Errorf("it does not say what stays:\n%s", out)
		}
		if got := slices.Sorted(maps.Keys(files(t, dest))); !slices.Equal(got, []string{"/etc/janitor/janitor.yaml", "/var/lib/janitor/janitor.db"}) {
			t.Errorf("left: %v", got)
		}
	}
}

func TestInstallNeedsAnAccount(t *testing.T) {
	dest := t.TempDir()
	for _, user := range []string{"", "a b", "a|b", "$$(id)", "a;b"} {
		out, err := runMake(t, "install", "BIN=/bin/true", "DESTDIR="+dest, "CI_USER="+user)
		if err == nil || !strings.Contains(out, "make install CI_USER=jenkins") {
			t.Errorf("CI_USER=%s: %v\n%s", user, err, out)
		}
	}
	out, err := runMake(t, "install", "BIN=/bin/true", "DESTDIR="+dest, "CI_USER=jenkins", "CI_HOME=/")
	if err == nil || !strings.Contains(out, "CI_HOME must be") {
		t.Errorf("CI_HOME=/: %v\n%s", err, out)
	}
	if got := files(t, dest); len(got) != 0 {
		t.Errorf("it installed %v all the same", got)
	}
}

// The configuration that is shipped changes nothing as it stands, shows every
// key, and shows each with its default.
func TestShippedConfigurationIsTheDefaults(t *testing.T) {
	c, err := config.Load("janitor.yaml", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if applied, restart := config.Reload(config.Default(), c); applied != nil || restart != nil {
		t.Errorf("as shipped it changes %v %v", applied, restart)
	}
	open := regexp.MustCompile(`(?m)^#([^ #\n]|  )`).ReplaceAllString(read(t, "janitor.yaml"), "$1")
	open = regexp.MustCompile(`(?m)^(# .*|#)$`).ReplaceAllString(open, "")
	file := filepath.Join(t.TempDir(), "open.yaml")
	if err := os.WriteFile(file, []byte(open), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := config.Load(file, nil, nil); err != nil {
		t.Fatalf("%v\n%s", err, open)
	}
	shown, err := config.Default().Show()
	if err != nil {
		t.Fatal(err)
	}
	var got, want map[string]any
	if err := yaml.Unmarshal([]byte(open), &got); err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal([]byte(shown), &want); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("with each # removed it says\n%v\nthe defaults are\n%v", got, want)
	}
}
