package inventory

// Verdict is what a decision does.
type Verdict string

// Keep touches nothing; Reap removes containers; Close ends a row of which
// nothing stands; Forget removes a kubeconfig entry that nobody serves.
const (
	Keep   Verdict = "keep"
	Reap   Verdict = "reap"
	Close  Verdict = "close"
	Forget Verdict = "forget"
)

// Reason is the row of the policy table that matched, unchanged in JSON, logs,
// metric labels and tests. Rows close with one too.
type Reason string

// The closed set of reasons; docs/policy.md explains each.
const (
	Blind        Reason = "blind"
	Held         Reason = "held"
	BackingOff   Reason = "backing-off"
	Retry        Reason = "retry"
	LetGo        Reason = "released"
	MaxLifetime  Reason = "max-lifetime"
	OwnerGone    Reason = "owner-gone"
	Leased       Reason = "leased"
	Creating     Reason = "creating"
	OwnerAlive   Reason = "owner-alive"
	Reconnecting Reason = "reconnecting"
	Expired      Reason = "expired"
	Missing      Reason = "missing"
	NeverCreated Reason = "never-created"
	Vanished     Reason = "vanished"
	Protected    Reason = "protected"
	Reported     Reason = "reported"
	OrphanGrace  Reason = "orphan-grace"
	Orphan       Reason = "orphan"
	StaleContext Reason = "stale-context"
	HasContext   Reason = "context"
	Brake        Reason = "brake"

	// Reasons for which rows close without a decision of Plan.
	Yielded  Reason = "yielded"  // another owner registered an idle name
	WasTaken Reason = "adopted"  // a found cluster became somebody's
	Replaced Reason = "replaced" // its own owner, or a new one, asked for a fresh start
)

// Decision is what is to be done about one name now, and why.
type Decision struct {
	Name    string
	Row     int64    // 0 when there is no row
	Version int64    // of the row when it was decided
	Lease   string   // empty for what has none
	Nodes   []string // full container IDs it is about, sorted
	Verdict Verdict
	Reason  Reason
	Would   Verdict // what it would be but for the brake or a dry run
	Due     Instant // when this would change if nothing else did; 0: not by time
	File    string  // of a context
	Server  string  // of a context
}
