package store

import (
	"context"
	"database/sql"
	"errors"
)

// errClosed is answered by a store that was closed.
var errClosed = errors.New("the store is closed")

// job is one change that waits for the writer.
type job struct {
	run   func(context.Context, *sql.Tx) error
	reply chan error
	stop  bool
}

// batch bounds how many changes become one transaction.
const batch = 64

// do has the writer run f in a transaction and returns after the commit.
func (s *Store) do(ctx context.Context, f func(context.Context, *sql.Tx) error) error {
	j := &job{run: f, reply: make(chan error, 1)}
	select {
	case s.jobs <- j:
	case <-s.closed:
		return errClosed
	case <-ctx.Done():
		return ctx.Err()
	}
	return <-j.reply // once taken, its outcome is known soon, and is the truth
}

// writer commits what waits, several at a time: the sync to the disk is what
// a change costs, and they share it.
func (s *Store) writer() {
	for j := range s.jobs {
		jobs := []*job{j}
	gather:
		for len(jobs) < batch {
			select {
			case more := <-s.jobs:
				jobs = append(jobs, more)
			default:
				break gather
			}
		}
		stop := s.commit(jobs)
		if stop != nil {
			stop.reply <- nil
			return
		}
	}
}

// commit runs the jobs in one transaction, each under a savepoint, so that one
// that is refused does not take the others with it.
func (s *Store) commit(jobs []*job) (stop *job) {
	ctx, cancel := context.WithTimeout(context.Background(), writeLimit)
	defer cancel()
	outcome := make([]error, len(jobs))
	err := func() error {
		tx, err := s.write.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }() // no effect after the commit
		for i, j := range jobs {
			if j.stop {
				continue
			}
			if outcome[i], err = savepoint(ctx, tx, j.run); err != nil {
				return err
			}
		}
		return tx.Commit()
	}()
	if err == nil {
		s.announce()
	}
	for i, j := range jobs {
		switch {
		case j.stop:
			stop = j
		case outcome[i] != nil:
			j.reply <- s.refusal(outcome[i])
		case err != nil:
			j.reply <- s.refusal(err)
		default:
			j.reply <- nil
		}
	}
	return stop
}

// savepoint runs one job. The second error is one of the transaction itself.
func savepoint(ctx context.Context, tx *sql.Tx, run func(context.Context, *sql.Tx) error) (refused, broken error) {
	if _, err := tx.ExecContext(ctx, "SAVEPOINT job"); err != nil {
		return nil, err
	}
	if refused = run(ctx, tx); refused != nil {
		if _, err := tx.ExecContext(ctx, "ROLLBACK TO job"); err != nil {
			// A full disk may end the whole transaction, and with it the savepoint
			// (SQLite's "Response To Errors Within A Transaction").
			// The others of the batch are told why, not that it is missing.
			return refused, errors.Join(refused, err)
		}
	}
	_, err := tx.ExecContext(ctx, "RELEASE job")
	return refused, err
}
