package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/testbed-janitor/janitor/internal/inventory"
)

// Codes of the socket itself, besides those of package inventory.
const (
	codeMalformed  inventory.Code = "malformed"
	codeMethod     inventory.Code = "method"
	codeSlow       inventory.Code = "slow"
	codeTooLarge   inventory.Code = "too-large"
	codeMediaType  inventory.Code = "media-type"
	codeUnhealthy  inventory.Code = "unhealthy"
	codeStopping   inventory.Code = "stopping"
	codeUnexpected inventory.Code = "internal"
)

// mapping is how a refusal looks on the wire.
type mapping struct {
	status int
	code   string // what clients branch on
	title  string
	retry  int // Retry-After in seconds; 0: none
}

// mappings is the one place where codes become answers. Whatever is wrong with
// the request itself has the code "invalid"; the status tells the kinds apart.
var mappings = map[inventory.Code]mapping{
	inventory.CodeInvalid:   {422, "invalid", "The request breaks a rule", 0},
	codeMalformed:           {400, "invalid", "The request cannot be read", 0},
	codeMethod:              {405, "invalid", "This path does not know the method", 0},
	codeSlow:                {408, "invalid", "The request took too long to arrive", 0},
	codeTooLarge:            {413, "invalid", "The request is too large", 0},
	codeMediaType:           {415, "invalid", "The content type is not understood", 0},
	inventory.CodeForbidden: {403, "forbidden", "This is not allowed", 0},
	inventory.CodeNotFound:  {404, "not-found", "There is no such thing", 0},
	inventory.CodeOccupied:  {409, "occupied", "The name is taken", 0},
	inventory.CodeReaping:   {409, "reaping", "The cluster is being removed", 0},
	inventory.CodeHeld:      {409, "held", "The cluster is under a hold", 0},
	inventory.CodeDryRun:    {409, "dry-run", "Nothing is removed in a dry run", 0},
	inventory.CodeConflict:  {409, "conflict", "It has changed meanwhile", 0},
	inventory.CodeLeaseLost: {410, "lease-lost", "The lease is lost", 0},
	inventory.CodeTimeout:   {504, "timeout", "Waited in vain", 0},
	inventory.CodeStorage:   {503, "storage", "The database cannot be written", 10},
	codeStopping:            {503, "stopping", "The service is stopping", 5},
	codeUnhealthy:           {503, "unhealthy", "The loop does not keep up", 0},
	codeUnexpected:          {500, "internal", "Something went wrong in the service", 0},
}

func refuse(code inventory.Code, format string, args ...any) *inventory.Problem {
	return &inventory.Problem{Code: code, Message: fmt.Sprintf(format, args...)}
}

func errStopping() *inventory.Problem {
	return refuse(codeStopping, "the service is stopping; ask again in a moment")
}

// problemOf makes a refusal of any error. What no rule said is not told to the
// client, for it may name files or secrets; it is for the log.
func (s *Server) problemOf(r *http.Request, err error) *inventory.Problem {
	if p, ok := errors.AsType[*inventory.Problem](err); ok {
		return p
	}
	if errors.Is(err, ErrStopping) || s.stopping() {
		return errStopping()
	}
	s.log.ErrorContext(r.Context(), "call failed", "method", r.Method, "path", r.URL.Path, "error", err)
	return refuse(codeUnexpected, "something went wrong; the log of the service says what")
}

// fail answers a call with an error. Nobody is answered who has gone away.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	if errors.Is(err, context.Canceled) && r.Context().Err() != nil {
		return
	}
	p := s.problemOf(r, err)
	m, ok := mappings[p.Code]
	if !ok {
		s.log.ErrorContext(r.Context(), "refusal without a mapping", "code", p.Code)
		m = mappings[codeUnexpected]
	}
	out := Problem{
		Type: "urn:janitor:problem:" + m.code, Title: m.title, Status: m.status, Detail: p.Message, Code: m.code,
	}
	if p.Cluster != nil {
		row := s.view().row(*p.Cluster)
		out.Cluster = &row
	}
	if m.retry != 0 {
		w.Header().Set("Retry-After", strconv.Itoa(m.retry))
	}
	s.write(w, r, m.status, "application/problem+json", out)
}

func (s *Server) answer(w http.ResponseWriter, r *http.Request, status int, body any) {
	s.write(w, r, status, "application/json", body)
}

func (s *Server) write(w http.ResponseWriter, r *http.Request, status int, contentType string, body any) {
	text, err := json.Marshal(body)
	if err != nil { // no shape of ours can fail; a time outside of the years 0 to 9999 could
		s.log.ErrorContext(r.Context(), "answer cannot be written", "error", err)
		http.Error(w, "", http.StatusInternalServerError)
		return
	}
	extendWrite(w)
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(append(text, '\n')) // who has hung up does not need the rest
}
