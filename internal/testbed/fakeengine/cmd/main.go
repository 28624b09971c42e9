// Command cmd runs a fake Docker Engine as a program: for demonstrations on a
// machine without an engine, and for tests of whole programs.
//
//	go run ./internal/testbed/fakeengine/cmd -socket S [-control C]
//
// It prints the engine's DOCKER_HOST once it answers, and ends on SIGTERM or
// SIGINT. The control socket takes the calls listed at fakeengine.Control:
//
//	curl --unix-socket C -X POST 'http://fake/_fake/nodes?cluster=a&role=control-plane'
//
// It removes a socket that nobody listens on before it takes its place, and
// nothing else. What the engine itself does not do is said in its package.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"

	"github.com/testbed-janitor/janitor/internal/testbed/fakeengine"
)

func main() {
	socket := flag.String("socket", "", "unix socket of the engine")
	control := flag.String("control", "", "unix socket to control it by")
	flag.Parse()
	if *socket == "" || flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := run(ctx, *socket, *control, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "fakeengine:", err)
		os.Exit(1)
	}
}

// run serves until ctx ends.
func run(ctx context.Context, socket, control string, out io.Writer) error {
	if err := unlinkStale(socket); err != nil {
		return err
	}
	e, err := fakeengine.Listen(socket)
	if err != nil {
		return err
	}
	defer e.Close()
	failed := make(chan error, 1)
	if control != "" {
		if err := unlinkStale(control); err != nil {
			return err
		}
		l, err := net.Listen("unix", control)
		if err != nil {
			return err
		}
		server := &http.Server{Handler: e.Control()}
		ended := make(chan struct{})
		go func() { defer close(ended); failed <- server.Serve(l) }()
		defer func() { server.Close(); <-ended }()
	}
	fmt.Fprintln(out, e.Host())
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
		return nil
	}
}

// unlinkStale removes a socket that a killed process left behind.
func unlinkStale(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode().Type() != os.ModeSocket {
		return fmt.Errorf("%s is there and no socket", path)
	}
	if c, err := net.Dial("unix", path); err == nil {
		c.Close()
		return fmt.Errorf("%s is in use", path)
	}
	return os.Remove(path)
}
