// Package store remembers the inventory in a SQLite file. It is the only
// package that speaks SQL.
//
// It decides nothing: a caller's rule decides inside the transaction that
// writes what it gives, and an answer comes after the commit. One goroutine
// writes; several changes that wait become one transaction, each under a
// savepoint of its own. It never edits an event, and never opens a database
// that another janitor has open or that a newer one has written.
package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/mattn/go-sqlite3"
	"github.com/pressly/goose/v3"
	"golang.org/x/sys/unix"

	"github.com/testbed-janitor/janitor/internal/inventory"
	"github.com/testbed-janitor/janitor/migrations"
)

// Errors of Open that say what is to be done.
var (
	ErrLocked = errors.New("another janitor has this database open; stop it first, or configure another database")
	ErrNewer  = errors.New("a newer janitor has written this database; install that version, or restore a backup")
)

// Store is an open database.
type Store struct {
	path  string
	lock  *os.File
	write *sql.DB // one connection, used by the writer alone
	read  *sql.DB
	clock func() inventory.Stamp

	jobs   chan *job
	closed chan struct{}
	once   sync.Once

	mu      sync.Mutex
	changed chan struct{}     // closed at the next commit
	refused inventory.Instant // when a write was last refused
}

// Open opens the database file, creates or migrates it, and holds it alone.
func Open(ctx context.Context, path string) (*Store, error) {
	if !filepath.IsAbs(path) {
		return nil, fmt.Errorf("database %s: the path must be absolute", path)
	}
	lock, err := os.OpenFile(path+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock database: %w", err)
	}
	s := &Store{path: path, lock: lock, jobs: make(chan *job), closed: make(chan struct{}), changed: make(chan struct{})}
	s.clock = func() inventory.Stamp { return inventory.Stamp{} }
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		lock.Close()
		return nil, fmt.Errorf("database %s: %w", path, ErrLocked)
	}
	if err := s.open(ctx); err != nil {
		_ = s.shut() // the first error is the one to tell
		return nil, fmt.Errorf("database %s: %w", path, err)
	}
	go s.writer()
	return s, nil
}

func (s *Store) open(ctx context.Context) error {
	file, err := os.OpenFile(s.path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	file.Close()
	// Pragmas stand in the DSN: executed once on a pool they hold for one
	// connection only.
	dsn := func(extra string) string {
		u := url.URL{Scheme: "file", Path: s.path}
		return u.String() + "?_journal_mode=WAL&_synchronous=FULL&_busy_timeout=5000&_foreign_keys=on" + extra
	}
	if s.write, err = sql.Open("sqlite3", dsn("&_txlock=immediate")); err != nil {
		return err
	}
	s.write.SetMaxOpenConns(1)
	if s.read, err = sql.Open("sqlite3", dsn("&_query_only=true")); err != nil {
		return err
	}
	s.read.SetMaxOpenConns(4)
	return s.migrate(ctx)
}

func (s *Store) migrate(ctx context.Context) error {
	p, err := goose.NewProvider(goose.DialectSQLite3, s.write, migrations.FS)
	if err != nil {
		return err
	}
	var known int64
	for _, m := range p.ListSources() {
		known = max(known, m.Version)
	}
	if err := s.refuseNewer(ctx, known); err != nil {
		return err
	}
	if _, err = p.Up(ctx); err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	return nil
}

// refuseNewer looks before anything is written.
func (s *Store) refuseNewer(ctx context.Context, known int64) error {
	var tables int
	if err := s.read.QueryRowContext(ctx, `SELECT count(*) FROM sqlite_master WHERE name = 'goose_db_version'`).Scan(&tables); err != nil {
		return err
	}
	if tables == 0 {
		return nil
	}
	var version int64
	if err := s.read.QueryRowContext(ctx, `SELECT coalesce(max(version_id), 0) FROM goose_db_version WHERE is_applied`).Scan(&version); err != nil {
		return err
	}
	if version > known {
		return fmt.Errorf("schema %d, known up to %d: %w", version, known, ErrNewer)
	}
	return nil
}

// Close ends what is being written and closes the file.
func (s *Store) Close() error {
	var err error
	s.once.Do(func() {
		close(s.closed)
		done := &job{stop: true, reply: make(chan error, 1)}
		s.jobs <- done
		err = errors.Join(<-done.reply, s.shut())
	})
	return err
}

func (s *Store) shut() error {
	var errs []error
	for _, db := range []*sql.DB{s.read, s.write} {
		if db != nil {
			errs = append(errs, db.Close())
		}
	}
	return errors.Join(append(errs, s.lock.Close())...)
}

// SetClock gives the store the present, for what it notes by itself.
func (s *Store) SetClock(clock func() inventory.Stamp) { s.clock = clock }

// Path is the database file.
func (s *Store) Path() string { return s.path }

// Size is the size of the database in bytes, its write-ahead log included.
func (s *Store) Size() int64 {
	var sum int64
	for _, suffix := range []string{"", "-wal"} {
		if info, err := os.Stat(s.path + suffix); err == nil {
			sum += info.Size()
		}
	}
	return sum
}

// Changed returns a channel that is closed at the next commit.
func (s *Store) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

func (s *Store) announce() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.changed)
	s.changed = make(chan struct{})
}

// refusal turns an error of the database that is about the disk into one a
// client can act on, and remembers that owners could not be heard.
func (s *Store) refusal(err error) error {
	var e sqlite3.Error
	if !errors.As(err, &e) && !errors.Is(err, fs.ErrPermission) {
		return err
	}
	switch e.Code {
	case sqlite3.ErrFull, sqlite3.ErrIoErr, sqlite3.ErrReadonly, sqlite3.ErrCantOpen, sqlite3.ErrCorrupt, sqlite3.ErrNotADB, sqlite3.ErrBusy:
	default:
		return err
	}
	s.mu.Lock()
	s.refused = s.clock().At
	s.mu.Unlock()
	return &inventory.Problem{Code: inventory.CodeStorage, Message: "the inventory cannot be written (" + e.Error() + "); free space on its disk and try again"}
}

const writeLimit = 30 * time.Second
