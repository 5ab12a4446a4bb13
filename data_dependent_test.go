package weir

import (
	"bytes"
	"context"
	"errors"
	"math"
	"runtime"
	"slices"
	"testing"

	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/tensor"
)

// counting returns a model of squares, y = r² + r for r = 0, 1, … below its input limit, whose number no declared size
// bounds. With branches, r goes twice as far if the limit is below 10.
func counting(t testing.TB, branches bool) *Model {
	t.Helper()
	number := func(name string, v float32) *wire.TensorProto { return wire.FromTensor(name, tensor.Scalar(v)) }
	g := &wire.GraphProto{Name: "counting", Initializer: []*wire.TensorProto{number("zero", 0), number("one", 1),
		number("ten", 10), number("two", 2)},
		Input:  []*wire.ValueInfoProto{wire.TensorValue("limit", wire.DataTypeOf(F32), wire.Size(1))},
		Output: []*wire.ValueInfoProto{wire.TensorValue("y", wire.DataTypeOf(F32), &wire.Dimension{Param: "n"})}}
	upTo := func(name, limit string) *wire.NodeProto {
		return &wire.NodeProto{OpType: "Range", Name: name, Input: []string{"zero", limit, "one"}, Output: []string{name}}
	}
	branch := func(name string, nodes ...*wire.NodeProto) *wire.AttributeProto {
		kind := wire.AttributeGraph
		return &wire.AttributeProto{Name: name, Type: kind, G: &wire.GraphProto{Name: name, Node: nodes,
			Output: []*wire.ValueInfoProto{wire.TensorValue(nodes[len(nodes)-1].Name, wire.DataTypeOf(F32),
				&wire.Dimension{Param: "m"})}}}
	}
	if branches {
		g.Node = append(g.Node, &wire.NodeProto{OpType: "Less", Name: "small", Input: []string{"limit", "ten"},
			Output: []string{"small"}},
			&wire.NodeProto{OpType: "If", Name: "r", Input: []string{"small"}, Output: []string{"r"},
				Attribute: []*wire.AttributeProto{
					branch("then_branch", &wire.NodeProto{OpType: "Mul", Name: "twice", Input: []string{"limit", "two"},
						Output: []string{"twice"}}, upTo("far", "twice")),
					branch("else_branch", upTo("near", "limit"))}})
	} else {
		g.Node = append(g.Node, upTo("r", "limit"))
	}
	g.Node = append(g.Node, &wire.NodeProto{OpType: "Mul", Name: "s", Input: []string{"r", "r"}, Output: []string{"s"}},
		&wire.NodeProto{OpType: "Add", Name: "y", Input: []string{"s", "r"}, Output: []string{"y"}})
	m := &wire.ModelProto{IRVersion: 8, OpsetImport: []*wire.OperatorSetIDProto{{Version: 17}}, Graph: g}
	model, err := LoadBytes(m.Marshal())
	if err != nil {
		t.Fatal(err)
	}
	return model
}

// countTo returns inputs with a limit.
func countTo(t testing.TB, limit float32) Inputs {
	x, err := FromSlice([]float32{limit})
	if err != nil {
		t.Fatal(err)
	}
	return Inputs{"limit": x}
}

// runCounting runs the model and checks its count elements.
func runCounting(t testing.TB, p *Program, limit float32, count int) {
	t.Helper()
	r, err := p.Run(context.Background(), countTo(t, limit))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	got, err := Copy[float32](r.At(0))
	if err != nil || len(got) != count {
		t.Fatalf("up to %v there are %d elements, want %d (%v)", limit, len(got), count, err)
	}
	for i, v := range got {
		if want := float32(i)*float32(i) + float32(i); v != want {
			t.Fatalf("element %d is %v, want %v", i, v, want)
		}
	}
}

// TestDataDependent runs a model whose sizes nothing bounds, with more and fewer elements than before, from the model
// and from its artefact, and compares the bytes of a run with the certificate at the observed sizes.
func TestDataDependent(t *testing.T) {
	for _, branches := range []bool{false, true} {
		before := mem.Usage().All
		m := counting(t, branches)
		p, err := Compile(t.Context(), m, Options{Threads: 2})
		if err != nil {
			t.Fatal(err)
		}
		var file bytes.Buffer
		if _, err := p.WriteTo(&file); err != nil {
			t.Fatal(err)
		}
		loaded, err := LoadBytes(file.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		q, err := Compile(t.Context(), loaded, Options{Threads: 2})
		if err != nil {
			t.Fatal(err)
		}
		if p.Memory().Formula(1).String() != q.Memory().Formula(1).String() {
			t.Errorf("the formula is %s, the artefact's %s", p.Memory().Formula(1), q.Memory().Formula(1))
		}
		if len(p.Decided()) == 0 || len(p.Memory().DataDependent.Dims()) == 0 {
			t.Fatalf("nothing is decided by data in %s", p.Memory())
		}
		if _, err := p.Memory().Peak(1, nil); err == nil {
			t.Error("the certificate has a value before data have decided")
		}
		for _, p := range []*Program{p, q} {
			for _, limit := range []float32{5, 1000, 3, 0, 20000, 12} {
				count := int(limit)
				if branches && limit < 10 {
					count *= 2
				}
				runCounting(t, p, limit, count)
				seen, err := p.Measure(t.Context(), countTo(t, limit))
				if err != nil {
					t.Fatal(err)
				}
				predicted, err := p.Memory().Peak(1, seen.Decided)
				if err != nil {
					t.Fatal(err)
				}
				with, err := p.Memory().PeakWith(1, nil, seen)
				if err != nil {
					t.Fatal(err)
				}
				if got := seen.Peak(1); got != with || got > predicted || !branches && got != predicted {
					t.Errorf("up to %v: measured %d, predicted %d, with observed values %d", limit, got, predicted, with)
				}
			}
			if err := p.Close(); err != nil {
				t.Fatal(err)
			}
		}
		m.Close()
		loaded.Close()
		if after := mem.Usage().All; after != before {
			t.Errorf("%d bytes are held when all is closed", after-before)
		}
	}
}

// TestDataDependentRefused runs with more elements than the budget or any machine allows: the typed error names the
// tensor and the node that decided its size, and the next run works.
func TestDataDependentRefused(t *testing.T) {
	m := counting(t, false)
	defer m.Close()
	free, err := Compile(t.Context(), m, Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer free.Close()
	least, err := free.Memory().before(1).Max()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Compile(t.Context(), m, Options{Threads: 1, Budget: least - 1}); !errors.Is(err, ErrBudget) {
		t.Errorf("a budget below what every run takes: %v", err)
	}
	tight, err := Compile(t.Context(), m, Options{Threads: 1, Budget: least + 1<<16})
	if err != nil {
		t.Fatal(err)
	}
	defer tight.Close()
	for _, c := range []struct {
		p     *Program
		limit float32
		kind  error
	}{{tight, 1e6, ErrBudget}, {free, 1e15, ErrMemory}, {free, float32(math.Inf(1)), ErrInput},
		{free, float32(math.NaN()), nil}} {
		r, err := c.p.Run(t.Context(), countTo(t, c.limit))
		if c.kind == nil {
			if err == nil {
				r.Close()
			}
			continue // a limit that is not a count: any error, but no crash
		}
		var e *Error
		if !errors.As(err, &e) || !errors.Is(err, c.kind) && !(errors.Is(c.kind, ErrInput) && errors.Is(err, ErrMemory)) {
			t.Fatalf("up to %v: %v", c.limit, err)
		}
		if !errors.Is(err, ErrInput) && (e.Tensor == "" || e.Dim == "") {
			t.Errorf("up to %v: %v names tensor %q and dimension %q", c.limit, err, e.Tensor, e.Dim)
		}
		runCounting(t, c.p, 7, 7)
	}
}

// TestDataDependentAccounts refuses each taking of memory of a larger run in turn: the call accounts for the bytes that
// it holds, and the next run works.
func TestDataDependentAccounts(t *testing.T) {
	m := counting(t, true)
	defer m.Close()
	p, err := Compile(t.Context(), m, Options{Threads: 2, Budget: 1 << 26})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for k, refused := int64(1), true; refused; k++ {
		c, err := p.NewCall(nil)
		if err != nil {
			t.Fatal(err)
		}
		base := mem.Usage().All
		for i, limit := range []float32{100, 5000, 8, 6000} {
			if err := c.Bind("limit", countTo(t, limit)["limit"]); err != nil {
				t.Fatal(err)
			}
			if i == 1 {
				faults := mem.Fail(k, k)
				err = c.Run(t.Context())
				faults.Restore()
				if refused = faults.Refused(mem.Pages) > 0; refused != errors.Is(err, ErrMemory) {
					t.Errorf("taking %d: %v", k, err)
				}
			} else if err := c.Run(t.Context()); err != nil {
				t.Error(err)
			}
			if holds := mem.Usage().All - base; p.session.Taken() != holds {
				t.Errorf("taking %d, then up to %v: the call holds %d bytes and says %d", k, limit, holds, p.session.Taken())
			}
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := p.session.CloseIdle(); err != nil {
			t.Fatal(err)
		}
		if p.session.Taken() != 0 {
			t.Errorf("%d bytes are taken by no call", p.session.Taken())
		}
	}
}

// TestDataDependentSteady runs a call again and again: the next run uses the memory that an earlier one took.
func TestDataDependentSteady(t *testing.T) {
	m := counting(t, false)
	defer m.Close()
	p, err := Compile(t.Context(), m, Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	c, err := p.NewCall(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if out := c.Output("y"); out != nil {
		t.Errorf("%s is there before any run", out)
	}
	if err := c.Bind("limit", countTo(t, 300)["limit"]); err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	if err := c.Run(ctx); err != nil {
		t.Fatal(err)
	}
	held := mem.Usage().All
	if runtime.GOARCH != "wasm" {
		if n := testing.AllocsPerRun(20, func() {
			if err := c.Run(ctx); err != nil {
				t.Fatal(err)
			}
		}); n > 0 {
			t.Errorf("%v allocations a run", n)
		}
	}
	if now := mem.Usage().All; now != held {
		t.Errorf("the call holds %d bytes, and %d after more runs", held, now)
	}
	got, err := Copy[float32](c.Output("y"))
	if err != nil || len(got) != 300 || !slices.IsSorted(got) {
		t.Errorf("%d elements (%v)", len(got), err)
	}
}
