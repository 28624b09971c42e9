package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/testbed-janitor/janitor/internal/inventory"
)

// maxBody is the largest request body in bytes that is read.
const maxBody = 64 << 10

// kind is what a field may hold.
type kind int

const (
	text     kind = iota // a string
	duration             // a string or a whole number
	boolean              // true or false
	integer              // a whole number
	labels               // in JSON an object of strings, in a form KEY=VALUE, once for each
)

// fields are the fields of a request as they came, from JSON or a form alike.
// Values are text still; what they must look like is the reader's matter.
type fields struct {
	values map[string]string
	labels map[string]string
}

// readFields reads the body of a request. An empty body has no fields.
func (s *Server) readFields(w http.ResponseWriter, r *http.Request, known map[string]kind) (fields, error) {
	if r.URL.RawQuery != "" {
		return fields{}, refuse(codeMalformed, "fields belong into the body of this call, not into the query")
	}
	if r.Header.Get("Content-Encoding") != "" {
		return fields{}, refuse(codeMediaType, "the body must not be compressed")
	}
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(s.bodyTime)) // not supported by recorders
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			return fields{}, refuse(codeTooLarge, "the body has more than %d bytes", maxBody)
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return fields{}, refuse(codeSlow, "the body did not arrive within %s", s.bodyTime)
		}
		return fields{}, refuse(codeMalformed, "the body ended early")
	}
	// net/http reads on, to notice who hangs up. A deadline that passes while a
	// call waits would look like that.
	_ = control.SetReadDeadline(time.Time{})
	return parseFields(r.Header.Get("Content-Type"), body, known)
}

// parseFields reads a body of one of the two content types. Everything that
// could be read in two ways is refused.
func parseFields(contentType string, body []byte, known map[string]kind) (fields, error) {
	if contentType == "" && len(body) == 0 {
		return fields{}, nil
	}
	media, params, err := mime.ParseMediaType(contentType)
	charset := params["charset"]
	if err != nil || charset != "" && !strings.EqualFold(charset, "utf-8") {
		media = ""
	}
	switch media {
	case "application/json":
		return parseJSON(body, known)
	case "application/x-www-form-urlencoded":
		return parseForm(string(body), known)
	}
	return fields{}, refuse(codeMediaType, "the content type must be application/json or application/x-www-form-urlencoded, in UTF-8")
}

func parseForm(body string, known map[string]kind) (fields, error) {
	form, err := url.ParseQuery(body)
	if err != nil {
		return fields{}, refuse(codeMalformed, "the form cannot be read: use --data-urlencode for values with %%, & or ;")
	}
	f := fields{values: map[string]string{}}
	for _, name := range slices.Sorted(maps.Keys(form)) {
		is, ok := known[name]
		switch {
		case !ok:
			return fields{}, unknownField(name, known)
		case is == labels:
			for _, pair := range form[name] {
				key, value, ok := strings.Cut(pair, "=")
				if !ok {
					return fields{}, refuse(inventory.CodeInvalid, "field %q: a label is KEY=VALUE", name)
				}
				if err := f.label(key, value); err != nil {
					return fields{}, err
				}
			}
		case len(form[name]) > 1:
			return fields{}, refuse(codeMalformed, "field %q is given more than once", name)
		default:
			f.values[name] = form[name][0]
		}
	}
	return f, nil
}

// parseJSON reads one object. encoding/json alone would take names in any case,
// the last of two equal names, and anything for characters it cannot read.
func parseJSON(body []byte, known map[string]kind) (fields, error) {
	if len(bytes.TrimSpace(body)) == 0 {
		return fields{}, nil
	}
	if !utf8.Valid(body) {
		return fields{}, refuse(inventory.CodeInvalid, "the body is not UTF-8")
	}
	f := fields{values: map[string]string{}}
	dec := json.NewDecoder(bytes.NewReader(body))
	err := eachMember(dec, func(name string) error {
		is, ok := known[name]
		if !ok {
			return unknownField(name, known)
		}
		if is == labels {
			if f.labels != nil {
				return refuse(codeMalformed, "field %q is given more than once", name)
			}
			return f.readLabels(dec, name)
		}
		if _, twice := f.values[name]; twice {
			return refuse(codeMalformed, "field %q is given more than once", name)
		}
		var raw json.RawMessage
		if err := dec.Decode(&raw); err != nil {
			return errNotJSON(err)
		}
		value, err := scalar(name, is, raw)
		f.values[name] = value
		return err
	})
	if err != nil {
		return fields{}, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return fields{}, refuse(codeMalformed, "something follows the JSON object")
	}
	return f, nil
}

// eachMember calls f for each name of the object that comes next; f reads the
// value.
func eachMember(dec *json.Decoder, f func(name string) error) error {
	t, err := dec.Token()
	if err != nil {
		return errNotJSON(err)
	}
	if t != json.Delim('{') {
		return refuse(codeMalformed, "the body must be one JSON object")
	}
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			return errNotJSON(err)
		}
		name, ok := t.(string)
		if !ok {
			return refuse(codeMalformed, "the body is not JSON")
		}
		if err := f(name); err != nil {
			return err
		}
	}
	if _, err := dec.Token(); err != nil {
		return errNotJSON(err)
	}
	return nil
}

// scalar gives the text of a JSON value that fits the kind of its field.
func scalar(name string, is kind, raw json.RawMessage) (string, error) {
	switch c := raw[0]; {
	case c == '"':
		var s string
		if err := json.Unmarshal(raw, &s); err != nil {
			return "", errNotJSON(err)
		}
		return s, nil
	case (c == '-' || c >= '0' && c <= '9') && (is == duration || is == integer),
		(c == 't' || c == 'f') && is == boolean:
		return string(raw), nil
	}
	wants := map[kind]string{text: "a string", duration: `a string such as "90m" or whole seconds`, integer: "a whole number", boolean: "true or false"}
	return "", refuse(inventory.CodeInvalid, "field %q must be %s", name, wants[is])
}

func (f *fields) readLabels(dec *json.Decoder, name string) error {
	var raw json.RawMessage
	if err := dec.Decode(&raw); err != nil {
		return errNotJSON(err)
	}
	if raw[0] != '{' {
		return refuse(inventory.CodeInvalid, "field %q must be an object of strings", name)
	}
	f.labels = map[string]string{}
	inner := json.NewDecoder(bytes.NewReader(raw))
	return eachMember(inner, func(key string) error {
		var value json.RawMessage
		if err := inner.Decode(&value); err != nil {
			return errNotJSON(err)
		}
		s, err := scalar(name+"."+key, text, value)
		if err != nil {
			return err
		}
		return f.label(key, s)
	})
}

func (f *fields) label(key, value string) error {
	if f.labels == nil {
		f.labels = map[string]string{}
	}
	if _, twice := f.labels[key]; twice {
		return refuse(codeMalformed, "label %q is given more than once", key)
	}
	f.labels[key] = value
	return nil
}

// unknownField names the field, and those there are.
func unknownField(name string, known map[string]kind) error {
	if len(known) == 0 {
		return refuse(codeMalformed, "unknown field %.60q: this call takes none", name)
	}
	return refuse(codeMalformed, "unknown field %.60q: this call takes %s", name, strings.Join(slices.Sorted(maps.Keys(known)), ", "))
}

func errNotJSON(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return refuse(codeMalformed, "the JSON ends early")
	}
	if e, ok := errors.AsType[*json.SyntaxError](err); ok {
		return refuse(codeMalformed, "the body is not JSON: %s at byte %d", e.Error(), e.Offset)
	}
	return refuse(codeMalformed, "the body is not JSON")
}
