package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/testbed-janitor/janitor/internal/api"
	"github.com/testbed-janitor/janitor/internal/config"
)

// cli is what all commands share.
type cli struct {
	env      map[string]string
	environ  []string // as os.Environ has it
	out, err io.Writer
	now      func() time.Time
	began    bool // the command line was understood

	socket    string
	format    string
	noHeaders bool
	quiet     bool
}

// run runs one command line and returns its exit status.
func run(ctx context.Context, args, environ []string, out, errOut io.Writer) int {
	c := &cli{environ: environ, env: map[string]string{}, out: out, err: errOut, now: time.Now}
	for _, kv := range environ {
		name, value, _ := strings.Cut(kv, "=")
		c.env[name] = value
	}
	root := c.root()
	root.SetArgs(args)
	root.SetOut(out)
	root.SetErr(errOut)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitDone
	}
	if !c.began { // cobra's own errors have no type
		err = usage("%s", err)
	}
	c.say(explain(err))
	return exitStatus(err)
}

func (c *cli) root() *cobra.Command {
	root := &cobra.Command{
		Use:           "janitor",
		Short:         "Keep a CI testbed clean of kind clusters that nobody needs any more",
		Version:       version,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetVersionTemplate("janitor {{.Version}}\n")
	flags := root.PersistentFlags()
	flags.StringVar(&c.socket, "socket", "", "the service's socket (JANITOR_SOCKET; default "+config.Default().Socket+")")
	flags.StringVarP(&c.format, "output", "o", "table", "table, wide, json or yaml")
	flags.BoolVar(&c.noHeaders, "no-headers", false, "print tables without their first line")
	flags.BoolVarP(&c.quiet, "quiet", "q", false, "print no notes, and of tables only names")
	root.PersistentPreRunE = func(*cobra.Command, []string) error {
		switch c.format {
		case "table", "wide", "json", "yaml":
			c.began = true
			return nil
		}
		return usage("%q is no output format; use table, wide, json or yaml", c.format)
	}
	root.AddCommand(
		c.serveCommand(), c.configCommand(),
		c.registerCommand(), c.renewCommand(), c.releaseCommand(),
		c.listCommand(), c.showCommand(), c.eventsCommand(), c.statusCommand(), c.versionCommand(),
		c.planCommand(), c.applyCommand(), c.reapCommand(), c.holdCommand(), c.unholdCommand(),
	)
	return root
}

// client is the one way to the service.
func (c *cli) client() *api.Client {
	socket := c.socket
	if socket == "" {
		socket = c.env["JANITOR_SOCKET"]
	}
	if socket == "" {
		socket = config.Default().Socket
	}
	return api.NewClient(socket)
}

// say writes a message, each of its lines marked as the janitor's.
func (c *cli) say(message string) {
	for line := range strings.Lines(message) {
		fmt.Fprintf(c.err, "janitor: %s\n", visible(strings.TrimSuffix(line, "\n")))
	}
}

// note says what helps and is not the result.
func (c *cli) note(format string, args ...any) {
	if !c.quiet {
		c.say(fmt.Sprintf(format, args...))
	}
}

// warn says what the service wants the caller of a command to know.
func (c *cli) warn(row api.Cluster) {
	for _, w := range row.Warnings {
		c.note("warning: %s", w)
	}
}

// one takes exactly one argument.
func one(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != 1 || args[0] == "" {
			return usage("%q takes one argument, %s; see %[1]s --help", cmd.CommandPath(), what)
		}
		return nil
	}
}

// none takes no argument.
func none(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usage("%q takes no argument such as %q; see %[1]s --help", cmd.CommandPath(), args[0])
	}
	return nil
}

// span is a flag for a duration: Go's, or whole seconds, as on the socket.
type span time.Duration

func (s *span) Type() string { return "duration" }

func (s *span) String() string {
	if *s == 0 {
		return ""
	}
	return time.Duration(*s).String()
}

func (s *span) Set(text string) error {
	d, err := time.ParseDuration(text)
	if n, numErr := strconv.ParseUint(text, 10, 32); numErr == nil {
		d, err = time.Duration(n)*time.Second, nil
	}
	if err != nil || d <= 0 {
		return fmt.Errorf("write a duration above 0, such as 90m, 2h15m or whole seconds; a day is 24h")
	}
	*s = span(d)
	return nil
}
