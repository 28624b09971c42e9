package main

import (
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/testbed-janitor/janitor/internal/api"
	"github.com/testbed-janitor/janitor/internal/inventory"
)

// The commands of jobs: register, renew, release. In a build of Jenkins they
// need no flags, for its variables say who asks.

// registerCommand takes a lease and prints its id, for a shell to keep.
func (c *cli) registerCommand() *cobra.Command {
	var r api.Registration
	var ttl, wait span
	var replace, adopt bool
	var labels []string
	cmd := &cobra.Command{
		Use: "register NAME", Short: "Take the lease on a cluster's name, before the cluster is created; prints the lease id",
		Args: one("the name of a cluster"),
		RunE: func(cmd *cobra.Command, args []string) error {
			r.Name, r.TTL, r.Wait = args[0], time.Duration(ttl), time.Duration(wait)
			var err error
			if r.Labels, err = keyValues(labels); err != nil {
				return err
			}
			if r.Kubeconfig != "" {
				if r.Kubeconfig, err = filepath.Abs(r.Kubeconfig); err != nil {
					return fmt.Errorf("--kubeconfig: %w", err)
				}
			}
			switch {
			case replace && adopt:
				return usage("--replace and --adopt exclude each other: remove what stands there, or take it over?")
			case replace:
				r.OnOccupied = string(inventory.Replace)
			case adopt:
				r.OnOccupied = string(inventory.Adopt)
			}
			row, err := c.client().Register(cmd.Context(), r)
			if err != nil {
				return err
			}
			c.warn(row)
			if row.Repeated {
				c.note("this owner holds the lease since %s; it was not shortened", moment(row.RegisteredAt))
				for _, n := range row.Nodes {
					c.note("a container of it stands: %s", n.Name)
				}
			}
			return c.print(row, func() error { return c.println(row.Lease) })
		},
	}
	f := cmd.Flags()
	f.Var(&ttl, "ttl", "how long, such as 90m (default: the service's)")
	f.Var(&wait, "wait", "wait that long for a name that is not free")
	f.StringVar(&r.Owner, "owner", "", "who holds it (default: the path of --url)")
	f.StringVar(&r.URL, "url", c.env["BUILD_URL"], "where the build can be seen")
	f.StringVar(&r.Job, "job", c.env["JOB_NAME"], "full name of the job; it decides about the class")
	f.StringVar(&r.Build, "build", c.env["BUILD_NUMBER"], "number of the build")
	f.StringVar(&r.Kubeconfig, "kubeconfig", "", "the file that will have the cluster's context")
	f.StringVar(&r.Marker, "marker", "", "KEY=VALUE in the environment of the job's processes")
	f.StringArrayVar(&labels, "label", nil, "KEY=VALUE to show; may be given again")
	f.BoolVar(&replace, "replace", false, "remove a leftover of that name first")
	f.BoolVar(&adopt, "adopt", false, "take over what stands there")
	return cmd
}

func keyValues(pairs []string) (map[string]string, error) {
	out := map[string]string{}
	for _, p := range pairs {
		key, value, ok := strings.Cut(p, "=")
		if !ok || key == "" {
			return nil, usage("--label %q: write KEY=VALUE", p)
		}
		out[key] = value
	}
	return out, nil
}

// claimFlags adds the flags that say for which lease a command speaks, and
// returns what they come to.
func (c *cli) claimFlags(cmd *cobra.Command) func() (api.Claim, error) {
	lease := cmd.Flags().String("lease", "", "the lease id that register printed (default: JANITOR_LEASE)")
	owner := cmd.Flags().String("owner", "", "who holds it (default: the path of BUILD_URL)")
	return func() (api.Claim, error) {
		claim := api.Claim{Lease: *lease, Owner: *owner}
		if claim == (api.Claim{}) {
			claim.Lease = c.env["JANITOR_LEASE"]
		}
		if claim == (api.Claim{}) {
			claim.Owner = ownerOf(c.env["BUILD_URL"])
		}
		if claim == (api.Claim{}) {
			return claim, usage("whose lease? give --lease with the id that register printed, or --owner")
		}
		return claim, nil
	}
}

// ownerOf is the owner that the service makes of the URL of a registration
// which names none: its path as it is written. A test holds the two together.
func ownerOf(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || strings.Trim(u.EscapedPath(), "/") == "" {
		return ""
	}
	return u.EscapedPath()
}

func (c *cli) renewCommand() *cobra.Command {
	var ttl span
	cmd := &cobra.Command{
		Use: "renew NAME", Short: "Extend a lease, never past its cap; prints its end", Args: one("the name of a cluster"),
	}
	claimed := c.claimFlags(cmd)
	cmd.Flags().Var(&ttl, "ttl", "from now, such as 30m (default: the service's)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		claim, err := claimed()
		if err != nil {
			return err
		}
		row, err := c.client().Renew(cmd.Context(), args[0], claim, time.Duration(ttl))
		if err != nil {
			return err
		}
		c.warn(row)
		return c.print(row, func() error { return c.println(moment(row.ExpiresAt)) })
	}
	return cmd
}

// releaseCommand ends well also when the lease is gone already, or the name is
// another's by now: cleaning up never fails a job.
func (c *cli) releaseCommand() *cobra.Command {
	var l api.Letting
	var wait span
	cmd := &cobra.Command{
		Use: "release NAME", Short: "Let go of a lease; its cluster is removed at once", Args: one("the name of a cluster"),
	}
	claimed := c.claimFlags(cmd)
	f := cmd.Flags()
	f.Var(&wait, "wait", "wait that long until it is gone")
	f.BoolVar(&l.Force, "force", false, "release what is not yours, as an administrator")
	f.StringVar(&l.Reason, "reason", "", "why, with --force")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		claim, err := claimed()
		switch {
		case l.Force && l.Reason == "":
			return usage("--force needs --reason, which goes into the history")
		case !l.Force && l.Reason != "":
			return usage("--reason goes with --force")
		case err != nil && !l.Force:
			return err
		}
		l.Claim, l.Wait = claim, time.Duration(wait)
		row, err := c.client().Release(cmd.Context(), args[0], l)
		if !l.Force && refusedAs(err, inventory.CodeNotFound, inventory.CodeLeaseLost) {
			c.note("nothing to release: %s", err)
			return nil
		}
		if err != nil {
			return err
		}
		return c.print(row, func() error {
			switch {
			case row.State == string(inventory.Closed):
				c.note("%s is gone", row.Name)
			case row.Hold != nil:
				c.note("%s is released, and removed when the hold ends", row.Name)
			default:
				c.note("%s is released, and being removed", row.Name)
			}
			return nil
		})
	}
	return cmd
}
