package main

import (
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/testbed-janitor/janitor/internal/api"
	"github.com/testbed-janitor/janitor/internal/inventory"
)

// The commands that only look: list, show, events, status, version.

func (c *cli) listCommand() *cobra.Command {
	var f api.Filter
	var all bool
	cmd := &cobra.Command{
		Use: "list", Short: "Show the clusters that are known, and what becomes of them", Args: none,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if all {
				f.State = "all"
			}
			rows, err := c.client().List(cmd.Context(), f)
			if err != nil {
				return err
			}
			if rows == nil {
				rows = []api.Cluster{}
			}
			return c.print(map[string]any{"clusters": rows}, func() error { return c.clusters(rows) })
		},
	}
	cmd.Flags().StringVar(&f.State, "state", "", "active, released, reaping, closed or all (default: all but closed)")
	cmd.Flags().BoolVarP(&all, "all", "a", false, "closed ones too")
	cmd.Flags().StringVar(&f.Owner, "owner", "", "only of this owner")
	cmd.Flags().StringVar(&f.Job, "job", "", "only of this job")
	return cmd
}

func (c *cli) clusters(rows []api.Cluster) error {
	header := []string{"NAME", "OWNER", "STATE", "VERDICT", "REASON", "DUE"}
	if c.format == "wide" {
		header = append(header, "LEASE", "ORIGIN", "JOB", "BUILD", "NODES", "REGISTERED", "EXPIRES")
	}
	var table [][]string
	for _, r := range rows {
		state, reason := r.State, r.Reason
		if r.Hold != nil {
			state += ",held"
		}
		if r.Stuck {
			state += ",stuck"
		}
		if r.CloseReason != "" {
			reason = r.CloseReason
		}
		row := []string{r.Name, r.Owner, state, r.Verdict, reason, c.due(r.Due)}
		if c.format == "wide" {
			row = append(row, r.Lease, r.Origin, r.Job, r.Build, strconv.Itoa(len(r.Nodes)), moment(r.RegisteredAt), moment(r.ExpiresAt))
		}
		table = append(table, row)
	}
	return c.table(header, table)
}

func (c *cli) showCommand() *cobra.Command {
	return &cobra.Command{
		Use: "show NAME", Short: "Show all that is known of one cluster", Args: one("the name of a cluster"),
		RunE: func(cmd *cobra.Command, args []string) error {
			row, err := c.client().Get(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return c.print(row, func() error { return c.cluster(row) })
		},
	}
}

func (c *cli) cluster(r api.Cluster) error {
	pairs := []string{
		"name", r.Name, "state", r.State, "verdict", r.Verdict, "reason", r.Reason, "due", c.both(r.Due),
		"lease", r.Lease, "origin", r.Origin, "owner", r.Owner, "job", r.Job, "build", r.Build, "url", r.URL,
		"kubeconfig", r.Kubeconfig, "registered", c.both(r.RegisteredAt), "expires", c.both(r.ExpiresAt), "cap", c.both(r.CapAt),
		"first seen", c.both(r.FirstSeenAt), "last seen", c.both(r.LastSeenAt),
	}
	if r.UID != nil {
		pairs = append(pairs, "uid", strconv.FormatUint(uint64(*r.UID), 10))
	}
	if r.Hold != nil {
		pairs = append(pairs, "hold", fmt.Sprintf("until %s, by %s: %s", moment(r.Hold.Until), r.Hold.By, r.Hold.Reason))
	}
	for _, e := range r.Evidence {
		pairs = append(pairs, "evidence", strings.TrimSpace(fmt.Sprintf("%s says %s %s", e.Source, e.Says, e.Detail)))
	}
	for _, n := range r.Nodes {
		pairs = append(pairs, "node", node(n))
	}
	for _, n := range r.Foreign {
		pairs = append(pairs, "foreign", node(n))
	}
	if r.Attempts > 0 {
		pairs = append(pairs, "attempts", strconv.Itoa(r.Attempts), "last error", r.LastError)
	}
	pairs = append(pairs, "closed", c.both(r.ClosedAt), "closed as", r.CloseReason)
	for _, w := range r.Warnings {
		pairs = append(pairs, "warning", w)
	}
	return c.fields(pairs...)
}

func node(n api.Node) string {
	return strings.Join([]string{n.Name, n.Role, n.State, n.ID[:min(12, len(n.ID))]}, " ")
}

func (c *cli) eventsCommand() *cobra.Command {
	var q api.EventQuery
	var since string
	cmd := &cobra.Command{
		Use: "events", Short: "Show what happened", Args: none,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if since != "" {
				var ago span
				t, err := time.Parse(time.RFC3339, since)
				if err != nil && ago.Set(since) == nil {
					t, err = c.now().Add(-time.Duration(ago)), nil
				}
				if err != nil {
					return usage("--since %q: write a time such as 2026-01-31T18:00:00Z, or how long ago, such as 2h", since)
				}
				q.Since = t
			}
			return c.client().Events(cmd.Context(), q, c.event)
		},
	}
	cmd.Flags().BoolVarP(&q.Follow, "follow", "f", false, "go on with what happens")
	cmd.Flags().StringVar(&q.Name, "name", "", "only of this cluster")
	cmd.Flags().StringVar(&since, "since", "", "a time, or how long ago, such as 2h")
	return cmd
}

// event prints one event as a line: as JSON, a YAML document, or columns of a
// width that is not known beforehand.
func (c *cli) event(e api.Event) error {
	switch c.format {
	case "json":
		text, err := marshal(e, "")
		if err == nil {
			_, err = c.out.Write(text)
		}
		return err
	case "yaml":
		if _, err := fmt.Fprintln(c.out, "---"); err != nil {
			return err
		}
		return c.print(e, nil)
	}
	_, err := fmt.Fprintf(c.out, "%s  %-16s %s\n", moment(e.At), visible(e.Kind), strings.Join(shown(e.Name, e.Reason, e.Actor, e.Detail), "  "))
	return err
}

func shown(texts ...string) []string {
	var out []string
	for _, t := range texts {
		if t != "" {
			out = append(out, visible(t))
		}
	}
	return out
}

func (c *cli) statusCommand() *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "Show whether the service is well, and what it sees", Args: none,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := c.client().Status(cmd.Context())
			if err != nil {
				return err
			}
			return c.print(s, func() error { return c.status(s) })
		},
	}
}

func (c *cli) status(s api.Status) error {
	pairs := []string{
		"version", s.Version, "started", c.both(s.StartedAt), "last pass", c.both(s.LastPassAt),
		"last good pass", c.both(s.LastGoodPassAt), "next pass", c.both(s.NextPassAt),
		"passes", fmt.Sprintf("%d, and %d that shared one", s.Passes, s.Coalesced), "last error", s.LastError,
	}
	if s.Docker != nil {
		pairs = append(pairs, "docker", strings.TrimSpace(s.Docker.Host+" "+s.Docker.Version), "docker error", s.Docker.Error)
	}
	if s.Blind != "" {
		pairs = append(pairs, "blind", s.Blind)
	}
	if s.Brake {
		pairs = append(pairs, "brake", fmt.Sprintf("keeps %d orphans; look with janitor plan --save, then janitor apply", s.BrakeCount))
	}
	if s.DryRun {
		pairs = append(pairs, "dry run", "nothing is removed")
	}
	if s.Database != nil {
		pairs = append(pairs, "database", fmt.Sprintf("%s, %d KiB", s.Database.Path, s.Database.Bytes>>10), "database error", s.Database.Error)
	}
	pairs = append(pairs, "inventory since", c.both(s.InventorySince))
	for _, state := range []inventory.State{inventory.Active, inventory.Released, inventory.Reaping, inventory.Closed} {
		pairs = append(pairs, string(state), strconv.Itoa(s.Clusters[string(state)]))
	}
	for _, w := range slices.Sorted(slices.Values(s.Warnings)) {
		pairs = append(pairs, "warning", w)
	}
	return c.fields(pairs...)
}

func (c *cli) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Show the version of this command", Args: none,
		RunE: func(*cobra.Command, []string) error {
			v := map[string]string{"version": version, "go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH}
			return c.print(v, func() error { return c.println("janitor " + version) })
		},
	}
}
