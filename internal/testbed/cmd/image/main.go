// Command image loads the stand-in node image into a Docker engine and prints
// its reference and, as a second word, "privileged" when the engine runs
// containers as kind wants them, else "plain". It is for demonstrations.
//
//	go run ./internal/testbed/cmd/image -host unix:///var/run/docker.sock -name probe-1
//
// It downloads nothing. The container it tries with is named by -name, so that
// a caller who is interrupted can take it away; it is gone when all is well.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/testbed-janitor/janitor/internal/testbed"
)

// limit bounds everything: building the node, loading the image and trying it.
const limit = 5 * time.Minute

func main() {
	host := flag.String("host", "", "the engine, as in DOCKER_HOST")
	name := flag.String("name", "", "name of the container to try with")
	flag.Parse()
	if *host == "" || *name == "" || flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if err := run(ctx, *host, *name); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, host, name string) error {
	ref, err := testbed.LoadImage(ctx, host)
	if err != nil {
		return err
	}
	kind := "privileged"
	if why := try(ctx, host, ref, name); why != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		fmt.Fprintln(os.Stderr, why)
		kind = "plain"
	}
	fmt.Println(ref, kind)
	return nil
}

// try runs one container with what kind asks of an engine beyond the usual.
func try(ctx context.Context, host, ref, name string) error {
	d := &testbed.Docker{Host: host}
	out, err := d.Output(ctx, "run", "--rm", "--name", name, "--privileged", "--cgroupns=private", "--network=none",
		"--security-opt", "seccomp=unconfined", "--security-opt", "apparmor=unconfined",
		"--tmpfs", "/tmp", "--tmpfs", "/run", "--volume", "/lib/modules:/lib/modules:ro",
		"--entrypoint", "/bin/cat", ref, "/kind/version")
	if err == nil && !strings.HasPrefix(out, "v1.") {
		err = fmt.Errorf("a privileged container of the stand-in node said %q", out)
	}
	return err
}
