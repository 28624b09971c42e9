package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"syscall"
	"time"
)

// ErrUnreachable is wrapped by the error of every call that got no answer. The
// call may have been carried out if the connection broke after it was sent;
// the message says so then.
var ErrUnreachable = errors.New("the service cannot be reached")

// Error is a refusal by the service.
type Error struct {
	Status     int    // of HTTP
	Code       string // see docs/api.md; empty if what answered is no janitor
	Title      string
	Detail     string        // what was wrong and what to do
	Cluster    *Cluster      // as it stands, on a conflict
	RetryAfter time.Duration // 0: the service did not say
}

func (e *Error) Error() string {
	if e.Detail != "" {
		return e.Detail
	}
	return fmt.Sprintf("the service answered with status %d", e.Status)
}

// Client calls the service over its unix socket. It makes a connection for
// each call, follows no redirect and tries nothing twice. It is safe for use by
// several goroutines.
type Client struct {
	socket string
	http   *http.Client
}

// NewClient returns a client for the socket at a path. It does not connect.
func NewClient(socket string) *Client {
	return &Client{socket: socket, http: &http.Client{
		Transport: &http.Transport{
			// A kept connection would be retried by net/http when it turns out dead.
			DisableKeepAlives: true,
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return (&net.Dialer{}).DialContext(ctx, "unix", socket)
			},
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// send makes one call. The caller closes the body of an answer.
func (c *Client) send(ctx context.Context, method, path string, query url.Values, body any) (*http.Response, error) {
	var in io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return nil, fmt.Errorf("write the request: %w", err)
		}
		in = bytes.NewReader(text)
	}
	// path is escaped by who builds it; a query is encoded here.
	target := "http://localhost" + path
	if len(query) > 0 {
		target += "?" + query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, method, target, in)
	if err != nil {
		return nil, fmt.Errorf("write the request: %w", err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, c.unreachable(ctx, err)
	}
	if res.StatusCode < 200 || res.StatusCode > 299 {
		defer res.Body.Close()
		return nil, errorOf(res)
	}
	return res, nil
}

// call makes one call and reads its answer into out.
func (c *Client) call(ctx context.Context, method, path string, query url.Values, body, out any) error {
	res, err := c.send(ctx, method, path, query, body)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if err := json.NewDecoder(res.Body).Decode(out); err != nil {
		if _, ok := errors.AsType[*json.SyntaxError](err); ok {
			return fmt.Errorf("read the answer of %s %s: %w", method, path, err)
		}
		return c.unreachable(ctx, err)
	}
	return nil
}

// unreachable says why there is no answer, and what to do.
func (c *Client) unreachable(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err
	}
	advice := "the connection broke before the answer; the call may have been carried out: look before asking again"
	switch {
	case errors.Is(err, fs.ErrNotExist):
		advice = "there is no such socket; is the service running, and is this its path?"
	case errors.Is(err, syscall.ECONNREFUSED):
		advice = "nobody listens there; start the service"
	case errors.Is(err, fs.ErrPermission):
		advice = "you may not connect; the socket's group may"
	case errors.Is(err, syscall.EINVAL):
		advice = "this cannot be the path of a socket"
	}
	return fmt.Errorf("%w at %s: %s (%w)", ErrUnreachable, c.socket, advice, err)
}

// maxProblem is how much of a refusal is read.
const maxProblem = 1 << 20

func errorOf(res *http.Response) error {
	out := &Error{Status: res.StatusCode}
	if s, err := strconv.Atoi(res.Header.Get("Retry-After")); err == nil && s > 0 {
		out.RetryAfter = time.Duration(s) * time.Second
	}
	var p Problem
	if res.Header.Get("Content-Type") == "application/problem+json" && json.NewDecoder(io.LimitReader(res.Body, maxProblem)).Decode(&p) == nil {
		out.Code, out.Title, out.Detail, out.Cluster = p.Code, p.Title, p.Detail, p.Cluster
	}
	return out
}
