package main

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/spf13/cobra"

	"github.com/testbed-janitor/janitor/internal/config"
)

// load reads the configuration. The usual file may be missing; one that was
// named may not.
func (c *cli) load(path string, flags map[string]string) (*config.Config, error) {
	named := path != ""
	if !named {
		path = config.DefaultPath
	}
	cfg, err := config.Load(path, c.environ, flags)
	if !named && errors.Is(err, fs.ErrNotExist) {
		cfg, err = config.Load("", c.environ, flags)
	}
	return cfg, err
}

func (c *cli) configCommand() *cobra.Command {
	var path string
	parent := &cobra.Command{
		Use: "config", Short: "Check or show the configuration",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usage("unknown command %q: config check, or config show", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	parent.PersistentFlags().StringVar(&path, "config", "", "the file; default: "+config.DefaultPath)
	parent.AddCommand(&cobra.Command{
		Use: "check", Short: "Say what is wrong with the configuration", Args: none,
		RunE: func(*cobra.Command, []string) error {
			cfg, err := c.load(path, nil)
			if err != nil {
				return err
			}
			for _, w := range cfg.Warnings {
				c.note("warning: %s", w)
			}
			c.note("the configuration is good")
			return nil
		},
	}, &cobra.Command{
		Use: "show", Short: "Show what is in force, and where each value came from", Args: none,
		RunE: func(*cobra.Command, []string) error {
			cfg, err := c.load(path, nil)
			if err != nil {
				return err
			}
			text, err := cfg.Show()
			if err != nil {
				return err
			}
			_, err = fmt.Fprint(c.out, text)
			return err
		},
	})
	return parent
}
