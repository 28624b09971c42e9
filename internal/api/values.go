package api

import (
	"maps"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/testbed-janitor/janitor/internal/inventory"
)

// Limits of what is kept. They guard the database and people's terminals; no
// honest value comes near them.
const (
	maxText    = 1024
	maxPath    = 4096 // PATH_MAX
	maxLabels  = 32
	maxLabel   = 256
	maxForever = 10 * 365 * 24 * time.Hour // any longer overflows when added to an instant
)

const durationRule = `a duration is Go's ("90m", "2h15m") or whole seconds, more than 0 and at most 10 years; there is no unit of days`

// reader checks the values of fields. It keeps the first thing that is wrong;
// look at err when everything has been read.
type reader struct {
	fields
	err error
}

func (f *reader) fail(name, format string, args ...any) {
	if f.err == nil {
		f.err = refuse(inventory.CodeInvalid, "field %q: "+format, append([]any{name}, args...)...)
	}
}

// has reports whether a field was given, empty or not.
func (f *reader) has(name string) bool {
	_, ok := f.values[name]
	return ok
}

func (f *reader) text(name string, limit int) string {
	s := f.values[name]
	if why := unfit(s, limit); why != "" {
		f.fail(name, "%s", why)
	}
	return s
}

// unfit says why a string is not kept, or is empty. What cannot be read (a
// half of a surrogate pair in JSON, say) has become U+FFFD before.
func unfit(s string, limit int) string {
	switch {
	case len(s) > limit:
		return "it has " + strconv.Itoa(len(s)) + " bytes, more than " + strconv.Itoa(limit)
	case !utf8.ValidString(s) || strings.ContainsRune(s, utf8.RuneError):
		return "it is not UTF-8"
	case strings.ContainsFunc(s, unicode.IsControl):
		return "it has a control character, such as a line feed"
	}
	return ""
}

// duration is 0 when the field is absent, and never otherwise.
func (f *reader) duration(name string) time.Duration {
	if !f.has(name) {
		return 0
	}
	d, ok := parseDuration(f.values[name])
	if !ok {
		f.fail(name, "%.40q is not understood: %s", f.values[name], durationRule)
	}
	return d
}

func parseDuration(s string) (time.Duration, bool) {
	if n, err := strconv.ParseUint(s, 10, 32); err == nil {
		d := time.Duration(n) * time.Second
		return d, d > 0 && d <= maxForever
	}
	d, err := time.ParseDuration(s)
	return d, err == nil && d > 0 && d <= maxForever
}

func (f *reader) boolean(name string) bool {
	switch f.values[name] {
	case "true":
		return true
	case "false":
	default:
		if f.has(name) {
			f.fail(name, "it must be true or false")
		}
	}
	return false
}

// pid checks a process id; 0 when absent.
func (f *reader) pid(name string) int {
	if !f.has(name) {
		return 0
	}
	n, err := strconv.ParseInt(f.values[name], 10, 32)
	if err != nil || n < 1 {
		f.fail(name, "a process id is a whole number above 0")
	}
	return int(n)
}

// moment is the zero time when the field is absent.
func (f *reader) moment(name string) time.Time {
	if !f.has(name) {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339, f.values[name])
	if err != nil {
		f.fail(name, "%.40q is not understood: a time is RFC 3339, such as 2006-01-02T15:04:05Z", f.values[name])
	}
	return t
}

// path is the absolute path of a file. It is kept, and nothing is opened here.
func (f *reader) path(name string) string {
	s := f.text(name, maxPath)
	if s != "" && (!filepath.IsAbs(s) || filepath.Clean(s) != s) {
		f.fail(name, "%.100q must be an absolute path without ., .. and doubled slashes", s)
	}
	return s
}

// address is a URL of a job. Secrets in it would be shown to everybody.
func (f *reader) address(name string) (s, path string) {
	s = f.text(name, 2*maxText)
	if s == "" {
		return "", ""
	}
	u, err := url.Parse(s)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		f.fail(name, "it must be a whole URL: http://HOST/PATH or https://HOST/PATH")
		return "", ""
	case u.User != nil:
		f.fail(name, "it must not carry a user or password")
		return "", ""
	}
	return s, u.EscapedPath()
}

func (f *reader) labelled() map[string]string {
	if len(f.labels) > maxLabels {
		f.fail("labels", "there are %d, more than %d", len(f.labels), maxLabels)
	}
	for _, key := range slices.Sorted(maps.Keys(f.labels)) {
		if key == "" || strings.Contains(key, "=") {
			f.fail("labels", "a key must not be empty, and has no '='")
		}
		for _, s := range []string{key, f.labels[key]} {
			if why := unfit(s, maxLabel); why != "" {
				f.fail("labels", "label %.40q: %s", key, why)
			}
		}
	}
	return f.labels
}

// query reads the parameters of a GET as strictly as a form.
func query(raw string, known map[string]kind) (*reader, error) {
	f, err := parseForm(raw, known)
	return &reader{fields: f}, err
}
