package api

import "time"

// The shapes of the wire. What is not set is absent, never null; times are in
// UTC. New fields may be added, none is renamed.

// Cluster is one row of the inventory with the decision about it.
type Cluster struct {
	Name   string `json:"name"`
	Lease  string `json:"lease,omitempty"`
	State  string `json:"state"`
	Origin string `json:"origin"`

	Owner      string            `json:"owner,omitempty"`
	Job        string            `json:"job,omitempty"`
	Build      string            `json:"build,omitempty"`
	URL        string            `json:"url,omitempty"`
	UID        *uint32           `json:"uid,omitempty"` // absent for what nobody registered; 0 is root
	GID        *uint32           `json:"gid,omitempty"`
	PID        int               `json:"pid,omitempty"` // of the peer that registered; it may be gone
	Marker     string            `json:"marker,omitempty"`
	Kubeconfig string            `json:"kubeconfig,omitempty"`
	Labels     map[string]string `json:"labels,omitempty"`

	Repeated     bool      `json:"repeated,omitempty"` // an answer to a repeated registration
	RegisteredAt time.Time `json:"registered_at,omitzero"`
	ExpiresAt    time.Time `json:"expires_at,omitzero"`
	CapAt        time.Time `json:"cap_at,omitzero"`
	FirstSeenAt  time.Time `json:"first_seen_at,omitzero"`
	LastSeenAt   time.Time `json:"last_seen_at,omitzero"`

	Hold     *Hold      `json:"hold,omitempty"`
	Verdict  string     `json:"verdict,omitempty"`
	Reason   string     `json:"reason,omitempty"`
	Due      time.Time  `json:"due,omitzero"`
	Evidence []Evidence `json:"evidence,omitempty"`
	Nodes    []Node     `json:"nodes,omitzero"` // an empty list says that none stands
	Foreign  []Node     `json:"foreign,omitempty"`

	Attempts    int       `json:"attempts,omitempty"`
	Stuck       bool      `json:"stuck,omitempty"`
	LastError   string    `json:"last_error,omitempty"`
	ClosedAt    time.Time `json:"closed_at,omitzero"`
	CloseReason string    `json:"close_reason,omitempty"`
	Warnings    []string  `json:"warnings,omitempty"`
}

// Hold is an operator's "do not touch".
type Hold struct {
	Until  time.Time `json:"until"`
	By     string    `json:"by"`
	Reason string    `json:"reason"`
}

// Evidence is one source's word about an owner.
type Evidence struct {
	Source string    `json:"source"`
	Says   string    `json:"says"`
	Since  time.Time `json:"since,omitzero"`
	Detail string    `json:"detail,omitempty"`
	Silent bool      `json:"silent,omitempty"` // cannot be asked now: Says is its last word
}

// Node is a container of a cluster.
type Node struct {
	ID    string `json:"id"`
	Name  string `json:"name"`
	Role  string `json:"role,omitempty"`
	State string `json:"state,omitempty"`
}

// Decision is what is to be done about one name, and why.
type Decision struct {
	Name    string    `json:"name"`
	Lease   string    `json:"lease,omitempty"`
	Verdict string    `json:"verdict"`
	Reason  string    `json:"reason"`
	Would   string    `json:"would,omitempty"` // the verdict but for the brake or a dry run
	Due     time.Time `json:"due,omitzero"`
	Nodes   []string  `json:"nodes,omitempty"`  // container IDs
	File    string    `json:"file,omitempty"`   // of a kubeconfig entry
	Server  string    `json:"server,omitempty"` // of a kubeconfig entry
}

// Plan is what a pass would do. ID is absent unless the plan was saved.
type Plan struct {
	ID        string     `json:"id,omitempty"`
	MadeAt    time.Time  `json:"made_at"`
	Decisions []Decision `json:"decisions"`
}

// Pass is the report of a pass, or of a plan that was applied.
type Pass struct {
	StartedAt time.Time  `json:"started_at"`
	EndedAt   time.Time  `json:"ended_at"`
	Decisions []Decision `json:"decisions"`
	Results   []Result   `json:"results"`
	Error     string     `json:"error,omitempty"`
}

// Result is what became of one decision.
type Result struct {
	Name  string `json:"name"`
	OK    bool   `json:"ok"`
	Error string `json:"error,omitempty"`
}

// Event is one line of the history.
type Event struct {
	ID     int64     `json:"id"`
	At     time.Time `json:"at"`
	Kind   string    `json:"kind"`
	Name   string    `json:"name,omitempty"`
	Lease  string    `json:"lease,omitempty"`
	Actor  string    `json:"actor,omitempty"`
	Reason string    `json:"reason,omitempty"`
	Detail string    `json:"detail,omitempty"`
}

// Status is how the service fares.
type Status struct {
	Version        string         `json:"version,omitempty"`
	StartedAt      time.Time      `json:"started_at,omitzero"`
	LastPassAt     time.Time      `json:"last_pass_at,omitzero"`
	LastGoodPassAt time.Time      `json:"last_good_pass_at,omitzero"`
	NextPassAt     time.Time      `json:"next_pass_at,omitzero"`
	Passes         int            `json:"passes"`
	Coalesced      int            `json:"coalesced"`
	LastError      string         `json:"last_error,omitempty"` // of the last pass
	Blind          string         `json:"blind,omitempty"`      // why the engine could not be listed
	Brake          bool           `json:"brake"`
	BrakeCount     int            `json:"brake_count,omitempty"`
	DryRun         bool           `json:"dry_run,omitempty"`
	InventorySince time.Time      `json:"inventory_since,omitzero"` // leases and holds from before are lost
	Clusters       map[string]int `json:"clusters"`                 // rows by state
	Docker         *Docker        `json:"docker,omitempty"`
	Database       *Database      `json:"database,omitempty"`
	Warnings       []string       `json:"warnings,omitempty"`
}

// Docker is the engine that is looked at.
type Docker struct {
	Host    string `json:"host"`
	Version string `json:"version,omitempty"`
	Error   string `json:"error,omitempty"`
}

// Database is where the inventory is kept.
type Database struct {
	Path  string `json:"path,omitempty"`
	Bytes int64  `json:"bytes"`
	Error string `json:"error,omitempty"`
}

// Problem is a refusal, by RFC 9457, with a code to branch on.
type Problem struct {
	Type    string   `json:"type"`
	Title   string   `json:"title"`
	Status  int      `json:"status"`
	Detail  string   `json:"detail"`
	Code    string   `json:"code"`
	Cluster *Cluster `json:"cluster,omitempty"`
}

type clusterList struct {
	Clusters []Cluster `json:"clusters"`
}
