package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/netip"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/testbed-janitor/janitor/internal/host/kubeconfig"
	"github.com/testbed-janitor/janitor/internal/inventory"
)

const (
	// allFilesLimit bounds the look at all kubeconfigs, so that those on a
	// network file system whose server is away do not hold up a pass.
	allFilesLimit = 10 * time.Second
	// fileLimit bounds each step on one of them.
	fileLimit = 5 * time.Second
	// readWait is how long a reader waits for a lock. kind holds it for
	// milliseconds; one that was left behind is met at every pass.
	readWait = 500 * time.Millisecond
	// filesAtOnce are looked at side by side.
	filesAtOnce = 16
	// maxAwaited is how many files that could not be read are remembered
	// beyond their rows.
	maxAwaited = 1000
)

// patternsKey is where Observation.Unread says that configured paths could not
// be expanded.
const patternsKey = "kubeconfigs"

// files are the kubeconfigs of this machine that matter. The zero value is
// ready.
type files struct {
	mu        sync.Mutex
	expanding *expansion
	// owners are the uids of the jobs that named files, for as long as they
	// are of interest: a reap may end while its file is locked, and its entries
	// are looked at again until they are gone.
	owners map[string]uint32
	// awaited are files that could not be read for a reason that passes.
	awaited map[string]bool
}

// source is a file with all the ways in which it may be opened.
type source struct {
	path   string
	trusts []kubeconfig.Trust
}

// observe reads all files. A file that does not exist has no entries; for any
// other it says why it could not be read. Listening is left open.
func (f *files) observe(ctx context.Context, patterns []string, recs inventory.Records) ([]inventory.SeenContext, map[string]string) {
	ctx, cancel := context.WithTimeout(ctx, allFilesLimit)
	defer cancel()
	unread := map[string]string{}
	configured, err := f.expand(ctx, patterns)
	sources := f.sources(configured, recs)
	if err != nil {
		unread[patternsKey] = err.Error()
		for _, c := range recs.Contexts { // it may be one of those that are not known now
			if !slices.ContainsFunc(sources, func(s source) bool { return s.path == c.File }) {
				unread[c.File] = err.Error()
			}
		}
	}
	entries := make([][]kubeconfig.Entry, len(sources))
	errs := make([]error, len(sources))
	turn := make(chan struct{}, filesAtOnce)
	_ = each(sources, func(i int, s source) error {
		turn <- struct{}{}
		defer func() { <-turn }()
		entries[i], errs[i] = s.read(ctx)
		return nil
	})
	var seen []inventory.SeenContext
	awaited := map[string]bool{}
	for i, s := range sources {
		for _, e := range entries[i] {
			seen = append(seen, inventory.SeenContext{File: s.path, Name: e.Name, Server: e.Server})
		}
		if err := errs[i]; err != nil && !errors.Is(err, fs.ErrNotExist) {
			unread[s.path] = err.Error()
			if passes(err) && len(awaited) < maxAwaited {
				awaited[s.path] = true
			}
		}
	}
	f.mu.Lock()
	f.awaited = awaited
	f.mu.Unlock()
	return seen, unread
}

// passes reports whether a file that was not read now may be read soon, by the
// same service with the same rights.
func passes(err error) bool {
	for _, kind := range []error{kubeconfig.ErrLocked, kubeconfig.ErrChanging, kubeconfig.ErrHanging, context.DeadlineExceeded} {
		if errors.Is(err, kind) {
			return true
		}
	}
	return false
}

// sources are the configured files, those that rows name, and those that rows
// named that are no more, while something in them is of interest.
func (f *files) sources(configured []string, recs inventory.Records) []source {
	var sources []source
	at := map[string]int{}
	for _, path := range configured {
		at[path] = len(sources)
		sources = append(sources, source{path, []kubeconfig.Trust{kubeconfig.Configured()}})
	}
	named := func(path string, uid uint32) {
		i, known := at[path]
		if !known {
			i = len(sources)
			at[path] = i
			sources = append(sources, source{path: path})
		}
		// What is configured is trusted as such, also when a job names it.
		if trust := kubeconfig.NamedByJob(uid); i >= len(configured) && !slices.Contains(sources[i].trusts, trust) {
			sources[i].trusts = append(sources[i].trusts, trust)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	kept := map[string]uint32{}
	for _, c := range recs.Clusters {
		if c.Kubeconfig != "" {
			kept[c.Kubeconfig] = c.UID
			named(c.Kubeconfig, c.UID)
		}
	}
	remembered := map[string]bool{}
	for _, c := range recs.Contexts {
		remembered[c.File] = true
	}
	for _, path := range slices.Sorted(maps.Keys(f.owners)) {
		if _, live := kept[path]; !live && (remembered[path] || f.awaited[path]) {
			kept[path] = f.owners[path]
			named(path, f.owners[path])
		}
	}
	f.owners = kept
	return sources
}

// read opens the file in the first way that is allowed. Two jobs may name one
// file, of which only one owns it.
func (s source) read(ctx context.Context) (entries []kubeconfig.Entry, err error) {
	ctx, cancel := context.WithTimeout(ctx, fileLimit)
	defer cancel()
	for _, trust := range s.trusts {
		entries, err = kubeconfig.Read(ctx, s.path, trust, kubeconfig.Options{LockWait: readWait})
		if !errors.Is(err, kubeconfig.ErrUntrusted) {
			break
		}
	}
	return entries, err
}

// forget edits the files side by side, each within its own limit.
func (f *files) forget(ctx context.Context, patterns []string, entries []inventory.SeenContext, uidOf func(string) (uint32, bool)) ([]inventory.SeenContext, error) {
	configured, expandErr := f.expand(ctx, patterns)
	var paths []string
	byFile := map[string][]inventory.SeenContext{}
	for _, e := range entries {
		if byFile[e.File] == nil {
			paths = append(paths, e.File)
		}
		byFile[e.File] = append(byFile[e.File], e)
	}
	removed := make([][]inventory.SeenContext, len(paths))
	err := each(paths, func(i int, path string) (err error) {
		trust := kubeconfig.Configured()
		if !slices.Contains(configured, path) {
			uid, ok := f.ownerOf(path, uidOf)
			if !ok {
				return oneLine([]error{fmt.Errorf("%s is not touched: it is neither configured nor named by a job", path), expandErr})
			}
			trust = kubeconfig.NamedByJob(uid)
		}
		removed[i], err = forgetIn(ctx, path, trust, byFile[path])
		return err
	})
	return slices.Concat(removed...), err
}

// forgetIn edits one file. A name has one entry in it; where several servers
// could be its own, each is tried alone, to know which one it was.
func forgetIn(ctx context.Context, path string, trust kubeconfig.Trust, entries []inventory.SeenContext) (gone []inventory.SeenContext, err error) {
	ctx, cancel := context.WithTimeout(ctx, fileLimit)
	defer cancel()
	for len(entries) > 0 && err == nil {
		var now []kubeconfig.Entry
		var names, removed []string
		var later []inventory.SeenContext
		for _, e := range entries {
			if slices.Contains(names, e.Name) {
				later = append(later, e)
				continue
			}
			names = append(names, e.Name)
			now = append(now, kubeconfig.Entry{File: e.File, Name: e.Name, Server: e.Server})
		}
		removed, err = kubeconfig.Remove(ctx, path, trust, now, kubeconfig.Options{})
		for _, e := range now {
			if slices.Contains(removed, e.Name) {
				gone = append(gone, inventory.SeenContext{File: path, Name: e.Name, Server: e.Server})
			}
		}
		entries = later
	}
	return gone, err
}

// ownerOf is the uid of a job that named the file: of one the inventory knows,
// else of one that was seen earlier.
func (f *files) ownerOf(path string, uidOf func(string) (uint32, bool)) (uint32, bool) {
	if uid, ok := uidOf(path); ok {
		return uid, true
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	uid, ok := f.owners[path]
	return uid, ok
}

// expansion is one call of kubeconfig.Expand under way.
type expansion struct {
	done  chan struct{}
	files []string
	err   error
}

// expand is kubeconfig.Expand that does not wait longer than ctx: a glob over a
// network file system may hang. Those that come meanwhile share the outcome of
// the one that hangs, so that they do not pile up.
func (f *files) expand(ctx context.Context, patterns []string) ([]string, error) {
	f.mu.Lock()
	x := f.expanding
	if x == nil {
		x = &expansion{done: make(chan struct{})}
		f.expanding = x
		go func() {
			x.files, x.err = kubeconfig.Expand(patterns)
			f.mu.Lock()
			f.expanding = nil
			f.mu.Unlock()
			close(x.done)
		}()
	}
	f.mu.Unlock()
	limit := time.NewTimer(fileLimit)
	defer limit.Stop()
	select {
	case <-x.done:
		return x.files, x.err
	case <-ctx.Done():
		return nil, fmt.Errorf("find the configured kubeconfigs: %w", context.Cause(ctx))
	case <-limit.C:
		return nil, fmt.Errorf("find the configured kubeconfigs: a folder on their way does not answer: %w", context.DeadlineExceeded)
	}
}

// listeningAt reports whether somebody listens at a server of this machine, or
// nil when that cannot be known from here: it is elsewhere, or has a name.
func listeningAt(server string) *bool {
	u, err := url.Parse(server)
	if err != nil {
		return nil
	}
	at, err := netip.ParseAddrPort(u.Host)
	if err != nil || !at.Addr().IsLoopback() && !at.Addr().IsUnspecified() {
		return nil
	}
	yes, err := Listening(at)
	if err != nil {
		return nil
	}
	return &yes
}
