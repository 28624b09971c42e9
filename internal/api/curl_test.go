package api

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// plain curl is all that a job needs.
func TestCurl(t *testing.T) {
	curl, err := exec.LookPath("curl")
	if err != nil {
		t.Skip("no curl")
	}
	b := newBed(t)
	path, _ := b.serve()
	run := func(args ...string) string {
		t.Helper()
		var out bytes.Buffer
		cmd := exec.CommandContext(t.Context(), curl, append([]string{"-sS", "-w", " %{http_code}", "--unix-socket", path}, args...)...)
		cmd.Stdout, cmd.Stderr = &out, os.Stderr
		if err := cmd.Run(); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	for _, c := range []struct {
		want string
		args []string
	}{
		{" 201", []string{"http://localhost/v1/clusters", "-d", "name=e2e", "-d", "ttl=90m", "-d", "owner=x", "-d", "labels=a=b"}},
		{" 200", []string{"http://x/v1/clusters/e2e/renew", "-d", "owner=x"}},
		{" 200", []string{"http://localhost/v1/clusters/e2e/hold", "-d", "for=8h", "--data-urlencode", "reason=let me look"}},
		{" 200", []string{"-X", "DELETE", "http://localhost/v1/clusters/e2e/hold"}},
		{" 200", []string{"http://localhost/v1/events?name=e2e"}},
		{" 202", []string{"http://localhost/v1/clusters/e2e/release", "-d", "owner=x"}},
		{" 200", []string{"-X", "POST", "http://localhost/v1/passes"}},
		{" 201", []string{"-X", "POST", "http://localhost/v1/plans"}},
		{" 403", []string{"-H", "Origin: https://evil.example", "http://localhost/healthz"}},
		{" 403", []string{"http://evil.example/healthz"}},
	} {
		if out := run(c.args...); !strings.HasSuffix(out, c.want) {
			t.Errorf("%v gives %s", c.args, out)
		}
	}
}
