package api

import (
	"context"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/testbed-janitor/janitor/internal/inventory"
)

// Times and sizes that keep one bad client from holding what others need.
const (
	headerTime  = 10 * time.Second
	bodyTime    = 10 * time.Second
	idleTime    = 2 * time.Minute
	writeTime   = 30 * time.Second // for one answer, or one line of a stream
	maxHeader   = 16 << 10
	lookEvery   = 5 * time.Second // a waiting registration looks at its name again
	replaceTime = 5 * time.Minute // a replace without wait
	maxWait     = 24 * time.Hour
	planLife    = time.Hour
)

// Server answers calls. It is an [http.Handler] for connections that went
// through [ConnContext]; see [Server.HTTP].
type Server struct {
	store   Store
	loop    Loop
	opt     Options
	log     *slog.Logger
	mux     *http.ServeMux
	started inventory.Stamp
	stop    chan struct{}
	once    sync.Once

	bodyTime time.Duration // shorter in tests
}

// New returns a server over a store and a loop.
func New(store Store, loop Loop, opt Options) *Server {
	s := &Server{store: store, loop: loop, opt: opt, log: opt.Log, mux: http.NewServeMux(), stop: make(chan struct{}), bodyTime: bodyTime}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.started = opt.Clock()
	s.route()
	return s
}

// HTTP returns an http.Server that serves this server's calls. Its Shutdown
// drains what waits.
func (s *Server) HTTP() *http.Server {
	h := &http.Server{
		Handler: s, ConnContext: ConnContext,
		DisableGeneralOptionsHandler: true, // it would answer "OPTIONS *" to anybody
		ReadHeaderTimeout:            headerTime, IdleTimeout: idleTime, MaxHeaderBytes: maxHeader,
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug), // what clients do wrong before they are clients
	}
	h.RegisterOnShutdown(s.Drain)
	return h
}

// Drain has every call that waits answered with 503, and streams ended. Calls
// that change something at once are still served.
func (s *Server) Drain() { s.once.Do(func() { close(s.stop) }) }

func (s *Server) stopping() bool {
	select {
	case <-s.stop:
		return true
	default:
		return false
	}
}

// untilStop returns the context of a call that also ends when the server
// drains.
func (s *Server) untilStop(r *http.Request) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(r.Context())
	go func() {
		select {
		case <-s.stop:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

func (s *Server) route() {
	calls := map[string]map[string]func(http.ResponseWriter, *http.Request) error{
		"/v1/clusters":                {"GET": s.list, "POST": s.register},
		"/v1/clusters/{name}":         {"GET": s.get},
		"/v1/clusters/{name}/renew":   {"POST": s.renew},
		"/v1/clusters/{name}/release": {"POST": s.release},
		"/v1/clusters/{name}/hold":    {"POST": s.hold, "DELETE": s.unhold},
		"/v1/events":                  {"GET": s.events},
		"/v1/plan":                    {"GET": s.plan},
		"/v1/plans":                   {"POST": s.savePlan},
		"/v1/plans/{id}/apply":        {"POST": s.apply},
		"/v1/passes":                  {"POST": s.pass},
		"/v1/status":                  {"GET": s.status},
		"/healthz":                    {"GET": s.healthz},
		"/readyz":                     {"GET": s.readyz},
	}
	if s.opt.Metrics != nil {
		calls["/metrics"] = map[string]func(http.ResponseWriter, *http.Request) error{"GET": s.metrics}
	}
	for path, methods := range calls {
		for method, call := range methods {
			s.mux.HandleFunc(method+" "+path, s.handle(call))
		}
		names := slices.Sorted(maps.Keys(methods))
		allowed := strings.Join(names, ", ")
		s.mux.HandleFunc(path, s.handle(func(w http.ResponseWriter, r *http.Request) error {
			w.Header().Set("Allow", allowed)
			return refuse(codeMethod, "%.20q is not known here; use %s", r.Method, allowed)
		}))
	}
	s.mux.HandleFunc("/", s.handle(func(_ http.ResponseWriter, r *http.Request) error { return notFound(r) }))
}

func (s *Server) handle(call func(http.ResponseWriter, *http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := call(w, r); err != nil {
			s.fail(w, r, err)
		}
	}
}

// extendWrite gives the next write its time. A client that does not read is
// dropped; the kernel buffers what an honest one has not read yet.
func extendWrite(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTime)) // not supported by recorders
}
