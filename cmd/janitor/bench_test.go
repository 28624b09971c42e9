package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/testbed-janitor/janitor/internal/testbed"
)

// The benchmarks measure the real binary beside what people use instead, in
// turns in one run, and report the ratio of the medians. Nothing fails on a
// time; docs/benchmarks.md says what to expect.

// rivals times two things in turns.
type rivals struct{ ours, theirs []time.Duration }

func (r *rivals) round(b *testing.B, ours, theirs func() error) {
	b.Helper()
	r.ours = append(r.ours, timed(b, ours))
	r.theirs = append(r.theirs, timed(b, theirs))
}

func (r *rivals) report(b *testing.B) {
	ours, theirs := median(r.ours), median(r.theirs)
	b.ReportMetric(0, "ns/op") // a round is both rivals: its time says nothing
	b.ReportMetric(float64(ours.Microseconds())/1000, "ours-ms")
	b.ReportMetric(float64(theirs.Microseconds())/1000, "rival-ms")
	b.ReportMetric(float64(ours)/float64(theirs), "ratio")
}

func timed(b *testing.B, f func() error) time.Duration {
	b.Helper()
	start := time.Now()
	if err := f(); err != nil {
		b.Fatal(err)
	}
	return time.Since(start)
}

func median(ds []time.Duration) time.Duration {
	s := slices.Sorted(slices.Values(ds))
	return s[len(s)/2]
}

// quiet is a daemon whose loop does nothing while it is measured.
func quiet(b *testing.B, host string) *testbed.Daemon {
	b.Helper()
	config := map[string]any{"schedule": "@every 1h"}
	if host != "" {
		config["docker_host"] = host
	}
	return testbed.StartDaemon(b, config)
}

// BenchmarkRegisterCurl: a job's one line of curl beside a shell script that
// appends a line under flock and syncs the file.
func BenchmarkRegisterCurl(b *testing.B) {
	d := quiet(b, "")
	list := filepath.Join(d.Dir, "list")
	var r rivals
	for n := 0; b.Loop(); n++ {
		name := fmt.Sprintf("bench-%d", n)
		r.round(b, func() error {
			return exec.Command("curl", "-fsS", "-o", "/dev/null", "--unix-socket", d.Socket, "http://localhost/v1/clusters",
				"-d", "name="+name, "-d", "ttl=1h", "-d", "owner=bench").Run()
		}, func() error {
			return exec.Command("sh", "-c", `exec 9>>"$1"; flock 9; echo "$2 $(date +%s)" >&9; sync "$1"`, "sh", list, name).Run()
		})
	}
	r.report(b)
}

func pass(d *testbed.Daemon) error {
	res, err := d.HTTP().PostForm(d.URL("/v1/passes"), nil)
	if err != nil {
		return err
	}
	res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("POST /v1/passes: %s", res.Status)
	}
	return nil
}

// plain makes containers with kind's labels, one for each cluster name.
func plain(b *testing.B, k *testbed.Docker, prefix string, n int) (names, ids []string) {
	b.Helper()
	for i := range n {
		name := fmt.Sprintf("%s-%d", prefix, i)
		names = append(names, name)
		ids = append(ids, k.PlainContainer(b, name, testbed.RoleControlPlane))
	}
	return names, ids
}

func register(b *testing.B, d *testbed.Daemon, name, ttl string) {
	b.Helper()
	res, err := d.HTTP().PostForm(d.URL("/v1/clusters"), url.Values{"name": {name}, "ttl": {ttl}, "owner": {"bench"}})
	if err != nil {
		b.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusCreated {
		b.Fatalf("register %s: %s", name, res.Status)
	}
}

// BenchmarkPass: a pass with nothing to do over many clusters beside the one
// list call it makes.
func BenchmarkPass(b *testing.B) {
	k := testbed.Engine(b)
	d := quiet(b, k.Host)
	const clusters = 40
	names, _ := plain(b, k, testbed.Name(b), clusters)
	for _, n := range names {
		register(b, d, n, "8h")
	}
	list := &http.Client{Transport: unixTransport(k.Host)}
	var r rivals
	for b.Loop() {
		r.round(b, func() error { return pass(d) }, func() error {
			res, err := list.Get("http://docker/v1.41/containers/json?all=1&filters=" + url.QueryEscape(`{"label":["io.x-k8s.kind.cluster"]}`))
			if err != nil {
				return err
			}
			_, err = discard(res)
			return err
		})
	}
	r.report(b)
}

// BenchmarkReap16: sixteen expired clusters beside sixteen removals asked at
// once of the same engine.
func BenchmarkReap16(b *testing.B) {
	k := testbed.Engine(b)
	d := quiet(b, k.Host)
	var r rivals
	for round := 0; b.Loop(); round++ {
		prefix := fmt.Sprintf("%s-r%d", testbed.Name(b), round)
		for i := range 16 {
			register(b, d, fmt.Sprintf("%s-%d", prefix, i), "1h")
		}
		names, _ := plain(b, k, prefix, 16)
		_, rival := plain(b, k, prefix+"-x", 16)
		if err := pass(d); err != nil { // sights and binds them
			b.Fatal(err)
		}
		for _, n := range names {
			release(b, d, n)
		}
		r.round(b, func() error {
			for ; ; time.Sleep(5 * time.Millisecond) {
				left := 0
				for _, n := range names {
					ids, err := k.Nodes(context.Background(), n)
					if err != nil {
						return err
					}
					left += len(ids)
				}
				if left == 0 {
					return nil
				}
				if err := pass(d); err != nil {
					return err
				}
			}
		}, func() error {
			var wg sync.WaitGroup
			for _, id := range rival {
				wg.Go(func() { _, _ = k.Output(context.Background(), "rm", "-f", "-v", id) })
			}
			wg.Wait()
			return nil
		})
	}
	r.report(b)
}

func release(b *testing.B, d *testbed.Daemon, name string) {
	b.Helper()
	res, err := d.HTTP().PostForm(d.URL("/v1/clusters/"+name+"/release"), url.Values{"owner": {"bench"}})
	if err != nil {
		b.Fatal(err)
	}
	res.Body.Close()
}

// BenchmarkMemory reports the resident memory of an idle service.
func BenchmarkMemory(b *testing.B) {
	d := quiet(b, "")
	for b.Loop() {
		time.Sleep(time.Millisecond)
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", d.PID()))
	if err != nil {
		b.Fatal(err)
	}
	m := regexp.MustCompile(`VmRSS:\s+(\d+) kB`).FindSubmatch(status)
	kib, err := strconv.Atoi(string(m[1]))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(kib)/1024, "MiB-resident")
}
