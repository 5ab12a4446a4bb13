package serve

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/weirml/weir/serve/internal/catalogue"
)

// statusPage is the status page. It has no data: its script asks for /v2/weir/status.
//
//go:embed page/status.html
var statusPage string

// statusPolicy allows the page its own style and script, and requests to its server, and nothing else.
var statusPolicy = "default-src 'none'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; " +
	"frame-ancestors 'none'; style-src " + digestOf(statusPage, "style") + "; script-src " + digestOf(statusPage, "script")

// digestOf returns the digest of a page's first element of a kind, as a policy names it.
func digestOf(page, element string) string {
	_, rest, _ := strings.Cut(page, "<"+element+">")
	text, _, _ := strings.Cut(rest, "</"+element+">")
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// page answers with the status page, which asks for a token if the status is 401.
func (s *Server) page(w http.ResponseWriter, status int) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", statusPolicy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-cache")
	if status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", "Bearer")
	}
	w.WriteHeader(status)
	w.Write([]byte(statusPage))
}

// overview is the answer of /v2/weir/status.
type overview struct {
	Server serverStatus  `json:"server"`
	Ledger ledgerStatus  `json:"ledger"`
	Models []modelStatus `json:"models"`
	Errors []errorStatus `json:"errors"` // of requests, latest first
}

type serverStatus struct {
	Name    string  `json:"name"`
	Version string  `json:"version"`
	Ready   bool    `json:"ready"`
	Uptime  float64 `json:"uptime_seconds"`
}

type ledgerStatus struct {
	Limit    int64           `json:"limit"`
	Held     int64           `json:"held"`
	Peak     int64           `json:"peak"`
	Waiting  int             `json:"waiting"`
	Refusals int64           `json:"refusals"`
	Accounts []accountStatus `json:"accounts"` // largest first
}

type accountStatus struct {
	Kind    string `json:"kind"`
	Account string `json:"account"`
	Bytes   int64  `json:"bytes"`
}

// modelStatus is a version of a model, or a model without versions. The fields after Reason are those of one that is
// loaded.
type modelStatus struct {
	Name         string     `json:"name"`
	Version      string     `json:"version"`
	State        string     `json:"state"` // READY, UNAVAILABLE, or empty
	Reason       string     `json:"reason,omitempty"`
	Platform     string     `json:"platform,omitempty"`
	Certificate  string     `json:"certificate,omitempty"` // a formula of bytes, over the dimensions
	Fixed        int64      `json:"fixed_bytes"`           // of weights and code
	CallBytes    int64      `json:"call_bytes"`
	Calls        int        `json:"calls"` // at once
	Joined       bool       `json:"joined"`
	WhyNotJoined string     `json:"why_not_joined,omitempty"`
	Loaded       *time.Time `json:"loaded,omitempty"`
	Took         float64    `json:"load_seconds"`
	FromCache    bool       `json:"from_cache"`
	Success      uint64     `json:"success"`
	Failed       uint64     `json:"failed"`
	Rows         uint64     `json:"rows"`
	Runs         uint64     `json:"runs"`
	Mean         float64    `json:"mean_seconds"`
	Waiting      int        `json:"waiting"`
	// Sequences that are alive, and the bytes of their states; nil if the model has none.
	Sequences     *int   `json:"sequences,omitempty"`
	SequenceBytes *int64 `json:"sequence_bytes,omitempty"`
}

type errorStatus struct {
	At    time.Time `json:"at"`
	Model string    `json:"model"`
	Kind  string    `json:"kind"`
	Error string    `json:"error"`
}

// statusNow collects the status.
func (s *Server) statusNow() overview {
	state := s.state()
	out := overview{Server: serverStatus{"weir", Version, s.Ready(), time.Since(s.started).Seconds()},
		Ledger: ledgerStatus{Limit: state.Limit, Held: state.Held, Peak: state.Peak, Waiting: state.Waiting,
			Refusals: state.Refusals, Accounts: []accountStatus{}}, Models: []modelStatus{}, Errors: []errorStatus{}}
	for _, r := range state.Rows {
		out.Ledger.Accounts = append(out.Ledger.Accounts, accountStatus{r.Kind.String(), label(r.Name), r.Bytes})
	}
	type key struct{ model, version string }
	loaded := map[key]*catalogue.Version{}
	for _, v := range s.catalogue.Loaded() {
		loaded[key{v.Model, v.Name()}] = v
	}
	for _, m := range s.catalogue.Index(false) {
		one := modelStatus{Name: label(m.Name), Version: m.Version, State: m.State, Reason: m.Reason}
		if v := loaded[key{m.Name, m.Version}]; v != nil {
			one.of(v)
		}
		out.Models = append(out.Models, one)
	}
	for _, e := range s.errors.all() {
		out.Errors = append(out.Errors, errorStatus{e.At, label(e.Model), e.Kind, e.Text})
	}
	return out
}

// of adds what a loaded version has.
func (m *modelStatus) of(v *catalogue.Version) {
	c := v.Counters()
	m.Platform, m.Certificate, m.Loaded = v.Platform(), certificateOf(v), &v.Loaded
	m.Fixed, m.CallBytes = v.Bytes()
	m.Calls, m.Joined, m.WhyNotJoined = v.Calls, v.Joined(), v.Unbatched
	m.Took, m.FromCache, m.Waiting = v.Took.Seconds(), v.FromCache, v.Waiting()
	m.Success, m.Failed, m.Rows, m.Runs = c.Success, c.Fail, c.Rows, c.Executions
	if v.Sequences != nil {
		s := v.Sequences.Stats()
		m.Sequences, m.SequenceBytes = &s.Alive, &s.Bytes
	}
	if c.Success > 0 {
		m.Mean = c.SuccessTime.Seconds() / float64(c.Success)
	}
}

// writeStatus answers /v2/weir/status.
func (s *Server) writeStatus(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	json.NewEncoder(w).Encode(s.statusNow())
}
