package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/testbed-janitor/janitor/internal/inventory"
)

// Clock returns the clock as it was last saved; zeros when it never was.
func (s *Store) Clock(ctx context.Context) (boot string, base, last int64, err error) {
	saved, err := bodies[savedClock](ctx, s.read, `SELECT text FROM meta WHERE key = 'clock'`)
	if err != nil || len(saved) == 0 {
		return "", 0, 0, err
	}
	return saved[0].Boot, saved[0].Base, saved[0].Last, nil
}

type savedClock struct {
	Boot       string
	Base, Last int64
}

// SaveClock remembers the clock, for the next start.
func (s *Store) SaveClock(ctx context.Context, boot string, base, last int64) error {
	body, err := json.Marshal(savedClock{boot, base, last})
	if err != nil {
		return err
	}
	return s.do(ctx, func(ctx context.Context, tx *sql.Tx) error { return saveMeta(ctx, tx, "clock", 0, string(body)) })
}

// Start notes that the service has started: an inventory is born at its first
// start, and owners can be heard from now on.
func (s *Store) Start(ctx context.Context, now inventory.Stamp) error {
	return s.do(ctx, func(ctx context.Context, tx *sql.Tx) error {
		marks, err := s.marks(ctx, tx)
		if err != nil {
			return err
		}
		if marks.Birth.IsZero() {
			marks.Birth = now
		}
		marks.HeardFrom, marks.LastPass = now.At, 0
		if err := saveMarks(ctx, tx, marks); err != nil {
			return err
		}
		return saveEvent(ctx, tx, inventory.Event{At: now, Kind: "started", Actor: "janitor"})
	})
}

// Filter chooses rows. State is "" for all that are not closed, "all", or one
// state; the others compare whole and are ignored when empty.
type Filter struct{ State, Owner, Job string }

// Clusters returns the rows that match, by name.
func (s *Store) Clusters(ctx context.Context, f Filter) ([]inventory.Cluster, error) {
	query := `SELECT body FROM clusters WHERE state <> 'closed'`
	var args []any
	switch f.State {
	case "":
	case "all":
		query = `SELECT body FROM clusters WHERE 1`
	default:
		query, args = `SELECT body FROM clusters WHERE state = ?`, append(args, f.State)
	}
	if f.Owner != "" {
		query, args = query+` AND owner = ?`, append(args, f.Owner)
	}
	if f.Job != "" {
		query, args = query+` AND job = ?`, append(args, f.Job)
	}
	return bodies[inventory.Cluster](ctx, s.read, query+` ORDER BY name, id`, args...)
}

// Cluster returns the row of a name that is not closed, or else its last one,
// and its containers.
func (s *Store) Cluster(ctx context.Context, name string) (inventory.Cluster, []inventory.Container, error) {
	rows, err := bodies[inventory.Cluster](ctx, s.read, `SELECT body FROM clusters WHERE name = ? ORDER BY state = 'closed', id DESC LIMIT 1`, name)
	if err != nil {
		return inventory.Cluster{}, nil, err
	}
	if len(rows) == 0 {
		return inventory.Cluster{}, nil, &inventory.Problem{Code: inventory.CodeNotFound, Message: fmt.Sprintf("no cluster %q is known", name)}
	}
	nodes, err := bodies[inventory.Container](ctx, s.read, `SELECT body FROM containers WHERE cluster = ? ORDER BY id`, name)
	return rows[0], nodes, err
}

// EventFilter chooses events. Limit 0 means the last 1000.
type EventFilter struct {
	Name  string
	Since time.Time
	After int64
	Limit int
}

// Events returns the newest events that match, oldest first.
func (s *Store) Events(ctx context.Context, f EventFilter) (out []inventory.Event, err error) {
	limit := f.Limit
	if limit <= 0 {
		limit = 1000
	}
	since := int64(0)
	if !f.Since.IsZero() {
		since = f.Since.UnixNano()
	}
	rows, err := s.read.QueryContext(ctx, `SELECT * FROM (SELECT id, at, at_wall, kind, name, lease, actor, reason, detail FROM events
		WHERE (?1 = '' OR name = ?1) AND at_wall >= ?2 AND id > ?3 ORDER BY id DESC LIMIT ?4) ORDER BY id`, f.Name, since, f.After, limit)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var e inventory.Event
		var at, atWall int64
		if err := rows.Scan(&e.ID, &at, &atWall, &e.Kind, &e.Name, &e.Lease, &e.Actor, &e.Reason, &e.Detail); err != nil {
			return nil, err
		}
		e.At = stampOf(at, atWall)
		out = append(out, e)
	}
	return out, rows.Err()
}

// Log appends events that belong to no change of a row.
func (s *Store) Log(ctx context.Context, events []inventory.Event) error {
	return s.do(ctx, func(ctx context.Context, tx *sql.Tx) error {
		for _, e := range events {
			if err := saveEvent(ctx, tx, e); err != nil {
				return err
			}
		}
		return nil
	})
}

// SavePlan keeps a plan under an id.
func (s *Store) SavePlan(ctx context.Context, id string, at inventory.Stamp, ds []inventory.Decision) error {
	body, err := json.Marshal(ds)
	if err != nil {
		return err
	}
	return s.do(ctx, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO plans (id, at, at_wall, body) VALUES (?, ?, ?, ?)`, id, int64(at.At), wall(at), string(body))
		return err
	})
}

// Plan returns a saved plan.
func (s *Store) Plan(ctx context.Context, id string) (inventory.Stamp, []inventory.Decision, error) {
	var at, atWall int64
	var body []byte
	err := s.read.QueryRowContext(ctx, `SELECT at, at_wall, body FROM plans WHERE id = ?`, id).Scan(&at, &atWall, &body)
	if errors.Is(err, sql.ErrNoRows) {
		return inventory.Stamp{}, nil, &inventory.Problem{Code: inventory.CodeNotFound, Message: fmt.Sprintf("no plan %q is saved; plans end after an hour", id)}
	}
	if err != nil {
		return inventory.Stamp{}, nil, err
	}
	var ds []inventory.Decision
	err = json.Unmarshal(body, &ds)
	return stampOf(at, atWall), ds, err
}

// Counts returns how many rows are in each state.
func (s *Store) Counts(ctx context.Context) (out map[inventory.State]int, err error) {
	rows, err := s.read.QueryContext(ctx, `SELECT state, count(*) FROM clusters GROUP BY state`)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	out = map[inventory.State]int{}
	for rows.Next() {
		var state string
		var n int
		if err := rows.Scan(&state, &n); err != nil {
			return nil, err
		}
		out[inventory.State(state)] = n
	}
	return out, rows.Err()
}

// Prune forgets closed rows, containers of names without a live row, events and
// plans from before a moment.
func (s *Store) Prune(ctx context.Context, before time.Time) error {
	return s.do(ctx, func(ctx context.Context, tx *sql.Tx) error {
		for _, q := range []string{
			`DELETE FROM clusters WHERE state = 'closed' AND ended_wall < ?`,
			`DELETE FROM containers WHERE last_wall < ? AND cluster NOT IN (SELECT name FROM clusters WHERE state <> 'closed')`,
			`DELETE FROM events WHERE at_wall < ?`,
			`DELETE FROM plans WHERE at_wall < ?`,
		} {
			if _, err := tx.ExecContext(ctx, q, before.UnixNano()); err != nil {
				return err
			}
		}
		return nil
	})
}
