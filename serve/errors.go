package serve

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/weirml/weir"
	"github.com/weirml/weir/serve/internal/catalogue"
	"github.com/weirml/weir/serve/internal/ledger"
	"github.com/weirml/weir/serve/internal/oip"
)

// failure is an error as clients get it. REST writes it as a JSON object: error is the text, as the protocol has it,
// and the other fields stand beside it.
type failure struct {
	Text   string `json:"error"`
	status int
	code   codes.Code

	Kind  string `json:"kind,omitempty"`
	Need  int64  `json:"need,omitempty"`  // bytes
	Limit int64  `json:"limit,omitempty"` // bytes
	Held  int64  `json:"held,omitempty"`  // bytes
	Fix   string `json:"fix,omitempty"`
}

// errTimeout is the cause of a context whose request has waited for as long as it may.
var errTimeout = errors.New("the request's timeout has passed")

// tooLarge reports a body that exceeds Options.MostBody.
type tooLarge struct{ bytes, most int64 }

// Error returns the sizes.
func (e *tooLarge) Error() string {
	return fmt.Sprintf("the body has %d bytes, and at most %d are accepted", e.bytes, e.most)
}

// crowded reports a client with too many requests in progress.
type crowded struct{ held int64 }

// Error returns their number.
func (e *crowded) Error() string {
	return fmt.Sprintf("%d requests of this client are in progress, and the server has no room for more", e.held)
}

// sized is an error with the sizes that would fit.
type sized struct {
	error
	fix string
}

// Unwrap returns the error.
func (e *sized) Unwrap() error { return e.error }

// refusal is an error with its status: of calls that need a token, or are answered elsewhere.
type refusal struct {
	status int
	code   codes.Code
	text   string
}

// Error returns the text.
func (e *refusal) Error() string { return e.text }

// notSupported returns the error for a part of the protocol that the server lacks.
func notSupported(format string, args ...any) error {
	return &refusal{http.StatusNotImplemented, codes.Unimplemented, fmt.Sprintf(format, args...)}
}

// failureOf sorts an error.
func failureOf(err error) *failure {
	f := &failure{Text: strings.ToValidUTF8(err.Error(), "\uFFFD")}
	set := func(kind string, status int, code codes.Code) *failure {
		f.Kind, f.status, f.code = kind, status, code
		return f
	}
	if s, ok := errors.AsType[*sized](err); ok {
		f.Fix = s.fix
	}
	if e, ok := errors.AsType[*weir.Error](err); ok && f.Fix == "" {
		f.Fix = e.Fix
	}
	if _, ok := errors.AsType[*oip.Error](err); ok {
		return set("input", http.StatusBadRequest, codes.InvalidArgument)
	}
	if _, ok := errors.AsType[*catalogue.SequenceError](err); ok {
		return set("sequence", http.StatusBadRequest, codes.InvalidArgument)
	}
	if e, ok := errors.AsType[*refusal](err); ok {
		return set("refused", e.status, e.code)
	}
	if _, ok := errors.AsType[*tooLarge](err); ok {
		return set("memory", http.StatusRequestEntityTooLarge, codes.ResourceExhausted)
	}
	if e, ok := errors.AsType[*catalogue.UnknownError](err); ok {
		if e.Known {
			return set("unavailable", http.StatusServiceUnavailable, codes.Unavailable)
		}
		return set("unknown", http.StatusNotFound, codes.NotFound)
	}
	if _, ok := errors.AsType[*crowded](err); ok {
		return set("busy", http.StatusTooManyRequests, codes.ResourceExhausted)
	}
	if _, ok := errors.AsType[*catalogue.FullError](err); ok {
		return set("busy", http.StatusTooManyRequests, codes.ResourceExhausted)
	}
	if e, ok := errors.AsType[*ledger.Refused](err); ok {
		f.Need, f.Limit, f.Held = e.Need, e.Limit, e.Held
		switch {
		case e.Kind == ledger.Model:
			if f.Fix == "" {
				f.Fix = fmt.Sprintf("unload models that hold %d bytes, raise the limit, or give the model a budget", e.Need-e.Limit)
			}
			return set("memory", http.StatusInsufficientStorage, codes.ResourceExhausted)
		case e.Never:
			return set("memory", http.StatusRequestEntityTooLarge, codes.ResourceExhausted)
		}
		return set("busy", http.StatusTooManyRequests, codes.ResourceExhausted)
	}
	switch {
	case errors.Is(err, errTimeout), errors.Is(err, context.DeadlineExceeded):
		return set("timeout", http.StatusTooManyRequests, codes.DeadlineExceeded)
	case errors.Is(err, context.Canceled):
		return set("canceled", 499, codes.Canceled)
	case errors.Is(err, weir.ErrInput):
		return set("input", http.StatusBadRequest, codes.InvalidArgument)
	case errors.Is(err, weir.ErrUnsupported):
		return set("unsupported", http.StatusNotImplemented, codes.Unimplemented)
	case errors.Is(err, weir.ErrBudget):
		return set("budget", http.StatusRequestEntityTooLarge, codes.ResourceExhausted)
	case errors.Is(err, weir.ErrMemory):
		return set("memory", http.StatusTooManyRequests, codes.ResourceExhausted)
	case errors.Is(err, weir.ErrClosed):
		return set("closed", http.StatusServiceUnavailable, codes.Unavailable)
	}
	return set("internal", http.StatusInternalServerError, codes.Internal)
}

// grpc returns the failure as a status, with the numbers as details.
func (f *failure) grpc() *status.Status {
	st := status.New(f.code, f.Text)
	info := &errdetails.ErrorInfo{Reason: strings.ToUpper(f.Kind), Domain: "weir", Metadata: map[string]string{}}
	for name, n := range map[string]int64{"need": f.Need, "limit": f.Limit, "held": f.Held} {
		if n != 0 {
			info.Metadata[name] = fmt.Sprint(n)
		}
	}
	if f.Fix != "" {
		info.Metadata["fix"] = strings.ToValidUTF8(f.Fix, "\uFFFD")
	}
	if detailed, err := st.WithDetails(info); err == nil {
		return detailed
	}
	return st
}

// grpcError returns an error as grpc-go expects it, nil for nil.
func grpcError(err error) error {
	if err == nil {
		return nil
	}
	return failureOf(err).grpc().Err()
}

// counted is an error that the counters of a version have.
type counted struct{ error }

// Unwrap returns the error.
func (e *counted) Unwrap() error { return e.error }

// earlyReasons are the reasons why a request fails before it reaches a version: the kinds that answers have, and
// token.
var earlyReasons = [...]string{"internal", "token", "refused", "input", "unknown", "unavailable", "memory", "busy",
	"timeout", "canceled", "closed", "budget", "unsupported"}

// early counts the requests that failed before they reached a version, by index of earlyReasons.
type early [len(earlyReasons)]atomic.Int64

// add counts an error, unless it is nil or a version has counted it.
func (e *early) add(err error) {
	if _, ok := errors.AsType[*counted](err); ok || err == nil {
		return
	}
	f := failureOf(err)
	reason := f.Kind
	if f.status == http.StatusUnauthorized {
		reason = "token"
	}
	e[max(0, slices.Index(earlyReasons[:], reason))].Add(1)
}

// recent is the last errors, for the status page.
type recent struct {
	mu   sync.Mutex
	list []recentError
}

// recentError is an error that a request met.
type recentError struct {
	At    time.Time
	Model string
	Kind  string
	Text  string
}

// add adds an error, and drops the oldest.
func (r *recent) add(model string, f *failure) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.list) == 20 {
		r.list = r.list[1:]
	}
	text := f.Text
	if len(text) > 300 {
		text = strings.ToValidUTF8(text[:300], "") + "…"
	}
	r.list = append(r.list, recentError{time.Now(), model, f.Kind, text})
}

// all returns the errors, latest first.
func (r *recent) all() (list []recentError) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := len(r.list) - 1; i >= 0; i-- {
		list = append(list, r.list[i])
	}
	return list
}
