package testbed

import (
	"context"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
)

func deadline(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), step)
	t.Cleanup(cancel)
	return ctx
}

// TestKindCreate is what the stand-in node is for: the real kind makes, lists
// and deletes a cluster of it.
func TestKindCreate(t *testing.T) {
	for _, tc := range []struct {
		name    string
		workers int
		nodes   []string
	}{
		{"one node", 0, []string{"control-plane"}},
		{"two workers", 2, []string{"control-plane", "worker", "worker2"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			k, ctx := Kind(t), deadline(t)
			name := Name(t)
			start := time.Now()
			if err := k.Create(ctx, name, CreateOptions{Workers: tc.workers}); err != nil {
				t.Fatal(err)
			}
			t.Logf("kind create took %v", time.Since(start).Round(100*time.Millisecond))

			clusters, err := output(k.KindCommand(ctx, "get", "clusters"))
			if err != nil || !hasLine(clusters, name) {
				t.Errorf("kind get clusters: %q, %v; want a line %q", clusters, err, name)
			}
			nodes, err := output(k.KindCommand(ctx, "get", "nodes", "--name", name))
			if err != nil {
				t.Error(err)
			}
			if got := strings.Fields(nodes); len(got) != len(tc.nodes) {
				t.Errorf("kind get nodes: %v, want %v", got, tc.nodes)
			}
			for _, n := range tc.nodes {
				if !hasLine(nodes, name+"-"+n) {
					t.Errorf("kind get nodes: %q, want %s-%s among them", nodes, name, n)
				}
				mount := k.Run(t, "inspect", "--format", `{{range .Mounts}}{{if eq .Destination "/var"}}{{.Type}} {{.Name}}{{end}}{{end}} {{.State.Status}} {{.HostConfig.RestartPolicy.Name}}:{{.HostConfig.RestartPolicy.MaximumRetryCount}}`, name+"-"+n)
				if !regexp.MustCompile(`^volume [0-9a-f]{64} running on-failure:1$`).MatchString(mount) {
					t.Errorf("node %s: %q, want one anonymous volume at /var, running, on-failure:1", n, mount)
				}
			}
			kubeconfig, err := os.ReadFile(k.Kubeconfig)
			if err != nil {
				t.Fatal(err)
			}
			port := strings.TrimPrefix(k.Run(t, "port", name+"-control-plane", "6443/tcp"), "127.0.0.1:")
			for _, want := range []string{"server: https://127.0.0.1:" + port + "\n", "current-context: kind-" + name + "\n", "- name: kind-" + name + "\n"} {
				if !strings.Contains(string(kubeconfig), want) {
					t.Errorf("the kubeconfig lacks %q:\n%s", want, kubeconfig)
				}
			}

			if _, err := output(k.KindCommand(ctx, "delete", "cluster", "--name", name)); err != nil {
				t.Error(err)
			}
			if ids, err := k.Nodes(ctx, name); err != nil || len(ids) > 0 {
				t.Errorf("after kind delete: %v, %v; want no containers", ids, err)
			}
		})
	}
}

// TestKindExportLogs: the stand-in gives "kind export logs" something to take.
func TestKindExportLogs(t *testing.T) {
	k, ctx := Kind(t), deadline(t)
	name, dir := Name(t), t.TempDir()
	if err := k.Create(ctx, name, CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := output(k.KindCommand(ctx, "export", "logs", "--name", name, dir)); err != nil {
		t.Fatal(err)
	}
	for _, f := range []string{"stand-in.log", "serial.log", "journal.log", "inspect.json"} {
		if _, err := os.Stat(dir + "/" + name + "-control-plane/" + f); err != nil {
			t.Error(err)
		}
	}
}

// TestKindAborted: what an aborted create leaves is removed with the test.
func TestKindAborted(t *testing.T) {
	k, name := Kind(t), Name(t)
	t.Run("create", func(t *testing.T) {
		k := *k
		k.t = t
		ctx, cancel := context.WithCancel(deadline(t))
		go func() {
			defer cancel()
			for ctx.Err() == nil {
				if ids, _ := k.Nodes(ctx, name); len(ids) > 0 {
					return
				}
			}
		}()
		if err := k.Create(ctx, name, CreateOptions{Workers: 1}); err == nil {
			t.Fatal("kind create finished before it was killed")
		}
		if ids, err := k.Nodes(context.Background(), name); err != nil || len(ids) == 0 {
			t.Errorf("after the kill: %v, %v; want half a cluster", ids, err)
		}
		if _, err := os.Stat(k.Kubeconfig); !os.IsNotExist(err) {
			t.Errorf("kind went on to its last step, the kubeconfig: %v", err)
		}
	})
	if ids, err := k.Nodes(deadline(t), name); err != nil || len(ids) > 0 {
		t.Errorf("after the test: %v, %v; want nothing", ids, err)
	}
}

func hasLine(text, line string) bool {
	for l := range strings.Lines(text + "\n") {
		if strings.TrimSpace(l) == line {
			return true
		}
	}
	return false
}
