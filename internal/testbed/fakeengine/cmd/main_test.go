package main

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestRun(t *testing.T) {
	dir, err := os.MkdirTemp("", "fe-") // t.TempDir() may be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	socket, control := filepath.Join(dir, "s"), filepath.Join(dir, "c")
	for _, stale := range []string{socket, control} { // as a killed run leaves them
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: stale, Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		l.SetUnlinkOnClose(false)
		l.Close()
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	said, ended := make(chan string, 1), make(chan error, 1)
	go func() { ended <- run(ctx, socket, control, writer(func(s string) { said <- s })) }()
	select {
	case s := <-said:
		if s != "unix://"+socket+"\n" {
			t.Errorf("it said %q", s)
		}
	case err := <-ended:
		t.Fatal(err)
	}
	if err := run(ctx, socket, "", &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("a second one on the same socket: %v", err)
	}
	get := func(socket, path string) int {
		tr := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		}}
		defer tr.CloseIdleConnections()
		res, err := (&http.Client{Transport: tr}).Get("http://fake" + path)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		return res.StatusCode
	}
	if got := get(socket, "/_ping"); got != 200 {
		t.Errorf("ping: %d", got)
	}
	if got := get(control, "/_fake/containers"); got != 200 {
		t.Errorf("control: %d", got)
	}
	if got := get(socket, "/_fake/containers"); got != 404 {
		t.Errorf("control on the engine's socket: %d, want 404", got)
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("the end: %v", err)
	}
	for _, s := range []string{socket, control} {
		if _, err := os.Lstat(s); !os.IsNotExist(err) {
			t.Errorf("%s stays: %v", s, err)
		}
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := run(ctx, file, "", &bytes.Buffer{}); err == nil {
		t.Error("a file was taken for a stale socket")
	}
	if _, err := os.Stat(file); err != nil {
		t.Errorf("the file: %v", err)
	}
}

type writer func(string)

func (w writer) Write(b []byte) (int, error) { w(string(b)); return len(b), nil }
