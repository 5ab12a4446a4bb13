// Package serve is an inference server that knows its bytes: the Open Inference Protocol v2 over REST and gRPC, with
// Triton's extensions, for the models of a folder.
//
// Before a model is loaded, its certificate tells what it takes; a ledger divides one limit among models, runs, and the
// bodies of requests and responses. What does not fit waits, or is refused with the numbers; the process never holds
// more. The command weir-serve is this package behind flags; a Go program mounts Server.Handler and Server.Register in
// servers of its own.
package serve

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"

	"github.com/weirml/weir"
	"github.com/weirml/weir/serve/internal/catalogue"
	"github.com/weirml/weir/serve/internal/ledger"
	"github.com/weirml/weir/serve/internal/limits"
)

// Version is the server's version, as its metadata tell it.
const Version = "0.1.0"

// Mode says when models are loaded.
type Mode string

// The modes, with the names of Triton's --model-control-mode.
const (
	AtStart  Mode = "none"     // all models, at the start
	Explicit Mode = "explicit" // those of Options.Load at the start, and those that clients load
	Poll     Mode = "poll"     // all models, and the folder's changes as they are found
)

// Pools is the most that Weir holds beside Options.Limit, in bytes: the free parts of the slabs that it cuts small
// blocks from.
const Pools = 8 << 20

// Options are a server's settings. Only Folder is needed.
type Options struct {
	Folder string // the models: folders in Triton's layout, folders with a model file, and model files
	Mode   Mode   // empty: AtStart
	Load   []string
	// Every is how often Poll reads the folder. 0: every 15 seconds.
	Every time.Duration
	// Limit bounds the bytes of models, runs and bodies, outside Go's heap. 0: seven eighths of the container's memory, or
	// of three quarters of the machine's. New passes it, with Pools, to weir.SetLimit.
	Limit int64
	// Cache is the folder for compiled models, so that a restart compiles nothing. Empty: none are kept.
	Cache string
	// Threads is the width of one run. 0: all processors.
	Threads int
	// Evict lets a model that does not fit have the least recently used ones unloaded.
	Evict bool
	// Replace lets a new version that does not fit beside the old one take its place, with refused requests in between.
	Replace bool
	// Drain is how long an unloaded model waits for its requests. 0: 30 seconds.
	Drain time.Duration
	// MostBody bounds the bytes of one request's body. 0: the ledger alone does.
	MostBody int64
	// MostTexts bounds the texts of one request. 0: 16384.
	MostTexts int
	// Requests bounds the requests in progress, each of which may take 32 KiB of Go's heap beside Limit. One client gets
	// at most half of them, less if others want some. 0: 2048.
	Requests int
	// Stall is how long a client may let a transfer rest: at each time Stall, and a second for each 64 KiB that have gone
	// and of the next MiB, are enough for a body or a response. 0: 20 seconds.
	Stall time.Duration
	// Tokens are the bearer tokens of clients; without any, none is asked for. Health is open to all.
	Tokens []string
	// Manage refuses management calls (load, unload, settings, shared memory) on Handler and Register: they are answered
	// by ManagementHandler alone.
	Manage bool
	Logger *slog.Logger // nil: silent
	// Tracer gets a span for each request for inference that the trace settings select: at the start all. Its parent is
	// that of the header traceparent. nil: none.
	Tracer trace.Tracer
}

// Server answers requests for the models of a folder. Any goroutine may use it.
type Server struct {
	options   Options
	log       *slog.Logger
	level     *slog.LevelVar
	ledger    *ledger.Ledger
	bodies    *ledger.Buffers
	responses *ledger.Buffers
	sending   *shares // of the memory for bodies, until they are there
	reading   *shares // of the memory for responses
	joining   *shares // of the memory for texts that are computed
	asking    *shares // of the requests in progress
	catalogue *catalogue.Catalogue
	regions   regions
	tokens    map[[32]byte]bool
	handler   http.Handler
	manage    http.Handler
	metrics   http.Handler
	rpc       *grpc.Server // everything of gRPC that carries no tensors
	started   time.Time
	ready     atomic.Bool
	stop      context.CancelFunc
	ended     sync.WaitGroup
	errors    recent
	early     early
	traces    tracing
}

// New returns a server, and starts to load models: Ready tells when it has. The caller closes it.
func New(o Options) (*Server, error) {
	o.Mode, o.Every = cmp.Or(o.Mode, AtStart), cmp.Or(o.Every, 15*time.Second)
	o.Drain, o.Stall = cmp.Or(o.Drain, 30*time.Second), cmp.Or(o.Stall, 20*time.Second)
	o.Requests, o.MostTexts = cmp.Or(o.Requests, 2048), cmp.Or(o.MostTexts, 16384)
	if o.Limit == 0 {
		o.Limit = limits.Usable() / 8 * 7
	}
	s := &Server{options: o, level: &slog.LevelVar{}, ledger: ledger.New(o.Limit), started: time.Now(),
		tokens: digests(o.Tokens)}
	s.traces.tracer = o.Tracer
	s.traces.all = s.traces.initial()
	s.log = slog.New(slog.DiscardHandler)
	if o.Logger != nil {
		s.log = slog.New(leveled{o.Logger.Handler(), s.level})
	}
	weir.SetLimit(o.Limit + Pools)
	s.bodies = ledger.NewBuffers(s.ledger.Account(ledger.Body, "requests"), min(o.Limit/16, 64<<20))
	s.responses = ledger.NewBuffers(s.ledger.Account(ledger.Response, "responses"), min(o.Limit/16, 64<<20))
	s.sending = newShares(func() int64 { return s.ledger.Most(ledger.Body) })
	s.reading = newShares(func() int64 { return s.ledger.Most(ledger.Response) })
	s.joining = newShares(func() int64 { return s.ledger.Most(ledger.Joined) })
	s.asking = newShares(func() int64 { return int64(o.Requests) })
	s.catalogue = catalogue.New(s.ledger, catalogue.Options{Folder: o.Folder, Explicit: o.Mode == Explicit, Load: o.Load,
		Cache: o.Cache, Threads: o.Threads, Evict: o.Evict, Replace: o.Replace, Drain: o.Drain, Log: s.log})
	if err := s.catalogue.Scan(); err != nil {
		return nil, err
	}
	s.regions.all = map[string]*region{}
	s.rpc = grpc.NewServer(grpc.MaxRecvMsgSize(mostText))
	(&service{server: s, manage: !o.Manage}).register(s.rpc)
	registerExtras(s.rpc, s)
	s.metrics = s.metricsHandler()
	s.handler, s.manage = s.routes(!o.Manage), s.routes(true)
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	s.ended.Go(func() { s.run(ctx) })
	return s, nil
}

// run loads the models, and polls the folder if the mode says so.
func (s *Server) run(ctx context.Context) {
	if err := s.catalogue.Start(ctx); err != nil {
		s.log.Error("models not loaded", "error", err)
	}
	s.ready.Store(ctx.Err() == nil)
	state := s.ledger.State()
	s.log.Info("ready", "after", time.Since(s.started).Round(time.Millisecond), "models", len(s.catalogue.Loaded()),
		"held_bytes", state.Held, "limit_bytes", state.Limit)
	if s.options.Mode != Poll {
		return
	}
	for every := time.NewTicker(s.options.Every); ; {
		select {
		case <-ctx.Done():
			every.Stop()
			return
		case <-every.C:
			if err := s.catalogue.Refresh(ctx); err != nil {
				s.log.Error("folder not read", "error", err)
			}
		}
	}
}

// Ready reports whether the models that the mode asks for have been loaded, or could not be.
func (s *Server) Ready() bool { return s.ready.Load() }

// Refresh reads the folder again: it loads new models and versions, replaces changed ones and unloads those that are
// gone.
func (s *Server) Refresh(ctx context.Context) error { return s.catalogue.Refresh(ctx) }

// Handler returns the handler of REST, of gRPC over HTTP/2, of metrics and of the status page.
func (s *Server) Handler() http.Handler { return s.handler }

// ManagementHandler returns a handler that also answers the management calls, and pprof.
func (s *Server) ManagementHandler() http.Handler { return s.manage }

// Register registers the gRPC service on a server of the caller. Messages are then on Go's heap while they are
// received, which the caller bounds by grpc.MaxRecvMsgSize and grpc.MaxConcurrentStreams; Handler, which also speaks
// gRPC, reads them into memory of the ledger.
func (s *Server) Register(g grpc.ServiceRegistrar) {
	(&service{server: s, manage: !s.options.Manage}).register(g)
}

// Close refuses further requests, waits until those in progress have ended or ctx ends, and releases all memory.
func (s *Server) Close(ctx context.Context) error {
	s.ready.Store(false)
	s.stop()
	s.ended.Wait()
	err := s.catalogue.Close(ctx)
	s.regions.close()
	s.bodies.Release()
	s.responses.Release()
	s.rpc.Stop()
	return err
}
