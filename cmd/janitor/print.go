package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// Clients of the socket choose owners, URLs, labels and reasons. On a terminal
// they must neither move the cursor nor forge a line: everything that is
// printed for people goes through visible, all JSON through plainJSON.

// visible quotes a text that would not look like what it is.
func visible(s string) string {
	odd := func(r rune) bool { return !unicode.IsPrint(r) }
	if !utf8.ValidString(s) || strings.ContainsFunc(s, odd) {
		return strconv.Quote(s)
	}
	return s
}

// plainJSON escapes what encoding/json leaves and terminals or eyes stumble
// over: DEL, the C1 controls, marks that turn the direction of text.
func plainJSON(text []byte) []byte {
	var out bytes.Buffer
	for _, r := range string(text) {
		switch {
		case r < utf8.RuneSelf && r != 0x7f, unicode.IsPrint(r):
			out.WriteRune(r)
		case r > 0xffff:
			hi, lo := utf16.EncodeRune(r)
			fmt.Fprintf(&out, `\u%04x\u%04x`, hi, lo)
		default:
			fmt.Fprintf(&out, `\u%04x`, r)
		}
	}
	return out.Bytes()
}

func marshal(v any, indent string) ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", indent)
	err := enc.Encode(v)
	return plainJSON(out.Bytes()), err
}

// print writes a result in the format asked for; people prints it for people.
func (c *cli) print(v any, people func() error) error {
	if c.format != "json" && c.format != "yaml" {
		return people()
	}
	text, err := marshal(v, "  ")
	if err == nil && c.format == "yaml" {
		text, err = yamlOf(text)
	}
	if err != nil {
		return fmt.Errorf("print the answer: %w", err)
	}
	_, err = c.out.Write(text)
	return err
}

// yamlOf writes JSON as YAML, with the fields in the same order.
func yamlOf(text []byte) ([]byte, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return nil, err
	}
	var plain func(n *yaml.Node)
	plain = func(n *yaml.Node) {
		if n.Style &^= yaml.FlowStyle; n.Kind == yaml.ScalarNode {
			n.Style = 0 // quoted where it must be
		}
		for _, child := range n.Content {
			plain(child)
		}
	}
	plain(&doc)
	var out bytes.Buffer
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	err := enc.Encode(&doc)
	return out.Bytes(), err
}

// println writes one line of a result.
func (c *cli) println(text string) error {
	_, err := fmt.Fprintln(c.out, visible(text))
	return err
}

// table writes aligned columns; with --quiet the first column alone. Cells are
// made visible here, and empty ones a dash, so that columns can be counted.
func (c *cli) table(header []string, rows [][]string) error {
	w := tabwriter.NewWriter(c.out, 0, 0, 3, ' ', 0)
	line := func(cells []string) {
		if c.quiet {
			cells = cells[:1]
		}
		shown := make([]string, len(cells))
		for i, cell := range cells {
			if shown[i] = visible(cell); cell == "" {
				shown[i] = "-"
			}
		}
		fmt.Fprintln(w, strings.Join(shown, "\t"))
	}
	if !c.noHeaders && !c.quiet {
		line(header)
	}
	for _, r := range rows {
		line(r)
	}
	return w.Flush()
}

// fields writes what is known of one thing, a line each; lines without a value
// are left out.
func (c *cli) fields(pairs ...string) error {
	w := tabwriter.NewWriter(c.out, 0, 0, 3, ' ', 0)
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			fmt.Fprintf(w, "%s:\t%s\n", pairs[i], visible(pairs[i+1]))
		}
	}
	return w.Flush()
}

// moment is a time as programs may read it, empty when it is not set.
func moment(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// when is a time as seen from now: "in 1h30m", "5m ago".
func (c *cli) when(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	if d := t.Sub(c.now()); d > 0 {
		return "in " + rough(d)
	}
	return rough(c.now().Sub(t)) + " ago"
}

// due is when, for what is overdue already.
func (c *cli) due(t time.Time) string {
	if !t.IsZero() && !t.After(c.now()) {
		return "now"
	}
	return c.when(t)
}

// both is a time as programs and as people read it.
func (c *cli) both(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return moment(t) + " (" + c.when(t) + ")"
}

// rough is a duration in its two largest units.
func rough(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh%dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd%dh", int(d.Hours())/24, int(d.Hours())%24)
}
