package kubeconfig

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files anew")

// serverA is the server of the cluster "a" in testdata.
const serverA = "https://127.0.0.1:40001"

// Each file of testdata/edit loses the cluster "a", or keeps it for a reason.
func TestEdit(t *testing.T) {
	tests := map[string]struct {
		err  error // nil: golden file, or unchanged
		same bool  // nothing to remove
	}{
		"kind":             {},
		"only":             {},
		"comments":         {},
		"shared":           {}, // cluster and user serve other contexts
		"json":             {},
		"json-line":        {},
		"crlf":             {},
		"bom":              {},
		"markers":          {},
		"anchor-outside":   {},
		"merged-name":      {},
		"odd-values":       {},
		"two-documents":    {err: ErrBroken},
		"duplicate-key":    {err: ErrBroken},
		"duplicate-name":   {err: ErrBroken},
		"not-a-mapping":    {err: ErrBroken},
		"not-a-list":       {err: ErrBroken},
		"half":             {err: ErrBroken},
		"anchor-inside":    {err: ErrRefused},
		"list-by-alias":    {err: ErrRefused},
		"list-anchored":    {err: ErrRefused},
		"list-by-merge":    {err: ErrRefused},
		"current-by-alias": {err: ErrRefused},
		"current-anchored": {err: ErrRefused},
		"nan":              {err: ErrRefused}, // is not equal to itself
		"flow-timestamp":   {err: ErrRefused}, // yaml.v3 would make it a string
		"renamed":          {same: true},      // by its user; it is not kind's any more
		"turned":           {same: true},      // to another cluster
		"another-server":   {same: true},
		"no-server":        {same: true},
		"comment-only":     {same: true},
	}
	files, err := filepath.Glob("testdata/edit/*.yaml")
	if err != nil || len(files) != len(tests) {
		t.Fatalf("%d files for %d tests, %v", len(files), len(tests), err)
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			in, err := os.ReadFile("testdata/edit/" + name + ".yaml")
			if err != nil {
				t.Fatal(err)
			}
			out, removed, err := without(in, []Entry{{Name: "a", Server: serverA}})
			if !errors.Is(err, test.err) {
				t.Fatalf("error %v, want %v", err, test.err)
			}
			if test.err != nil || test.same {
				if out != nil || removed != nil {
					t.Fatalf("removed %q and gave\n%s", removed, out)
				}
				return
			}
			if !slices.Equal(removed, []string{"a"}) {
				t.Errorf("removed %q", removed)
			}
			golden := "testdata/edit/" + name + ".golden"
			if *update {
				if err := os.WriteFile(golden, out, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(out, want) {
				t.Errorf("got\n%s\nwant\n%s", out, want)
			}
			if err := rule(in, out, []string{"a"}); err != nil {
				t.Error(err)
			}
			again, removed, err := without(out, []Entry{{Name: "a", Server: serverA}})
			if again != nil || removed != nil || err != nil {
				t.Errorf("a second time: removed %q, %v", removed, err)
			}
		})
	}
}

// A file must not be able to take the memory or the hours of the service.
func TestParseIsBounded(t *testing.T) {
	var nested strings.Builder
	nested.WriteString("a0: &a0 [x, x, x, x, x, x, x, x, x]\n")
	for i := range 12 {
		fmt.Fprintf(&nested, "a%d: &a%d [%s]\n", i+1, i+1, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i), 9), ", "))
	}
	var keys strings.Builder
	for i := range MaxSize / 8 {
		fmt.Fprintf(&keys, "%x:\n", i)
	}
	tests := map[string]string{
		"equal keys":   strings.Repeat("a:\n", MaxSize/3),
		"many keys":    keys.String(),
		"nested lists": strings.Repeat("[", MaxSize),
		"nested maps":  strings.Repeat("{a: ", MaxSize/4),
		"aliases":      nested.String(),
		"equal inside": "x: [" + strings.Repeat("{a,a},", MaxSize/6-2) + "]",
		"documents":    strings.Repeat("---\n", MaxSize/4),
	}
	for name, content := range tests {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := parse([]byte(content))
			runtime.ReadMemStats(&after)
			if !errors.Is(err, ErrBroken) {
				t.Errorf("error %v", err)
			}
			if mb := (after.TotalAlloc - before.TotalAlloc) >> 20; mb > 1024 {
				t.Errorf("took %d MiB", mb)
			}
		})
	}
}

func TestEntries(t *testing.T) {
	got, err := entriesOf("f", []byte(`
clusters:
- {name: kind-a, cluster: {server: s1}}
- {name: kind-a.b-2, cluster: {server: s2}}
- {name: kind-c, cluster: {}}
- {name: prod, cluster: {server: s4}}
- {name: kind-, cluster: {server: s5}}
contexts:
- {name: kind-a.b-2, context: {cluster: kind-a.b-2, user: somebody}}
- {name: kind-a, context: {cluster: kind-a, user: kind-a}}
- {name: kind-c, context: {cluster: kind-c}}
- {name: kind-gone, context: {cluster: kind-gone}}
- {name: kind-turned, context: {cluster: prod}}
- {name: prod, context: {cluster: prod}}
- {name: kind-, context: {cluster: kind-}}
- {name: kind, context: {cluster: kind}}
`))
	want := []Entry{{"f", "a.b-2", "s2"}, {"f", "a", "s1"}, {"f", "c", ""}, {"f", "gone", ""}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v\nwant %v", got, err, want)
	}
}
