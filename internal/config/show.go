package config

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// Show prints what is in force as YAML that can be loaded again, with a comment
// behind each value that says where it came from. There is no secret in it: the
// Jenkins token is in a file of its own.
func (c *Config) Show() (string, error) {
	var out strings.Builder
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	if err := enc.Encode(c.node(reflect.ValueOf(c).Elem(), "")); err != nil {
		return "", fmt.Errorf("print the configuration: %w", err)
	}
	if err := enc.Close(); err != nil {
		return "", fmt.Errorf("print the configuration: %w", err)
	}
	return out.String(), nil
}

// node is the YAML of a section.
func (c *Config) node(v reflect.Value, prefix string) *yaml.Node {
	section := &yaml.Node{Kind: yaml.MappingNode}
	for f, value := range fields(v) {
		name := &yaml.Node{Kind: yaml.ScalarNode, Value: f.name}
		section.Content = append(section.Content, name, c.valueNode(value, prefix+f.name))
	}
	return section
}

func (c *Config) valueNode(v reflect.Value, key string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.ScalarNode}
	switch p := v.Addr().Interface().(type) {
	case *string:
		n.SetString(*p)
	case *Schedule:
		n.SetString(p.spec)
		n.Style = yaml.DoubleQuotedStyle
	case *time.Duration:
		n.Value = formatDuration(*p)
	case *bool:
		n.Value = strconv.FormatBool(*p)
	case *int:
		n.Value = strconv.Itoa(*p)
	case *[]string:
		n.Kind, n.Style = yaml.SequenceNode, yaml.FlowStyle
		for _, s := range *p {
			item := &yaml.Node{}
			item.SetString(s)
			n.Content = append(n.Content, item)
		}
	case *[]Class:
		n.Kind = yaml.SequenceNode
		if len(*p) == 0 {
			n.Style = yaml.FlowStyle
			break
		}
		for i := range *p {
			n.Content = append(n.Content, c.node(reflect.ValueOf(&(*p)[i]).Elem(), fmt.Sprintf("%s[%d].", key, i)))
		}
		return n // its values have comments of their own
	default:
		return c.node(v, key+".")
	}
	n.LineComment = c.Origin(key)
	return n
}
