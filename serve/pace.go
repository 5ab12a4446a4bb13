package serve

import (
	"io"
	"net/http"
	"sync"
	"time"
)

// pace bounds a transfer by its progress: a client may let it rest for Options.Stall, and take a second for each 64
// KiB. The deadline is set for a MiB at a time: who claims much and sends little does not get the time for much.
type pace struct {
	set         func(time.Time) error
	stall       time.Duration
	began       time.Time
	whole       int64 // bytes, 0 if unknown
	gone, until int64 // bytes; the deadline is for those before until
}

// pacedBytes are the bytes that a deadline is for.
const pacedBytes = 1 << 20

// newPace sets the first deadline of a transfer that begins now.
func newPace(set func(time.Time) error, stall time.Duration, whole int64) pace {
	p := pace{set: set, stall: stall, began: time.Now(), whole: max(0, whole)}
	p.renew()
	return p
}

// reading is the deadline for reading a request's body.
type reading struct {
	control *http.ResponseController
	plain   bool // the connection's own deadline is set

	mu    sync.Mutex
	timer *time.Timer
	ended bool
}

// newReading returns a deadline, which the caller ends. One of HTTP/2 is a timer that nothing else holds: net/http's
// would keep the memory of a stream that was reset until it has passed, and each change of it wakes the connection.
func newReading(w http.ResponseWriter, r *http.Request) *reading {
	return &reading{control: http.NewResponseController(w), plain: r.ProtoMajor < 2}
}

// set sets the deadline.
func (d *reading) set(at time.Time) error {
	if d.plain {
		return d.control.SetReadDeadline(at)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer == nil {
		d.timer = time.AfterFunc(time.Until(at), d.pass)
	} else {
		d.timer.Reset(time.Until(at))
	}
	return nil
}

// pass ends the reading, as the deadline has passed.
func (d *reading) pass() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.ended { // the controller is valid until the handler returns
		d.control.SetReadDeadline(time.Unix(1, 0))
	}
}

// end removes the deadline.
func (d *reading) end() {
	if d.plain {
		d.control.SetReadDeadline(time.Time{})
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ended = true; d.timer != nil {
		d.timer.Stop()
	}
}

// whileOpen returns a function that sets a deadline for writing unless the request has ended: a stream of HTTP/2 that
// was reset would stay in memory until it has passed.
func whileOpen(r *http.Request, set func(time.Time) error) func(time.Time) error {
	return func(at time.Time) error {
		if err := r.Context().Err(); err != nil {
			return err
		}
		return set(at)
	}
}

// renew sets the deadline for the next bytes.
func (p *pace) renew() {
	next := int64(pacedBytes)
	if p.whole > 0 {
		next = max(0, min(next, p.whole-p.gone))
	}
	p.until = p.gone + max(next, 1)
	p.set(p.began.Add(p.stall + time.Duration((p.gone+next)>>16)*time.Second))
}

// went counts bytes.
func (p *pace) went(n int) {
	if p.gone += int64(n); p.gone >= p.until && (p.whole == 0 || p.gone < p.whole) {
		p.renew()
	}
}

// pacedReader is a reader within a pace.
type pacedReader struct {
	pace
	from io.Reader
}

// Read reads from the reader.
func (r *pacedReader) Read(p []byte) (int, error) {
	n, err := r.from.Read(p)
	r.went(n)
	return n, err
}

// pacedWriter is a writer within a pace.
type pacedWriter struct {
	pace
	to io.Writer
}

// Write writes to the writer, in pieces that a deadline is for.
func (w *pacedWriter) Write(p []byte) (n int, err error) {
	for n < len(p) && err == nil {
		var some int
		some, err = w.to.Write(p[n:min(len(p), n+pacedBytes)])
		n += some
		w.went(some)
	}
	return n, err
}
