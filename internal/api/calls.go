package api

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Registration asks for the lease on a name. Durations of 0 are left to the
// service; labels and all strings may be empty.
type Registration struct {
	Name, Owner, Job, Build, URL, Kubeconfig, Marker string
	TTL                                              time.Duration
	OnOccupied                                       string // fail, adopt, replace
	Wait                                             time.Duration
	PID                                              int
	Labels                                           map[string]string
}

// Claim says for which lease a call speaks: by its id, or by its owner.
type Claim struct {
	Lease, Owner string
}

// Letting is a release. Force is an admin's, and needs a reason.
type Letting struct {
	Claim
	Wait   time.Duration // 0: answer at once
	Force  bool
	Reason string
}

// EventQuery chooses events. Since the zero time: from the beginning.
type EventQuery struct {
	Name   string
	Since  time.Time
	After  int64 // only events with a greater id
	Follow bool
}

// given collects the fields that are set.
type given map[string]any

func (g given) text(name, value string) {
	if value != "" {
		g[name] = value
	}
}

func (g given) duration(name string, d time.Duration) {
	if d != 0 {
		g[name] = d.String()
	}
}

func (g given) claim(c Claim) given {
	g.text("lease", c.Lease)
	g.text("owner", c.Owner)
	return g
}

// pathTo escapes a name for a path. What is no legal name is the service's to
// refuse.
func pathTo(name, action string) string { return "/v1/clusters/" + url.PathEscape(name) + action }

// Register takes the lease on a name. The cluster says whether it is a repeat.
func (c *Client) Register(ctx context.Context, r Registration) (Cluster, error) {
	in := given{"name": r.Name}
	for name, value := range map[string]string{
		"owner": r.Owner, "job": r.Job, "build": r.Build, "url": r.URL,
		"kubeconfig": r.Kubeconfig, "marker": r.Marker, "on_occupied": r.OnOccupied,
	} {
		in.text(name, value)
	}
	in.duration("ttl", r.TTL)
	in.duration("wait", r.Wait)
	if r.PID != 0 {
		in["pid"] = r.PID
	}
	if len(r.Labels) > 0 {
		in["labels"] = r.Labels
	}
	var out Cluster
	err := c.call(ctx, http.MethodPost, "/v1/clusters", nil, in, &out)
	return out, err
}

// Renew extends a lease. A ttl of 0 is the default of its class.
func (c *Client) Renew(ctx context.Context, name string, claim Claim, ttl time.Duration) (Cluster, error) {
	in := given{}.claim(claim)
	in.duration("ttl", ttl)
	var out Cluster
	err := c.call(ctx, http.MethodPost, pathTo(name, "/renew"), nil, in, &out)
	return out, err
}

// Release lets go of a lease. The state of the cluster says whether it is gone.
func (c *Client) Release(ctx context.Context, name string, l Letting) (Cluster, error) {
	in := given{}.claim(l.Claim)
	in.duration("wait", l.Wait)
	if l.Force {
		in["force"] = true
	}
	in.text("reason", l.Reason)
	var out Cluster
	err := c.call(ctx, http.MethodPost, pathTo(name, "/release"), nil, in, &out)
	return out, err
}

// List returns the rows that a filter chooses.
func (c *Client) List(ctx context.Context, f Filter) ([]Cluster, error) {
	q := url.Values{}
	for name, value := range map[string]string{"state": f.State, "owner": f.Owner, "job": f.Job} {
		if value != "" {
			q.Set(name, value)
		}
	}
	var out clusterList
	err := c.call(ctx, http.MethodGet, "/v1/clusters", q, nil, &out)
	return out.Clusters, err
}

// Get returns the row of a name that is not closed, else the last closed one.
func (c *Client) Get(ctx context.Context, name string) (Cluster, error) {
	var out Cluster
	err := c.call(ctx, http.MethodGet, pathTo(name, ""), nil, nil, &out)
	return out, err
}

// HoldFor protects a cluster for a time.
func (c *Client) HoldFor(ctx context.Context, name string, period time.Duration, reason string) (Cluster, error) {
	return c.hold(ctx, name, given{"for": period.String(), "reason": reason})
}

// HoldUntil protects a cluster until a moment, in whole seconds.
func (c *Client) HoldUntil(ctx context.Context, name string, until time.Time, reason string) (Cluster, error) {
	return c.hold(ctx, name, given{"until": until.UTC().Format(time.RFC3339), "reason": reason})
}

func (c *Client) hold(ctx context.Context, name string, in given) (Cluster, error) {
	var out Cluster
	err := c.call(ctx, http.MethodPost, pathTo(name, "/hold"), nil, in, &out)
	return out, err
}

// Unhold lifts a hold.
func (c *Client) Unhold(ctx context.Context, name string) (Cluster, error) {
	var out Cluster
	err := c.call(ctx, http.MethodDelete, pathTo(name, "/hold"), nil, nil, &out)
	return out, err
}

// Events calls f for each event. It returns when there are no more, and with
// Follow when the service stops (nil: ask again, After the last id), when ctx
// ends or when f returns an error, which it returns.
func (c *Client) Events(ctx context.Context, e EventQuery, f func(Event) error) error {
	q := url.Values{}
	if e.Name != "" {
		q.Set("name", e.Name)
	}
	if !e.Since.IsZero() {
		q.Set("since", e.Since.UTC().Format(time.RFC3339))
	}
	if e.After != 0 {
		q.Set("after", strconv.FormatInt(e.After, 10))
	}
	if e.Follow {
		q.Set("follow", "true")
	}
	res, err := c.send(ctx, http.MethodGet, "/v1/events", q, nil)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, maxProblem)
	for lines.Scan() {
		var event Event
		if err := json.Unmarshal(lines.Bytes(), &event); err != nil {
			return fmt.Errorf("read an event: %w", err)
		}
		if err := f(event); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return c.unreachable(ctx, err)
	}
	return nil
}

// Plan returns what the next pass would do.
func (c *Client) Plan(ctx context.Context) (Plan, error) {
	var out Plan
	err := c.call(ctx, http.MethodGet, "/v1/plan", nil, nil, &out)
	return out, err
}

// SavePlan saves what the next pass would do.
func (c *Client) SavePlan(ctx context.Context) (Plan, error) {
	var out Plan
	err := c.call(ctx, http.MethodPost, "/v1/plans", nil, nil, &out)
	return out, err
}

// Apply carries out a saved plan.
func (c *Client) Apply(ctx context.Context, id string) (Pass, error) {
	var out Pass
	err := c.call(ctx, http.MethodPost, "/v1/plans/"+url.PathEscape(id)+"/apply", nil, nil, &out)
	return out, err
}

// Pass runs a pass now.
func (c *Client) Pass(ctx context.Context) (Pass, error) {
	var out Pass
	err := c.call(ctx, http.MethodPost, "/v1/passes", nil, nil, &out)
	return out, err
}

// Status returns how the service fares.
func (c *Client) Status(ctx context.Context) (Status, error) {
	var out Status
	err := c.call(ctx, http.MethodGet, "/v1/status", nil, nil, &out)
	return out, err
}
