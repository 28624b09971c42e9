package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// maxFile bounds the configuration file, which is a page. A path to something
// endless must not fill the memory.
const maxFile = 1 << 20

// decoder puts one YAML document into a Config. It goes on after an error, so
// that all of them are shown at once.
type decoder struct {
	file string
	c    *Config
	errs []error
}

// decode reads a file's content into c. Keys that are absent or null keep
// their value. yaml.v3's own strict mode is not used: it knows neither the
// nearest name nor where a value came from, and takes 1 for a string.
func decode(c *Config, file string, content []byte) error {
	dec := yaml.NewDecoder(bytes.NewReader(content))
	var doc yaml.Node
	switch err := dec.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		return fmt.Errorf("%s: not YAML: %s", file, strings.TrimPrefix(err.Error(), "yaml: "))
	}
	d := &decoder{file: file, c: c}
	if len(doc.Content) == 1 {
		d.section(reflect.ValueOf(c).Elem(), doc.Content[0], "")
	}
	var second yaml.Node
	switch err := dec.Decode(&second); {
	case errors.Is(err, io.EOF):
	case err != nil:
		return fmt.Errorf("%s: not YAML: %s", file, strings.TrimPrefix(err.Error(), "yaml: "))
	default:
		d.fail(&second, "", "a second document begins here; keep everything in one, without ---")
	}
	return errors.Join(d.errs...)
}

func (d *decoder) fail(n *yaml.Node, key, format string, args ...any) {
	where := fmt.Sprintf("%s:%d: ", d.file, n.Line)
	if key != "" {
		where += key + ": "
	}
	d.errs = append(d.errs, errors.New(where+fmt.Sprintf(format, args...)))
}

// section decodes a mapping into the struct v. prefix is "" or ends in a dot.
func (d *decoder) section(v reflect.Value, n *yaml.Node, prefix string) {
	n = resolve(n)
	if isNull(n) {
		return
	}
	name := strings.TrimSuffix(prefix, ".")
	if n.Kind != yaml.MappingNode {
		d.fail(n, name, "must be a section of keys, each as %q, not %s", "key: value", describe(n))
		return
	}
	known := map[string]reflect.Value{}
	var names []string
	for f, value := range fields(v) {
		known[f.name] = value
		names = append(names, f.name)
	}
	first := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.Kind != yaml.ScalarNode {
			d.fail(key, name, "the name of a key must be a word, not %s", describe(key))
			continue
		}
		target, ok := known[key.Value]
		if !ok {
			d.fail(key, prefix+key.Value, "no such key; %s", suggest(key.Value, names))
			continue
		}
		if line, twice := first[key.Value]; twice {
			d.fail(key, prefix+key.Value, "is given twice, first in line %d; remove one", line)
			continue
		}
		first[key.Value] = key.Line
		d.value(target, value, prefix+key.Value, key.Line)
	}
}

func (d *decoder) value(v reflect.Value, n *yaml.Node, key string, line int) {
	n = resolve(n)
	target := v.Addr().Interface()
	switch target.(type) {
	case *string, *bool, *int, *time.Duration, *Schedule, *[]string, *[]Class:
	default:
		d.section(v, n, key+".")
		return
	}
	if isNull(n) { // "key:" with its value commented out
		return
	}
	switch p := target.(type) {
	case *[]Class:
		d.classes(p, n, key)
	case *[]string:
		d.list(p, n, key)
	default:
		d.scalar(p, n, key)
	}
	d.c.origins[key] = fmt.Sprintf("%s:%d", d.file, line)
}

// rule names the tags a scalar may have, and says what to write.
func rule(target any) (tags []string, advice string) {
	switch target.(type) {
	case *bool:
		return []string{"!!bool"}, "true or false"
	case *int:
		return []string{"!!int"}, "a whole number"
	case *time.Duration:
		return []string{"!!str", "!!int"}, "a duration, such as 90m, 2h15m, or whole seconds"
	case *Schedule:
		return []string{"!!str"}, `a schedule in quotes, such as "@every 1m"`
	default:
		return []string{"!!str"}, "text; put it in quotes"
	}
}

func (d *decoder) scalar(target any, n *yaml.Node, key string) {
	tags, advice := rule(target)
	for _, tag := range tags {
		if n.Kind == yaml.ScalarNode && n.ShortTag() == tag {
			if err := setText(target, n.Value); err != nil {
				d.fail(n, key, "%v", err)
			}
			return
		}
	}
	d.fail(n, key, "must be %s, not %s", advice, describe(n))
}

func (d *decoder) list(target *[]string, n *yaml.Node, key string) {
	if n.Kind != yaml.SequenceNode {
		d.fail(n, key, "must be a list, such as [a, b], not %s", describe(n))
		return
	}
	list := make([]string, len(n.Content))
	for i, item := range n.Content {
		d.scalar(&list[i], resolve(item), fmt.Sprintf("%s[%d]", key, i))
	}
	*target = list
}

func (d *decoder) classes(target *[]Class, n *yaml.Node, key string) {
	if n.Kind != yaml.SequenceNode {
		d.fail(n, key, `must be a list, such as [{jobs: "nightly/*", max_ttl: 24h}], not %s`, describe(n))
		return
	}
	list := make([]Class, len(n.Content))
	for i, item := range n.Content {
		name := fmt.Sprintf("%s[%d]", key, i)
		if isNull(resolve(item)) {
			d.fail(item, name, "is empty; give it jobs and times, or remove it")
			continue
		}
		d.section(reflect.ValueOf(&list[i]).Elem(), item, name+".")
	}
	*target = list
}

// resolve follows an alias to the node it stands for.
func resolve(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

// describe says what stands there, without repeating long values.
func describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a section"
	case yaml.SequenceNode:
		return "a list"
	}
	kind, ok := map[string]string{"!!str": "the text", "!!int": "the number", "!!float": "the number", "!!bool": "the truth value", "!!null": "nothing", "!!timestamp": "the date"}[n.ShortTag()]
	if !ok {
		kind = "the value"
	}
	if n.Value == "" || len(n.Value) > 40 {
		return kind
	}
	return fmt.Sprintf("%s %s", kind, n.Value)
}
