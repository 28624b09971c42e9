// Command janitor keeps a CI testbed clean: "janitor serve" is the service, the
// other commands talk to it over its socket.
//
// Messages go to standard error, start with "janitor: " and say what to do.
// What a program might read goes to standard output.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// version is stamped by the build.
var version = "dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Environ(), os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
