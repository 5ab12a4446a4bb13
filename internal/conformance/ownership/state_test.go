package ownership

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/weirtest"
)

// stateLines matches the lines of a text that make states of inputs; without them, the new values are ordinary outputs.
var stateLines = regexp.MustCompile(`(?m)^ *state .*\n`)

// training returns the training step of testdata, with states and without.
func training(t *testing.T) (states, plain string) {
	t.Helper()
	source, err := os.ReadFile("testdata/states/training.weir")
	if err != nil {
		t.Fatal(err)
	}
	return string(source), stateLines.ReplaceAllString(string(source), "")
}

// sameSteps runs count steps of a text with states and of one without, each on new data, and compares all outputs and
// states, to the bit.
func sameSteps(t *testing.T, updating, plain *weir.Program, dims weir.Dims, count int, random *rand.Rand) {
	t.Helper()
	a, b := weirtest.Tensors(t, updating, dims, random), map[string]*weir.Tensor{}
	for name, x := range a {
		y, err := weir.New(x.DType(), x.Shape()...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { y.Close() })
		copy(y.Bytes(), x.Bytes())
		b[name] = y
	}
	var becomes = map[string]string{}
	for _, info := range updating.Inputs() {
		becomes[info.Name] = info.State
	}
	in, other := weirtest.Arguments(updating, a), weirtest.Arguments(plain, b)
	once := func(step int) {
		for name, x := range a {
			if data, err := weir.View[float32](x); err == nil && becomes[name] == "" {
				for i := range data {
					data[i] = random.Float32() - 0.5
				}
				copy(b[name].Bytes(), x.Bytes())
			}
		}
		got, err := updating.Run(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		defer got.Close()
		want, err := plain.Run(t.Context(), other)
		if err != nil {
			t.Fatal(err)
		}
		defer want.Close()
		for _, info := range plain.Outputs() {
			if !bytes.Equal(got.Get(info.Name).Bytes(), want.Get(info.Name).Bytes()) {
				t.Fatalf("step %d: %s differs", step, info.Name)
			}
		}
		for name, output := range becomes {
			if output == "" {
				continue
			}
			if got.Get(output) != a[name] || !bytes.Equal(a[name].Bytes(), want.Get(output).Bytes()) {
				t.Fatalf("step %d: %s is not where %s was", step, output, name)
			}
			copy(b[name].Bytes(), want.Get(output).Bytes())
		}
	}
	for step := range count {
		once(step)
	}
	for name, x := range a {
		if x.Bytes() == nil && x.Len() > 0 {
			t.Errorf("%s did not outlive the results", name)
		}
	}
}

// TestStates: a training step that updates its weights in place gives the same bits, step after step, as with new
// weights as outputs.
func TestStates(t *testing.T) {
	states, plain := training(t)
	for _, c := range []struct {
		o     weir.Options
		n     int64
		steps int
	}{
		{weir.Options{}, 5, 1000}, {weir.Options{Threads: 1}, 33, 100}, {weir.Options{Target: weir.Portable}, 3, 100},
		{weir.Options{Target: weir.Reference}, 2, 5},
		{weir.Options{}, 0,
			2}, {weir.Options{Budget: 95, Threads: 1, Dims: map[string]weir.Range{"n": {Min: 0, Max: 512}}},
			512, 20},
	} {
		t.Run(fmt.Sprintf("%s %d", c.o.Target, c.n), func(t *testing.T) {
			o := c.o
			if c.o.Budget > 0 { // percent of the peak of each: both compute the batch in pieces, so that sums have one order
				free := c.o
				free.Budget = 0
				c.o.Budget = weirtest.Sure(weirtest.MustCompileText(t, states, free).Memory().Max(1)) * c.o.Budget / 100
				o.Budget = weirtest.Sure(weirtest.MustCompileText(t, plain, free).Memory().Max(1)) * o.Budget / 100
			}
			p, q := weirtest.MustCompileText(t, states, c.o), weirtest.MustCompileText(t, plain, o)
			if c.o.Budget > 0 && p.Savings() == nil {
				t.Errorf("the budget asks for nothing: %d", weirtest.Sure(p.Memory().Max(1)))
			}
			sameSteps(t, p, q, weir.Dims{"n": c.n}, c.steps, rand.New(rand.NewPCG(1, 2)))
			measured(t, p, weir.Dims{"n": c.n})
		})
	}
}

// measured compares the certificate with the bytes of a run, and checks that measuring changes no state.
func measured(t *testing.T, p *weir.Program, dims weir.Dims) {
	t.Helper()
	x := weirtest.Tensors(t, p, dims, rand.New(rand.NewPCG(3, 4)))
	before := map[string][]byte{}
	for name, x := range x {
		before[name] = bytes.Clone(x.Bytes())
	}
	m, err := p.Measure(t.Context(), weirtest.Arguments(p, x))
	if err != nil {
		t.Fatal(err)
	}
	if want := weirtest.Sure(p.Memory().PeakWith(1, dims,
		m)); m.Peak(1) != want || want > weirtest.Sure(p.Memory().Peak(1, dims)) {
		t.Errorf("%d bytes predicted, %d measured", want, m.Peak(1))
	}
	for name, x := range x {
		if !bytes.Equal(before[name], x.Bytes()) {
			t.Errorf("measuring has changed %s", name)
		}
	}
}

// TestStateMemory: new values of states are in no term of the certificate, and nothing grows over many steps.
func TestStateMemory(t *testing.T) {
	source, plain := training(t)
	p, q := weirtest.MustCompileText(t, source, weir.Options{Threads: 1}), weirtest.MustCompileText(t, plain,
		weir.Options{Threads: 1})
	dims := weir.Dims{"n": 32}
	held := int64(0)
	for _, s := range p.States() {
		held += weirtest.Sure(s.Bytes.At(dims))
		// when the last state is needed no more, others still read the loss
		if inPlace := s.Output != "loss"; s.InPlace != inPlace {
			t.Errorf("%s is updated in place: %v", s.Input, s.InPlace)
		}
	}
	with, without := weirtest.Sure(p.Memory().Outputs.At(dims)), weirtest.Sure(q.Memory().Outputs.At(dims))
	if without-with != held || with != 4 {
		t.Errorf("outputs of %d bytes with states of %d, and of %d without", with, held, without)
	}
	measured(t, p, dims)
	x := weirtest.Tensors(t, p, dims, rand.New(rand.NewPCG(1, 2)))
	in := weirtest.Arguments(p, x)
	check := flat(t)
	for step := range steps() {
		r, err := p.Run(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		r.Close()
		check(step)
	}
	if count, _ := weir.View[int64](x["steps"]); count[0] != int64(steps()) {
		t.Errorf("%d steps were counted", count[0])
	}
}

// TestStateCall: a call updates states that are lent to it or bound, without allocating.
func TestStateCall(t *testing.T) {
	source, plain := training(t)
	p, q := weirtest.MustCompileText(t, source, weir.Options{}), weirtest.MustCompileText(t, plain, weir.Options{})
	dims := weir.Dims{"n": 7}
	x := weirtest.Tensors(t, p, dims, rand.New(rand.NewPCG(1, 2)))
	want := map[string][]byte{}
	for name, x := range x {
		want[name] = bytes.Clone(x.Bytes())
	}
	c, err := p.NewCall(dims)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for i, info := range p.Inputs() {
		switch {
		case i%2 == 0:
			copy(c.Input(info.Name).Bytes(), x[info.Name].Bytes())
			x[info.Name] = c.Input(info.Name)
		case info.State != "":
			err = c.Bind(info.Name, weir.Update(x[info.Name]))
		default:
			err = c.Bind(info.Name, x[info.Name])
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	count := 0
	step := func() {
		count++
		if err := c.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	step()
	if n := testing.AllocsPerRun(20, step); n != 0 {
		t.Errorf("a run allocates %v times", n)
	}
	for range count {
		y := weirtest.Tensors(t, q, dims, rand.New(rand.NewPCG(1, 2)))
		for name := range y {
			copy(y[name].Bytes(), want[name])
		}
		r, err := q.Run(t.Context(), weirtest.Arguments(q, y))
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range p.States() {
			want[s.Input] = bytes.Clone(r.Get(s.Output).Bytes())
		}
		r.Close()
	}
	for _, s := range p.States() {
		if c.Output(s.Output) != x[s.Input] || !bytes.Equal(x[s.Input].Bytes(), want[s.Input]) {
			t.Errorf("%s is not what %d steps make it", s.Input, count)
		}
	}
	for _, bad := range []struct {
		name  string
		a     weir.Arg
		words string
	}{
		{"w0", x["w0"], "Update(t)"}, {"x", weir.Update(x["x"]), "no state"}, {"u0", x["w0"], "the state w0"},
		{"w0", weir.Donate(x["w0"]), "Update(t)"}, {"x", weir.Donate(x["x"]), "Program.Run"},
	} {
		if err := c.Bind(bad.name, bad.a); err == nil || !strings.Contains(err.Error(), bad.words) {
			t.Errorf("binding %s: %v", bad.name, err)
		}
	}
	if err := c.Bind("m0", weir.Update(x["w0"])); err != nil {
		t.Fatal(err)
	}
	if err := c.Run(t.Context()); !errors.Is(err, weir.ErrInput) || !strings.Contains(err.Error(), "bound to") {
		t.Errorf("one tensor for two states: %v", err)
	}
}

// readOnly returns a tensor over a mapped file.
func readOnly(t *testing.T, shape ...int) *weir.Tensor {
	t.Helper()
	count := 1
	for _, s := range shape {
		count *= s
	}
	path := filepath.Join(t.TempDir(), "w")
	if err := os.WriteFile(path, make([]byte, 4*count), 0o666); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b, err := mem.MapFile(f, "w")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	x, err := weir.FromSlice(unsafe.Slice((*float32)(b.Pointer()), count), shape...)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// TestStateRefusals: a tensor that a state may not be is an error that names the state and a fix, and changes nothing.
func TestStateRefusals(t *testing.T) {
	source, _ := training(t)
	p := weirtest.MustCompileText(t, source, weir.Options{Calls: 2})
	dims := weir.Dims{"n": 2}
	x := weirtest.Tensors(t, p, dims, rand.New(rand.NewPCG(1, 2)))
	closed := weirtest.Tensors(t, p, dims, rand.New(rand.NewPCG(1, 2)))["w0"]
	closed.Close()
	before := bytes.Clone(x["w1"].Bytes())
	for _, c := range []struct {
		name  string
		a     weir.Arg
		kind  error
		words string
	}{
		{"w0", x["w0"], weir.ErrInput, "Update(t)"},
		{"w0", weir.Donate(x["w0"]), weir.ErrInput, "Update(t)"},
		{"w0", weir.Consume(x["w0"]), weir.ErrInput, "Update(t)"},
		{"x", weir.Update(x["x"]), weir.ErrInput, "no state"},
		{"w0", weir.Update(x["m0"]), weir.ErrInput, "given for m0 too"},
		{"w0", weir.Update(x["w1"]), weir.ErrInput, "is 24"},
		{"w0", weir.Update(closed), weir.ErrClosed, "closed"},
		{"w0", weir.Update(readOnly(t, 16, 24)), weir.ErrInput, "mapped read-only"},
	} {
		in := weirtest.Arguments(p, x)
		in[c.name] = c.a
		var e *weir.Error
		if _, err := p.Run(t.Context(), in); !errors.Is(err, c.kind) || !errors.As(err, &e) ||
			!strings.Contains(err.Error(), c.words) || e.Tensor != c.name {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if !bytes.Equal(before, x["w1"].Bytes()) || x["w0"].Bytes() == nil {
		t.Error("a run that was refused has changed something")
	}
	// Memory of Go's own may be updated: a caller of Update takes care of it.
	in := weirtest.Arguments(p, x)
	own := borrowed(t, 16, 24)
	in["w0"] = weir.Update(own)
	r, err := p.Run(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(own.Bytes(), func(b byte) bool { return b != 0 }) {
		t.Error("it was not updated")
	}
	r.Close()
}

// TestStateTwice: of two runs at once that update one tensor, one is refused.
func TestStateTwice(t *testing.T) {
	source, _ := training(t)
	p := weirtest.MustCompileText(t, source, weir.Options{Calls: 1})
	x := weirtest.Tensors(t, p, weir.Dims{"n": 2}, rand.New(rand.NewPCG(1, 2)))
	in := weirtest.Arguments(p, x)
	held, err := p.NewCall(weir.Dims{"n": 2}) // the program's only call, so that the next run waits
	if err != nil {
		t.Fatal(err)
	}
	waiting, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		err := error(nil)
		for err == nil || errors.Is(err, weir.ErrInput) { // the other run may hold the tensor for a moment
			var r *weir.Results
			if r, err = p.Run(waiting, in); err == nil {
				r.Close()
			}
		}
		ended <- err
	}()
	gone, end := context.WithCancel(t.Context())
	end()
	for err = context.Canceled; errors.Is(err, context.Canceled); { // until the waiting run holds the tensor
		_, err = p.Run(gone, in)
	}
	if !errors.Is(err, weir.ErrInput) || !strings.Contains(err.Error(), "another run is updating") {
		t.Errorf("a second run at once: %v", err)
	}
	stop()
	var torn *weir.StateError
	if err := <-ended; !errors.Is(err, context.Canceled) || errors.As(err, &torn) {
		t.Errorf("the first, which never ran: %v", err)
	}
	held.Close()
	r, err := p.Run(t.Context(), in)
	if err != nil {
		t.Fatalf("afterwards: %v", err)
	}
	r.Close()
}

// TestStateStopped ends a step's context at each of its checks: the error names the states that it had begun to update,
// and the others have their old values.
func TestStateStopped(t *testing.T) {
	source, _ := training(t)
	p := weirtest.MustCompileText(t, source, weir.Options{Threads: 1})
	none, some := 0, 0
	for after := 1; ; after++ {
		x := weirtest.Tensors(t, p, weir.Dims{"n": 4}, rand.New(rand.NewPCG(1, 2)))
		before := map[string][]byte{}
		for name, x := range x {
			before[name] = bytes.Clone(x.Bytes())
		}
		ctx := weirtest.NewCountdown(after)
		r, err := p.Run(ctx, weirtest.Arguments(p, x))
		if err == nil {
			r.Close()
			if !ctx.Ended() {
				break
			}
			continue
		}
		var torn *weir.StateError
		if errors.As(err, &torn) {
			some++
		} else {
			torn = &weir.StateError{}
			none++
		}
		if !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		for name := range x {
			if begun := slices.Contains(torn.States, name); !begun && !bytes.Equal(before[name], x[name].Bytes()) ||
				begun && !strings.Contains(err.Error(), name) {
				t.Errorf("stopped after %d: %s, begun %v, has another value: %v", after, name, begun, err)
			}
		}
	}
	if none == 0 || some == 0 {
		t.Errorf("%d runs ended before a state was begun, %d later", none, some)
	}
}

// TestStateFaults refuses each taking of memory of a first run: the states keep their values, and the same run then
// works.
func TestStateFaults(t *testing.T) {
	source, _ := training(t)
	refused := 0
	for n := int64(1); ; n++ {
		p := weirtest.MustCompileText(t, source, weir.Options{Threads: 1})
		x := weirtest.Tensors(t, p, weir.Dims{"n": 4}, rand.New(rand.NewPCG(1, 2)))
		before := bytes.Clone(x["w0"].Bytes())
		faults := mem.Fail(n, n)
		r, err := p.Run(t.Context(), weirtest.Arguments(p, x))
		count := faults.Count()
		faults.Restore()
		var torn *weir.StateError
		if err != nil {
			refused++
			if !errors.Is(err, weir.ErrMemory) || errors.As(err, &torn) || !bytes.Equal(before, x["w0"].Bytes()) {
				t.Errorf("the %d-th refused: %v", n, err)
			}
			r, err = p.Run(t.Context(), weirtest.Arguments(p, x))
		}
		if err != nil || bytes.Equal(before, x["w0"].Bytes()) {
			t.Fatalf("afterwards: %v", err)
		}
		r.Close()
		if count < n {
			break
		}
	}
	if refused < 3 {
		t.Errorf("%d runs were refused something", refused)
	}
}

// TestStateArtefact: an artefact keeps the states.
func TestStateArtefact(t *testing.T) {
	source, plain := training(t)
	p, q := weirtest.MustCompileText(t, source, weir.Options{}), weirtest.MustCompileText(t, plain, weir.Options{})
	var file bytes.Buffer
	if _, err := p.WriteTo(&file); err != nil {
		t.Fatal(err)
	}
	m, err := weir.LoadBytes(file.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	again, err := weir.Compile(t.Context(), m, weir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	for i, info := range m.Inputs() {
		if info.State != p.Inputs()[i].State || again.Inputs()[i].State != info.State {
			t.Errorf("%s in the artefact, %s in its program, %s before", info, again.Inputs()[i], p.Inputs()[i])
		}
	}
	if a, b := fmt.Sprint(again.States()), fmt.Sprint(p.States()); a != b ||
		again.Memory().Formula(1).String() != p.Memory().Formula(1).String() {
		t.Errorf("%s with %s, before %s with %s", a, again.Memory().Formula(1), b, p.Memory().Formula(1))
	}
	sameSteps(t, again, q, weir.Dims{"n": 5}, 10, rand.New(rand.NewPCG(1, 2)))
}

// TestStateDebug runs other tests of states with every operand in memory of its own and released memory filled: states
// stay the caller's memory.
func TestStateDebug(t *testing.T) {
	cmd := exec.Command(os.Args[0], "-test.run=^TestState(Artefact|Stopped|Twice|Outputs)$", "-test.v")
	cmd.Env = append(os.Environ(), "WEIR_DEBUG=guard,poison", "WEIR_MAP=off")
	if out, err := cmd.CombinedOutput(); err != nil || strings.Count(string(out), "--- PASS") != 4 {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestStateOutputs: a state whose new value is not an output of the run is lent, and keeps its value.
func TestStateOutputs(t *testing.T) {
	source, _ := training(t)
	p := weirtest.MustCompileText(t, source, weir.Options{Outputs: []string{"u1", "change", "d0"}})
	if list := p.States(); len(list) != 1 || list[0].Input != "w1" || list[0].Output != "u1" {
		t.Errorf("states %v", list)
	}
	x := weirtest.Tensors(t, p, weir.Dims{"n": 4}, rand.New(rand.NewPCG(1, 2)))
	before := bytes.Clone(x["w0"].Bytes())
	r, err := p.Run(t.Context(), weirtest.Arguments(p, x))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if r.Get("u1") != x["w1"] || !bytes.Equal(before, x["w0"].Bytes()) {
		t.Error("w1 is the state, and w0 is not")
	}
}
