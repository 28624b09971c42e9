package store

import (
	"bytes"
	"database/sql"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files anew")

func TestOnlyOneOpensIt(t *testing.T) {
	s := open(t)
	if _, err := Open(t.Context(), s.Path()); !errors.Is(err, ErrLocked) {
		t.Fatalf("a second Open: %v, want ErrLocked", err)
	}
	add(t, s, row("a")) // the first is not disturbed
	s = reopen(t, s)
	add(t, s, row("b"))
	must(t, s.Close())
	must(t, s.Close()) // again is no error
	if _, err := s.Change(t.Context(), "c", "", put(row("c"))); !errors.Is(err, errClosed) {
		t.Errorf("a change after Close: %v", err)
	}
}

func TestANewerSchemaIsLeftAlone(t *testing.T) {
	s := open(t)
	add(t, s, row("a"))
	must(t, s.Close())
	raw(t, s.Path(), `INSERT INTO goose_db_version (version_id, is_applied) VALUES (9999, 1)`)
	before, err := os.ReadFile(s.Path())
	must(t, err)
	if _, err := Open(t.Context(), s.Path()); !errors.Is(err, ErrNewer) {
		t.Fatalf("a newer schema: %v, want ErrNewer", err)
	}
	got, err := os.ReadFile(s.Path())
	must(t, err)
	if !bytes.Equal(got, before) {
		t.Error("the file was changed")
	}
	// It holds no lock on what it did not open.
	raw(t, s.Path(), `DELETE FROM goose_db_version WHERE version_id = 9999`)
	openAt(t, s.Path())
}

func raw(t *testing.T, path, query string) {
	t.Helper()
	db, err := sql.Open("sqlite3", path)
	must(t, err)
	defer db.Close()
	_, err = db.ExecContext(t.Context(), query)
	must(t, err)
}

func TestAFileThatIsNoDatabase(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notes")
	must(t, os.WriteFile(path, []byte(strings.Repeat("my notes\n", 500)), 0o600))
	if s, err := Open(t.Context(), path); err == nil {
		t.Error("it was opened")
		must(t, s.Close())
	}
	got, err := os.ReadFile(path)
	must(t, err)
	same(t, "the notes", string(got), strings.Repeat("my notes\n", 500))
}

// TestSchema: what the migrations make is what was reviewed (-update).
func TestSchema(t *testing.T) {
	s := open(t)
	rows, err := s.read.QueryContext(t.Context(), `SELECT sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%' ORDER BY type DESC, name`)
	must(t, err)
	defer rows.Close()
	var got strings.Builder
	for rows.Next() {
		var text string
		must(t, rows.Scan(&text))
		got.WriteString(text + ";\n")
	}
	must(t, rows.Err())
	golden := filepath.Join("testdata", "schema.sql")
	if *update {
		must(t, os.WriteFile(golden, []byte(got.String()), 0o644))
	}
	want, err := os.ReadFile(golden)
	must(t, err)
	if got.String() != string(want) {
		t.Errorf("the schema is not that of %s:\n%s", golden, got.String())
	}
}

// TestPragmas: they hold on each connection, also a new one of the pool.
func TestPragmas(t *testing.T) {
	s := open(t)
	for pool, db := range map[string]*sql.DB{"write": s.write, "read": s.read} {
		c1, err := db.Conn(t.Context())
		must(t, err)
		conns := []*sql.Conn{c1}
		if pool == "read" {
			c2, err := db.Conn(t.Context())
			must(t, err)
			conns = append(conns, c2)
		}
		queryOnly := map[string]string{"write": "0", "read": "1"}[pool]
		for _, c := range conns {
			for pragma, want := range map[string]string{"journal_mode": "wal", "synchronous": "2", "query_only": queryOnly, "foreign_keys": "1"} {
				var got string
				must(t, c.QueryRowContext(t.Context(), "PRAGMA "+pragma).Scan(&got))
				if got != want {
					t.Errorf("%s pool: %s is %s, want %s", pool, pragma, got, want)
				}
			}
			must(t, c.Close())
		}
	}
}

func TestEventsAreAppendOnly(t *testing.T) {
	s := open(t)
	must(t, s.Start(t.Context(), stamp(1)))
	for _, query := range []string{`UPDATE events SET detail = 'nothing happened'`, `UPDATE events SET id = 7`, `UPDATE OR REPLACE events SET at = 0`} {
		if _, err := s.write.ExecContext(t.Context(), query); err == nil || !strings.Contains(err.Error(), "append-only") {
			t.Errorf("%s: %v, want a refusal", query, err)
		}
	}
	got, err := s.Events(t.Context(), EventFilter{})
	must(t, err)
	if len(got) != 1 || got[0].Kind != "started" || got[0].At != stamp(1) || got[0].ID != 1 {
		t.Errorf("events are %+v", got)
	}
}
