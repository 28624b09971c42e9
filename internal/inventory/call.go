package inventory

import "time"

// Caller is who speaks, as the kernel vouches for it.
type Caller struct {
	UID, GID uint32
	PID      int
	Admin    bool // root, the service's own user, or in the admin group
}

// Code is the machine-readable kind of a refusal.
type Code string

// The codes a caller can branch on.
const (
	CodeInvalid   Code = "invalid"    // 422
	CodeOccupied  Code = "occupied"   // 409: somebody's lease, or containers nobody answers for
	CodeReaping   Code = "reaping"    // 409: the name is being removed
	CodeLeaseLost Code = "lease-lost" // 410
	CodeNotFound  Code = "not-found"  // 404
	CodeForbidden Code = "forbidden"  // 403
	CodeHeld      Code = "held"       // 409
	CodeDryRun    Code = "dry-run"    // 409
	CodeTimeout   Code = "timeout"    // 504
	CodeConflict  Code = "conflict"   // 409
	CodeStorage   Code = "storage"    // 503: the database cannot be written
)

// Problem is a refusal: a code for programs, a sentence for people that says
// what was wrong and what to do, and the row as it stands on a conflict.
type Problem struct {
	Code    Code
	Message string
	Cluster *Cluster
}

func (p *Problem) Error() string { return p.Message }

// Registration is what a job asks for. TTL 0 means the default.
type Registration struct {
	Name, Owner, Job, Build, URL, Kubeconfig, Marker string
	Labels                                           map[string]string
	TTL                                              time.Duration
	OnOccupied                                       OnOccupied
	Process                                          *Process // that the caller is, or descends from
	Caller                                           Caller
	Boot                                             string
	NewLease                                         string // the id to give, made by the caller of Register

	// Looked says that the engine was just asked for this one name, and
	// Standing is what it showed. Only then may a stale row give way.
	Looked   bool
	Standing []Seen
}

// OnOccupied says what to do when containers of the name stand already and
// nobody holds a lease.
type OnOccupied string

// Fail is the default.
const (
	Fail    OnOccupied = "fail"
	Adopt   OnOccupied = "adopt"
	Replace OnOccupied = "replace"
)

// Claim says for which lease a call speaks. Force is an admin's, with a reason.
type Claim struct {
	Lease, Owner string
	Caller       Caller
	Force        bool
	Reason       string
}

// Event is one line of the append-only history. Kind is one of registered, session,
// repeated, renewed, released, yielded, adopted, replaced, found, held,
// unheld, hold-ended, reap-begun, reap-failed, reaped, closed, foreign,
// context-forgotten, clock-step, brake, started, blind.
type Event struct {
	ID     int64
	At     Stamp
	Kind   string
	Name   string
	Lease  string
	Actor  string // uid:NNN, or janitor
	Reason string
	Detail string
}

// Change is what an accepted call does to the store, in one transaction: rows
// to write (ID 0: insert; all others compare the version they were read with),
// containers whose binding changes, and events.
type Change struct {
	Rows       []Cluster
	Containers []Container
	Events     []Event
	Cluster    Cluster // the row to answer with
	Repeated   bool    // an own registration was repeated
	Waiting    bool    // a replace: register again once the name is free
}
