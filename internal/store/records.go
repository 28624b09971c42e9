package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/testbed-janitor/janitor/internal/inventory"
)

// querier is a transaction or a pool.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// bodies reads rows whose one column is a JSON body.
func bodies[T any](ctx context.Context, q querier, query string, args ...any) (out []T, err error) {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var body []byte
		if err := rows.Scan(&body); err != nil {
			return nil, err
		}
		var v T
		if err := json.Unmarshal(body, &v); err != nil {
			return nil, fmt.Errorf("a row of the database: %w", err)
		}
		out = append(out, v)
	}
	return out, rows.Err()
}

// Records returns all rows that are not closed, and all else that is known.
func (s *Store) Records(ctx context.Context) (inventory.Records, error) {
	tx, err := s.read.BeginTx(ctx, nil)
	if err != nil {
		return inventory.Records{}, err
	}
	defer func() { _ = tx.Rollback() }() // it only read
	recs, err := s.marks(ctx, tx)
	if err != nil {
		return recs, err
	}
	if recs.Clusters, err = bodies[inventory.Cluster](ctx, tx, `SELECT body FROM clusters WHERE state <> 'closed' ORDER BY name`); err != nil {
		return recs, err
	}
	if recs.Containers, err = bodies[inventory.Container](ctx, tx, `SELECT body FROM containers ORDER BY cluster, id`); err != nil {
		return recs, err
	}
	recs.Contexts, err = bodies[inventory.Context](ctx, tx, `SELECT body FROM contexts ORDER BY name, file`)
	return recs, err
}

// marks reads what is remembered beside the rows.
func (s *Store) marks(ctx context.Context, q querier) (inventory.Records, error) {
	var recs inventory.Records
	found, err := bodies[inventory.Records](ctx, q, `SELECT text FROM meta WHERE key = 'marks'`)
	if err != nil {
		return recs, err
	}
	if len(found) > 0 {
		recs = found[0]
	}
	s.mu.Lock()
	recs.HeardFrom = max(recs.HeardFrom, s.refused)
	s.mu.Unlock()

	// Orphan reaps begun without an operator count against the brake for an
	// hour, whatever became of them.
	rows, err := q.QueryContext(ctx, `SELECT began_at FROM clusters WHERE reap_reason = 'orphan' AND reap_by = '' AND began_at > ? ORDER BY began_at`,
		int64(s.clock().At)-int64(time.Hour))
	if err != nil {
		return recs, err
	}
	defer rows.Close()
	for rows.Next() {
		var at int64
		if err := rows.Scan(&at); err != nil {
			return recs, err
		}
		recs.Begun = append(recs.Begun, inventory.Instant(at))
	}
	return recs, rows.Err()
}

// onlyMarks is what of records is stored under "marks".
func onlyMarks(r inventory.Records) inventory.Records {
	r.Clusters, r.Containers, r.Contexts, r.Begun = nil, nil, nil, nil
	return r
}

func saveMarks(ctx context.Context, tx *sql.Tx, r inventory.Records) error {
	body, err := json.Marshal(onlyMarks(r))
	if err != nil {
		return err
	}
	return saveMeta(ctx, tx, "marks", 0, string(body))
}

func saveMeta(ctx context.Context, tx *sql.Tx, key string, value int64, text string) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO meta (key, value, text) VALUES (?, ?, ?)
		ON CONFLICT (key) DO UPDATE SET value = excluded.value, text = excluded.text`, key, value, text)
	return err
}

// SaveSight writes what differs between two records. A row that has changed
// since before was read is left as it is, with the containers of its name: it
// is the next pass's. If the first sighting of a container was left out for
// that, the list does not count as the last one: a wall clock that moved before
// it has then moved also for the next list, the first to show the container.
func (s *Store) SaveSight(ctx context.Context, before, after inventory.Records) error {
	return s.do(ctx, func(ctx context.Context, tx *sql.Tx) error {
		skip := map[string]bool{}
		live, err := bodies[inventory.Cluster](ctx, tx, `SELECT body FROM clusters WHERE state <> 'closed'`)
		if err != nil {
			return err
		}
		read := map[string]inventory.Cluster{}
		for _, c := range before.Clusters {
			read[c.Name] = c
		}
		now := map[string]inventory.Cluster{}
		for _, c := range live {
			now[c.Name] = c
			if was := read[c.Name]; was.ID != c.ID || was.Version != c.Version {
				skip[c.Name] = true
			}
		}
		for _, c := range before.Clusters {
			if _, ok := now[c.Name]; !ok {
				skip[c.Name] = true // it was closed meanwhile
			}
		}
		for _, c := range after.Clusters {
			if skip[c.Name] || c.ID != 0 && reflect.DeepEqual(c, read[c.Name]) {
				continue
			}
			if err := saveCluster(ctx, tx, &c); err != nil {
				return err
			}
		}
		known := map[string]inventory.Container{}
		for _, c := range before.Containers {
			known[c.ID] = c
		}
		complete := true
		for _, c := range after.Containers {
			if skip[c.Cluster] && c.First.At == after.LastList.At {
				complete = false
			}
			if skip[c.Cluster] || reflect.DeepEqual(c, known[c.ID]) {
				continue
			}
			if err := saveContainer(ctx, tx, c); err != nil {
				return err
			}
		}
		if err := saveContexts(ctx, tx, before.Contexts, after.Contexts); err != nil {
			return err
		}
		// What the store noted meanwhile (a refused write) is not undone.
		marks, err := s.marks(ctx, tx)
		if err != nil {
			return err
		}
		after.HeardFrom = max(after.HeardFrom, marks.HeardFrom)
		if !complete || after.LastList.At < marks.LastList.At {
			after.LastList = marks.LastList
		}
		after.LastLook = max(after.LastLook, marks.LastLook)
		return saveMarks(ctx, tx, after)
	})
}

func saveContexts(ctx context.Context, tx *sql.Tx, before, after []inventory.Context) error {
	if reflect.DeepEqual(before, after) || after == nil && before == nil {
		return nil
	}
	if _, err := tx.ExecContext(ctx, `DELETE FROM contexts`); err != nil {
		return err
	}
	for _, c := range after {
		body, err := json.Marshal(c)
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `INSERT OR REPLACE INTO contexts (file, name, body) VALUES (?, ?, ?)`, c.File, c.Name, string(body)); err != nil {
			return err
		}
	}
	return nil
}

// Change runs a rule over what is known of a name, and of the lease, and writes
// what it gives, in one transaction. It answers after the commit; an error of
// the rule is returned as it is and nothing is written.
func (s *Store) Change(ctx context.Context, name, lease string, rule func(inventory.Records) (inventory.Change, error)) (inventory.Change, error) {
	var out inventory.Change
	err := s.do(ctx, func(ctx context.Context, tx *sql.Tx) error {
		recs, err := s.marks(ctx, tx)
		if err != nil {
			return err
		}
		// The live row, the last closed one of the name, and the claimed one. A
		// session claims by lease alone.
		recs.Clusters, err = bodies[inventory.Cluster](ctx, tx, `SELECT body FROM clusters WHERE id IN (
			SELECT id FROM clusters WHERE name = ?1 AND state <> 'closed'
			UNION SELECT max(id) FROM clusters WHERE name = ?1 AND state = 'closed'
			UNION SELECT id FROM clusters WHERE ?2 <> '' AND lease = ?2 AND ?1 IN (name, '')) ORDER BY id DESC`, name, lease)
		if err != nil {
			return err
		}
		recs.Containers, err = bodies[inventory.Container](ctx, tx, `SELECT body FROM containers WHERE cluster = ? ORDER BY id`, name)
		if err != nil {
			return err
		}
		if out, err = rule(recs); err != nil {
			return err
		}
		return s.saveChange(ctx, tx, &out)
	})
	if err != nil {
		return inventory.Change{}, err
	}
	return out, nil
}

func (s *Store) saveChange(ctx context.Context, tx *sql.Tx, c *inventory.Change) error {
	for i := range c.Rows {
		row := &c.Rows[i]
		if err := saveCluster(ctx, tx, row); err != nil {
			return err
		}
		if c.Cluster.Name == row.Name && c.Cluster.Lease == row.Lease {
			c.Cluster.ID = row.ID
		}
	}
	for _, k := range c.Containers {
		if err := saveContainer(ctx, tx, k); err != nil {
			return err
		}
	}
	for _, e := range c.Events {
		if err := saveEvent(ctx, tx, e); err != nil {
			return err
		}
	}
	return nil
}

// saveCluster inserts a row without an ID, and gives it one, or replaces it.
func saveCluster(ctx context.Context, tx *sql.Tx, c *inventory.Cluster) error {
	if c.ID == 0 {
		res, err := tx.ExecContext(ctx, `INSERT INTO clusters (version, name, lease, state, origin, owner, job, reap_reason, reap_by, began_at, ended_wall, body)
			VALUES (?, ?, ?, ?, ?, ?, ?, '', '', 0, 0, '{}')`, c.Version, c.Name, c.Lease, c.State, c.Origin, c.Owner, c.Job)
		if err != nil {
			return err
		}
		if c.ID, err = res.LastInsertId(); err != nil {
			return err
		}
	}
	body, err := json.Marshal(c)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `UPDATE clusters SET version = ?, lease = ?, state = ?, origin = ?, owner = ?, job = ?,
		reap_reason = ?, reap_by = ?, began_at = ?, ended_wall = ?, body = ? WHERE id = ?`,
		c.Version, c.Lease, c.State, c.Origin, c.Owner, c.Job, c.ReapReason, c.ReapBy, int64(c.Began.At), wall(c.Ended), string(body), c.ID)
	return err
}

func saveContainer(ctx context.Context, tx *sql.Tx, c inventory.Container) error {
	body, err := json.Marshal(c)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO containers (id, cluster, last_wall, body) VALUES (?, ?, ?, ?)
		ON CONFLICT (id) DO UPDATE SET cluster = excluded.cluster, last_wall = excluded.last_wall, body = excluded.body`,
		c.ID, c.Cluster, wall(c.Last), string(body))
	return err
}

func saveEvent(ctx context.Context, tx *sql.Tx, e inventory.Event) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO events (at, at_wall, kind, name, lease, actor, reason, detail) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
		int64(e.At.At), wall(e.At), e.Kind, e.Name, e.Lease, e.Actor, e.Reason, e.Detail)
	return err
}

func wall(s inventory.Stamp) int64 {
	if s.Wall.IsZero() {
		return 0
	}
	return s.Wall.UnixNano()
}

// stampOf is the stamp of two columns; 0 is "not set".
func stampOf(at, atWall int64) inventory.Stamp {
	s := inventory.Stamp{At: inventory.Instant(at)}
	if atWall != 0 {
		s.Wall = time.Unix(0, atWall).UTC()
	}
	return s
}
