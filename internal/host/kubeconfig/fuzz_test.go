package kubeconfig

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"go.yaml.in/yaml/v3"
)

// FuzzRemove: parsed as plain values, the output is the input minus exactly
// the named entries, and one document; or it is refused.
func FuzzRemove(f *testing.F) {
	files, err := filepath.Glob("testdata/edit/*.yaml")
	if err != nil || len(files) == 0 {
		f.Fatal(files, err)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b, uint8(1))
		f.Add(b, uint8(3))
	}
	f.Fuzz(func(t *testing.T, in []byte, pick uint8) {
		if len(in) > 64<<10 {
			return
		}
		entries, err := entriesOf("", in)
		if err != nil {
			if out, removed, err := without(in, []Entry{{Name: "a", Server: serverA}}); err == nil || out != nil || removed != nil {
				t.Fatalf("removed %q from what cannot be read", removed)
			}
			return
		}
		var wanted []Entry
		var expect []string
		for i, e := range entries {
			switch {
			case pick>>(i%8)&1 == 0:
			case pick&0x80 != 0 && i%2 == 0: // changed since
				wanted = append(wanted, Entry{Name: e.Name, Server: e.Server + "0"})
			default:
				wanted = append(wanted, e)
				if e.Server != "" {
					expect = append(expect, e.Name)
				}
			}
		}
		out, removed, err := without(in, wanted)
		if err != nil {
			if !errors.Is(err, ErrRefused) || out != nil || removed != nil {
				t.Fatalf("%v, %q, %q", err, removed, out)
			}
			return
		}
		if !reflect.DeepEqual(removed, expect) {
			t.Fatalf("removed %q, want %q", removed, expect)
		}
		if len(removed) == 0 {
			if out != nil {
				t.Fatalf("nothing removed, but output %q", out)
			}
			return
		}
		if err := rule(in, out, removed); err != nil {
			t.Fatalf("%v\nin:\n%s\nout:\n%s", err, in, out)
		}
	})
}

// rule says the sentence once more, with none of the code under test.
func rule(in, out []byte, removed []string) error {
	before, err := plain(in)
	if err != nil {
		return fmt.Errorf("input: %w", err)
	}
	after, err := plain(out)
	if err != nil {
		return fmt.Errorf("output: %w", err)
	}
	if json.Valid(in) != json.Valid(out) {
		return errors.New("JSON became YAML")
	}
	gone := map[any]bool{}
	for _, name := range removed {
		gone["kind-"+name] = true
	}
	nameOf := func(item any) any { return field(item, "name") }
	used := map[string]bool{}
	ctxs, _ := before["contexts"].([]any)
	for _, c := range ctxs {
		if gone[nameOf(c)] {
			continue
		}
		body := field(c, "context")
		used[fmt.Sprint("clusters ", field(body, "cluster"))] = true
		used[fmt.Sprint("users ", field(body, "user"))] = true
	}
	for key, v := range before {
		switch key {
		case "contexts", "clusters", "users":
			items, ok := v.([]any)
			if !ok {
				break
			}
			kept := []any{}
			for _, item := range items {
				if !gone[nameOf(item)] || used[fmt.Sprint(key, " ", nameOf(item))] {
					kept = append(kept, item)
				}
			}
			before[key] = kept
		case "current-context":
			if s, ok := v.(string); ok && gone[s] {
				before[key] = ""
			}
		}
	}
	if !reflect.DeepEqual(before, after) {
		return fmt.Errorf("want %v\n got %v", before, after)
	}
	return nil
}

// field of a mapping, which has another type where a key is no string.
func field(v any, key string) any {
	switch m := v.(type) {
	case map[string]any:
		return m[key]
	case map[any]any:
		return m[key]
	}
	return nil
}

func plain(b []byte) (map[string]any, error) {
	d := yaml.NewDecoder(bytes.NewReader(b))
	var v map[string]any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	var more any
	if err := d.Decode(&more); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("after the document: %v, %w", more, err)
	}
	return v, nil
}
