package kubeconfig

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"go.yaml.in/yaml/v3"
)

// selection is what goes: indexes into each list, in the same order.
type selection struct {
	indexes map[string][]int
	unset   bool // current-context
	names   []string
}

func (d *document) choose(wanted []Entry) selection {
	gone := map[string]bool{}
	s := selection{indexes: map[string][]int{}}
	for _, e := range d.entries("") {
		if e.Server != "" && slices.ContainsFunc(wanted, func(w Entry) bool {
			return w.Name == e.Name && w.Server == e.Server
		}) {
			gone[e.Context()] = true
			s.names = append(s.names, e.Name)
		}
	}
	used := map[string]bool{} // "clusters/NAME", "users/NAME" of what stays
	for i, c := range d.items(contexts) {
		if gone[text(c, "name")] {
			s.indexes[contexts] = append(s.indexes[contexts], i)
			continue
		}
		used[clusters+"/"+text(c, "context", "cluster")] = true
		used[users+"/"+text(c, "context", "user")] = true
	}
	for _, key := range []string{clusters, users} {
		for i, item := range d.items(key) {
			if name := text(item, "name"); gone[name] && !used[key+"/"+name] {
				s.indexes[key] = append(s.indexes[key], i)
			}
		}
	}
	now, _ := d.values[current].(string)
	s.unset = gone[now]
	return s
}

// without returns content without the entries that are still the same, and the
// names of those. It fails with ErrRefused unless the result, parsed again, is
// one document that is the old one minus exactly these.
func without(content []byte, wanted []Entry) (out []byte, removed []string, err error) {
	defer func() {
		if r := recover(); r != nil {
			out, removed, err = nil, nil, fmt.Errorf("%w: the YAML writer gave up: %v", ErrRefused, r)
		}
	}()
	doc, err := parse(content)
	if doc == nil || err != nil {
		return nil, nil, err
	}
	s := doc.choose(wanted)
	if len(s.names) == 0 {
		return nil, nil, nil
	}
	want := s.minus(doc.values)
	if err := s.cut(&doc.nodes); err != nil {
		return nil, nil, err
	}
	out, err = encode(&doc.nodes, content)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrRefused, err)
	}
	got, err := parse(out)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: the result cannot be read: %w", ErrRefused, err)
	}
	if got == nil || !reflect.DeepEqual(got.values, want) {
		return nil, nil, fmt.Errorf("%w: more than the entries of %q would change", ErrRefused, s.names)
	}
	return out, s.names, nil
}

// minus is what the values must be afterwards.
func (s selection) minus(values map[string]any) map[string]any {
	want := make(map[string]any, len(values))
	for key, v := range values {
		if gone := s.indexes[key]; len(gone) > 0 {
			v = dropped(v.([]any), gone)
		}
		want[key] = v
	}
	if s.unset {
		want[current] = ""
	}
	return want
}

func dropped[T any](items []T, gone []int) []T {
	kept := make([]T, 0, len(items))
	for i, item := range items {
		if !slices.Contains(gone, i) {
			kept = append(kept, item)
		}
	}
	return kept
}

// cut does the same to the nodes.
func (s selection) cut(doc *yaml.Node) error {
	if len(doc.Content) != 1 || doc.Content[0].Kind != yaml.MappingNode {
		return fmt.Errorf("%w: the document is no plain mapping", ErrRefused)
	}
	root := doc.Content[0]
	for _, key := range lists {
		gone := s.indexes[key]
		if len(gone) == 0 {
			continue
		}
		list := valueNode(root, key)
		if list == nil || list.Kind != yaml.SequenceNode || len(list.Content) <= slices.Max(gone) {
			return fmt.Errorf("%w: %s is written by reference", ErrRefused, key)
		}
		list.Content = dropped(list.Content, gone)
	}
	if s.unset {
		node := valueNode(root, current)
		if node == nil || node.Kind != yaml.ScalarNode {
			return fmt.Errorf("%w: %s is written by reference", ErrRefused, current)
		}
		node.Value, node.Tag, node.Style = "", "!!str", yaml.DoubleQuotedStyle // as kubectl config unset
	}
	return nil
}

func valueNode(mapping *yaml.Node, key string) *yaml.Node {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if k := mapping.Content[i]; k.Kind == yaml.ScalarNode && k.Value == key {
			return mapping.Content[i+1]
		}
	}
	return nil
}

// encode writes YAML in kubectl's layout, and JSON as JSON.
func encode(doc *yaml.Node, old []byte) ([]byte, error) {
	var out bytes.Buffer
	e := yaml.NewEncoder(&out)
	e.SetIndent(2)
	e.CompactSeqIndent()
	if err := errors.Join(e.Encode(doc), e.Close()); err != nil {
		return nil, err
	}
	if !json.Valid(old) {
		return out.Bytes(), nil
	}
	if !json.Valid(out.Bytes()) {
		return nil, errors.New("the file is JSON, the result would not be")
	}
	var pretty bytes.Buffer
	if !bytes.Contains(bytes.TrimSpace(old), []byte("\n")) {
		return out.Bytes(), nil
	}
	err := json.Indent(&pretty, out.Bytes(), "", "  ")
	return pretty.Bytes(), err
}
