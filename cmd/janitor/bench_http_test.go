package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
)

func unixTransport(host string) *http.Transport {
	return &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", strings.TrimPrefix(host, "unix://"))
	}}
}

func discard(res *http.Response) (int64, error) {
	defer res.Body.Close()
	return io.Copy(io.Discard, res.Body)
}
