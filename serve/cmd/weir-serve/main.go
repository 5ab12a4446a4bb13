// Command weir-serve serves the models of a folder over the Open Inference Protocol v2: REST and gRPC.
//
//	weir-serve ./models
//
// Before it loads a model it knows what the model takes, and it never holds more than its limit: what does not fit
// waits or is refused with the numbers. docs/serving.md explains every flag.
package main

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/weirml/weir/serve"
	"github.com/weirml/weir/serve/internal/conns"
	"github.com/weirml/weir/serve/internal/limits"
)

// settings are the flags.
type settings struct {
	listen, grpc, manage         string
	limit, heap                  string
	mode, load                   string
	poll                         bool
	tokens, otlp                 string
	certificate, key, clientRoot string
	json, verbose                bool
	drain                        time.Duration
	connections                  int
	window                       int // bytes that a connection of HTTP/2 receives before they are asked for
	options                      serve.Options
}

func main() {
	s, err := parse(os.Args[1:])
	switch {
	case errors.Is(err, flag.ErrHelp):
		os.Exit(0)
	case err != nil:
		fmt.Fprintln(os.Stderr, "weir-serve:", err)
		os.Exit(2)
	}
	if err := run(s); err != nil {
		fmt.Fprintln(os.Stderr, "weir-serve:", err)
		os.Exit(1)
	}
}

// parse reads the flags, which may stand before and after the folder.
func parse(args []string) (*settings, error) {
	s := &settings{}
	f := flag.NewFlagSet("weir-serve", flag.ContinueOnError)
	f.Usage = func() {
		fmt.Fprintln(f.Output(), "usage: weir-serve DIR [flags]\n\nserves the models of a folder over the Open "+
			"Inference Protocol v2")
		f.PrintDefaults()
	}
	o := &s.options
	f.StringVar(&s.listen, "listen", ":8000", "address of REST, metrics and the status page (and of gRPC too)")
	f.StringVar(&s.grpc, "grpc", ":8001", "address of gRPC; empty: --listen alone")
	f.StringVar(&s.manage, "manage", "", "address of management calls and pprof, which other addresses then "+
		"refuse; empty: --listen has them")
	f.StringVar(&s.limit, "limit", "", "memory of the process, such as 8GiB; empty: the container's, or three "+
		"quarters of the machine's")
	f.StringVar(&s.heap, "heap", "", "the part of the limit for Go's heap, such as 64MiB; empty: an eighth, from "+
		"48MiB to 1GiB")
	f.StringVar(&s.mode, "mode", "none", "when models are loaded: none (all at the start), explicit or poll, as "+
		"Triton names them")
	f.BoolVar(&s.poll, "poll", false, "the same as --mode poll")
	f.DurationVar(&o.Every, "every", 15*time.Second, "how often poll reads the folder")
	f.StringVar(&s.load, "load", "", "in explicit mode: the models to load at the start, separated by commas")
	f.StringVar(&o.Cache, "cache", defaultCache(),
		"folder for compiled models, so that a restart compiles nothing; empty: none")
	f.IntVar(&o.Threads, "threads", 0, "width of one run; 0: all processors")
	f.BoolVar(&o.Evict, "evict", false, "a model that does not fit has the least recently used ones unloaded")
	f.BoolVar(&o.Replace, "replace", false, "a new version that does not fit beside the old one takes its place")
	f.DurationVar(&s.drain, "drain", 30*time.Second,
		"how long requests in progress may go on after SIGTERM, or after their model is unloaded")
	f.Int64Var(&o.MostBody, "most-body", 0, "bytes of one request's body; 0: as the limit allows")
	f.IntVar(&o.MostTexts, "most-texts", 0, "texts of one request to a model of texts; 0: 16384")
	f.DurationVar(&o.Stall, "stall", 20*time.Second, "how long a client may let a transfer rest")
	f.IntVar(&s.connections, "connections", 0, "connections at a time, of --listen and --grpc; 0: as Go's heap "+
		"allows, at most 1024")
	f.IntVar(&o.Requests, "requests", 0, "requests in progress at a time; 0: as Go's heap allows")
	f.StringVar(&s.tokens, "token-file", "", "file with bearer tokens, one a line: every call but health needs one")
	f.StringVar(&s.certificate, "tls-cert", "", "file with the server's certificate chain (PEM)")
	f.StringVar(&s.key, "tls-key", "", "file with the server's key (PEM)")
	f.StringVar(&s.clientRoot, "tls-client-ca", "",
		"file with certificates (PEM), one of which must have signed a client's")
	f.StringVar(&s.otlp, "otlp", "", "where spans of requests go, as OTLP over HTTP, such as "+
		"http://collector:4318/v1/traces; empty: nowhere")
	f.BoolVar(&s.json, "log-json", false, "log as JSON")
	f.BoolVar(&s.verbose, "v", false, "log more")
	var folders []string
	for len(args) > 0 {
		if err := f.Parse(args); err != nil {
			return nil, err
		}
		if args = f.Args(); len(args) > 0 {
			folders, args = append(folders, args[0]), args[1:]
		}
	}
	if len(folders) != 1 {
		return nil, fmt.Errorf("it needs one folder of models, and %d are given; weir-serve -h lists the flags", len(folders))
	}
	o.Folder = folders[0]
	if info, err := os.Stat(o.Folder); err != nil || !info.IsDir() {
		return nil, fmt.Errorf("%s is no folder", o.Folder)
	}
	if o.Mode = serve.Mode(s.mode); s.poll {
		o.Mode = serve.Poll
	}
	switch o.Mode {
	case serve.AtStart, serve.Explicit, serve.Poll:
	default:
		return nil, fmt.Errorf("--mode is %q; it may be none, explicit or poll", s.mode)
	}
	if s.load != "" {
		o.Load = strings.Split(s.load, ",")
	}
	if (s.certificate == "") != (s.key == "") || s.clientRoot != "" && s.key == "" {
		return nil, errors.New("--tls-cert and --tls-key belong together, and --tls-client-ca needs both")
	}
	o.Drain, o.Manage = s.drain, s.manage != ""
	return s, s.divide()
}

// defaultCache returns the user's folder for caches.
func defaultCache() string {
	folder, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(folder, "weir-serve")
}

// divide divides the limit between Go's heap and everything else.
func (s *settings) divide() error {
	whole := limits.Usable()
	var err error
	if s.limit != "" {
		if whole, err = limits.Parse(s.limit); err != nil {
			return fmt.Errorf("--limit: %w", err)
		}
	}
	heap := min(max(whole/8, 48<<20), 1<<30)
	if s.heap != "" {
		if heap, err = limits.Parse(s.heap); err != nil {
			return fmt.Errorf("--heap: %w", err)
		}
	}
	if whole < heap+16<<20 {
		return fmt.Errorf("a limit of %d bytes is too small: Go's heap has %d, and models and runs need at least %d",
			whole, heap,
			16<<20)
	}
	debug.SetMemoryLimit(heap - serve.Pools)
	s.options.Limit = whole - heap
	return s.transport(heap)
}

// What the protocol layers take of Go's heap, in bytes: a connection, without what HTTP/2 receives before it is asked
// for; and a request in progress. TestFootprint measures them.
const (
	ofConnection = 40 << 10
	ofRequest    = 32 << 10
	leastWindow  = 64 << 10 // HTTP/2 has no smaller one
	mostWindow   = 1 << 20
)

// ofManagement is the number of connections of the management address, which others cannot take.
const ofManagement = 16

// mostIdle is the time after which an idle connection is closed.
const mostIdle = 2 * time.Minute

// goroutinesBeside is more goroutines than the process has beside those of connections and requests.
const goroutinesBeside = 512

// transport divides Go's heap: connections get a half of it, requests in progress a quarter.
func (s *settings) transport(heap int64) error {
	most := heap / 2 / (ofConnection + leastWindow)
	if s.connections == 0 {
		s.connections = int(min(most, 1024))
	}
	if s.connections < 1 || int64(s.connections) > most {
		return fmt.Errorf("--connections is %d; a heap of %d bytes is enough for 1 to %d: see --heap", s.connections, heap,
			most)
	}
	s.window = int(min(heap/2/int64(s.connections)-ofConnection, mostWindow))
	most = heap / 4 / ofRequest
	s.options.Requests = cmp.Or(s.options.Requests, int(most))
	if s.options.Requests < 1 || int64(s.options.Requests) > most {
		return fmt.Errorf("--requests is %d; a heap of %d bytes is enough for 1 to %d: see --heap", s.options.Requests, heap,
			most)
	}
	return nil
}

// run serves until the process gets an interrupt or SIGTERM. SIGHUP makes it read the folder again.
func run(s *settings) error {
	level := slog.LevelInfo
	if s.verbose {
		level = slog.LevelDebug
	}
	var handler slog.Handler = slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level})
	if s.json {
		handler = slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: level})
	}
	s.options.Logger = slog.New(handler)
	if s.tokens != "" {
		var err error
		if s.options.Tokens, err = readTokens(s.tokens); err != nil {
			return err
		}
	}
	if s.options.Cache != "" {
		if err := os.MkdirAll(s.options.Cache, 0o700); err != nil {
			s.options.Logger.Warn("compiled models are not kept", "error", err)
			s.options.Cache = ""
		}
	}
	endTraces, err := s.trace(context.Background())
	if err != nil {
		return err
	}
	secure, err := s.tls()
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	bound := conns.NewBound(s.connections)
	management := conns.NewBound(ofManagement)
	go bound.Idle(ctx, mostIdle)
	go management.Idle(ctx, mostIdle)
	go bound.Guard(ctx, goroutinesBeside+3*s.connections+s.options.Requests, func(client string, goroutines int) {
		s.options.Logger.Warn("connections closed: too many streams", "client", client, "goroutines", goroutines)
	})
	var listeners []net.Listener
	defer func() {
		for _, l := range listeners {
			l.Close()
		}
	}()
	listen := func(address string, within *conns.Bound) (net.Listener, error) {
		l, err := net.Listen("tcp", address)
		if err == nil {
			l = within.Listener(l)
			listeners = append(listeners, l)
		}
		return l, err
	}
	server, err := serve.New(s.options)
	if err != nil {
		return err
	}
	var servers []*http.Server
	ended := make(chan error, 3)
	start := func(name, address string, within *conns.Bound, handler http.Handler) error {
		l, err := listen(address, within)
		if err != nil {
			return err
		}
		h := s.newServer(handler, secure)
		servers = append(servers, h)
		s.options.Logger.Info("listening", "for", name, "address", l.Addr().String(), "tls", secure != nil)
		go func() {
			if secure != nil {
				ended <- h.ServeTLS(l, "", "")
			} else {
				ended <- h.Serve(l)
			}
		}()
		return nil
	}
	err = start("rest", s.listen, bound, server.Handler())
	if err == nil && s.grpc != "" {
		err = start("grpc", s.grpc, bound, server.Handler())
	}
	if err == nil && s.manage != "" {
		err = start("management", s.manage, management, server.ManagementHandler())
	}
	if err == nil {
		hangup := make(chan os.Signal, 1)
		signal.Notify(hangup, syscall.SIGHUP)
		err = wait(ctx, server, hangup, ended)
	}
	stop() // another signal ends the process at once
	s.options.Logger.Info("ending", "within", s.drain)
	last, cancel := context.WithTimeout(context.Background(), s.drain)
	defer cancel()
	return errors.Join(err, s.shut(last, servers), server.Close(last), endTraces(last))
}

// shut ends HTTP servers together, so that none accepts requests while another drains.
func (s *settings) shut(ctx context.Context, servers []*http.Server) (err error) {
	ended := make(chan error)
	for _, h := range servers {
		go func() {
			err := h.Shutdown(ctx)
			if err != nil {
				err = errors.Join(fmt.Errorf("requests were still in progress after %v: %w", s.drain, err), h.Close())
			}
			ended <- err
		}()
	}
	for range servers {
		err = errors.Join(err, <-ended)
	}
	return err
}

// wait waits until ctx ends or a listener fails, and reads the folder again on each hangup.
func wait(ctx context.Context, server *serve.Server, hangup chan os.Signal, ended chan error) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-ended:
			return err
		case <-hangup:
			if err := server.Refresh(ctx); err != nil {
				slog.Error("folder not read", "error", err)
			}
		}
	}
}

// newServer returns an HTTP server that speaks HTTP/1 and HTTP/2, without TLS too, whose buffers are bounded.
func (s *settings) newServer(handler http.Handler, secure *tls.Config) *http.Server {
	p := &http.Protocols{}
	p.SetHTTP1(true)
	p.SetHTTP2(true)
	p.SetUnencryptedHTTP2(true)
	return &http.Server{Handler: handler, ConnState: conns.State, ConnContext: conns.Context,
		Protocols: p, TLSConfig: secure, ReadHeaderTimeout: 10 * time.Second,
		MaxHeaderBytes: 4 << 10,
		HTTP2: &http.HTTP2Config{MaxConcurrentStreams: 100, MaxReceiveBufferPerConnection: s.window,
			MaxReceiveBufferPerStream: min(s.window, 256<<10), SendPingTimeout: time.Minute,
			WriteByteTimeout: s.options.Stall},
		ErrorLog: slog.NewLogLogger(s.options.Logger.Handler(), slog.LevelDebug)}
}

// tls returns the settings of TLS, nil without it.
func (s *settings) tls() (*tls.Config, error) {
	if s.key == "" {
		return nil, nil
	}
	pair, err := tls.LoadX509KeyPair(s.certificate, s.key)
	if err != nil {
		return nil, err
	}
	c := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	if s.clientRoot != "" {
		text, err := os.ReadFile(s.clientRoot)
		if err != nil {
			return nil, err
		}
		c.ClientCAs, c.ClientAuth = x509.NewCertPool(), tls.RequireAndVerifyClientCert
		if !c.ClientCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("%s has no certificates", s.clientRoot)
		}
	}
	return c, nil
}

// readTokens reads the tokens of a file, one a line; lines that begin with # are comments.
func readTokens(path string) (tokens []string, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		if line := strings.TrimSpace(lines.Text()); line != "" && line[0] != '#' {
			tokens = append(tokens, line)
		}
	}
	if len(tokens) == 0 {
		return nil, fmt.Errorf("%s has no tokens", path)
	}
	return tokens, lines.Err()
}
