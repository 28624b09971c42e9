package main

import (
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/testbed-janitor/janitor/internal/api"
)

// registerCommand takes a lease and prints its id, for a job's shell to keep.
func (c *cli) registerCommand() *cobra.Command {
	var ttl, wait length
	var owner, kubeconfig, job, build, link, marker string
	var replace, adopt bool
	var labels []string
	cmd := &cobra.Command{
		Use: "register NAME", Short: "Take the lease on a cluster name, before creating it; prints the lease id", Args: one("cluster name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if replace && adopt {
				return usage("--replace and --adopt exclude each other")
			}
			reg := api.Registration{
				// Jenkins' variables fill what is not given; none is required.
				Name: args[0], URL: first(link, c.env["BUILD_URL"]), Job: first(job, c.env["JOB_NAME"]), Build: first(build, c.env["BUILD_NUMBER"]),
				Owner: owner, TTL: ttl.d, Wait: wait.d, Marker: marker, Labels: map[string]string{},
			}
			if kubeconfig != "" {
				path, err := filepath.Abs(kubeconfig)
				if err != nil {
					return err
				}
				reg.Kubeconfig = path
			}
			for _, l := range labels {
				key, value, ok := strings.Cut(l, "=")
				if !ok || key == "" {
					return usage("label %q: KEY=VALUE", l)
				}
				reg.Labels[key] = value
			}
			switch {
			case replace:
				reg.OnOccupied = "replace"
			case adopt:
				reg.OnOccupied = "adopt"
			}
			got, err := c.client().Register(cmd.Context(), reg)
			if err != nil {
				return err
			}
			c.warn(got)
			if got.Repeated {
				c.note("you hold the lease on %s since %s; it was not shortened", got.Name, got.RegisteredAt.Format("15:04:05"))
			}
			return c.print(got, func() error { _, err := fmt.Fprintln(c.out, got.Lease); return err })
		},
	}
	f := cmd.Flags()
	f.Var(&ttl, "ttl", "how long, such as 90m")
	f.StringVar(&owner, "owner", "", "who holds it; default: the path of the build's URL")
	f.StringVar(&kubeconfig, "kubeconfig", "", "the file that gets the cluster's context")
	f.StringVar(&job, "job", "", "default: JOB_NAME")
	f.StringVar(&build, "build", "", "default: BUILD_NUMBER")
	f.StringVar(&link, "url", "", "default: BUILD_URL")
	f.Var(&wait, "wait", "wait that long for a name that is not free")
	f.StringVar(&marker, "marker", "", "KEY=VALUE in the environment of the job's processes")
	f.BoolVar(&replace, "replace", false, "remove a leftover of that name first")
	f.BoolVar(&adopt, "adopt", false, "take over what stands there")
	f.StringArrayVar(&labels, "label", nil, "KEY=VALUE, again and again")
	return cmd
}

func (c *cli) warn(got api.Cluster) {
	for _, w := range got.Warnings {
		c.note("warning: %s", w)
	}
}

// claim adds the flags that say for which lease a command speaks.
func (c *cli) claim(cmd *cobra.Command) func() (api.Claim, error) {
	lease := cmd.Flags().String("lease", "", "the lease id; default: JANITOR_LEASE")
	owner := cmd.Flags().String("owner", "", "the owner; default: the path of BUILD_URL")
	return func() (api.Claim, error) {
		claim := api.Claim{Lease: *lease, Owner: *owner}
		if claim == (api.Claim{}) {
			claim.Lease = c.env["JANITOR_LEASE"]
		}
		if claim == (api.Claim{}) {
			if u, err := url.Parse(c.env["BUILD_URL"]); err == nil {
				claim.Owner = u.EscapedPath()
			}
		}
		if claim == (api.Claim{}) {
			return claim, usage("whose lease? give --lease or --owner, or set JANITOR_LEASE")
		}
		return claim, nil
	}
}

func (c *cli) renewCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "renew NAME", Short: "Extend a lease, never past its cap", Args: one("cluster name")}
	claim := c.claim(cmd)
	var ttl length
	cmd.Flags().Var(&ttl, "ttl", "from now, such as 90m")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		who, err := claim()
		if err != nil {
			return err
		}
		got, err := c.client().Renew(cmd.Context(), args[0], who, ttl.d)
		if err != nil {
			return err
		}
		c.warn(got)
		return c.print(got, func() error { return nil })
	}
	return cmd
}

// releaseCommand ends with 0 also when there is nothing left to release, or
// when the name is another's by now: cleaning up never fails a job.
func (c *cli) releaseCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "release NAME", Short: "Let go of a lease; the cluster is removed at once", Args: one("cluster name")}
	claim := c.claim(cmd)
	var wait length
	cmd.Flags().Var(&wait, "wait", "wait that long until it is gone, such as 2m")
	force := cmd.Flags().Bool("force", false, "release what is not yours (administrators)")
	reason := cmd.Flags().String("reason", "", "why, with --force")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		who, err := claim()
		switch {
		case *force && *reason == "":
			return usage("--force needs a --reason")
		case err != nil && !*force:
			return err
		}
		got, err := c.client().Release(cmd.Context(), args[0], api.Letting{Claim: who, Wait: wait.d, Force: *force, Reason: *reason})
		var refused *api.Error
		if errors.As(err, &refused) && !*force && (refused.Code == "lease-lost" || refused.Code == "not-found") {
			c.note("%s", refused.Detail)
			return nil
		}
		if err != nil {
			return err
		}
		return c.print(got, func() error { return nil })
	}
	return cmd
}

func first(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}

// length is a duration flag: as Go writes it, or in whole seconds.
type length struct{ d time.Duration }

func (l *length) String() string {
	if l.d == 0 {
		return ""
	}
	return l.d.String()
}

func (l *length) Type() string { return "duration" }

func (l *length) Set(s string) error {
	d, err := time.ParseDuration(s)
	if n, e := strconv.ParseInt(s, 10, 32); e == nil {
		d, err = time.Duration(n)*time.Second, nil
	}
	if err != nil || d <= 0 {
		return errors.New("a duration above zero, such as 90m, 2h15m or 5400 (seconds); a day is 24h")
	}
	l.d = d
	return nil
}
