package torch

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/weirtest"
)

// torchTensor is a tensor as testdata/torch/make.py writes it.
type torchTensor struct {
	Shape  []int
	Values []float64
}

// as returns the tensor with the element type of an input.
func (x torchTensor) as(t *testing.T, dt weir.DType) *weir.Tensor {
	t.Helper()
	shape := append([]int{}, x.Shape...)
	switch dt {
	case weir.I64:
		list := make([]int64, len(x.Values))
		for i, v := range x.Values {
			list[i] = int64(v)
		}
		return weirtest.Must[*weir.Tensor](t)(weir.FromSlice(list, shape...))
	case weir.Bool:
		list := make([]bool, len(x.Values))
		for i, v := range x.Values {
			list[i] = v != 0
		}
		return weirtest.Must[*weir.Tensor](t)(weir.FromSlice(list, shape...))
	case weir.F32:
		list := make([]float32, len(x.Values))
		for i, v := range x.Values {
			list[i] = float32(v)
		}
		return weirtest.Must[*weir.Tensor](t)(weir.FromSlice(list, shape...))
	}
	t.Fatalf("an input of type %v", dt)
	return nil
}

// equals compares a result with the one that torch computed.
func (x torchTensor) equals(t *testing.T, name string, got *weir.Tensor) {
	t.Helper()
	if fmt.Sprint(got.Shape()) != fmt.Sprint(x.Shape) {
		t.Fatalf("%s is %v, not %v", name, got.Shape(), x.Shape)
	}
	var list []float64
	switch got.DType() {
	case weir.I64:
		for _, v := range weirtest.Copy[int64](t, got) {
			list = append(list, float64(v))
		}
	default:
		for _, v := range weirtest.Copy[float32](t, got) {
			list = append(list, float64(v))
		}
	}
	for k, v := range x.Values {
		if math.Abs(list[k]-v) > 1e-5*max(1, math.Abs(v)) {
			t.Fatalf("%s: element %d is %v, not %v", name, k, list[k], v)
		}
	}
}

// TestTorchFiles runs files of torch.export, and compares the results with torch's.
func TestTorchFiles(t *testing.T) {
	files, err := filepath.Glob("testdata/torch/*.pt2")
	if err != nil || len(files) < 5 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			type set struct{ Inputs, Outputs []torchTensor }
			var want struct {
				set
				Others []set
			}
			text, err := os.ReadFile(strings.TrimSuffix(file, ".pt2") + ".json")
			if err == nil {
				err = json.Unmarshal(text, &want)
			}
			if err != nil {
				t.Fatal(err)
			}
			data := weirtest.Must[[]byte](t)(os.ReadFile(file))
			for _, load := range []func() (*weir.Model, error){
				func() (*weir.Model, error) { return weir.Load(file) },
				func() (*weir.Model, error) { return weir.LoadFS(os.DirFS("."), filepath.ToSlash(file)) },
				func() (*weir.Model, error) { return weir.LoadBytes(data) },
			} {
				m := weirtest.Must[*weir.Model](t)(load())
				p, err := weir.Compile(context.Background(), m, weir.Options{})
				if err != nil {
					t.Fatal(err)
				}
				m.Close() // the program keeps the parts of the file that it reads
				for _, want := range append([]set{want.set}, want.Others...) {
					in := weir.Inputs{}
					for i, info := range p.Inputs() {
						if !info.Initial {
							in[info.Name] = want.Inputs[i].as(t, info.DType)
						}
					}
					seen, err := p.Measure(context.Background(), in)
					if err != nil {
						t.Fatal(err)
					}
					d := weirtest.Must[weir.Dims](t)(p.Bind(in))
					if peak := weirtest.Must[int64](t)(p.Memory().PeakWith(1, d, seen)); peak != seen.Peak(1) {
						t.Errorf("%d bytes are predicted, %d measured", peak, seen.Peak(1))
					}
					maps.Copy(d, seen.Decided)
					if peak := weirtest.Must[int64](t)(p.Memory().Peak(1,
						d)); peak < seen.Peak(1) || seen.Decided == nil &&
						peak > seen.Peak(1) {
						t.Errorf("%d bytes are predicted at most, %d measured", peak, seen.Peak(1))
					}
					r := weirtest.Must[*weir.Results](t)(p.Run(context.Background(), in))
					for i, out := range want.Outputs {
						out.equals(t, fmt.Sprint("output ", i), r.At(i))
					}
					r.Close()
				}
				if err := p.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// TestTorchStates runs a model that updates its buffers: on the program's own states, from run to run and beside an
// artefact; on a caller's states, which begin with the file's values; and by a call.
func TestTorchStates(t *testing.T) {
	t.Run("states", func(t *testing.T) { testTorchStates(t, "testdata/torch/states", "mean", 0) })
	t.Run("inplace", func(t *testing.T) { testTorchStates(t, "testdata/torch/inplace", "cache", 3*4+4*8) })
}

// testTorchStates runs a file. constants is the bytes of its constants that the compiler computes: they lie in Go's
// heap, or in an artefact's bytes, and not in the ledger.
func testTorchStates(t *testing.T, file, state string, constants int64) {
	var want struct {
		Inputs []torchTensor
		Steps  []struct {
			Outputs []torchTensor
			States  map[string]torchTensor
		}
	}
	if err := json.Unmarshal(weirtest.Must[[]byte](t)(os.ReadFile(file+".json")), &want); err != nil {
		t.Fatal(err)
	}
	before := weir.Usage()
	for _, saved := range []bool{false, true} {
		m := weirtest.Must[*weir.Model](t)(weir.Load(file + ".pt2"))
		p := weirtest.Must[*weir.Program](t)(weir.Compile(t.Context(), m, weir.Options{Calls: 2}))
		if m.Close(); saved {
			var saved bytes.Buffer
			if _, err := p.WriteTo(&saved); err != nil {
				t.Fatal(err)
			}
			m := weirtest.Must[*weir.Model](t)(weir.LoadBytes(saved.Bytes()))
			q := weirtest.Must[*weir.Program](t)(weir.Compile(t.Context(), m, weir.Options{Calls: 2}))
			m.Close()
			p.Close()
			p = q
		}
		own, theirs, states := weir.Inputs{}, weir.Inputs{}, map[string]*weir.Tensor{}
		for i, info := range p.Inputs() {
			if info.Initial != (i >= 2) || info.Initial != (info.State != "") {
				t.Fatalf("input %d is %v", i, info)
			}
			if info.Initial {
				states[info.Name] = weirtest.Must[*weir.Tensor](t)(p.Initial(info.Name))
				theirs[info.Name] = weir.Update(states[info.Name])
				continue
			}
			own[info.Name] = want.Inputs[i].as(t, info.DType)
			theirs[info.Name] = own[info.Name]
		}
		if _, err := p.Initial("x"); !errors.Is(err, weir.ErrInput) {
			t.Errorf("a first value of x: %v", err)
		}
		step := func(k int, in weir.Inputs) {
			r := weirtest.Must[*weir.Results](t)(p.Run(t.Context(), in))
			defer r.Close()
			for i, out := range want.Steps[k].Outputs {
				out.equals(t, fmt.Sprint("step ", k, ", output ", i), r.At(i))
			}
			for name, x := range want.Steps[k].States {
				x.equals(t, fmt.Sprint("step ", k, ", ", name), r.Get(name+".new"))
			}
		}
		step(0, own)
		step(0, theirs) // begins again
		step(1, own)
		c := weirtest.Must[*weir.Call](t)(p.NewCall(weir.Dims{}))
		for name, x := range own {
			if err := c.Bind(name, x); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.Run(t.Context()); err != nil { // goes on after the runs
			t.Fatal(err)
		}
		want.Steps[2].States[state].equals(t, "a call's "+state, c.Output(state+".new"))
		c.Close()
		step(1, theirs)
		step(2, theirs)
		held := weir.Usage().Weights - before.Weights
		if predicted := weirtest.Must[int64](t)(p.Memory().Weights.At(nil)); held+constants != predicted {
			t.Errorf("%d bytes of states are held, and %d are constants; %d are predicted", held, constants, predicted)
		}
		for _, x := range states {
			x.Close()
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
	weir.Trim()
	if now := weir.Usage(); now.Current != before.Current {
		t.Errorf("held before %+v, after %+v", before, now)
	}
}

// TestTorchStatesLeftOut: a state whose new value is not an output of the run is read, and keeps its value.
func TestTorchStatesLeftOut(t *testing.T) {
	m := weirtest.Must[*weir.Model](t)(weir.Load("testdata/torch/states.pt2"))
	defer m.Close()
	p := weirtest.Must[*weir.Program](t)(weir.Compile(t.Context(), m, weir.Options{Outputs: []string{"sum_2"}}))
	defer p.Close()
	in := weir.Inputs{"x": weirtest.Must[*weir.Tensor](t)(weir.New(weir.F32, 3, 4)),
		"at": weirtest.Must[*weir.Tensor](t)(weir.New(weir.I64, 3))}
	for range 2 {
		r := weirtest.Must[*weir.Results](t)(p.Run(t.Context(), in))
		if got := weirtest.Copy[float32](t, r.At(0)); got[0] != 3 { // of the 5 rows, 2 are overwritten by zeros
			t.Error(got)
		}
		r.Close()
	}
}

// TestTorchStatesBudget: a budget includes the program's own states, and an error names a budget that works.
func TestTorchStatesBudget(t *testing.T) {
	m := weirtest.Must[*weir.Model](t)(weir.Load("testdata/torch/states.pt2"))
	defer m.Close()
	_, err := weir.Compile(t.Context(), m, weir.Options{Budget: 100})
	var e *weir.Error
	if !errors.As(err, &e) || !errors.Is(err, weir.ErrBudget) || !strings.Contains(e.Detail, "100 bytes") {
		t.Fatal(err)
	}
	p := weirtest.Must[*weir.Program](t)(weir.Compile(t.Context(), m, weir.Options{Budget: e.Budget}))
	defer p.Close()
	if peak := weirtest.Must[int64](t)(p.Memory().Max(1)); peak > e.Budget {
		t.Errorf("the peak is %d, the budget was %d", peak, e.Budget)
	}
	if _, err := weir.Compile(t.Context(), m, weir.Options{Budget: e.Budget - 1}); !errors.Is(err, weir.ErrBudget) {
		t.Error(err)
	}
}

// TestTorchDamaged changes bytes of files: each is read, or refused with a typed error that is not internal.
func TestTorchDamaged(t *testing.T) {
	files, _ := filepath.Glob("testdata/torch/*.pt2")
	r := rand.New(rand.NewSource(4))
	for _, file := range files {
		whole := weirtest.Must[[]byte](t)(os.ReadFile(file))
		for n := range 150 {
			data := bytes.Clone(whole)
			switch n % 4 {
			case 0: // a byte anywhere
				data[r.Intn(len(data))] ^= byte(1 << r.Intn(8))
			case 1: // a digit becomes another
				for range 20 {
					if at := r.Intn(len(data)); data[at] >= '0' && data[at] <= '9' {
						data[at] = '0' + byte(r.Intn(10))
					}
				}
			case 2: // it is cut short
				data = data[:r.Intn(len(data))]
			case 3: // a word of the graph becomes another
				words := []string{"as_tensor", "as_int", "p_", "aten.", "sizes", "strides", "weight_0", "user_input",
					"parameter",
					"view", "s77", "min_val", "as_graph", "cond", "while_loop", "scan", "buffer_mutation", "user_output"}
				from, to := words[r.Intn(len(words))], words[r.Intn(len(words))]
				data = bytes.Replace(data, []byte(from), []byte((to + strings.Repeat(" ", len(from)))[:len(from)]),
					1+r.Intn(5))
			}
			m, err := weir.LoadBytes(data)
			if err == nil {
				var p *weir.Program
				if p, err = weir.Compile(context.Background(), m, weir.Options{}); err == nil {
					p.Close()
				}
				m.Close()
			}
			if err != nil && (errors.Is(err, weir.ErrInternal) || !errors.Is(err, weir.ErrInput) &&
				!errors.Is(err, weir.ErrUnsupported) && !errors.Is(err, weir.ErrMemory)) {
				t.Errorf("%s, change %d: %v", file, n, err)
			}
		}
	}
	if held := weir.Usage(); held.Files != 0 {
		t.Errorf("%d bytes of files are held", held.Files)
	}
}
