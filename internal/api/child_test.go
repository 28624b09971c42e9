package api

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
)

// childMain is what this test binary does as a child of a test: things that
// need a process of their own, such as another uid or passed sockets.
func childMain() {
	what := os.Getenv("API_TEST_CHILD")
	if what == "" {
		return
	}
	var out any
	var err error
	switch what {
	case "register":
		out, err = NewClient(os.Getenv("API_TEST_SOCKET")).Register(context.Background(), Registration{Name: "child", Owner: "child"})
	case "inherit":
		out, err = inheritAndAnswer()
	case "listen-and-die":
		_, err = Listen(os.Getenv("API_TEST_SOCKET"))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	json.NewEncoder(os.Stdout).Encode(out)
	os.Exit(0)
}

// inheritAndAnswer takes the socket that was passed, says hello to one client
// and closes it.
func inheritAndAnswer() (map[string]string, error) {
	l, err := Listen("/nonexistent/never-made.sock")
	if err != nil {
		return nil, err
	}
	c, err := l.Accept()
	if err != nil {
		return nil, err
	}
	io.WriteString(c, "hello")
	c.Close()
	return map[string]string{"fds": os.Getenv("LISTEN_FDS"), "addr": l.Addr().String()}, l.Close()
}
