package inventory_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strconv"
	"strings"
	"testing"
)

// TestEveryReason: each reason that Plan can give is tested above, and each has
// its row in docs/policy.md.
func TestEveryReason(t *testing.T) {
	parse := func(file string) *ast.File {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	reasons := map[string]string{} // by name
	ast.Inspect(parse("decision.go"), func(n ast.Node) bool {
		if s, ok := n.(*ast.ValueSpec); ok {
			if id, ok := s.Type.(*ast.Ident); ok && id.Name == "Reason" {
				reasons[s.Names[0].Name], _ = strconv.Unquote(s.Values[0].(*ast.BasicLit).Value)
			}
		}
		return true
	})
	if len(reasons) < 25 {
		t.Fatalf("only %d reasons found", len(reasons))
	}
	used := map[string]bool{}
	for _, file := range []string{"table_test.go", "rules_test.go", "rules_lease_test.go"} {
		ast.Inspect(parse(file), func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok {
				used[id.Name] = true
			}
			return true
		})
	}
	var rows []string
	if page, err := os.ReadFile("../../docs/policy.md"); err == nil {
		for _, line := range strings.Split(string(page), "\n") {
			if strings.HasPrefix(line, "|") {
				rows = append(rows, line)
			}
		}
	}
	for name, reason := range reasons {
		if !used[name] {
			t.Errorf("no test of the table mentions %s", name)
		}
		if rows != nil && !strings.Contains(strings.Join(rows, "\n"), "`"+reason+"`") {
			t.Errorf("docs/policy.md has no row for `%s`", reason)
		}
	}
}
