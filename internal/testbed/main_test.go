package testbed

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"go.yaml.in/yaml/v3"
)

// The test binary plays the janitor for the tests of Daemon, when it is called
// as one: the program itself is not what is tested here.
func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[1] == "serve" && os.Args[2] == "--config" {
		os.Exit(playJanitor(os.Args[3]))
	}
	if len(os.Args) == 2 && os.Args[1] == "env" {
		for _, kv := range os.Environ() {
			fmt.Println(kv)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func playJanitor(config string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	b, err := os.ReadFile(config)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	var c struct {
		Socket string
		Refuse bool
		Orphans,
		Lease map[string]string
		DockerHost string `yaml:"docker_host"`
	}
	if err := yaml.Unmarshal(b, &c); err != nil || c.Refuse {
		fmt.Fprintln(os.Stderr, "bad config:", err)
		return 1
	}
	os.Remove(c.Socket) // of a run that was killed
	l, err := net.Listen("unix", c.Socket)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Fprintln(os.Stderr, "played janitor is up")
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%d %s %v %v %s", os.Getpid(), r.Host, c.Orphans, c.Lease, c.DockerHost)
	})}
	go server.Serve(l)
	<-ctx.Done()
	server.Close()
	return 0
}
