package conformance

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// gathering is a module that adds rows of a table to its argument. The indices of the rows are a slice of a
// weight whose end a dimension gives, or elements of a weight that an argument chooses.
func gathering(how string) *trial {
	const rows, width, most = 64, 16, 200
	weight := func(dt dtype.DType, shape ...int64) *tensor.Tensor {
		t := tensor.Must(tensor.New(dt, shape...))
		for i := range t.Len() {
			t.SetInt(i, i*7%rows)
		}
		return t
	}
	build := func() (m *ir.Module, err error) {
		defer ir.Catch(&err)
		body := &ir.Block{}
		m = &ir.Module{Name: "gathering", Dims: sym.NewDims(), Main: &ir.Func{Name: "main", Body: body}}
		m.Funcs = []*ir.Func{m.Main}
		b := ir.NewBuilder(ir.NewInference(m), body)
		m.Dims.Set(sym.User("n"), sym.Range{Min: 0, Max: most})
		n := sym.Dim("n")
		x := b.Param("x", ir.Type{DType: dtype.F32, Shape: []sym.Expr{n, sym.Const(width)}})
		table := b.Constant("table", weight(dtype.F32, rows, width))
		ids := b.Constant("ids", weight(dtype.I64, most))
		if how == "chosen" {
			chosen := b.Param("chosen", ir.Type{DType: dtype.I64, Shape: []sym.Expr{n}})
			ids = b.Node("gather", ir.Attrs{}, ids, chosen).Outputs[0]
		} else {
			ids = ops.Slice(b, ids, []sym.Expr{sym.Const(0)}, []sym.Expr{n}, []int64{1})
		}
		y := b.Node("add", nil, x, b.Node("gather", ir.Attrs{}, table, ids).Outputs[0])
		body.Results = y.Outputs
		return m, ir.Verify(m)
	}
	args := []*tensor.Tensor{weight(dtype.F32, 40, width)}
	if how == "chosen" {
		args = append(args, weight(dtype.I64, 40))
	}
	return &trial{build: build, args: args}
}

// TestGatheredByWeights: tables whose rows weights choose fit every budget from nothing up, or the error names one that
// works.
func TestGatheredByWeights(t *testing.T) {
	for _, how := range []string{"slice", "chosen"} {
		x := gathering(how)
		if v, err := x.compare(t.Context(), configuration{within: true}); err != nil || v != equal {
			t.Errorf("%s: verdict %d, %v", how, v, err)
		}
		paged := false
		for share := int64(1); share <= 9; share++ {
			if err := x.at(t, share, func(p *weir.Program) {
				for _, s := range p.Savings() {
					paged = paged || s.Kind == "page"
				}
			}); err != nil {
				t.Errorf("%s, %d tenths: %v", how, share, err)
			}
		}
		if !paged {
			t.Errorf("%s: no weight is paged", how)
		}
	}
}

// at compiles the module within so many tenths of its peak, or within the budget that the refusal names, and compares
// the program's results with the reference, and its measured memory with the predicted bytes and the budget.
func (x *trial) at(t *testing.T, tenths int64, also func(p *weir.Program)) error {
	model, o, err := x.loaded()
	if err != nil {
		return err
	}
	defer model.Close()
	free, err := weir.Compile(t.Context(), model, o)
	if err != nil {
		return err
	}
	peak, err := free.Memory().Formula(1).Max()
	if err := errors.Join(err, free.Close()); err != nil {
		return err
	}
	o.Budget = max(1, peak*tenths/10)
	p, err := kept(t.Context(), model, &o)
	if err != nil {
		return err
	}
	defer p.Close()
	also(p)
	got, err := x.measured(t.Context(), p, o.Budget, false)
	if err != nil {
		return fmt.Errorf("a budget of %d: %w", o.Budget, err)
	}
	m, err := x.build()
	if err != nil {
		return err
	}
	want, scale, err := x.reference(m, 0)
	for i := range want {
		err = errors.Join(err, x.tolerant(got[i], want[i], scale))
	}
	return err
}

// TestNothingInPieces: a program in pieces that gets no rows measures the bytes that its formulas give for 0.
func TestNothingInPieces(t *testing.T) {
	const width, wide = 16, 512
	for _, rows := range []int64{0, 1, 33} {
		x := &trial{args: []*tensor.Tensor{tensor.Must(tensor.New(dtype.F32, rows, 4, width))}, build: func() (m *ir.Module,
			err error) {
			defer ir.Catch(&err)
			body := &ir.Block{}
			m = &ir.Module{Name: "pieces", Dims: sym.NewDims(), Main: &ir.Func{Name: "main", Body: body}}
			m.Funcs = []*ir.Func{m.Main}
			m.Dims.Set(sym.User("n"), sym.Range{Min: 0, Max: 100})
			b := ir.NewBuilder(ir.NewInference(m), body)
			v := b.Param("x", ir.Type{DType: dtype.F32, Shape: []sym.Expr{sym.Dim("n"), sym.Const(4), sym.Const(width)}})
			for i, shape := range [][]int64{{width, wide}, {wide, wide}, {wide, width}} {
				w := b.Constant(fmt.Sprintf("w%d", i), tensor.Must(tensor.New(dtype.F32, shape...)))
				v = b.Node("relu", nil, b.Node("matmul", nil, v, w).Outputs[0]).Outputs[0]
			}
			body.Results = []*ir.Value{v}
			return m, ir.Verify(m)
		}}
		pieces := false
		for _, tenths := range []int64{1, 3, 8, 9} {
			if err := x.at(t, tenths, func(p *weir.Program) {
				for _, s := range p.Savings() {
					pieces = pieces || s.Kind == "batch" || s.Kind == "chunk"
				}
			}); err != nil {
				t.Errorf("%d rows, %d tenths: %v", rows, tenths, err)
			}
		}
		if !pieces {
			t.Errorf("%d rows: nothing is computed in pieces", rows)
		}
	}
}

// embedder is a module that looks up tokens in a table, computes products of them, and returns the mean of the tokens
// of a sentence that a mask selects.
func embedder() *trial {
	const rows, width, wide, layers = 256, 32, 256, 6
	build := func() (m *ir.Module, err error) {
		defer ir.Catch(&err)
		body := &ir.Block{}
		m = &ir.Module{Name: "embedder", Dims: sym.NewDims(), Main: &ir.Func{Name: "main", Body: body}}
		m.Funcs = []*ir.Func{m.Main}
		m.Dims.Set(sym.User("b"), sym.Range{Min: 0, Max: 16})
		m.Dims.Set(sym.User("s"), sym.Range{Min: 1, Max: 32})
		b := ir.NewBuilder(ir.NewInference(m), body)
		shape := []sym.Expr{sym.Dim("b"), sym.Dim("s")}
		tokens := b.Param("tokens", ir.Type{DType: dtype.I64, Shape: shape})
		mask := b.Param("mask", ir.Type{DType: dtype.F32, Shape: append(slices.Clone(shape), sym.Const(1))})
		op := func(name string, in ...*ir.Value) *ir.Value { return b.Node(name, nil, in...).Outputs[0] }
		weight := func(name string, shape ...int64) *ir.Value {
			t := tensor.Must(tensor.New(dtype.F32, shape...))
			for i := range t.Len() {
				t.SetFloat(i, float64((i*7+int64(len(name)))%63-31)/256)
			}
			return b.Constant(name, t)
		}
		v := b.Node("gather", ir.Attrs{}, weight("table", rows, width), tokens).Outputs[0]
		for i := range layers {
			up := op("relu", op("matmul", v, weight(fmt.Sprintf("up%0*d", i+1, i), width, wide)))
			v = op("add", v, op("matmul", up, weight(fmt.Sprintf("down%0*d", i+1, i), wide, width)))
		}
		mean := func(v *ir.Value) *ir.Value {
			return b.Node("reduce_sum", ir.Attrs{"axes": []int64{1}, "keepdims": false}, v).Outputs[0]
		}
		body.Results = []*ir.Value{op("div", mean(op("mul", v, mask)), mean(mask))}
		return m, ir.Verify(m)
	}
	tokens, mask := tensor.Must(tensor.New(dtype.I64, 3, 5)), tensor.Must(tensor.New(dtype.F32, 3, 5, 1))
	for i := range tokens.Len() {
		tokens.SetInt(i, i*31%rows)
		mask.SetFloat(i, float64(1-i%5/3))
	}
	return &trial{build: build, args: []*tensor.Tensor{tokens, mask}}
}

// TestEmbedderInPieces: a model whose weights and values both exceed a budget is computed in pieces of its batch, and
// each piece reads the weights from their file, entirely if the code cannot be cut along them.
func TestEmbedderInPieces(t *testing.T) {
	for _, cpu := range []string{"portable", weir.HostProcessor().CPU} {
		for tenths := int64(1); tenths <= 9; tenths += 2 {
			kinds, x := map[string]int{}, embedder()
			x.cpu = cpu
			if err := x.at(t, tenths, func(p *weir.Program) {
				for _, s := range p.Savings() {
					kinds[s.Kind]++
				}
			}); err != nil {
				t.Errorf("%s, %d tenths: %v", cpu, tenths, err)
			}
			if tenths == 1 && (kinds["batch"] != 1 || kinds["page"] < 6) {
				t.Errorf("%s, a tenth: the savings are of the kinds %v", cpu, kinds)
			}
		}
	}
}

// TestStatedIsGranted: the bytes that the certificate of a program for all sizes states for some of them are granted as
// a budget for these, and kept, also where code for one size is larger.
func TestStatedIsGranted(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "..", "testdata", "memory", "proved", "*.weir"))
	if err != nil || len(files) == 0 {
		t.Fatal(err, len(files))
	}
	files = append(files, "../../examples/digits/data/digits.onnx")
	tried := 0
	for _, file := range files {
		m, err := weir.Load(file)
		if err != nil {
			t.Fatal(err)
		}
		free, err := weir.Compile(t.Context(), m, weir.Options{Threads: 1})
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for _, size := range []int64{1, 2, 7, 16} {
			at, o := weir.Dims{}, weir.Options{Threads: 1, Dims: map[string]weir.Range{}}
			for _, d := range free.Dims() {
				at[d.Name], o.Dims[d.Name] = size, weir.Range{Min: size, Max: size}
			}
			if o.Budget, err = free.Memory().Peak(1, at); err != nil || len(at) == 0 {
				continue // not a size of this model
			}
			p, err := weir.Compile(t.Context(), m, o)
			if err != nil {
				t.Errorf("%s at %d: %d bytes are stated: %v", filepath.Base(file), size, o.Budget, err)
				continue
			}
			tried++
			if peak, err := p.Memory().Peak(1, at); err != nil || peak > o.Budget {
				t.Errorf("%s at %d: a peak of %d within %d: %v", filepath.Base(file), size, peak, o.Budget, err)
			}
			for name := range at {
				if err := p.Check(weir.Dims{name: size + 1}); err == nil {
					t.Errorf("%s for %s = %d takes %d", filepath.Base(file), name, size, size+1)
				}
			}
			p.Close()
		}
		free.Close()
		m.Close()
	}
	if tried < 40 {
		t.Errorf("only %d programs were compiled within a stated peak", tried)
	}
}
