package api

import (
	"net"
	"net/http"
	"net/netip"
	"path"
	"runtime/debug"
	"strings"
)

// ServeHTTP answers one request, and refuses what no call may be.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	defer func() {
		cause := recover()
		if cause == nil {
			return
		}
		if cause == http.ErrAbortHandler { //nolint:errorlint // a sentinel that is thrown, never wrapped
			panic(cause)
		}
		s.log.ErrorContext(r.Context(), "call panicked", "method", r.Method, "path", r.URL.Path, "cause", cause, "stack", string(debug.Stack()))
		s.fail(w, r, refuse(codeUnexpected, "something went wrong; the log of the service says what"))
	}()
	if err := guard(r); err != nil {
		s.fail(w, r, err)
		return
	}
	// The mux would answer an unclean path with a redirect, and "*" in plain text.
	if r.URL.Path != path.Clean(r.URL.Path) || !strings.HasPrefix(r.URL.Path, "/") {
		s.fail(w, r, notFound(r))
		return
	}
	s.mux.ServeHTTP(w, r)
}

// guard refuses who the kernel does not vouch for, and browsers: a page that
// reached this socket through some proxy must get nothing.
func guard(r *http.Request) error {
	if _, ok := peerOf(r); !ok {
		return refuse("forbidden", "the kernel does not say who is calling; use the unix socket")
	}
	if len(r.Header.Values("Origin")) > 0 || len(r.Header.Values("Sec-Fetch-Site")) > 0 {
		return refuse("forbidden", "requests of browsers are refused")
	}
	if looksPublic(r.Host) {
		return refuse("forbidden", "the host %.100q looks like a web site's; use http://localhost", r.Host)
	}
	return nil
}

// looksPublic reports whether a Host header may be a web site's name: anything
// with a dot or an address that is not this machine's own.
func looksPublic(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.Trim(host, "[]")
	if ip, err := netip.ParseAddr(host); err == nil {
		return !ip.IsLoopback()
	}
	return strings.ContainsAny(host, ".:")
}

func notFound(r *http.Request) error {
	return refuse("not-found", "there is no %.100q here", r.URL.Path)
}
