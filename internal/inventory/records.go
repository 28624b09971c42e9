package inventory

import "time"

// State is where a row of the inventory stands.
type State string

// A row is active while its lease, or its standing as a found cluster, holds;
// released once its owner, an operator or a replace let it go; reaping from
// the moment its removal was decided on; closed for ever.
const (
	Active   State = "active"
	Released State = "released"
	Reaping  State = "reaping"
	Closed   State = "closed"
)

// Origin is how a row came to be.
type Origin string

// Registered rows were asked for by a job; adopted ones too, over containers
// that stood already; found ones were seen on the testbed and have no lease.
const (
	Registered Origin = "registered"
	Adopted    Origin = "adopted"
	Found      Origin = "found"
)

// Cluster is one row of the inventory. At most one row of a name is not closed.
type Cluster struct {
	ID      int64 // of the row
	Version int64 // grows with each accepted call and each change of state, not with sightings

	Name   string
	Lease  string // empty for a found cluster
	State  State
	Origin Origin

	Owner      string // compared as a whole; empty: only the lease id speaks for the row
	Job        string
	Build      string
	URL        string
	UID, GID   uint32 // of the registration, as the kernel vouches for them
	PID        int    // of the registering peer, for display; no evidence
	Process    *Process
	Marker     string
	Kubeconfig string
	Labels     map[string]string
	Boot       string // the boot id under which it was registered

	Registered Stamp // of a found cluster: its first sighting
	Expires    Instant
	Cap        Instant // fixed at registration
	Heard      Instant // last register, renew or session

	FirstSeen    Stamp // first look at which containers of this row stood
	LastSeen     Stamp
	MissingSince Instant
	MissingLooks int
	DeadSince    Instant // since when the whole verdict about the owner is dead
	HadSession   bool
	HadProcess   bool
	Evidence     []Evidence // each source's last words

	Hold *Hold

	Let        Stamp  // when it was released
	ReapReason Reason // why it is being reaped, or was released for
	Captured   []string
	Began      Stamp  // when the reap was decided on
	ReapBy     string // the operator whose plan it was; empty: the loop
	Attempts   int
	NextTry    Instant
	LastError  string

	Ended       Stamp
	CloseReason Reason
	Warnings    []string
}

// Process is one that an owner named as its own. While it runs its owner is
// alive; that it does not proves nothing.
type Process struct {
	PID   int
	Start uint64 // in clock ticks after the boot (proc_pid_stat(5)): a pid is used again, not with this
	Boot  string
}

// Hold is an operator's "do not touch", always with an end.
type Hold struct {
	Until  Instant
	By     string
	Reason string
}

// Container is a container with kind's label as it is remembered: by its ID,
// beyond the row and beyond its own life, until the store forgets it.
type Container struct {
	ID, Cluster, Name, Role string
	State                   string    // as the engine last said: running, exited, dead, …
	Created                 time.Time // whole seconds, by the engine's wall clock
	First, Last             Stamp     // first and last sighting
	Lease                   string    // the lease it is bound to; empty: foreign to every lease
	Inherited               bool      // may have been leased in an inventory that was lost
	Servers                 []string  // API server URLs it published while it ran
	Volumes                 []string  // its anonymous volumes
}

// Context is a kind- entry of a kubeconfig as it is remembered.
type Context struct {
	File, Name, Server string  // Name is the cluster's, without "kind-"
	StaleSince         Instant // since when nobody listens at a server that was once ours
	StaleLooks         int
}

// Records is everything that is known: what a pass reads before it observes.
type Records struct {
	Clusters   []Cluster // rows that are not closed
	Containers []Container
	Contexts   []Context
	Birth      Stamp     // of this inventory
	HeardFrom  Instant   // since when owners can be heard without a break
	LastPass   Instant   // last pass, whatever it could read
	LastList   Stamp     // last readable list of containers
	LastLook   Instant   // last look: a readable list at least half an interval after the one before
	Begun      []Instant // orphan reaps begun in the last hour without an operator
}

// Observation is what was just seen. What could not be read says so; nothing
// is concluded from what is missing in it.
type Observation struct {
	Boot       string
	Interval   time.Duration // of the schedule, at this moment
	Blind      string        // why the engine could not be listed; empty when it was
	Containers []Seen
	Contexts   []SeenContext
	Unread     map[string]string     // kubeconfig file: why it could not be read
	Evidence   map[string][]Evidence // by lease: what each source says now
}

// Seen is one container with kind's cluster label in the engine's list.
type Seen struct {
	ID, Cluster, Name, Role, State string
	Created                        time.Time
	Servers                        []string // https://ADDRESS:PORT for each published API server port
	Volumes                        []string // anonymous volumes
}

// SeenContext is one kind- entry of a kubeconfig. Listening is nil when it is
// not known whether somebody listens at its server.
type SeenContext struct {
	File, Name, Server string
	Listening          *bool
}

// Life is what a source says about an owner.
type Life string

// Unknown is "no opinion"; Unreadable is a source that cannot be asked now.
const (
	Alive      Life = "alive"
	Dead       Life = "dead"
	Unknown    Life = "unknown"
	Unreadable Life = "unreadable"
)

// Evidence is one source's word about the owner of a lease.
type Evidence struct {
	Source string  `json:"source"` // session, process, jenkins, reboot
	Says   Life    `json:"says"`
	Since  Instant `json:"since,omitempty"`
	Detail string  `json:"detail,omitempty"`
	Silent bool    `json:"silent,omitempty"` // cannot be asked now: Says is its last word
}
