package testbed

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// nodePackage is the stand-in node; its sources are embedded only to name the
// image after them.
const nodePackage = "github.com/testbed-janitor/janitor/internal/testbed/node"

//go:embed node/*.go
var nodeSources embed.FS

// layout goes into the image's tag. Raise it when nodeImage puts the same
// program and files into an image in another way.
const layout = "1"

// nodeNames are the names the program is called under in a node.
var nodeNames = []string{
	"/usr/local/bin/entrypoint", "/usr/bin/kubeadm", "/usr/bin/kubectl", "/usr/bin/crictl",
	"/bin/bash", "/bin/sh", "/bin/cat", "/bin/cp", "/bin/mkdir", "/bin/journalctl",
}

// nodeFiles are the files kind reads in a node image. The version decides
// which kubeadm dialect kind speaks; the manifests only travel to kubectl.
var nodeFiles = map[string]string{
	"/kind/version":                        "v1.33.0",
	"/kind/manifests/default-cni.yaml":     "# stand-in node: no network plugin\n",
	"/kind/manifests/default-storage.yaml": "# stand-in node: no storage class\n",
	"/var/log/stand-in.log":                "stand-in node: no logs\n",
	"/etc/passwd":                          "root:x:0:0:root:/:/bin/sh\n",
	"/etc/group":                           "root:x:0:\n",
}

// LoadImage makes sure that the engine at dockerHost has the stand-in node
// image and returns its reference. Where it is there already this is one
// question to the engine; else the program is built for the engine's
// architecture and loaded. Nothing is pulled. The same sources give the same
// image, so two processes doing this at once do no harm.
func LoadImage(ctx context.Context, dockerHost string) (string, error) {
	d := &Docker{Host: dockerHost}
	arch, err := d.Output(ctx, "version", "--format", "{{.Server.Arch}}")
	if err != nil {
		return "", err
	}
	ref, err := imageRef(arch)
	if err != nil {
		return "", err
	}
	if _, err := d.Output(ctx, "image", "inspect", "--format", "{{.Id}}", ref); err == nil {
		return ref, nil
	}
	program, err := buildNode(ctx, arch)
	if err != nil {
		return "", err
	}
	archive, err := nodeImage(program, ref, arch)
	if err != nil {
		return "", err
	}
	cmd := d.Command(ctx, "load", "--quiet")
	cmd.Stdin = bytes.NewReader(archive)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("load the node image into %s: %w: %s", dockerHost, err, bytes.TrimSpace(out))
	}
	return ref, nil
}

// imageRef names the image after everything that goes into it.
func imageRef(arch string) (string, error) {
	h := sha256.New()
	fmt.Fprintln(h, layout, arch, nodeNames, nodeFiles)
	err := fs.WalkDir(nodeSources, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasSuffix(path, "_test.go") {
			return err
		}
		b, err := nodeSources.ReadFile(path)
		fmt.Fprintf(h, "%s %d\n%s", path, len(b), b)
		return err
	})
	return "janitor-testbed/node:" + hex.EncodeToString(h.Sum(nil))[:12], err
}

func buildNode(ctx context.Context, arch string) ([]byte, error) {
	dir, err := os.MkdirTemp("", "janitor-node-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	program := filepath.Join(dir, "node")
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", program, nodePackage)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch, "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build the stand-in node: %w: %s", err, bytes.TrimSpace(out))
	}
	return os.ReadFile(program)
}

// nodeImage assembles the archive that "docker load" takes: one layer, a
// configuration and a manifest (the format of "docker save"; every engine
// since 1.10 reads it). All times are the epoch, so that equal input gives an
// equal image.
func nodeImage(program []byte, ref, arch string) ([]byte, error) {
	layer, err := nodeLayer(program)
	if err != nil {
		return nil, err
	}
	config, err := json.Marshal(map[string]any{
		"architecture": arch, "os": "linux", "created": time.Unix(0, 0).UTC(),
		"config": map[string]any{
			"Entrypoint": []string{"/usr/local/bin/entrypoint"},
			"Env":        []string{"PATH=/usr/local/bin:/usr/bin:/bin", "container=docker"},
			"Volumes":    map[string]any{"/var": struct{}{}},
		},
		"rootfs":  map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + sum(layer)}},
		"history": []any{map[string]any{"created": time.Unix(0, 0).UTC(), "comment": "janitor-testbed"}},
	})
	if err != nil {
		return nil, err
	}
	manifest, err := json.Marshal([]any{map[string]any{
		"Config": sum(config) + ".json", "RepoTags": []string{ref}, "Layers": []string{"layer.tar"},
	}})
	if err != nil {
		return nil, err
	}
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	err = errors.Join(
		addFile(w, "layer.tar", 0o644, layer),
		addFile(w, sum(config)+".json", 0o644, config),
		addFile(w, "manifest.json", 0o644, manifest),
		w.Close())
	return buf.Bytes(), err
}

// nodeLayer is the file system: the program, its names as symbolic links, and
// the files kind reads.
func nodeLayer(program []byte) ([]byte, error) {
	const at = "/usr/local/bin/node"
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	var errs []error
	for _, dir := range []string{"bin", "etc", "kind", "kind/manifests", "tmp", "usr", "usr/bin", "usr/local", "usr/local/bin", "var", "var/log"} {
		errs = append(errs, w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755}))
	}
	errs = append(errs, addFile(w, at, 0o755, program))
	for _, name := range nodeNames {
		errs = append(errs, w.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: name[1:], Linkname: at, Mode: 0o777}))
	}
	for _, name := range slices.Sorted(maps.Keys(nodeFiles)) {
		errs = append(errs, addFile(w, name, 0o644, []byte(nodeFiles[name])))
	}
	errs = append(errs, w.Close())
	return buf.Bytes(), errors.Join(errs...)
}

func addFile(w *tar.Writer, name string, mode int64, content []byte) error {
	err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: strings.TrimPrefix(name, "/"), Mode: mode, Size: int64(len(content))})
	if err != nil {
		return err
	}
	_, err = io.Copy(w, bytes.NewReader(content))
	return err
}

func sum(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}
