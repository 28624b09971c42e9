package main

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/spf13/cobra"

	"github.com/testbed-janitor/janitor/internal/config"
)

// load reads the configuration: file, variables, then flags. The usual file may
// be missing, since every key is optional; one that was named may not.
func (c *cli) load(path string) (*config.Config, error) {
	flags := map[string]string{}
	if c.socket != "" {
		flags["socket"] = c.socket
	}
	if path != "" {
		return config.Load(path, c.environ, flags)
	}
	cfg, err := config.Load(config.DefaultPath, c.environ, flags)
	if errors.Is(err, fs.ErrNotExist) {
		cfg, err = config.Load("", c.environ, flags)
	}
	return cfg, err
}

func (c *cli) configCommand() *cobra.Command {
	var path string
	group := &cobra.Command{
		Use: "config", Short: "Check or show the configuration of the service",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usage("%q is no command; use config check or config show", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	group.PersistentFlags().StringVar(&path, "config", "", "the file (default "+config.DefaultPath+")")
	group.AddCommand(
		&cobra.Command{
			Use: "check", Short: "Say all that is wrong with the configuration", Args: none,
			RunE: func(*cobra.Command, []string) error {
				cfg, err := c.load(path)
				if err != nil {
					return err
				}
				for _, w := range cfg.Warnings {
					c.note("warning: %s", w)
				}
				if _, err := groupID(cfg.AdminGroup); err != nil {
					c.note("warning: on this machine the service would not start: %s", err)
				}
				c.note("the configuration is good")
				return nil
			},
		},
		&cobra.Command{
			Use: "show", Short: "Show what is in force, and where each value came from", Args: none,
			RunE: func(*cobra.Command, []string) error {
				cfg, err := c.load(path)
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
		},
	)
	return group
}
