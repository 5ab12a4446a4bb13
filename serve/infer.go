package serve

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
	"unsafe"

	"go.opentelemetry.io/otel/propagation"

	"github.com/weirml/weir"
	"github.com/weirml/weir/serve/internal/catalogue"
	"github.com/weirml/weir/serve/internal/conns"
	"github.com/weirml/weir/serve/internal/ledger"
	"github.com/weirml/weir/serve/internal/oip"
	"github.com/weirml/weir/serve/internal/texts"
)

// exchange is one request and its response, and the memory that they hold.
type exchange struct {
	server  *Server
	from    string // the client, for fairness
	owner   string // whom the sequence belongs to
	buffers []*ledger.Buffer
	tensors []*weir.Tensor
	leave   []func()
	carrier propagation.TextMapCarrier // of the trace that the request belongs to
	last    outcome
	asked   *texts.Embeddings // of a request of OpenAI's API
	tokens  int64             // of the request's texts
	labels  []string          // of the model, if it labels them
	// sent, read and joined are the bytes that the client holds of the shares of bodies, until it has sent its body, of
	// responses, and of texts that are computed.
	sent, read, joined int64
}

// exchangeOf returns the exchange for a request that HTTP carries.
func (s *Server) exchangeOf(r *http.Request) *exchange {
	return &exchange{server: s, from: conns.Client(r.RemoteAddr), owner: s.ownerOf(r.Header.Get("Authorization"), r.TLS),
		carrier: propagation.HeaderCarrier(r.Header)}
}

// close gives everything back, after the response was written.
func (x *exchange) close() {
	x.closeInputs()
	for _, b := range x.buffers {
		b.Close()
	}
	x.buffers = nil
	x.received()
	x.server.reading.give(x.from, x.read)
	x.server.joining.give(x.from, x.joined)
	x.read, x.joined = 0, 0
}

// received ends the client's share of what bodies may hold that are being sent.
func (x *exchange) received() {
	x.server.sending.give(x.from, x.sent)
	x.sent = 0
}

// closeInputs ends the loan of the inputs.
func (x *exchange) closeInputs() {
	for _, t := range x.tensors {
		t.Close()
	}
	for _, leave := range x.leave {
		leave()
	}
	x.tensors, x.leave = nil, nil
}

// body returns memory for a request's body, and waits for it.
func (x *exchange) body(ctx context.Context, bytes int64) ([]byte, error) {
	if err := x.small(bytes); err != nil {
		return nil, err
	}
	if err := x.share(ctx, x.server.sending, ledger.Body, &x.sent, bytes); err != nil {
		return nil, err
	}
	return x.take(ctx, x.server.bodies, bytes)
}

// small returns an error if a body exceeds Options.MostBody.
func (x *exchange) small(bytes int64) error {
	if most := x.server.options.MostBody; most > 0 && bytes > most {
		return &tooLarge{bytes, most}
	}
	return nil
}

// take returns memory that the exchange holds until it is closed.
func (x *exchange) take(ctx context.Context, from *ledger.Buffers, bytes int64) ([]byte, error) {
	b, err := from.Get(ctx, bytes)
	if err != nil {
		return nil, err
	}
	x.buffers = append(x.buffers, b)
	return b.Bytes(), nil
}

// now is a context that has ended: memory is taken at once or refused.
var now = func() context.Context {
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errors.New("the server is busy"))
	return ctx
}()

// more returns memory for elements of a request whose body is held already: nothing waits for memory of a kind that it
// holds.
func (x *exchange) more(bytes int64) ([]byte, error) {
	if err := x.small(bytes); err != nil {
		return nil, err
	}
	return x.take(now, x.server.bodies, bytes)
}

// outcome is what a request's counters need.
type outcome struct {
	phases catalogue.Phases
	rows   int
	joined bool
}

// infer answers a request. The response's elements are valid until the exchange is closed.
func (x *exchange) infer(ctx context.Context, r *oip.Request) (response *oip.Response, err error) {
	began := time.Now()
	v, err := x.server.catalogue.Use(r.Model, r.Version)
	if err != nil {
		return nil, err
	}
	defer v.Leave()
	var o outcome
	defer func() {
		x.last = o
		if err == nil {
			v.Stats.Answered(o.rows, time.Since(began), o.phases, o.joined)
		} else {
			f := failureOf(err)
			v.Stats.Failed(f.Kind, time.Since(began))
			x.server.errors.add(v.Model, f)
			err = &counted{err}
		}
	}()
	priority, _ := r.Parameters.Int("priority")
	ctx, cancel := patience(ctx, v, r)
	defer cancel()
	if v.Texts != nil || x.asked != nil {
		return x.inferTexts(ctx, v, r, int(priority), &o)
	}
	step, err := x.step(ctx, v, r)
	if err != nil {
		return nil, err
	}
	defer func() { err = step.Done(err) }()
	waited := time.Since(began)
	var in weir.Inputs
	if err := guarded(func() (err error) {
		in, err = x.inputs(v, r)
		return err
	}); err != nil {
		return nil, err
	}
	if err := step.Arguments(in); err != nil {
		return nil, err
	}
	wanted, err := wantedOf(v, r)
	if err != nil {
		return nil, err
	}
	dims, err := v.Program.Bind(in)
	if err != nil {
		return nil, err
	}
	places, err := x.place(ctx, v, dims, wanted)
	if err != nil {
		return nil, x.sizes(v, dims, err)
	}
	if err := step.Begin(dims); err != nil {
		return nil, err
	}
	o.phases.Input = time.Since(began) - waited
	rows, alone := v.Joins(dims)
	if err := v.Enter(ctx, int(priority), x.from, rows); err != nil {
		return nil, err
	}
	defer v.Done(rows)
	o.phases.Queue = time.Since(began) - o.phases.Input
	defer x.server.ledger.Settle() // the run's memory is idle then, if others wait for it
	response = &oip.Response{Model: v.Model, Version: v.Name(), ID: r.ID}
	failed := error(nil) // of an output, not of the run
	o.joined = !alone
	err = run(ctx, v, in, alone, func(out weir.Outputs) error {
		step.Ran(nil)
		o.phases.Infer = time.Since(began) - o.phases.Input - o.phases.Queue
		for i, w := range wanted {
			if failed = guarded(func() error {
				t, err := x.output(out, w, places[i])
				response.Outputs = append(response.Outputs, t)
				return err
			}); failed != nil {
				return failed
			}
		}
		failed = step.Keep(out)
		return failed
	})
	if failed != nil {
		return nil, failed
	}
	if err != nil {
		step.Ran(err)
		o.phases.Infer = time.Since(began) - o.phases.Input - o.phases.Queue
		if short := shortened(r); short != nil {
			err = short // the run's fault was an access to it
		}
		return nil, x.sizes(v, dims, err)
	}
	x.closeInputs()
	o.phases.Output = time.Since(began) - o.phases.Input - o.phases.Queue - o.phases.Infer
	o.rows = rowsOf(r)
	return response, nil
}

// patience returns a context that ends when a request has waited for as long as it may.
func patience(ctx context.Context, v *catalogue.Version, r *oip.Request) (context.Context, context.CancelFunc) {
	micros, _ := r.Parameters.Int("timeout")
	if wait := v.Timeout(time.Duration(min(max(micros, 0), 1<<40)) * time.Microsecond); wait > 0 {
		return context.WithTimeoutCause(ctx, wait, errTimeout)
	}
	return ctx, func() {}
}

// rowsOf returns the rows of a request, 1 if its first input has no axis.
func rowsOf(r *oip.Request) int {
	if len(r.Inputs) > 0 && len(r.Inputs[0].Shape) > 0 {
		return r.Inputs[0].Shape[0]
	}
	return 1
}

// run runs a request, with others unless alone is true, and calls use with its outputs, which are invalid then.
func run(ctx context.Context, v *catalogue.Version, in weir.Inputs, alone bool, use func(weir.Outputs) error) error {
	if !alone {
		return cause(ctx, v.Batcher.RunWith(ctx, in, use))
	}
	out, err := v.Program.Run(ctx, in)
	if err != nil {
		return cause(ctx, err)
	}
	return errors.Join(use(out), out.Close())
}

// cause replaces the error of a context that has ended by its cause.
func cause(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return fmt.Errorf("%w (%w)", context.Cause(ctx), err)
	}
	return err
}

// inputs returns a request's tensors as arguments, which lie in its body, in shared memory, or in memory of their own
// if they are not aligned there.
func (x *exchange) inputs(v *catalogue.Version, r *oip.Request) (weir.Inputs, error) {
	in := make(weir.Inputs, len(r.Inputs))
	for i := range r.Inputs {
		t := &r.Inputs[i]
		at := slices.IndexFunc(v.Inputs, func(i weir.Info) bool { return i.Name == t.Name })
		switch {
		case at < 0:
			return nil, oip.Errorf("model %s has no input %q; it has %s", v.Model, t.Name, namesOf(v.Inputs))
		case in[t.Name] != nil:
			return nil, oip.Errorf("input %q is there twice", t.Name)
		case t.DType != v.Inputs[at].DType:
			return nil, oip.Errorf("input %q is %s, and the model's is %s", t.Name, oip.Name(t.DType),
				oip.Name(v.Inputs[at].DType))
		}
		if t.Region != nil {
			data, leave, err := x.server.regions.use(t.Region)
			if err != nil {
				return nil, err
			}
			x.leave = append(x.leave, leave)
			t.Data = data
			if err := t.CheckData(); err != nil {
				return nil, err
			}
		}
		tensor, err := x.tensor(t)
		if err != nil {
			return nil, err
		}
		x.tensors = append(x.tensors, tensor)
		in[t.Name] = tensor
	}
	return in, nil
}

// tensor returns a tensor over an input's data.
func (x *exchange) tensor(t *oip.Tensor) (*weir.Tensor, error) {
	if t.DType == weir.StringType {
		var texts []string
		for text := range oip.Texts(t.Data) {
			texts = append(texts, unsafe.String(unsafe.SliceData(text), len(text))) // the body stays until the run has ended
		}
		return weir.FromSlice(texts, t.Shape...)
	}
	if len(t.Data) == 0 {
		return weir.New(t.DType, t.Shape...)
	}
	if uintptr(unsafe.Pointer(&t.Data[0]))%uintptr(max(1, t.DType.Size())) != 0 {
		memory, err := x.more(int64(len(t.Data)))
		if err != nil {
			return nil, err
		}
		copy(memory, t.Data)
		t.Data = memory
	}
	return weir.Foreign(t.DType, unsafe.Pointer(&t.Data[0]), weir.ReadOnly, nil, t.Shape...)
}

// namesOf lists the names of inputs or outputs.
func namesOf(list []weir.Info) string {
	var all []string
	for _, i := range list {
		all = append(all, i.String())
	}
	return strings.Join(all, "; ")
}

// wantedOf returns the outputs that a request asks for, by index of the program's outputs.
func wantedOf(v *catalogue.Version, r *oip.Request) ([]want, error) {
	var list []want
	if len(r.Outputs) == 0 {
		for i, info := range v.Outputs {
			if !v.Hidden(i) {
				list = append(list, want{Wanted: oip.Wanted{Name: info.Name, Binary: r.AllBinary}, info: info, at: i})
			}
		}
		return list, nil
	}
	for _, w := range r.Outputs {
		at := slices.IndexFunc(v.Outputs, func(i weir.Info) bool { return i.Name == w.Name })
		if at < 0 {
			return nil, oip.Errorf("model %s has no output %q; it has %s", v.Model, w.Name, namesOf(v.Outputs))
		}
		if slices.ContainsFunc(list, func(other want) bool { return other.at == at }) {
			return nil, oip.Errorf("output %q is asked for twice", w.Name)
		}
		list = append(list, want{Wanted: w, info: v.Outputs[at], at: at})
	}
	return list, nil
}

// want is an output that a request asks for.
type want struct {
	oip.Wanted
	info weir.Info
	at   int
}

// place returns memory for the outputs, nil for one whose size only the run knows. It waits for room once: nobody waits
// for memory of a kind that they hold.
func (x *exchange) place(ctx context.Context, v *catalogue.Version, dims weir.Dims, list []want) ([][]byte, error) {
	places, sizes, all := make([][]byte, len(list)), make([]int64, len(list)), int64(0)
	for i, w := range list {
		if w.info.Kind != weir.TensorKind {
			return nil, oip.Errorf("output %q is no tensor, and the protocol has tensors only: %s", w.Name, w.info)
		}
		if w.Region != nil {
			data, leave, err := x.server.regions.use(w.Region)
			if err != nil {
				return nil, err
			}
			x.leave = append(x.leave, leave)
			places[i] = data
			continue
		}
		if bytes, ok := v.OutputBytes(w.at, dims); ok && w.info.DType != weir.StringType {
			sizes[i] = min(bytes, mostOutput)
			all = min(all+sizes[i], mostOutput)
		}
	}
	if all == 0 {
		return places, nil
	}
	if err := x.share(ctx, x.server.reading, ledger.Response, &x.read, all); err != nil {
		return nil, err
	}
	memory, err := x.take(ctx, x.server.responses, all)
	if err != nil {
		return nil, err
	}
	for i, bytes := range sizes {
		if bytes > 0 {
			places[i], memory = memory[:bytes:bytes], memory[bytes:]
		}
	}
	return places, nil
}

// mostOutput is a number of bytes that no ledger grants; two of them can be added.
const mostOutput = 1 << 61

// output copies an output to its place, or to memory of its own if it has none.
func (x *exchange) output(out weir.Outputs, w want, place []byte) (t oip.Tensor, err error) {
	result := out.Get(w.Name)
	if result == nil {
		return t, oip.Errorf("output %q has no value in this run, and the protocol has tensors only", w.Name)
	}
	t = oip.Tensor{Name: w.Name, DType: result.DType(), Shape: result.Shape(), Binary: w.Binary, Region: w.Region}
	if w.Classes > 0 {
		return x.classes(result, w)
	}
	if t.DType == weir.StringType {
		return x.texts(result, t, place)
	}
	data := result.Bytes()
	if w.Region != nil && len(data) > len(place) {
		return t, oip.Errorf("output %q has %d bytes, and its shared memory %d", w.Name, len(data), len(place))
	}
	if w.Region == nil && len(data) > len(place) {
		if place, err = x.late(int64(len(data))); err != nil {
			return t, err
		}
	}
	t.Data = place[:copy(place, data)]
	if w.Region != nil {
		t.Region = &oip.Region{Name: w.Region.Name, Offset: w.Region.Offset, Size: int64(len(t.Data))}
	}
	return t, nil
}

// late returns memory for an output whose size only the run knew. It does not wait, since the run is held meanwhile.
func (x *exchange) late(bytes int64) ([]byte, error) { return x.take(now, x.server.responses, bytes) }

// texts encodes an output of strings.
func (x *exchange) texts(result *weir.Tensor, t oip.Tensor, place []byte) (oip.Tensor, error) {
	list, err := weir.View[string](result)
	if err != nil {
		return t, err
	}
	size := oip.TextsSize(list)
	if size < 0 || t.Region != nil && size > int64(len(place)) {
		return t, oip.Errorf("output %q has strings of %d bytes, and its memory %d", t.Name, size, len(place))
	}
	if t.Region == nil {
		if place, err = x.late(size); err != nil {
			return t, err
		}
	}
	t.Data = oip.AppendTexts(place[:0], list)
	if t.Region != nil {
		t.Region = &oip.Region{Name: t.Region.Name, Offset: t.Region.Offset, Size: size}
	}
	return t, nil
}
