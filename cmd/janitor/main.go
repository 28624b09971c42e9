// Command janitor keeps a CI testbed clean: "janitor serve" is the service, the
// other commands talk to it over its socket.
//
// Messages go to standard error, begin with "janitor: " and say what to do
// next; what a program might read goes to standard output. The commands decide
// nothing and never touch Docker, kubeconfigs or the database themselves.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// version is stamped by the build: -ldflags '-X main.version=…'.
var version = "dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// A second signal ends the program as if nobody had asked for the first.
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], os.Environ(), os.Stdout, os.Stderr))
}
