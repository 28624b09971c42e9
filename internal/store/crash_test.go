package store

import (
	"bufio"
	"context"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// registerForEver is the child: four callers register rows, and print each name
// once Change has answered. It ends only by being killed, or with an error.
func registerForEver(path string) int {
	s, err := Open(context.Background(), path)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	var out sync.Mutex
	failed := make(chan error)
	for i := range 4 {
		go func() {
			for j := 0; ; j++ {
				name := fmt.Sprintf("c%d-%d", i, j)
				if _, err := s.Change(context.Background(), name, "", put(row(name))); err != nil {
					failed <- err
					return
				}
				out.Lock()
				fmt.Println(name)
				out.Unlock()
			}
		}()
	}
	fmt.Fprintln(os.Stderr, <-failed)
	return 1
}

// TestAnAnswerSurvivesAKill: what Change has answered is there after SIGKILL,
// and the file is whole, several times in a row on the same database.
func TestAnAnswerSurvivesAKill(t *testing.T) {
	for _, answers := range []int{1, 40, 200} {
		path := filepath.Join(t.TempDir(), "janitor.db")
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), envChild+"="+path)
		cmd.Stderr = os.Stderr
		stdout, err := cmd.StdoutPipe()
		must(t, err)
		must(t, cmd.Start())
		var answered []string
		lines := bufio.NewScanner(stdout)
		for lines.Scan() {
			answered = append(answered, lines.Text())
			if len(answered) == answers {
				must(t, cmd.Process.Kill()) // what is still in the pipe was answered too
			}
		}
		_ = cmd.Wait() // it was killed
		if len(answered) < answers {
			t.Fatalf("the child ended by itself after %d rows", len(answered))
		}

		s := openAt(t, path) // the dead one's lock is gone
		for _, name := range answered {
			if _, _, err := s.Cluster(t.Context(), name); err != nil {
				t.Errorf("answered and lost: %v", err)
			}
		}
		integrity(t, path)
		add(t, s, row("afterwards"))
	}
}

func integrity(t *testing.T, path string) {
	t.Helper()
	db, err := sql.Open("sqlite3", path)
	must(t, err)
	defer db.Close()
	var says string
	must(t, db.QueryRowContext(t.Context(), `PRAGMA integrity_check`).Scan(&says))
	if says != "ok" {
		t.Errorf("integrity check: %s", says)
	}
}
