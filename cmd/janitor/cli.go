package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/testbed-janitor/janitor/internal/api"
	"github.com/testbed-janitor/janitor/internal/config"
)

// cli is what all commands share.
type cli struct {
	env            map[string]string
	environ        []string
	out, err       io.Writer
	socket, format string
	noHeaders      bool
	quiet          bool
}

// run runs one command line and returns its exit status.
func run(ctx context.Context, args, environ []string, out, errOut io.Writer) int {
	c := &cli{env: map[string]string{}, environ: environ, out: out, err: errOut}
	for _, kv := range environ {
		k, v, _ := strings.Cut(kv, "=")
		c.env[k] = v
	}
	root := c.root()
	root.SetArgs(args)
	root.SetOut(out)
	root.SetErr(errOut)
	err := root.ExecuteContext(ctx)
	if err != nil {
		fmt.Fprintf(errOut, "janitor: %s\n", printable(err.Error()))
	}
	return exitCode(err)
}

func (c *cli) root() *cobra.Command {
	root := &cobra.Command{
		Use:           "janitor",
		Short:         "Keep a CI testbed clean of kind clusters whose lease is over",
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usage("unknown command %q; see janitor --help", args[0])
			}
			return cmd.Help()
		},
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	socket := c.env["JANITOR_SOCKET"]
	if socket == "" {
		socket = config.Default().Socket
	}
	f := root.PersistentFlags()
	f.StringVar(&c.socket, "socket", socket, "the service's socket (JANITOR_SOCKET)")
	f.StringVarP(&c.format, "output", "o", "table", "table, wide, json or yaml")
	f.BoolVar(&c.noHeaders, "no-headers", false, "print tables without their first line")
	f.BoolVar(&c.quiet, "quiet", false, "print nothing but what was asked for")
	root.PersistentPreRunE = func(*cobra.Command, []string) error {
		switch c.format {
		case "table", "wide", "json", "yaml":
			return nil
		}
		return usage("output %q: table, wide, json or yaml", c.format)
	}
	root.AddCommand(c.serveCommand(), c.configCommand(), c.registerCommand(), c.renewCommand(), c.releaseCommand(),
		c.listCommand(), c.showCommand(), c.planCommand(), c.applyCommand(), c.reapCommand(), c.holdCommand(), c.unholdCommand(),
		c.eventsCommand(), c.statusCommand(), c.versionCommand())
	return root
}

func (c *cli) client() *api.Client { return api.NewClient(c.socket) }

// note says something that is not the result.
func (c *cli) note(format string, args ...any) {
	if !c.quiet {
		fmt.Fprintf(c.err, "janitor: %s\n", printable(fmt.Sprintf(format, args...)))
	}
}

// one takes exactly one argument.
func one(what string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) != 1 || args[0] == "" {
			return usage("give one %s", what)
		}
		return nil
	}
}

func none(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usage("unexpected argument %q", args[0])
	}
	return nil
}
