package testbed

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestImageIsReproducible: equal sources give an equal image, so that loading
// it twice, or from two processes, leaves one.
func TestImageIsReproducible(t *testing.T) {
	ref, err := imageRef("amd64")
	if err != nil {
		t.Fatal(err)
	}
	a, errA := nodeImage([]byte("program"), ref, "amd64")
	b, errB := nodeImage([]byte("program"), ref, "amd64")
	if errA != nil || errB != nil || !bytes.Equal(a, b) {
		t.Errorf("two images differ, or %v, %v", errA, errB)
	}
	if other, err := imageRef("arm64"); err != nil || other == ref {
		t.Errorf("images of two architectures are both %s, %v", ref, err)
	}
}

func TestLoadImage(t *testing.T) {
	d, ctx := Engine(t), deadline(t)
	id := d.Run(t, "image", "inspect", "--format", "{{.Id}}", d.Image())
	ref, err := LoadImage(ctx, d.Host)
	if err != nil || ref != d.Image() {
		t.Errorf("again: %s, %v, want %s", ref, err, d.Image())
	}
	// A program built and loaded anew is the same image.
	arch := d.Run(t, "version", "--format", "{{.Server.Arch}}")
	program, err := buildNode(ctx, arch)
	if err != nil {
		t.Fatal(err)
	}
	archive, err := nodeImage(program, ref, arch)
	if err != nil {
		t.Fatal(err)
	}
	cmd := d.Command(ctx, "load", "--quiet")
	cmd.Stdin = bytes.NewReader(archive)
	if _, err := output(cmd); err != nil {
		t.Fatal(err)
	}
	if got := d.Run(t, "image", "inspect", "--format", "{{.Id}}", ref); got != id {
		t.Errorf("loaded anew it is %s, was %s", got, id)
	}
}

func TestPlainContainer(t *testing.T) {
	d, ctx := Engine(t), deadline(t)
	a, b := Name(t), Name(t)
	if a == b {
		t.Fatal("two tests would share a name")
	}
	b = a + "-2"
	var other string
	t.Run("test", func(t *testing.T) {
		d.PlainContainer(t, b, RoleControlPlane)
		t.Run("inner", func(t *testing.T) {
			ids := []string{d.PlainContainer(t, a, RoleWorker), d.PlainContainer(t, a, RoleWorker)}
			got, err := d.Nodes(ctx, a)
			if slices.Sort(got); err != nil || !slices.Equal(got, slices.Sorted(slices.Values(ids))) {
				t.Errorf("nodes %v, %v, want %v", got, err, ids)
			}
			out := d.Run(t, "inspect", "--format", `{{.Name}} {{index .Config.Labels "`+LabelRole+`"}} {{.State.Running}} {{.HostConfig.Privileged}} {{len .Mounts}}{{range .Mounts}} {{.Type}} {{.Destination}}{{end}}`, ids[1])
			if want := "/" + a + "-worker2 worker true false 1 volume /var"; out != want {
				t.Errorf("%q, want %q", out, want)
			}
			d.Run(t, "pause", ids[0]) // must not keep it from being removed
		})
		if got, err := d.Nodes(ctx, a); err != nil || len(got) > 0 {
			t.Errorf("after its test: %v, %v", got, err)
		}
		got, err := d.Nodes(ctx, b)
		if err != nil || len(got) != 1 {
			t.Fatalf("the clean-up of %s took %s along: %v, %v", a, b, got, err)
		}
		other = d.Run(t, "inspect", "--format", "{{(index .Mounts 0).Name}}", got[0])
	})
	if _, err := d.Output(ctx, "volume", "inspect", other); err == nil {
		t.Errorf("the volume %s leaked", other)
	}
}

// TestStoppedNodeFails: without it, on-failure:1 would not bring nodes back
// with the engine, and "docker stop" would take ten seconds.
func TestStoppedNodeFails(t *testing.T) {
	d := Engine(t)
	id := d.PlainContainer(t, Name(t), RoleControlPlane)
	d.Run(t, "stop", "--time", "60", id)
	if got := d.Run(t, "inspect", "--format", "{{.State.ExitCode}}", id); got != "130" {
		t.Errorf("exit status %s, want 130", got)
	}
}

// TestInner has the tests that TestTiers runs in a process of their own.
func TestInner(t *testing.T) {
	switch os.Getenv("TESTBED_INNER") {
	case "engine":
		Engine(t)
	case "kind":
		Kind(t)
	case "private":
		Private(t)
	case "foreign":
		(&Docker{Host: "unix:///no/engine"}).PlainContainer(t, "kind", RoleControlPlane)
	default:
		t.Skip("run by TestTiers")
	}
	t.Error("it went on")
}

func TestTiers(t *testing.T) {
	for _, tc := range []struct {
		inner, require string
		fails          bool
		says, note     string
	}{
		{"engine", "", false, "SKIP", "engine: no Docker engine at unix:///no/engine: "},
		{"engine", "kind, engine", true, `demands the tier "engine"`, ""},
		{"engine", "kind,engines", false, "SKIP", "engine: "},
		{"kind", "engine", false, "SKIP", "kind: no Docker engine at unix:///no/engine: "},
		{"kind", "kind", true, `demands the tier "kind"`, ""},
		{"private", "", false, "SKIP", "private-engine: JANITOR_TEST_ENGINE names no command"},
		{"private", "private-engine", true, `demands the tier "private-engine"`, ""},
		{"foreign", "", true, `the cluster name "kind" is not from Name(t)`, ""},
	} {
		t.Run(tc.inner+" "+tc.require, func(t *testing.T) {
			notes := filepath.Join(t.TempDir(), "skips")
			cmd := exec.Command(os.Args[0], "-test.run=^TestInner$", "-test.v")
			cmd.Env = append(os.Environ(), "TESTBED_INNER="+tc.inner, "JANITOR_TEST_REQUIRE="+tc.require,
				"JANITOR_TEST_SKIPS="+notes, "JANITOR_TEST_DOCKER_HOST=unix:///no/engine", "JANITOR_TEST_ENGINE=")
			out, err := cmd.CombinedOutput()
			if (err != nil) != tc.fails || !strings.Contains(string(out), tc.says) {
				t.Errorf("%v, want failure %v and %q:\n%s", err, tc.fails, tc.says, out)
			}
			b, _ := os.ReadFile(notes)
			if !strings.HasPrefix(string(b), tc.note) || (tc.note == "") != (len(b) == 0) || strings.Count(string(b), "\n") > 1 {
				t.Errorf("noted %q, want one line that begins %q", b, tc.note)
			}
		})
	}
}
