package conformancetest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/tensor"
)

// RandomModel is a valid random ONNX model of a seed, with arguments for it. Its graph has named and fixed extents,
// zero among them, views of views, products, reductions, windows, branches and loops.
type RandomModel struct {
	Seed   uint64
	Model  *wire.ModelProto
	Inputs []*tensor.Tensor
	// Error is, for each output, the relative error of one operation in the coarsest type that it depends on; 0 if the
	// output must be equal to the bit.
	Error []float64
}

// extent is a size, and the name of the dimension if it is not fixed. Derived dimensions have names of their own.
type extent struct {
	size int64
	name string
}

// drawn is a value of the graph under construction.
type drawn struct {
	name  string
	dt    dtype.DType
	shape []extent
	eps   float64 // 0: the same bits on every target
}

// drawing is a graph under construction. The bodies of If and Loop have their own, which see the outer values.
type drawing struct {
	*rand.Rand
	graph  *wire.GraphProto
	values []drawn
	count  *int
}

// Random draws a model.
func Random(seed uint64) *RandomModel {
	d := &drawing{Rand: rand.New(rand.NewPCG(seed, 7)), graph: &wire.GraphProto{Name: "random"}, count: new(int)}
	m := &RandomModel{Seed: seed}
	named := []extent{{d.size(), "n"}, {d.size(), "k"}}
	for range 1 + d.IntN(3) {
		m.Inputs = append(m.Inputs, d.input(named))
	}
	for range 2 + d.IntN(12) {
		d.grow()
	}
	taken := map[string]bool{}
	for i := range 1 + d.IntN(4) {
		v := d.values[len(d.values)-1]
		if i > 0 {
			v = d.any()
		}
		if taken[v.name] {
			v = d.add("Identity", v.dt, v.shape, v.eps, []drawn{v})
		}
		taken[v.name] = true
		d.output(v)
		m.Error = append(m.Error, v.eps)
	}
	m.Model = &wire.ModelProto{IRVersion: 10, OpsetImport: []*wire.OperatorSetIDProto{{Version: 21}}, Graph: d.graph}
	return m
}

// size draws an extent from 0 to 33.
func (d *drawing) size() int64 {
	return [...]int64{0, 1, 2, 3, 4, 5, 7, 8, 16, 17, 33}[d.IntN(11)]
}

// fresh returns a new name that begins with hint.
func (d *drawing) fresh(hint string) string {
	*d.count++
	return fmt.Sprintf("%s%d", hint, *d.count)
}

func (d *drawing) any() drawn { return d.values[d.IntN(len(d.values))] }

// pick returns a random value that satisfies ok.
func (d *drawing) pick(ok func(drawn) bool) (drawn, bool) {
	var all []drawn
	for _, v := range d.values {
		if ok(v) {
			all = append(all, v)
		}
	}
	if len(all) == 0 {
		return drawn{}, false
	}
	return all[len(all)-1-min(d.IntN(len(all)), d.IntN(len(all)))], true
}

var drawnTypes = []dtype.DType{dtype.F32, dtype.F32, dtype.F32, dtype.F32, dtype.F64, dtype.F16, dtype.I64, dtype.I32,
	dtype.U8, dtype.Bool}

// input adds an input with named or fixed extents, and returns its argument.
func (d *drawing) input(named []extent) *tensor.Tensor {
	v := drawn{name: d.fresh("in"), dt: drawnTypes[d.IntN(len(drawnTypes))]}
	var dims []*wire.Dimension
	for range d.IntN(5) {
		e := extent{size: 1 + d.Int64N(6)}
		switch d.IntN(8) {
		case 0, 1, 2:
			e = named[d.IntN(2)]
		case 3:
			e = extent{size: d.size()}
		}
		if elements(append(v.shape, e)) > 20000 {
			break
		}
		v.shape = append(v.shape, e)
		if e.name == "" {
			dims = append(dims, wire.Size(e.size))
		} else {
			dims = append(dims, wire.Dim(e.name))
		}
	}
	d.graph.Input = append(d.graph.Input, wire.TensorValue(v.name, wire.DataTypeOf(v.dt), dims...))
	d.values = append(d.values, v)
	return d.filled(v.dt, sizesOf(v.shape), d.IntN(20) == 0)
}

// filled draws elements; if special, some may be NaN or infinite.
func (d *drawing) filled(dt dtype.DType, shape []int64, special bool) *tensor.Tensor {
	t := tensor.Must(tensor.New(dt, shape...))
	for i := range t.Len() {
		switch {
		case dt == dtype.Bool:
			t.SetInt(i, d.Int64N(2))
		case dt.IsInt():
			t.SetInt(i, d.Int64N(20)-8)
		case special && d.IntN(6) == 0:
			t.SetFloat(i, [...]float64{math.NaN(), math.Inf(1), math.Inf(-1), math.Copysign(0, -1)}[d.IntN(4)])
		default:
			t.SetFloat(i, d.NormFloat64())
		}
	}
	return t
}

// constant adds an initializer.
func (d *drawing) constant(t *tensor.Tensor) drawn {
	v := drawn{name: d.fresh("c"), dt: t.DType()}
	for _, s := range t.Shape() {
		v.shape = append(v.shape, extent{size: s})
	}
	d.graph.Initializer = append(d.graph.Initializer, wire.FromTensor(v.name, t))
	return v
}

func (d *drawing) ints(values ...int64) drawn { return d.constant(tensor.Of(values...)) }

// add appends a node, and its output to the values.
func (d *drawing) add(op string, dt dtype.DType, shape []extent, eps float64, inputs []drawn,
	attributes ...*wire.AttributeProto) drawn {
	v := drawn{d.fresh("v"), dt, shape, eps}
	n := &wire.NodeProto{OpType: op, Name: v.name, Output: []string{v.name}, Attribute: attributes}
	for _, in := range inputs {
		n.Input = append(n.Input, in.name)
	}
	d.graph.Node = append(d.graph.Node, n)
	d.values = append(d.values, v)
	return v
}

// output makes v an output of the graph.
func (d *drawing) output(v drawn) {
	dims := make([]*wire.Dimension, len(v.shape))
	for i := range dims {
		dims[i] = &wire.Dimension{}
	}
	d.graph.Output = append(d.graph.Output, wire.TensorValue(v.name, wire.DataTypeOf(v.dt), dims...))
}

// sizesOf returns the extents of a shape.
func sizesOf(shape []extent) []int64 {
	out := make([]int64, len(shape))
	for i, e := range shape {
		out[i] = e.size
	}
	return out
}

// elements returns the number of elements of a shape.
func elements(shape []extent) int64 {
	n := int64(1)
	for _, e := range shape {
		n *= e.size
	}
	return n
}

// epsilonOf returns the relative error of one operation in a type.
func epsilonOf(dt dtype.DType) float64 {
	return map[dtype.DType]float64{dtype.F16: 1.0 / 1024, dtype.F32: 1e-6, dtype.F64: 1e-13}[dt]
}

// rounded returns the error of an operation on these values.
func rounded(dt dtype.DType, inputs ...drawn) float64 {
	eps := epsilonOf(dt)
	for _, v := range inputs {
		eps = max(eps, v.eps)
	}
	return eps
}

// Text returns the graph in lines, for messages.
func (m *RandomModel) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d\n", m.Seed)
	for i, t := range m.Inputs {
		fmt.Fprintf(&b, "input %s = %s%v\n", m.Model.Graph.Input[i].Name, t.DType(), t.Shape())
	}
	writeGraph(&b, m.Model.Graph, "")
	return b.String()
}

// writeGraph appends the nodes of g and of its bodies, a line each.
func writeGraph(b *strings.Builder, g *wire.GraphProto, indent string) {
	for _, t := range g.Initializer {
		value, _, err := t.Tensor()
		if err != nil {
			continue
		}
		fmt.Fprintf(b, "%s%s = %s%v", indent, t.Name, value.DType(), value.Shape())
		for i := range min(value.Len(), 8) {
			fmt.Fprintf(b, " %s", value.Format(i))
		}
		fmt.Fprintln(b)
	}
	for _, n := range g.Node {
		fmt.Fprintf(b, "%s%s = %s(%s)", indent, strings.Join(n.Output, ", "), n.OpType, strings.Join(n.Input, ", "))
		for _, a := range n.Attribute {
			if a.G == nil {
				fmt.Fprintf(b, " %s=%v%v%v", a.Name, a.I, a.Ints, a.F)
				continue
			}
			fmt.Fprintf(b, "\n%s  %s:\n", indent, a.Name)
			for _, in := range a.G.Input {
				fmt.Fprintf(b, "%s    input %s\n", indent, in.Name)
			}
			writeGraph(b, a.G, indent+"    ")
		}
		fmt.Fprintln(b)
	}
	for _, o := range g.Output {
		fmt.Fprintf(b, "%soutput %s\n", indent, o.Name)
	}
}
