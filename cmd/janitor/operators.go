package main

import (
	"encoding/json"
	"fmt"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"github.com/testbed-janitor/janitor/internal/api"
)

func (c *cli) listCommand() *cobra.Command {
	var state, owner, job string
	cmd := &cobra.Command{
		Use: "list", Short: "Show the clusters that are known, and what becomes of them", Args: none,
		RunE: func(cmd *cobra.Command, _ []string) error {
			got, err := c.client().List(cmd.Context(), api.Filter{State: state, Owner: owner, Job: job})
			if err != nil {
				return err
			}
			return c.print(map[string][]api.Cluster{"clusters": got}, func() error { return c.clusterTable(got) })
		},
	}
	cmd.Flags().StringVar(&state, "state", "", "active, released, reaping, closed or all; default: all but closed")
	cmd.Flags().StringVar(&owner, "owner", "", "of this owner only")
	cmd.Flags().StringVar(&job, "job", "", "of this job only")
	return cmd
}

func (c *cli) showCommand() *cobra.Command {
	return &cobra.Command{
		Use: "show NAME", Short: "Show all that is known of one cluster", Args: one("cluster name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			got, err := c.client().Get(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return c.print(got, func() error { return c.yaml(got) })
		},
	}
}

func (c *cli) planCommand() *cobra.Command {
	var save bool
	cmd := &cobra.Command{
		Use: "plan", Short: "Show what the next pass would do", Args: none,
		RunE: func(cmd *cobra.Command, _ []string) error {
			make := c.client().Plan
			if save {
				make = c.client().SavePlan
			}
			got, err := make(cmd.Context())
			if err != nil {
				return err
			}
			return c.print(got, func() error {
				if got.ID != "" {
					c.note("saved for an hour; carry it out with: janitor apply %s", got.ID)
				}
				return c.decisionTable(got.Decisions)
			})
		},
	}
	cmd.Flags().BoolVar(&save, "save", false, "keep the plan, to be applied")
	return cmd
}

func (c *cli) applyCommand() *cobra.Command {
	return &cobra.Command{
		Use: "apply PLAN", Short: "Carry out a saved plan, exactly; this also releases the brake", Args: one("plan id"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.report(c.client().Apply(cmd.Context(), args[0]))
		},
	}
}

func (c *cli) reapCommand() *cobra.Command {
	return &cobra.Command{
		Use: "reap", Short: "Run a pass now, and show what it did", Args: none,
		RunE: func(cmd *cobra.Command, _ []string) error { return c.report(c.client().Pass(cmd.Context())) },
	}
}

// report prints what a pass came to; what failed in it fails the command.
func (c *cli) report(got api.Pass, err error) error {
	if err != nil {
		return err
	}
	if err := c.print(got, func() error { return c.passTable(got) }); err != nil {
		return err
	}
	if got.Error != "" {
		return fmt.Errorf("the pass: %s", got.Error)
	}
	for _, r := range got.Results {
		if !r.OK {
			return fmt.Errorf("%s: %s", r.Name, r.Error)
		}
	}
	return nil
}

func (c *cli) holdCommand() *cobra.Command {
	var period length
	var until, reason string
	cmd := &cobra.Command{
		Use: "hold NAME", Short: "Protect a cluster, until an end", Args: one("cluster name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if (period.d == 0) == (until == "") {
				return usage("a hold has an end: give --for or --until")
			}
			if reason == "" {
				return usage("a hold has a --reason")
			}
			var got api.Cluster
			var err error
			if until != "" {
				end, bad := time.Parse(time.RFC3339, until)
				if bad != nil {
					return usage("--until %q: a time such as 2026-01-31T18:00:00Z", until)
				}
				got, err = c.client().HoldUntil(cmd.Context(), args[0], end, reason)
			} else {
				got, err = c.client().HoldFor(cmd.Context(), args[0], period.d, reason)
			}
			if err != nil {
				return err
			}
			return c.print(got, func() error {
				if got.Hold != nil {
					c.note("%s is held until %s", got.Name, got.Hold.Until.Format(time.RFC3339))
				}
				return nil
			})
		},
	}
	cmd.Flags().Var(&period, "for", "how long, such as 8h")
	cmd.Flags().StringVar(&until, "until", "", "until when, such as 2026-01-31T18:00:00Z")
	cmd.Flags().StringVar(&reason, "reason", "", "why")
	return cmd
}

func (c *cli) unholdCommand() *cobra.Command {
	return &cobra.Command{
		Use: "unhold NAME", Short: "End a hold", Args: one("cluster name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			got, err := c.client().Unhold(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return c.print(got, func() error { return nil })
		},
	}
}

func (c *cli) eventsCommand() *cobra.Command {
	var follow bool
	var name, since string
	cmd := &cobra.Command{
		Use: "events", Short: "Show what happened", Args: none,
		RunE: func(cmd *cobra.Command, _ []string) error {
			q := api.EventQuery{Name: name, Follow: follow}
			if since != "" {
				var ago length
				at, err := time.Parse(time.RFC3339, since)
				if err != nil {
					if ago.Set(since) != nil {
						return usage("--since %q: a time such as 2026-01-31T18:00:00Z, or how long ago, such as 2h", since)
					}
					at = time.Now().Add(-ago.d)
				}
				q.Since = at
			}
			return c.client().Events(cmd.Context(), q, func(e api.Event) error {
				switch c.format {
				case "json":
					return json.NewEncoder(c.out).Encode(e) // one line each
				case "yaml":
					return c.yaml(e)
				}
				return c.eventLine(e)
			})
		},
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on with what happens")
	cmd.Flags().StringVar(&name, "name", "", "of this cluster only")
	cmd.Flags().StringVar(&since, "since", "", "a time, or how long ago, such as 2h")
	return cmd
}

func (c *cli) statusCommand() *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "Show how the service fares", Args: none,
		RunE: func(cmd *cobra.Command, _ []string) error {
			got, err := c.client().Status(cmd.Context())
			if err != nil {
				return err
			}
			return c.print(got, func() error { return c.yaml(got) })
		},
	}
}

func (c *cli) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Show the version of this command", Args: none,
		RunE: func(*cobra.Command, []string) error {
			v := map[string]string{"version": version, "go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH}
			return c.print(v, func() error { _, err := fmt.Fprintln(c.out, "janitor "+version); return err })
		},
	}
}
