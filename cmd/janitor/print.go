package main

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"go.yaml.in/yaml/v3"

	"github.com/testbed-janitor/janitor/internal/api"
)

// print writes a result in the format that was asked for; table prints it for
// people.
func (c *cli) print(v any, table func() error) error {
	switch c.format {
	case "json":
		e := json.NewEncoder(c.out)
		e.SetIndent("", "  ")
		return e.Encode(v)
	case "yaml":
		return c.yaml(v)
	}
	return table()
}

// yaml prints the same fields as JSON does.
func (c *cli) yaml(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	var node yaml.Node // keeps the order of the fields
	if err := yaml.Unmarshal(b, &node); err != nil {
		return err
	}
	block(&node)
	e := yaml.NewEncoder(c.out)
	e.SetIndent(2)
	return e.Encode(&node)
}

// block turns JSON's flow style into YAML's usual one.
func block(n *yaml.Node) {
	n.Style = 0
	for _, k := range n.Content {
		block(k)
	}
}

// printable quotes what could drive a terminal or forge a line.
func printable(s string) string {
	if strings.IndexFunc(s, func(r rune) bool { return unicode.IsControl(r) || r == unicode.ReplacementChar }) >= 0 {
		return strconv.Quote(s)
	}
	return s
}

// table writes aligned columns.
func (c *cli) table(header []string, rows [][]string) error {
	w := tabwriter.NewWriter(c.out, 0, 0, 3, ' ', 0)
	if !c.noHeaders {
		fmt.Fprintln(w, strings.Join(header, "\t"))
	}
	for _, r := range rows {
		for i := range r {
			if r[i] = printable(r[i]); r[i] == "" {
				r[i] = "-"
			}
		}
		fmt.Fprintln(w, strings.Join(r, "\t"))
	}
	return w.Flush()
}

func (c *cli) clusterTable(cs []api.Cluster) error {
	header := []string{"NAME", "STATE", "OWNER", "AGE", "VERDICT", "REASON", "DUE"}
	if c.format == "wide" {
		header = append(header, "NODES", "LEASE", "KUBECONFIG")
	}
	var rows [][]string
	for _, k := range cs {
		state := k.State
		switch {
		case k.Hold != nil:
			state += ",held"
		case k.Stuck:
			state += ",stuck"
		}
		reason := k.Reason
		if k.State == "closed" {
			reason = k.CloseReason
		}
		row := []string{k.Name, state, k.Owner, age(k.RegisteredAt), k.Verdict, reason, until(k.Due)}
		if c.format == "wide" {
			row = append(row, strconv.Itoa(len(k.Nodes)), k.Lease, k.Kubeconfig)
		}
		rows = append(rows, row)
	}
	return c.table(header, rows)
}

func (c *cli) decisionTable(ds []api.Decision) error {
	var rows [][]string
	for _, d := range ds {
		verdict := d.Verdict
		if d.Would != "" {
			verdict += " (would " + d.Would + ")"
		}
		name := d.Name
		if d.File != "" {
			name += " in " + d.File
		}
		rows = append(rows, []string{name, verdict, d.Reason, until(d.Due), strconv.Itoa(len(d.Nodes))})
	}
	return c.table([]string{"NAME", "VERDICT", "REASON", "DUE", "NODES"}, rows)
}

func (c *cli) passTable(p api.Pass) error {
	if err := c.decisionTable(p.Decisions); err != nil {
		return err
	}
	for _, r := range p.Results {
		if r.OK {
			c.note("%s: done", r.Name)
		}
	}
	return nil
}

func (c *cli) eventLine(e api.Event) error {
	fields := []string{e.At.Format(time.RFC3339), e.Kind}
	for _, f := range []string{e.Name, e.Actor, e.Reason, e.Detail} {
		if f != "" {
			fields = append(fields, printable(f))
		}
	}
	_, err := fmt.Fprintln(c.out, strings.Join(fields, "  "))
	return err
}

func age(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return short(time.Since(t))
}

func until(t time.Time) string {
	switch d := time.Until(t); {
	case t.IsZero():
		return ""
	case d <= 0:
		return "now"
	default:
		return "in " + short(d)
	}
}

// short is a duration as kubectl writes ages.
func short(d time.Duration) string {
	switch {
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh%dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd", int(d.Hours())/24)
}
