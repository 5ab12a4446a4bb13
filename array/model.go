package array

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/importer/onnx"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/tensor"
)

// Model is an ONNX model as a function of arrays, in which arrays can replace the weights. It lives in Go's memory and
// need not be closed. Several goroutines may use it.
type Model struct {
	of      *onnx.Model
	inputs  []Spec
	weights []Weight
	id      string
}

// ModelOptions are settings for reading an ONNX model; the zero value reads it unchanged.
type ModelOptions struct {
	// Outputs are the values to compute: any values of the model's nodes, for example those of the second last layer.
	// Nodes that they do not need are removed. nil: the model's outputs.
	Outputs []string
	// Inputs replace the declarations of inputs, by name: for example, a batch that the file fixes to 1 can get a name.
	// A node that depends on the number in the file is an error, or still uses it: a Reshape to [1, -1] makes one row
	// of the entire batch.
	Inputs []Spec
	// Scalars makes floats of rank 0 weights. Otherwise they are constants, as most of them are numbers in formulas.
	Scalars bool
	// Untie makes the output of an Identity of an initializer a separate weight, with the output's name. PyTorch's
	// older exporter writes parameters with equal elements once, even if only their initial elements are equal.
	Untie bool
}

// Weight is an initializer of an ONNX model that an array can replace.
type Weight struct {
	Name  string
	DType weir.DType // F64 if the file has F64, else F32
	Shape []int
	from  *tensor.Tensor
}

var models atomic.Int64

// ReadONNX reads the model at a path, with the external data beside it.
func ReadONNX(path string, o ModelOptions) (m *Model, err error) {
	defer diag.Recover(&err, "reading a model")
	of, err := onnx.ReadAll(path)
	if err == nil {
		m, err = modelOf(of, o)
	}
	if err != nil {
		return nil, diag.As(err, weir.ErrInput).AtFile(path)
	}
	return m, nil
}

// ParseONNX reads a model from memory, which it keeps. The model has no external data.
func ParseONNX(data []byte, o ModelOptions) (m *Model, err error) {
	defer diag.Recover(&err, "reading a model")
	of, err := onnx.Parse(data)
	if err != nil {
		return nil, err
	}
	return modelOf(of, o)
}

// modelOf applies options to a model that was read.
func modelOf(of *onnx.Model, o ModelOptions) (*Model, error) {
	m := &Model{of: of, id: fmt.Sprint(models.Add(1))}
	of.Hoist()
	if o.Untie {
		of.Untie()
	}
	if o.Outputs != nil {
		if err := of.Until(o.Outputs); err != nil {
			return nil, err
		}
	}
	for _, spec := range o.Inputs {
		shape, err := newTrace("inputs").exprs(spec.Shape)
		if err == nil {
			err = of.Redeclare(spec.Name, ir.Type{DType: spec.DType, Shape: shape})
		}
		if err != nil {
			return nil, diag.As(err, weir.ErrInput).AtTensor(spec.Name)
		}
	}
	list, err := of.Weights(o.Scalars)
	if err != nil {
		return nil, err
	}
	for _, w := range list {
		m.weights = append(m.weights, weightOf(w))
	}
	for _, p := range of.Inputs {
		m.inputs = append(m.inputs, specOf(p))
	}
	return m, nil
}

// weightOf returns a weight of a file; floats narrower than f32 are trained as f32.
func weightOf(from onnx.Weight) Weight {
	w := Weight{Name: from.Name, DType: from.DType(), Shape: make([]int, len(from.Shape())), from: from.Tensor}
	if narrow(w.DType) {
		w.DType = weir.F32
	}
	for i, e := range from.Shape() {
		w.Shape[i] = int(e)
	}
	return w
}

// specOf returns an input's spec as the model declares it.
func specOf(p onnx.Port) Spec {
	spec := Spec{Name: p.Name, DType: p.Type.DType}
	for _, e := range p.Type.Shape {
		if n, ok := e.Const(); ok {
			spec.Shape = append(spec.Shape, weir.Extent{Size: n})
		} else {
			spec.Shape = append(spec.Shape, weir.Extent{Size: -1, Dim: e.String()})
		}
	}
	return spec
}

// Inputs returns the specs of the model's inputs.
func (m *Model) Inputs() []Spec { return slices.Clone(m.inputs) }

// Outputs returns the names of the model's outputs.
func (m *Model) Outputs() (names []string) {
	for _, o := range m.of.Outputs {
		names = append(names, o.Name)
	}
	return names
}

// Values returns the names of all values that the model's nodes compute, in the order of the file. ModelOptions.Outputs
// may name them.
func (m *Model) Values() []string { return m.of.Values() }

// Weights returns the initializers that can be trained: floats that a derivative reaches, also in branches and bodies
// of loops, if their name is unique. Initializers that are settings of operators are not weights, such as running
// statistics of a BatchNormalization, bounds of a Clip and scales of quantised values; nor are running statistics in
// files written by nn.WriteONNX, and values of Constant nodes.
func (m *Model) Weights() []Weight { return slices.Clone(m.weights) }

// Elements returns a copy of a weight's elements in the file, converted to DType.
func (w Weight) Elements() (*weir.Tensor, error) {
	if w.DType == weir.F64 {
		return elementsOf[float64](w)
	}
	return elementsOf[float32](w)
}

// elementsOf returns a weight's elements as a tensor of T.
func elementsOf[T float32 | float64](w Weight) (*weir.Tensor, error) {
	list, data := make([]T, w.from.Len()), w.from.Bytes()
	for i := range list {
		list[i] = T(dtype.LoadFloat(w.from.DType(), data, int64(i)))
	}
	return weir.FromSlice(list, w.Shape...)
}

// Apply computes the model's outputs from its inputs, in a trace too. Arrays in weights, of the types that Weights
// returns, replace the weights of these names; the others are as in the file. The inputs have the types that the model
// declares.
//
// Weights and inputs of F32 may be given in BF16. If a weight is, the model's matrix products and convolutions of F32
// round their operands to BF16 and accumulate in F32; all other nodes compute as in the file.
//
// A BatchNormalization uses its running statistics, and does not change them, unless the model was exported for
// training.
func (m *Model) Apply(s *Scope, weights map[string]*Array, x ...*Array) []*Array {
	if len(x) != len(m.inputs) {
		s.failAt("model", diag.Inputf("%d inputs are given, the model takes %s", len(x), m.signature()))
		return s.none(len(m.of.Outputs))
	}
	in, given, key := slices.Clone(x), []Weight(nil), strings.Builder{}
	for _, w := range m.weights {
		if a := weights[w.Name]; a != nil {
			in, given = append(in, a), append(given, w)
			fmt.Fprintf(&key, "%q", w.Name)
		}
	}
	if err := m.unknown(weights); err != nil {
		s.failAt("model", err)
		return s.none(len(m.of.Outputs))
	}
	o := operation{name: "model", text: m.id + key.String(), located: true}
	o.build = func(b *ir.Builder, v []*ir.Value) []*ir.Value { return m.build(b, given, v) }
	return s.many(o, len(m.of.Outputs), s.typed(in)...)
}

// unknown returns an error if an array is given for a name that is not a weight's.
func (m *Model) unknown(weights map[string]*Array) error {
	for name := range weights {
		if !slices.ContainsFunc(m.weights, func(w Weight) bool { return w.Name == name }) {
			return diag.Inputf("an array is given for %q, which is no weight of the model", name).AtTensor(name).
				WithFix("Weights lists them")
		}
	}
	return nil
}

// signature returns the names and types of the model's inputs.
func (m *Model) signature() string {
	var list []string
	for _, p := range m.of.Inputs {
		list = append(list, fmt.Sprintf("%s %v", p.Name, p.Type))
	}
	return strings.Join(list, ", ")
}

// build builds the model from its inputs and the given weights.
func (m *Model) build(b *ir.Builder, given []Weight, v []*ir.Value) []*ir.Value {
	by, narrow := map[string]*ir.Value{}, false
	for i, in := range m.inputs {
		by[in.Name] = widened(b, v[i], in.DType)
	}
	for i, w := range given {
		x := widened(b, v[len(m.inputs)+i], w.DType)
		narrow = narrow || x != v[len(m.inputs)+i]
		if want := (ir.Type{DType: w.DType, Shape: ir.Constants(w.from.Shape())}); x.Type.String() != want.String() {
			b.Fail(diag.Inputf("%v is given, and the weight is %v", x.Type, want).AtTensor(w.Name))
		}
		by[w.Name] = ops.Cast(b, x, w.from.DType())
	}
	if narrow {
		b.Instead = productOfBF16
		defer func() { b.Instead = nil }()
	}
	out, err := m.of.Into(b, by)
	if err != nil {
		b.Fail(err)
	}
	return out
}

// widened converts a bf16 value to f32 if the model declares f32.
func widened(b *ir.Builder, x *ir.Value, want weir.DType) *ir.Value {
	if want == weir.F32 && x.Type.DType == weir.BF16 {
		return ops.Cast(b, x, weir.F32)
	}
	return x
}

// productOfBF16 builds a matrix product or a convolution of f32 with operands rounded to bf16; nil for other operators.
func productOfBF16(b *ir.Builder, op string, attrs ir.Attrs, in []*ir.Value) *ir.Value {
	product := op == "matmul" || op == "convolution"
	if !product && op != "convolution_transpose" || in[0].Type.DType != weir.F32 || in[1].Type.DType != weir.F32 {
		return nil
	}
	rounded := []*ir.Value{ops.Cast(b, in[0], weir.BF16), ops.Cast(b, in[1], weir.BF16)}
	if !product { // its result has its operands' type
		if len(in) > 2 && in[2] != nil {
			rounded = append(rounded, ops.Cast(b, in[2], weir.BF16))
		}
		return ops.Cast(b, b.Op(op, attrs, rounded...), weir.F32)
	}
	attrs = maps.Clone(attrs)
	if attrs == nil {
		attrs = ir.Attrs{}
	}
	attrs["dtype"] = weir.F32
	return b.Op(op, attrs, append(rounded, in[2:]...)...)
}

// WriteONNX writes the model's file, with the elements of arrays, of the types that Weights returns, in place of
// weights. Data of external files are included.
func (m *Model) WriteONNX(w io.Writer, weights map[string]*Array) (err error) {
	defer diag.Recover(&err, "writing a model")
	if err := m.unknown(weights); err != nil {
		return err
	}
	fresh := map[string]*tensor.Tensor{}
	for _, of := range m.weights {
		if a := weights[of.Name]; a != nil {
			if fresh[of.Name], err = of.narrowed(a); err != nil {
				return diag.As(err, weir.ErrInput).AtTensor(of.Name)
			}
		}
	}
	return m.of.WriteWith(w, func(name string) *tensor.Tensor { return fresh[name] })
}

// narrowed returns an array's elements in the file's element type.
func (w Weight) narrowed(a *Array) (*tensor.Tensor, error) {
	from, err := a.elements()
	if err != nil {
		return nil, err
	}
	if a.dtype != w.DType || !slices.Equal(a.shape, w.Shape) {
		return nil, diag.Inputf("%v is given, and the weight is %v of shape %v", a, w.DType, w.Shape)
	}
	if w.DType == w.from.DType() {
		return tensor.Over(w.DType, w.from.Shape(), from.Bytes())
	}
	t, err := tensor.New(w.from.DType(), w.from.Shape()...)
	for i := int64(0); err == nil && i < int64(a.Len()); i++ {
		dtype.StoreFloat(t.DType(), t.Bytes(), i, dtype.LoadFloat(a.dtype, from.Bytes(), i))
	}
	return t, err
}
