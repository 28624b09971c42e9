package kubeconfig

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"go.yaml.in/yaml/v3"
)

// The lists of a kubeconfig whose items have a name.
const (
	contexts = "contexts"
	clusters = "clusters"
	users    = "users"
	current  = "current-context"
)

var lists = []string{contexts, clusters, users}

// maxKeys bounds the keys of one mapping. The YAML decoder compares each with
// each, and keeps a message for each pair that is equal: without a bound a
// file of 1 MiB, "a:" on every line, takes all memory.
const maxKeys = 1000

// document is one kubeconfig, twice: as nodes to edit, and as plain values to
// decide by. Items of a list have the same index in both.
type document struct {
	nodes  yaml.Node
	values map[string]any
}

// parse returns nil for a file without content.
func parse(content []byte) (doc *document, err error) {
	defer func() {
		if r := recover(); r != nil { // the file may be anybody's
			doc, err = nil, fmt.Errorf("%w: the YAML parser gave up: %v", ErrBroken, r)
		}
	}()
	d := yaml.NewDecoder(bytes.NewReader(content))
	doc = &document{}
	if err := d.Decode(&doc.nodes); errors.Is(err, io.EOF) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBroken, err)
	}
	if err := d.Decode(&yaml.Node{}); err == nil {
		return nil, fmt.Errorf("%w: there is more than one document", ErrBroken)
	} else if !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%w: %w", ErrBroken, err)
	}
	if err := checkKeys(&doc.nodes); err != nil {
		return nil, err
	}
	var plain any
	if err := doc.nodes.Decode(&plain); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBroken, err)
	}
	switch v := plain.(type) {
	case nil:
		return nil, nil
	case map[string]any:
		doc.values = v
	default:
		return nil, fmt.Errorf("%w: it is no mapping of names to values", ErrBroken)
	}
	return doc, doc.checkLists()
}

func checkKeys(n *yaml.Node) error {
	if n.Kind == yaml.MappingNode {
		if len(n.Content)/2 > maxKeys {
			return fmt.Errorf("%w: line %d: more than %d keys", ErrBroken, n.Line, maxKeys)
		}
		type key struct {
			kind  yaml.Kind
			value string
		}
		seen := make(map[key]bool, len(n.Content)/2)
		for i := 0; i < len(n.Content); i += 2 {
			k := key{n.Content[i].Kind, n.Content[i].Value}
			if seen[k] {
				return fmt.Errorf("%w: line %d: the key %.40q is there twice", ErrBroken, n.Content[i].Line, k.value)
			}
			seen[k] = true
		}
	}
	for _, c := range n.Content {
		if err := checkKeys(c); err != nil {
			return err
		}
	}
	return nil
}

// checkLists refuses what is no list, and names that are there twice, of which
// nobody can say which one counts (client-go refuses such a file too).
func (d *document) checkLists() error {
	for _, key := range lists {
		switch d.values[key].(type) {
		case nil, []any:
		default:
			return fmt.Errorf("%w: %s is no list", ErrBroken, key)
		}
		seen := map[string]bool{}
		for _, item := range d.items(key) {
			name := text(item, "name")
			if name != "" && seen[name] {
				return fmt.Errorf("%w: %s has %.80q twice", ErrBroken, key, name)
			}
			seen[name] = true
		}
	}
	return nil
}

func (d *document) items(key string) []any {
	items, _ := d.values[key].([]any)
	return items
}

// get walks into plain mappings; nil if there is no such thing.
func get(v any, keys ...string) any {
	for _, key := range keys {
		switch m := v.(type) {
		case map[string]any:
			v = m[key]
		case map[any]any:
			v = m[key]
		default:
			return nil
		}
	}
	return v
}

func text(v any, keys ...string) string {
	s, _ := get(v, keys...).(string)
	return s
}

// entries are the contexts that kind made and nobody turned to another cluster.
func (d *document) entries(file string) []Entry {
	servers := map[string]string{}
	for _, c := range d.items(clusters) {
		servers[text(c, "name")] = text(c, "cluster", "server")
	}
	var found []Entry
	for _, c := range d.items(contexts) {
		context := text(c, "name")
		if name := clusterName(context); name != "" && text(c, "context", "cluster") == context {
			found = append(found, Entry{File: file, Name: name, Server: servers[context]})
		}
	}
	return found
}

func entriesOf(file string, content []byte) ([]Entry, error) {
	doc, err := parse(content)
	if doc == nil || err != nil {
		return nil, err
	}
	return doc.entries(file), nil
}
