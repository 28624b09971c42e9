package testbed

import (
	"encoding/json"
	"errors"
	"go/parser"
	"go/token"
	"io"
	"os/exec"
	"path"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/testbed-janitor/janitor"

// A goPackage is what "go list" says of a package of ours.
type goPackage struct {
	ImportPath string
	Imports    []string
	GoFiles    []string
	Error      *struct{ Err string }
}

// rel is the path inside the module: internal/store.
func (p goPackage) rel() string {
	return strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
}

func list(t *testing.T) []goPackage {
	t.Helper()
	cmd := exec.Command("go", "list", "-e", "-json=ImportPath,Imports,GoFiles,Error", module+"/...")
	out, err := output(cmd)
	if err != nil {
		t.Fatal(err)
	}
	var all []goPackage
	for dec := json.NewDecoder(strings.NewReader(out)); ; {
		var p goPackage
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

// importsOf reads the imports of one file.
func importsOf(t *testing.T, file string) []string {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for _, i := range f.Imports {
		p, err := strconv.Unquote(i.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, p)
	}
	return paths
}

// leaves of the star. What lies below a leaf belongs to it.
var leaves = []string{"internal/api", "internal/reaper", "internal/store", "internal/host", "internal/config"}

func under(dir, p string) bool { return p == dir || strings.HasPrefix(p, dir+"/") }

func leafOf(p string) string {
	for _, l := range leaves {
		if under(l, p) {
			return l
		}
	}
	return ""
}

// violation says why a package of ours must not import another, or is empty.
func violation(from, imported string) string {
	to, ours := strings.CutPrefix(imported, module+"/")
	switch {
	case from == "internal/inventory" && strings.Contains(strings.Split(imported, "/")[0], "."):
		return "inventory imports only the standard library"
	case under("github.com/mattn/go-sqlite3", imported) && leafOf(from) != "internal/store":
		return "only internal/store imports the SQLite driver"
	case under("github.com/docker/docker", imported) && from != "internal/host/engine":
		return "only internal/host/engine imports the Docker client"
	case under("github.com/robfig/cron", imported) && from != "internal/config":
		return "only internal/config imports cron"
	case !ours || from == "cmd/janitor" || under("internal/testbed", from):
		return ""
	case under("cmd", to):
		return "cmd/janitor imports the others, none imports it"
	case under("internal/testbed", to):
		return "only tests import internal/testbed"
	case from == "internal/config":
		return "internal/config imports nothing of ours"
	case leafOf(from) != "" && leafOf(to) != "" && leafOf(from) != leafOf(to):
		return "leaves of the star do not import each other"
	case from == "migrations":
		return "migrations only embeds its files"
	case to == "migrations" && leafOf(from) != "internal/store":
		return "only internal/store applies migrations"
	}
	return ""
}

// The picture: cmd/janitor in the middle of a star, inventory in the middle of
// the leaves, one door to each library that is hard to replace. What tests
// import is theirs.
func TestImportsFormAStar(t *testing.T) {
	seen := 0
	for _, p := range list(t) {
		if p.Error != nil {
			t.Errorf("%s: %s", p.ImportPath, p.Error.Err)
		}
		seen++
		for _, i := range p.Imports {
			if why := violation(p.rel(), i); why != "" {
				t.Errorf("%s imports %s: %s", p.rel(), i, why)
			}
		}
	}
	if seen < 3 {
		t.Fatalf("go list shows %d packages; it does not look at the module", seen)
	}
}

// Libraries to which there is one file as the door.
func TestOneFileImports(t *testing.T) {
	for library, dir := range map[string]string{"github.com/docker/docker": "internal/host/engine", "github.com/robfig/cron": "internal/config"} {
		files := map[string]bool{}
		for _, p := range list(t) {
			if p.rel() != dir {
				continue
			}
			for _, f := range p.GoFiles {
				for _, i := range importsOf(t, path.Join("..", "..", dir, f)) {
					if under(library, i) {
						files[f] = true
					}
				}
			}
		}
		if len(files) > 1 {
			t.Errorf("%v of %s import %s; keep it in one", files, dir, library)
		}
	}
}

// The rules themselves, each broken once.
func TestViolation(t *testing.T) {
	for _, c := range [][2]string{
		{"internal/inventory", "github.com/spf13/cobra"},
		{"internal/inventory", module + "/internal/store"},
		{"internal/api", module + "/internal/store"},
		{"internal/host/engine", module + "/internal/reaper"},
		{"internal/reaper", module + "/internal/host/kubeconfig"},
		{"internal/config", module + "/internal/inventory"},
		{"internal/store", module + "/internal/testbed"},
		{"internal/store", module + "/cmd/janitor"},
		{"internal/api", module + "/migrations"},
		{"cmd/janitor", "github.com/mattn/go-sqlite3"},
		{"cmd/janitor", "github.com/robfig/cron/v3"},
		{"internal/host", "github.com/docker/docker/client"},
		{"migrations", module + "/internal/store"},
	} {
		if violation(c[0], c[1]) == "" {
			t.Errorf("%s may import %s", c[0], c[1])
		}
	}
	for _, c := range [][2]string{
		{"internal/inventory", "sort"},
		{"internal/api", module + "/internal/inventory"},
		{"internal/store", module + "/migrations"},
		{"internal/store", "github.com/mattn/go-sqlite3"},
		{"internal/host/engine", "github.com/docker/docker/client"},
		{"internal/host/engine", module + "/internal/host"},
		{"internal/storefront", "database/sql"},
		{"cmd/janitor", module + "/internal/config"},
	} {
		if why := violation(c[0], c[1]); why != "" {
			t.Errorf("%s may not import %s: %s", c[0], c[1], why)
		}
	}
}
