package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/testbed-janitor/janitor/internal/api"
	"github.com/testbed-janitor/janitor/internal/inventory"
)

// The commands of operators: plan, apply, reap, hold, unhold.

func (c *cli) planCommand() *cobra.Command {
	var save bool
	cmd := &cobra.Command{
		Use: "plan", Short: "Show what the next pass would do", Args: none,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ask := c.client().Plan
			if save {
				ask = c.client().SavePlan
			}
			p, err := ask(cmd.Context())
			if err != nil {
				return err
			}
			return c.print(p, func() error {
				if p.ID == "" {
					return c.decisions(p.Decisions)
				}
				if !c.quiet { // with --quiet the id alone, for a shell to keep
					if err := c.decisions(p.Decisions); err != nil {
						return err
					}
					c.note("saved for an hour; carry it out with: janitor apply %s", p.ID)
				}
				return c.println(p.ID)
			})
		},
	}
	cmd.Flags().BoolVar(&save, "save", false, "keep the plan, to be applied; prints its id last")
	return cmd
}

func (c *cli) decisions(ds []api.Decision) error {
	header := []string{"NAME", "VERDICT", "REASON", "WOULD", "DUE", "NODES"}
	if c.format == "wide" {
		header = append(header, "LEASE", "FILE", "IDS")
	}
	var table [][]string
	for _, d := range ds {
		row := []string{d.Name, d.Verdict, d.Reason, d.Would, c.due(d.Due), strconv.Itoa(len(d.Nodes))}
		if c.format == "wide" {
			row = append(row, d.Lease, d.File, strings.Join(d.Nodes, ","))
		}
		table = append(table, row)
	}
	return c.table(header, table)
}

func (c *cli) applyCommand() *cobra.Command {
	return &cobra.Command{
		Use: "apply PLAN", Short: "Carry out a saved plan and nothing else; this is how the brake is released",
		Args: one("the id of a plan"),
		RunE: func(cmd *cobra.Command, args []string) error {
			p, err := c.client().Apply(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return c.pass(p)
		},
	}
}

func (c *cli) reapCommand() *cobra.Command {
	return &cobra.Command{
		Use: "reap", Short: "Run a pass now, and show what it did", Args: none,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, err := c.client().Pass(cmd.Context())
			if err != nil {
				return err
			}
			return c.pass(p)
		},
	}
}

// pass prints the report of a pass, and says whether all went well.
func (c *cli) pass(p api.Pass) error {
	if err := c.print(p, func() error { return c.outcomes(p) }); err != nil {
		return err
	}
	var failed, skipped, braked int
	for _, r := range p.Results {
		switch {
		case r.OK:
		case strings.HasPrefix(r.Error, "skipped: "):
			skipped++
		default:
			failed++
		}
	}
	for _, d := range p.Decisions {
		if d.Reason == string(inventory.Brake) {
			braked++
		}
	}
	switch {
	case p.Error != "":
		return fmt.Errorf("the pass is not complete: %s", p.Error)
	case failed > 0:
		return fmt.Errorf("%d of %d failed; they are tried again with the next passes", failed, len(p.Results))
	case skipped > 0:
		return conflict("%d of %d skipped, for they have changed; look with janitor plan", skipped, len(p.Results))
	case braked > 0:
		return conflict("the brake keeps %d orphans; look with janitor plan --save, then carry that out with janitor apply", braked)
	}
	return nil
}

// outcomes shows what was decided and, where there was something to do, what
// became of it.
func (c *cli) outcomes(p api.Pass) error {
	results := map[string]string{}
	for _, r := range p.Results {
		results[r.Name] = r.Error
		if r.OK {
			results[r.Name] = "done"
		}
	}
	var table [][]string
	for _, d := range p.Decisions {
		result := results[d.Name]
		if d.Verdict == string(inventory.Keep) && result == "done" {
			result = "" // of another decision about the name
		}
		table = append(table, []string{d.Name, d.Verdict, d.Reason, result})
	}
	return c.table([]string{"NAME", "VERDICT", "REASON", "RESULT"}, table)
}

func (c *cli) holdCommand() *cobra.Command {
	var length span
	var until, reason string
	cmd := &cobra.Command{
		Use: "hold NAME", Short: "Protect a cluster until an end; prints the end", Args: one("the name of a cluster"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if reason == "" {
				return usage("a hold needs --reason, so that others know why")
			}
			if (length == 0) == (until == "") {
				return usage("a hold needs an end: give --for 8h, or --until 2026-01-31T18:00:00Z")
			}
			var row api.Cluster
			var err error
			if until == "" {
				row, err = c.client().HoldFor(cmd.Context(), args[0], time.Duration(length), reason)
			} else {
				end, parseErr := time.Parse(time.RFC3339, until)
				if parseErr != nil {
					return usage("--until %q: write a time such as 2026-01-31T18:00:00Z", until)
				}
				row, err = c.client().HoldUntil(cmd.Context(), args[0], end, reason)
			}
			if err != nil {
				return err
			}
			return c.print(row, func() error {
				if row.Hold == nil {
					return nil
				}
				return c.println(moment(row.Hold.Until))
			})
		},
	}
	cmd.Flags().Var(&length, "for", "how long, such as 8h")
	cmd.Flags().StringVar(&until, "until", "", "until when, such as 2026-01-31T18:00:00Z")
	cmd.Flags().StringVar(&reason, "reason", "", "why")
	return cmd
}

func (c *cli) unholdCommand() *cobra.Command {
	return &cobra.Command{
		Use: "unhold NAME", Short: "End the hold on a cluster", Args: one("the name of a cluster"),
		RunE: func(cmd *cobra.Command, args []string) error {
			row, err := c.client().Unhold(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return c.print(row, func() error {
				c.note("%s is not held", row.Name)
				return nil
			})
		},
	}
}
