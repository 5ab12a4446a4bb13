package weirtest

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/importer/onnx/wire"
)

// Stored reads an argument from a file of ONNX's test data.
func Stored(t testing.TB, path string, info weir.Info) weir.Arg {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	sequence := info.Kind == weir.SequenceKind || info.Kind == weir.OptionalSequenceKind
	v, err := wire.ParseValue(text, sequence, info.Kind >= weir.OptionalKind)
	if err != nil {
		t.Fatal(err)
	}
	var list []*weir.Tensor
	for _, from := range v.Tensors {
		shape := make([]int, from.Rank())
		for i, s := range from.Shape() {
			shape[i] = int(s)
		}
		if from.DType() == weir.StringType {
			list = append(list, Must[*weir.Tensor](t)(weir.FromSlice(from.Strings(), shape...)))
			continue
		}
		to := Must[*weir.Tensor](t)(weir.New(from.DType(), shape...))
		t.Cleanup(func() { to.Close() })
		copy(to.Bytes(), from.Bytes())
		list = append(list, to)
	}
	switch {
	case v.Absent:
		return weir.Absent
	case sequence:
		return weir.Sequence(list...)
	}
	return list[0]
}

// Contents returns output i as a string of its types, shapes and elements.
func Contents(t testing.TB, r *weir.Results, i int, info weir.Info) string {
	t.Helper()
	list := append(r.Sequence(info.Name), r.At(i))
	text := fmt.Sprint(r.Sequence(info.Name) == nil, len(list))
	for _, x := range list {
		switch {
		case x == nil:
			text += " nothing"
		case x.DType() == weir.StringType:
			text += fmt.Sprintf(" %s %q", x, Copy[string](t, x))
		default:
			text += fmt.Sprintf(" %s %x", x, x.Bytes())
		}
	}
	return text
}

// Smallest returns the smallest budget that works, from the error of a budget that does not.
func Smallest(t *testing.T, m *weir.Model, o weir.Options) (bytes int64) {
	o.Budget = 1
	_, err := weir.Compile(t.Context(), m, o)
	var e *weir.Error
	if !errors.As(err, &e) || !errors.Is(err, weir.ErrBudget) {
		t.Fatalf("a budget of one byte: %v", err)
	}
	if _, err := fmt.Sscanf(e.Fix, "a budget of %d bytes works", &bytes); err != nil {
		t.Fatalf("it does not say what works: %q", e.Fix)
	}
	return bytes
}

// SameResults reports whether results are equal to the bit or, if a batch is computed in pieces, up to the order of its
// sums.
func SameResults(got, want [][]float32, savings []weir.Saving) bool {
	sums := slices.ContainsFunc(savings, func(s weir.Saving) bool { return s.Kind == "batch" })
	return slices.EqualFunc(got, want, func(x, y []float32) bool {
		return slices.EqualFunc(x, y, func(a, b float32) bool {
			return math.Float32bits(a) == math.Float32bits(b) || sums && math.Abs(float64(a-b)) <= 1e-5*max(1,
				math.Abs(float64(b)))
		})
	})
}

// Random returns inputs for a model of floats and indices, all of whose free dimensions are n, and a function that
// closes them.
func Random(t *testing.T, m *weir.Model, n int64) (weir.Inputs, func()) {
	r := rand.New(rand.NewPCG(1, 2))
	in := weir.Inputs{}
	var made []*weir.Tensor
	for _, info := range m.Inputs() {
		var shape []int
		for _, e := range info.Shape {
			size := e.Size
			if e.Dim != "" {
				size = n
			}
			shape = append(shape, int(size))
		}
		x, err := weir.New(info.DType, shape...)
		if err != nil {
			t.Fatal(err)
		}
		made = append(made, x)
		in[info.Name] = x
		if info.DType == weir.I64 { // indices, into more than a hundred rows
			list, err := weir.View[int64](x)
			if err != nil {
				t.Fatal(err)
			}
			for i := range list {
				list[i] = r.Int64N(200) - 100
			}
			continue
		}
		data, err := weir.View[float32](x)
		if err != nil {
			t.Fatal(err)
		}
		for i := range data {
			data[i] = float32(r.NormFloat64()) / 2
		}
	}
	return in, func() {
		for _, x := range made {
			x.Close()
		}
	}
}

// Filled returns a tensor of its own memory with small numbers in it.
func Filled(t *testing.T, shape ...int) *weir.Tensor {
	t.Helper()
	x, err := weir.New(weir.F32, shape...)
	if err != nil {
		t.Fatal(err)
	}
	data, err := weir.View[float32](x)
	if err != nil {
		t.Fatal(err)
	}
	for i := range data {
		data[i] = float32(i%7)/8 - 0.4
	}
	return x
}

// Tensors returns inputs for a program by name, with small numbers in them. They are closed when the test ends, or
// earlier by the caller.
func Tensors(t *testing.T, p *weir.Program, dims weir.Dims, random *rand.Rand) map[string]*weir.Tensor {
	t.Helper()
	out := map[string]*weir.Tensor{}
	for _, info := range p.Inputs() {
		var shape []int
		for _, e := range info.Shape {
			if e.Dim != "" {
				e.Size = dims[e.Dim]
			}
			shape = append(shape, int(e.Size))
		}
		x, err := weir.New(info.DType, shape...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { x.Close() })
		if data, err := weir.View[float32](x); err == nil {
			for i := range data {
				data[i] = random.Float32() - 0.5
			}
		} else if info.DType == weir.Bool {
			x.Bytes()[0] = byte(random.IntN(2))
		}
		out[info.Name] = x
	}
	return out
}

// Arguments returns tensors as a program's inputs, with states as Update.
func Arguments(p *weir.Program, tensors map[string]*weir.Tensor) weir.Inputs {
	in := weir.Inputs{}
	for _, info := range p.Inputs() {
		if in[info.Name] = tensors[info.Name]; info.State != "" {
			in[info.Name] = weir.Update(tensors[info.Name])
		}
	}
	return in
}

// Sure returns a number of bytes that cannot fail.
func Sure(bytes int64, err error) int64 {
	if err != nil {
		panic(err)
	}
	return bytes
}

// OfProgram returns those dimensions of a binding that a program has.
func OfProgram(p *weir.Program, d weir.Dims) weir.Dims {
	own := weir.Dims{}
	for _, dim := range slices.Concat(p.Dims(), p.Decided()) {
		if v, ok := d[dim.Name]; ok {
			own[dim.Name] = v
		}
	}
	return own
}

// View returns a view of a tensor's elements.
func View[T weir.Element](t testing.TB, x *weir.Tensor) []T {
	t.Helper()
	return Must[[]T](t)(weir.View[T](x))
}

// Copy returns a copy of a tensor's elements.
func Copy[T weir.Element](t testing.TB, x *weir.Tensor) []T {
	t.Helper()
	return Must[[]T](t)(weir.Copy[T](x))
}
