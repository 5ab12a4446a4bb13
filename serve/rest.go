package serve

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/weirml/weir/serve/internal/conns"
	"github.com/weirml/weir/serve/internal/ledger"
	"github.com/weirml/weir/serve/internal/oip"
)

const (
	headerLength = "Inference-Header-Content-Length"
	mostText     = 16 << 10 // bytes of a body that is no request for inference: decoded, it may take twenty times as many
	alignment    = 64       // bytes
	mostDigits   = 6        // bytes of JSON text for a byte of an element: false and a comma
)

// routes returns the handler of everything that HTTP carries.
func (s *Server) routes(manage bool) http.Handler {
	api := &service{server: s, manage: manage}
	mux := http.NewServeMux()
	get := func(pattern string, call func(ctx context.Context, r *http.Request) (proto.Message, error)) {
		mux.HandleFunc("GET "+pattern, func(w http.ResponseWriter, r *http.Request) {
			m, err := call(r.Context(), r)
			s.reply(w, m, err)
		})
	}
	name := func(r *http.Request) (model, version string) { return r.PathValue("model"), r.PathValue("version") }
	get("/v2", func(ctx context.Context, r *http.Request) (proto.Message, error) {
		return api.ServerMetadata(ctx, &oip.ServerMetadataRequest{})
	})
	for _, at := range []string{"/v2/models/{model}", "/v2/models/{model}/versions/{version}"} {
		get(at, func(ctx context.Context, r *http.Request) (proto.Message, error) {
			model, version := name(r)
			return api.ModelMetadata(ctx, &oip.ModelMetadataRequest{Name: model, Version: version})
		})
		get(at+"/config", func(ctx context.Context, r *http.Request) (proto.Message, error) {
			model, version := name(r)
			m, err := api.ModelConfig(ctx, &oip.ModelConfigRequest{Name: model, Version: version})
			return m.GetConfig(), err
		})
		get(at+"/stats", func(ctx context.Context, r *http.Request) (proto.Message, error) {
			model, version := name(r)
			return api.ModelStatistics(ctx, &oip.ModelStatisticsRequest{Name: model, Version: version})
		})
		mux.HandleFunc("GET "+at+"/ready", func(w http.ResponseWriter, r *http.Request) {
			model, version := name(r)
			m, err := api.ModelReady(r.Context(), &oip.ModelReadyRequest{Name: model, Version: version})
			ready := err == nil && m.Ready
			s.health(w, ready, map[string]any{"name": model, "ready": ready})
		})
		mux.HandleFunc("POST "+at+"/infer", s.inferREST)
	}
	get("/v2/models/stats", func(ctx context.Context, r *http.Request) (proto.Message, error) {
		return api.ModelStatistics(ctx, &oip.ModelStatisticsRequest{})
	})
	mux.HandleFunc("GET /v2/health/live", func(w http.ResponseWriter, r *http.Request) {
		s.health(w, true, map[string]any{"live": true})
	})
	mux.HandleFunc("GET /v2/health/ready", func(w http.ResponseWriter, r *http.Request) {
		ready := s.Ready()
		s.health(w, ready, map[string]any{"live": true, "ready": ready})
	})
	s.manageREST(mux, api)
	s.textREST(mux)
	s.operations(mux, manage)
	mux.HandleFunc("POST /inference.GRPCInferenceService/ModelInfer", s.grpcCall(s.inferGRPC))
	mux.HandleFunc("POST /inference.GRPCInferenceService/ModelStreamInfer", s.grpcCall(s.streamGRPC))
	mux.Handle("POST /inference.GRPCInferenceService/", s.rpc)
	mux.Handle("POST /grpc.reflection.v1.ServerReflection/", s.rpc)
	mux.Handle("POST /grpc.reflection.v1alpha.ServerReflection/", s.rpc)
	mux.Handle("POST /grpc.health.v1.Health/", s.rpc)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor == 2 && r.Context().Err() != nil { // a stream that was reset before
			return
		}
		defer conns.Enter(r.Context())()
		open := openToAll(r.URL.Path)
		if !open || strings.HasSuffix(r.URL.Path, "/Watch") { // health is answered at once, however many others ask
			from := conns.Client(r.RemoteAddr)
			if held, ok := s.asking.take(now, from, 0, 1); !ok {
				s.refuse(w, r, &crowded{held})
				return
			}
			defer s.asking.give(from, 1)
		}
		if !open {
			if err := s.allowed(r.Header.Get("Authorization")); err != nil {
				if r.URL.Path == "/" && r.Method == http.MethodGet {
					s.page(w, http.StatusUnauthorized)
					return
				}
				s.refuse(w, r, err)
				return
			}
		}
		mux.ServeHTTP(w, r)
	})
}

// openToAll reports whether a path is answered without a token: health.
func openToAll(path string) bool {
	switch path {
	case "/v2/health/live", "/v2/health/ready", "/health", "/inference.GRPCInferenceService/ServerLive",
		"/inference.GRPCInferenceService/ServerReady", "/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch":
		return true
	}
	return false
}

// refuse answers with an error, as the request's protocol has it.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, err error) {
	if isGRPC(r) {
		s.early.add(err)
		endGRPC(w, err)
		return
	}
	if strings.HasPrefix(r.URL.Path, "/v1/") || r.URL.Path == "/v2/rerank" {
		s.replyOpenAI(w, err)
		return
	}
	if slices.Contains(nativePaths, r.URL.Path) {
		s.replyNative(w, err)
		return
	}
	s.reply(w, nil, err)
}

// health answers with a status, which is all that Triton's clients read, and with the object that KServe's read.
func (s *Server) health(w http.ResponseWriter, ok bool, object map[string]any) {
	w.Header().Set("Content-Type", "application/json")
	if !ok {
		w.WriteHeader(http.StatusBadRequest) // as the protocol has it
	}
	w.Write(oip.AppendJSON(nil, object))
}

// reply answers with a message as JSON, or with an error.
func (s *Server) reply(w http.ResponseWriter, m proto.Message, err error) {
	if err != nil {
		s.early.add(err)
		f := failureOf(err)
		f.headers(w.Header())
		w.WriteHeader(f.status)
		json.NewEncoder(w).Encode(f)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Write(oip.MarshalJSON(m))
}

// headers sets the headers of an answer with a failure.
func (f *failure) headers(h http.Header) {
	h.Set("Content-Type", "application/json")
	switch f.status {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		h.Set("Retry-After", "1")
	case http.StatusUnauthorized:
		h.Set("WWW-Authenticate", "Bearer")
	}
}

// inferREST answers a request for inference.
func (s *Server) inferREST(w http.ResponseWriter, r *http.Request) {
	x := s.exchangeOf(r)
	defer x.close()
	response, err := x.readREST(w, r)
	if err != nil {
		s.reply(w, nil, err)
		return
	}
	if err := x.writeREST(w, r, response); err != nil {
		s.log.Debug("response not written", "client", x.from, "error", err)
	}
}

// readREST reads a request's body into the ledger's memory, and answers it.
func (x *exchange) readREST(w http.ResponseWriter, r *http.Request) (*oip.Response, error) {
	text := -1
	if h := r.Header.Get(headerLength); h != "" {
		var err error
		if text, err = strconv.Atoi(h); err != nil || text < 0 {
			return nil, oip.Errorf("%s is %q", headerLength, h)
		}
	}
	body, err := x.readBody(w, r, text)
	if err != nil {
		return nil, err
	}
	if text < 0 {
		text = len(body)
	}
	request, err := oip.DecodeJSON(body, text, x.more)
	if err != nil {
		return nil, err
	}
	request.Align(body[:cap(body)])
	request.Model, request.Version = r.PathValue("model"), r.PathValue("version")
	return x.answer(r.Context(), request)
}

// readBody reads a body, which may be compressed, into the ledger's memory. What follows its first text bytes is
// aligned, if that is possible.
func (x *exchange) readBody(w http.ResponseWriter, r *http.Request, text int) (body []byte, err error) {
	ctx, cancel := context.WithTimeoutCause(r.Context(), x.server.options.Stall, errTimeout)
	defer cancel()
	deadline := newReading(w, r)
	defer deadline.end()
	if r.ProtoMajor == 1 { // the connection has no other request
		defer conns.Transfer(r.Context())()
	}
	paced := &pacedReader{newPace(deadline.set, x.server.options.Stall, r.ContentLength), r.Body}
	var from io.Reader = paced
	switch coding := strings.ToLower(r.Header.Get("Content-Encoding")); coding {
	case "", "identity":
		if r.ContentLength < 0 {
			break
		}
		pad := (alignment - max(0, text)%alignment) % alignment
		if body, err = x.body(ctx, r.ContentLength+int64(pad)); err != nil {
			return nil, err
		}
		body = body[pad:]
		paced.began = time.Now() // the wait for memory was the server's
		paced.renew()
		if _, err := io.ReadFull(paced, body); err != nil {
			return nil, oip.Errorf("the body has %d bytes by its length, and ends early: %v", r.ContentLength, err)
		}
		x.received()
		return body, nil
	case "gzip":
		if from, err = gzip.NewReader(paced); err != nil {
			return nil, oip.Errorf("the body is not gzip: %v", err)
		}
	case "deflate":
		if from, err = zlib.NewReader(paced); err != nil {
			return nil, oip.Errorf("the body is not deflate (zlib): %v", err)
		}
	default:
		return nil, oip.Errorf("Content-Encoding %q is none of identity, gzip, deflate", coding)
	}
	return x.readAll(ctx, from)
}

// readAll reads to the end, into memory that grows as the data come.
func (x *exchange) readAll(ctx context.Context, from io.Reader) ([]byte, error) {
	body, err := x.body(ctx, 64<<10)
	if err != nil {
		return nil, err
	}
	for n := 0; ; {
		more, err := from.Read(body[n:])
		n += more
		switch {
		case errors.Is(err, io.EOF):
			x.received()
			return body[:n], nil
		case err != nil:
			return nil, oip.Errorf("the body cannot be read: %v", err)
		case n == len(body):
			larger, err := x.body(now, 2*int64(len(body)))
			if err != nil {
				return nil, err
			}
			copy(larger, body)
			last := len(x.buffers) - 1
			x.buffers[last-1].Close()
			x.buffers[last-1] = x.buffers[last]
			x.buffers = x.buffers[:last]
			x.sent -= ledger.Size(int64(len(body)))
			x.server.sending.give(x.from, ledger.Size(int64(len(body))))
			body = larger
		}
	}
}

// writeREST writes a response: JSON text, with the elements of tensors in it or after it.
func (x *exchange) writeREST(w http.ResponseWriter, r *http.Request, response *oip.Response) (err error) {
	split, err := response.EncodeJSON()
	if err != nil {
		x.server.reply(w, nil, err)
		return nil
	}
	textual, size, text := 0, int64(0), int64(0)
	for i := range response.Outputs {
		switch t := &response.Outputs[i]; {
		case t.InText():
			textual++
			text += mostDigits * int64(len(t.Data))
		case t.Region == nil:
			size += int64(len(t.Data))
		}
	}
	control := http.NewResponseController(w)
	paced := &pacedWriter{newPace(whileOpen(r, control.SetWriteDeadline), x.server.options.Stall, size+text+1), w}
	if r.ProtoMajor == 1 {
		defer conns.Transfer(r.Context())()
	}
	to, end := compressed(paced, w.Header(), r)
	defer func() {
		err = errors.Join(err, end())
		control.Flush() // within the deadline, too
		control.SetWriteDeadline(time.Time{})
	}()
	h := w.Header()
	if size == 0 && !hasBinary(response) {
		h.Set("Content-Type", "application/json")
	} else if textual == 0 {
		h.Set("Content-Type", "application/octet-stream")
		h.Set(headerLength, strconv.Itoa(len(split[0])))
		if h.Get("Content-Encoding") == "" {
			h.Set("Content-Length", strconv.FormatInt(int64(len(split[0]))+size, 10))
		}
	} else { // the length of the text stands before it, so it is written twice: first to count
		count := &counter{}
		if err := writeText(count, response, split); err != nil {
			return err
		}
		h.Set("Content-Type", "application/octet-stream")
		h.Set(headerLength, strconv.FormatInt(count.n, 10))
	}
	if err := writeText(to, response, split); err != nil {
		return err
	}
	for i := range response.Outputs {
		if t := &response.Outputs[i]; t.Binary && t.Region == nil {
			if _, err := to.Write(t.Data); err != nil {
				return err
			}
		}
	}
	return nil
}

// hasBinary reports whether a response has elements after its text, even none.
func hasBinary(response *oip.Response) bool {
	for _, t := range response.Outputs {
		if t.Binary && t.Region == nil {
			return true
		}
	}
	return false
}

// writeText writes a response's JSON text, with the elements that belong into it.
func writeText(w io.Writer, response *oip.Response, split [][]byte) error {
	if _, err := w.Write(split[0]); err != nil {
		return err
	}
	at := 1
	for i := range response.Outputs {
		t := &response.Outputs[i]
		if !t.InText() {
			continue
		}
		if err := t.WriteElements(w); err != nil {
			return err
		}
		if _, err := w.Write(split[at]); err != nil {
			return err
		}
		at++
	}
	return nil
}

// counter counts bytes.
type counter struct{ n int64 }

// Write counts.
func (c *counter) Write(p []byte) (int, error) {
	c.n += int64(len(p))
	return len(p), nil
}

// compressed returns the writer for a response's body: compressed if the request accepts that by name. The caller calls
// end.
func compressed(w io.Writer, header http.Header, r *http.Request) (to io.Writer, end func() error) {
	for coding := range strings.SplitSeq(r.Header.Get("Accept-Encoding"), ",") {
		coding, quality, _ := strings.Cut(strings.TrimSpace(coding), ";")
		if strings.ReplaceAll(quality, " ", "") == "q=0" {
			continue
		}
		coding = strings.ToLower(coding)
		if coding != "gzip" && coding != "deflate" {
			continue
		}
		select {
		case compressors <- struct{}{}:
		default:
			return w, func() error { return nil }
		}
		header.Set("Content-Encoding", coding)
		var z io.WriteCloser
		if coding == "gzip" {
			z, _ = gzip.NewWriterLevel(w, gzip.BestSpeed)
		} else {
			z, _ = zlib.NewWriterLevel(w, zlib.BestSpeed)
		}
		return z, func() error {
			defer func() { <-compressors }()
			return z.Close()
		}
	}
	return w, func() error { return nil }
}

// compressors bounds the answers that are compressed at a time, each with some 800 KiB of Go's heap for as long as its
// client takes: further ones are sent as they are.
var compressors = make(chan struct{}, 8)

// readText reads the body of a call that is no inference.
func readText(r *http.Request, to any) error {
	text, err := io.ReadAll(io.LimitReader(r.Body, mostText+1))
	switch {
	case err != nil:
		return oip.Errorf("the body cannot be read: %v", err)
	case len(text) > mostText:
		return &tooLarge{int64(len(text)), mostText}
	case len(bytes.TrimSpace(text)) == 0:
		return nil
	}
	if err := json.Unmarshal(text, to); err != nil {
		return oip.Errorf("the body is not the protocol's JSON: %v", err)
	}
	return nil
}
