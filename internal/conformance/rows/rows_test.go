// Package rows tests the proof that rows of a dimension do not depend on each other.
package rows

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/tensor"
	"github.com/weirml/weir/internal/weirtest"
)

func TestMain(m *testing.M) { weirtest.Main(m) }

// batch is the size of an axis of a drawn value that is the batch; −k stands for k batches.
const batch = 0

// drawn is a value of a random network: a name and a shape.
type drawn struct {
	name  string
	shape []int
}

// network draws a random network over x[b, 4, 6] and y[b, 4].
type network struct {
	r      *rand.Rand
	graph  *wire.GraphProto
	values []drawn // of f32
}

func newNetwork(seed uint64) *network {
	b := &wire.Dimension{Param: "b"}
	n := &network{r: rand.New(rand.NewPCG(seed, 7)), graph: &wire.GraphProto{Name: "rows", Input: []*wire.ValueInfoProto{
		wire.TensorValue("x", wire.DataTypeOf(weir.F32), b, wire.Size(4), wire.Size(6)),
		wire.TensorValue("y", wire.DataTypeOf(weir.F32), b, wire.Size(4))}}}
	n.values = []drawn{{"x", []int{batch, 4, 6}}, {"y", []int{batch, 4}}}
	return n
}

// constant adds an initializer of random floats.
func (n *network) constant(shape ...int) string {
	count, sizes := 1, []int64{}
	for _, s := range shape {
		count, sizes = count*s, append(sizes, int64(s))
	}
	data := make([]float32, count)
	for i := range data {
		data[i] = n.r.Float32()*2 - 1
	}
	return n.initial(wire.FromTensor("", tensor.Must(tensor.FromSlice(data, sizes...))))
}

// integers adds an initializer of these numbers; without a rank it is a scalar.
func (n *network) integers(scalar bool, list ...int) string {
	data := make([]int64, len(list))
	for i, v := range list {
		data[i] = int64(v)
	}
	shape := []int64{int64(len(list))}
	if scalar {
		shape = nil
	}
	return n.initial(wire.FromTensor("", tensor.Must(tensor.FromSlice(data, shape...))))
}

func (n *network) initial(t *wire.TensorProto) string {
	t.Name = fmt.Sprintf("c%d", len(n.graph.Initializer))
	n.graph.Initializer = append(n.graph.Initializer, t)
	return t.Name
}

// op adds a node with one result.
func (n *network) op(op string, in []string, attrs ...*wire.AttributeProto) string {
	name := fmt.Sprintf("v%d", len(n.graph.Node))
	n.graph.Node = append(n.graph.Node, &wire.NodeProto{OpType: op, Name: name, Input: in, Output: []string{name},
		Attribute: attrs})
	return name
}

func ints(name string, list ...int) *wire.AttributeProto {
	var out []int64
	for _, v := range list {
		out = append(out, int64(v))
	}
	return wire.IntsAttribute(name, out...)
}

func number(name string, v int) *wire.AttributeProto { return wire.IntAttribute(name, int64(v)) }

// spelled returns a shape as Reshape takes it, if at most one axis depends on the batch.
func (n *network) spelled(shape []int) (string, bool) {
	list, open := slices.Clone(shape), 0
	for i, s := range list {
		if s <= 0 {
			list[i], open = -1, open+1
		}
	}
	return n.integers(false, list...), open <= 1
}

// kinds are the random operators; each returns false if it does not fit the value.
var kinds = []func(n *network, v drawn) (drawn, bool){
	func(n *network, v drawn) (drawn, bool) { // elements
		return drawn{n.op([]string{"Relu", "Tanh", "Abs", "Neg", "Sigmoid"}[n.r.IntN(5)], []string{v.name}), v.shape}, true
	},
	func(n *network, v drawn) (drawn, bool) { // with another value, broadcast
		w := n.values[n.r.IntN(len(n.values))]
		for i := range w.shape {
			at := len(v.shape) - len(w.shape) + i
			if at < 0 || w.shape[i] != v.shape[at] && w.shape[i] != 1 {
				return v, false
			}
		}
		return drawn{n.op([]string{"Add", "Mul", "Sub", "Max"}[n.r.IntN(4)], []string{v.name, w.name}), v.shape}, true
	},
	func(n *network, v drawn) (drawn, bool) { // with a constant along the last axis
		last := v.shape[len(v.shape)-1]
		if last <= 0 {
			return v, false
		}
		return drawn{n.op("Add", []string{v.name, n.constant(last)}), v.shape}, true
	},
	func(n *network, v drawn) (drawn, bool) { // a product with weights
		last := len(v.shape) - 1
		if len(v.shape) < 2 || v.shape[last] <= 0 {
			return v, false
		}
		shape := append(slices.Clone(v.shape[:last]), 3+n.r.IntN(3))
		return drawn{n.op("MatMul", []string{v.name, n.constant(v.shape[last], shape[last])}), shape}, true
	},
	func(n *network, v drawn) (drawn, bool) { // a product with itself, of matrices or of the batch
		if len(v.shape) < 2 {
			return v, false
		}
		perm, shape := []int{}, slices.Clone(v.shape)
		for i := range v.shape {
			perm = append(perm, i)
		}
		last := len(perm) - 1
		perm[last], perm[last-1] = last-1, last
		turned := n.op("Transpose", []string{v.name}, ints("perm", perm...))
		shape[last-1] = v.shape[last]
		shape[last] = v.shape[last]
		return drawn{n.op("MatMul", []string{turned, v.name}), shape}, true
	},
	func(n *network, v drawn) (drawn, bool) { // axes turned
		perm := n.r.Perm(len(v.shape))
		shape := make([]int, len(perm))
		for i, p := range perm {
			shape[i] = v.shape[p]
		}
		return drawn{n.op("Transpose", []string{v.name}, ints("perm", perm...)), shape}, true
	},
	func(n *network, v drawn) (drawn, bool) { // two adjacent axes joined
		if len(v.shape) < 2 {
			return v, false
		}
		at := n.r.IntN(len(v.shape) - 1)
		a, b := v.shape[at], v.shape[at+1]
		if a <= 0 && b <= 0 {
			return v, false
		}
		joined := a * b
		switch {
		case a == batch:
			joined = -b
		case b == batch:
			joined = -a
		}
		if joined == -1 {
			joined = batch
		}
		shape := append(append(slices.Clone(v.shape[:at]), joined), v.shape[at+2:]...)
		to, ok := n.spelled(shape)
		return drawn{n.op("Reshape", []string{v.name, to}), shape}, ok
	},
	func(n *network, v drawn) (drawn, bool) { // an axis split, the batch's part first or last
		at := n.r.IntN(len(v.shape))
		size, shape := v.shape[at], []int(nil)
		switch {
		case size > 1 && size%2 == 0:
			shape = []int{2, size / 2}
		case size < -1:
			if shape = []int{batch, -size}; n.r.IntN(2) == 0 {
				shape = []int{-size, batch}
			}
		default:
			return v, false
		}
		shape = append(append(slices.Clone(v.shape[:at]), shape...), v.shape[at+1:]...)
		to, ok := n.spelled(shape)
		return drawn{n.op("Reshape", []string{v.name, to}), shape}, ok && len(shape) < 6
	},
	func(n *network, v drawn) (drawn, bool) { // an axis reduced, and kept with extent 1
		at := n.r.IntN(len(v.shape))
		shape := slices.Clone(v.shape)
		shape[at] = 1
		op := []string{"ReduceSum", "ReduceMean", "ReduceMax", "ReduceL2"}[n.r.IntN(4)]
		return drawn{n.op(op, []string{v.name, n.integers(false, at)}), shape}, true
	},
	func(n *network, v drawn) (drawn, bool) { // along an axis
		at := n.r.IntN(len(v.shape))
		op := []string{"Softmax", "LogSoftmax", "Hardmax"}[n.r.IntN(3)]
		return drawn{n.op(op, []string{v.name}, number("axis", at)), v.shape}, true
	},
	func(n *network, v drawn) (drawn, bool) { // sums along an axis
		return drawn{n.op("CumSum", []string{v.name, n.integers(true, n.r.IntN(len(v.shape)))}), v.shape}, true
	},
	func(n *network, v drawn) (drawn, bool) { // joined with itself
		at := n.r.IntN(len(v.shape))
		shape := slices.Clone(v.shape)
		if shape[at] *= 2; v.shape[at] == batch {
			shape[at] = -2
		}
		return drawn{n.op("Concat", []string{v.name, v.name}, number("axis", at)), shape}, true
	},
	func(n *network, v drawn) (drawn, bool) { // constant indices
		at := n.r.IntN(len(v.shape))
		shape := slices.Clone(v.shape)
		shape[at] = 2
		return drawn{n.op("Gather", []string{v.name, n.integers(false, 0, -1)}, number("axis", at)), shape}, true
	},
	func(n *network, v drawn) (drawn, bool) { // a slice that may keep or turn the batch
		at := n.r.IntN(len(v.shape))
		from, to, step, shape := 0, math.MaxInt32, 1, slices.Clone(v.shape)
		switch {
		case v.shape[at] > 1:
			from, shape[at] = 1, v.shape[at]-1
		case v.shape[at] == batch && n.r.IntN(2) == 0:
			from, to, step = -1, math.MinInt32, -1
		}
		return drawn{n.op("Slice", []string{v.name, n.integers(false, from), n.integers(false, to), n.integers(false, at),
			n.integers(false, step)}), shape}, true
	},
	func(n *network, v drawn) (drawn, bool) { // padding along an axis that is a number
		at := n.r.IntN(len(v.shape))
		if v.shape[at] <= 0 {
			return v, false
		}
		pads := make([]int, 2*len(v.shape))
		pads[at], pads[len(v.shape)+at] = 1, 1
		shape := slices.Clone(v.shape)
		shape[at] += 2
		return drawn{n.op("Pad", []string{v.name, n.integers(false, pads...)}), shape}, true
	},
	func(n *network, v drawn) (drawn, bool) { // a row lost, then padded again: rows move by one
		at := slices.Index(v.shape, batch)
		if at < 0 {
			return v, false
		}
		cut := n.op("Slice", []string{v.name, n.integers(false, 1), n.integers(false, math.MaxInt32), n.integers(false, at)})
		pads := make([]int, 2*len(v.shape))
		pads[len(v.shape)*n.r.IntN(2)+at] = 1
		return drawn{n.op("Pad", []string{cut, n.integers(false, pads...)}), v.shape}, true
	},
	func(n *network, v drawn) (drawn, bool) { // the batch's size, or a number, as a factor
		size := n.op("Shape", []string{v.name})
		one := n.op("Gather", []string{size, n.integers(true, n.r.IntN(len(v.shape)))})
		factor := n.op("Cast", []string{one}, number("to", int(wire.DataTypeOf(weir.F32))))
		return drawn{n.op("Div", []string{v.name, factor}), v.shape}, true
	},
	func(n *network, v drawn) (drawn, bool) { // positions along an axis, added
		at := len(v.shape) - 1
		if n.r.IntN(2) == 0 {
			at = n.r.IntN(len(v.shape))
		}
		size := n.op("Gather", []string{n.op("Shape", []string{v.name}), n.integers(true, at)})
		list := n.op("Range", []string{n.integers(true, 0), size, n.integers(true, 1)})
		floats := n.op("Cast", []string{list}, number("to", int(wire.DataTypeOf(weir.F32))))
		var axes []int
		for i := at + 1; i < len(v.shape); i++ {
			axes = append(axes, i-at)
		}
		if axes != nil {
			floats = n.op("Unsqueeze", []string{floats, n.integers(false, axes...)})
		}
		return drawn{n.op("Add", []string{v.name, floats}), v.shape}, true
	},
	func(n *network, v drawn) (drawn, bool) { // each row of all, or another row, by an index that is computed
		if len(v.shape) != 2 || v.shape[0] != batch || v.shape[1] <= 0 {
			return v, false
		}
		size := v.shape[1]
		flat := n.op("Reshape", []string{v.name, n.integers(false, -1)})
		rows := n.op("Gather", []string{n.op("Shape", []string{v.name}), n.integers(true, 0)})
		numbers := n.op("Range", []string{n.integers(true, 0), rows, n.integers(true, 1)})
		places := n.op("Range", []string{n.integers(true, 0), n.integers(true, size), n.integers(true, 1)})
		step := size
		if n.r.IntN(3) == 0 {
			step-- // some indices are those of the row before
		}
		first := n.op("Mul", []string{n.op("Unsqueeze", []string{numbers, n.integers(false, 1)}), n.integers(true, step)})
		return drawn{n.op("Gather", []string{flat, n.op("Add", []string{first, places})}), v.shape}, true
	},
	func(n *network, v drawn) (drawn, bool) { // the largest along an axis
		at := n.r.IntN(len(v.shape))
		best := n.op("ArgMax", []string{v.name}, number("axis", at), number("keepdims", 1))
		shape := slices.Clone(v.shape)
		shape[at] = 1
		return drawn{n.op("Cast", []string{best}, number("to", int(wire.DataTypeOf(weir.F32)))), shape}, true
	},
	func(n *network, v drawn) (drawn, bool) { // the first of a sorted axis
		at := n.r.IntN(len(v.shape))
		if v.shape[at] < 2 && v.shape[at] != batch {
			return v, false
		}
		shape := slices.Clone(v.shape)
		shape[at] = 1
		top := n.op("TopK", []string{v.name, n.integers(false, 1)}, number("axis", at))
		n.graph.Node[len(n.graph.Node)-1].Output = []string{top, top + "i"}
		return drawn{top, shape}, true
	},
	func(n *network, v drawn) (drawn, bool) { // a convolution
		if len(v.shape) != 3 || v.shape[1] <= 0 || v.shape[2] <= 0 {
			return v, false
		}
		return drawn{n.op("Conv", []string{v.name, n.constant(3, v.shape[1], 3)}, ints("pads", 1, 1)),
			[]int{v.shape[0], 3, v.shape[2]}}, true
	},
	func(n *network, v drawn) (drawn, bool) { // batch norm, perhaps with the batch's own statistics
		if len(v.shape) < 2 || v.shape[1] <= 0 {
			return v, false
		}
		in := []string{v.name}
		for range 3 {
			in = append(in, n.constant(v.shape[1]))
		}
		in = append(in, n.op("Abs", []string{n.constant(v.shape[1])}))
		train := n.r.IntN(2)
		out := n.op("BatchNormalization", in, number("training_mode", train))
		if train > 0 {
			n.graph.Node[len(n.graph.Node)-1].Output = []string{out, out + "m", out + "v"}
		}
		return drawn{out, v.shape}, true
	},
	func(n *network, v drawn) (drawn, bool) { // a layer normalised, from some axis on
		at := n.r.IntN(len(v.shape))
		last := v.shape[len(v.shape)-1]
		if last <= 0 {
			return v, false
		}
		return drawn{n.op("LayerNormalization", []string{v.name, n.constant(last)}, number("axis", at)), v.shape}, true
	},
	func(n *network, v drawn) (drawn, bool) { // a recurrent layer over the first axis
		if len(v.shape) != 3 || v.shape[2] <= 0 {
			return v, false
		}
		y := n.op("LSTM", []string{v.name, n.constant(1, 8, v.shape[2]), n.constant(1, 8, 2)}, number("hidden_size", 2))
		return drawn{n.op("Squeeze", []string{y, n.integers(false, 1)}), []int{v.shape[0], v.shape[1], 2}}, true
	},
	func(n *network, v drawn) (drawn, bool) { // values repeated along an axis of extent 1, or along the batch
		at := slices.Index(v.shape, 1)
		if at < 0 || !slices.Contains(n.values[0].shape, batch) {
			return v, false
		}
		size := n.op("Shape", []string{n.values[0].name}, number("start", 0), number("end", 1))
		list := []string{}
		for i := range v.shape {
			if i == at {
				list = append(list, size)
			} else {
				list = append(list, n.integers(false, 1))
			}
		}
		shape := slices.Clone(v.shape)
		shape[at] = batch
		to := n.op("Concat", list, number("axis", 0))
		return drawn{n.op("Expand", []string{v.name, to}), shape}, true
	},
	func(n *network, v drawn) (drawn, bool) { // elements by the value's own sign
		return drawn{n.op("Where", []string{n.op("Less", []string{v.name, n.constant()}), v.name,
			n.op("Neg", []string{v.name})}), v.shape}, true
	},
	func(n *network, v drawn) (drawn, bool) { // noise of one seed
		return drawn{n.op("Add", []string{v.name, n.op("RandomNormalLike", []string{v.name},
			wire.FloatAttribute("seed", 3))}), v.shape}, true
	},
	func(n *network, v drawn) (drawn, bool) { // bytes with a common scale of the batch, or a fixed one
		if n.r.IntN(2) == 0 {
			q := n.op("DynamicQuantizeLinear", []string{v.name})
			n.graph.Node[len(n.graph.Node)-1].Output = []string{q, q + "s", q + "z"}
			return drawn{n.op("DequantizeLinear", []string{q, q + "s", q + "z"}), v.shape}, true
		}
		scale := n.op("Abs", []string{n.constant()})
		q := n.op("QuantizeLinear", []string{v.name, scale})
		return drawn{n.op("DequantizeLinear", []string{q, scale}), v.shape}, true
	},
	func(n *network, v drawn) (drawn, bool) { // an element of each row, by the greatest
		axis := n.r.IntN(len(v.shape))
		if v.shape[axis] <= 0 {
			return v, false
		}
		shape := slices.Clone(v.shape)
		at := n.op("ArgMax", []string{v.name}, number("axis", axis), number("keepdims", 1))
		shape[axis] = 1
		return drawn{n.op("GatherElements", []string{v.name, at}, number("axis", axis)), shape}, true
	},
	func(n *network, v drawn) (drawn, bool) { // rows repeated
		at := n.r.IntN(len(v.shape))
		repeats := slices.Repeat([]int{1}, len(v.shape))
		repeats[at] = 2
		shape := slices.Clone(v.shape)
		if shape[at] *= 2; v.shape[at] == batch {
			shape[at] = -2
		}
		return drawn{n.op("Tile", []string{v.name, n.integers(false, repeats...)}), shape}, true
	},
	func(n *network, v drawn) (drawn, bool) { // a branch that a value of the batch, or a constant, decides
		cond := n.op("Less", []string{n.constant(1), n.constant(1)})
		if n.r.IntN(2) == 0 {
			sum := n.op("ReduceMax", []string{v.name}, number("keepdims", 0))
			cond = n.op("Less", []string{sum, n.constant()})
		}
		branch := func(name, op string) *wire.AttributeProto {
			out := fmt.Sprintf("%s%d", name, len(n.graph.Node))
			return &wire.AttributeProto{Name: name, Type: wire.AttributeGraph, G: &wire.GraphProto{Name: name,
				Node:   []*wire.NodeProto{{OpType: op, Name: out, Input: []string{v.name}, Output: []string{out}}},
				Output: []*wire.ValueInfoProto{{Name: out}}}}
		}
		return drawn{n.op("If", []string{cond}, branch("then_branch", "Abs"), branch("else_branch", "Neg")), v.shape}, true
	},
}

// grow adds random nodes, and returns the model; nil if no value has the batch first.
func (n *network) grow(nodes int) *wire.ModelProto {
	for tries := 0; len(n.values) < 2+nodes && tries < 20*nodes; tries++ {
		v := n.values[n.r.IntN(len(n.values))]
		if n.r.IntN(2) == 0 {
			v = n.values[len(n.values)-1]
		}
		nodes, initial := len(n.graph.Node), len(n.graph.Initializer)
		next, ok := kinds[n.r.IntN(len(kinds))](n, v)
		if !ok {
			n.graph.Node, n.graph.Initializer = n.graph.Node[:nodes], n.graph.Initializer[:initial]
			continue
		}
		n.values = append(n.values, next)
	}
	for i := len(n.values) - 1; i > 1; i-- {
		if v := n.values[i]; v.shape[0] == batch {
			n.graph.Output = []*wire.ValueInfoProto{{Name: v.name}}
			return &wire.ModelProto{IRVersion: 10, OpsetImport: []*wire.OperatorSetIDProto{{Version: 21}}, Graph: n.graph}
		}
	}
	return nil
}

// trial is one network's verdict beside what runs show.
type trial struct{ proved, differs bool }

// try compiles a network, and compares each row with itself among other rows; ok is false if it does not compile.
func try(t *testing.T, seed uint64) (found trial, ok bool) {
	n := newNetwork(seed)
	proto := n.grow(1 + int(seed%6))
	if proto == nil {
		return found, false
	}
	m, err := weir.LoadBytes(proto.Marshal())
	if err != nil {
		return found, false
	}
	defer m.Close()
	p, err := weir.Compile(t.Context(), m, weir.Options{Threads: 1})
	if err != nil {
		return found, false
	}
	defer p.Close()
	verdict := p.Rows("b")
	if found.proved = verdict == nil; !found.proved && !errors.Is(verdict, weir.ErrUnsupported) {
		t.Errorf("network %d: %v", seed, verdict)
	}
	r := rand.New(rand.NewPCG(seed, 11))
	own := [2][]float32{random(r, 24), random(r, 4)}
	alone := run(p, own, 1, 0, nil)
	for range 8 {
		rows := 1 + r.IntN(9)
		at := r.IntN(rows)
		got := run(p, own, rows, at, r)
		if alone == nil { // a run of one row is refused: compare with the first one that is not
			alone = got
		}
		if got != nil && !same(alone, got) {
			found.differs = true
		}
	}
	if found.proved && found.differs {
		t.Errorf("network %d is proved, and its rows depend on each other:\n%s", seed, text(proto))
	}
	return found, alone != nil
}

// text lists a network's nodes.
func text(m *wire.ModelProto) string {
	var b bytes.Buffer
	for _, n := range m.Graph.Node {
		fmt.Fprintf(&b, "%s %v -> %v", n.OpType, n.Input, n.Output)
		for _, a := range n.Attribute {
			fmt.Fprintf(&b, " %s=%d%v", a.Name, a.I, a.Ints)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func random(r *rand.Rand, count int) []float32 {
	list := make([]float32, count)
	for i := range list {
		list[i] = float32(r.NormFloat64())
	}
	return list
}

// run returns the row at an index of a run on so many rows, of which the others are random, large or not numbers; nil
// if the run is refused.
func run(p *weir.Program, own [2][]float32, rows, at int, r *rand.Rand) []float32 {
	in := weir.Inputs{}
	for i, shape := range [][]int{{rows, 4, 6}, {rows, 4}} {
		var data []float32
		for k := range rows {
			switch {
			case k == at:
				data = append(data, own[i]...)
			case r.IntN(3) == 0:
				x := []float32{float32(math.NaN()), 1e30, -1e30, float32(math.Inf(1))}[r.IntN(4)]
				data = append(data, slices.Repeat([]float32{x}, len(own[i]))...)
			default:
				data = append(data, random(r, len(own[i]))...)
			}
		}
		x, err := weir.FromSlice(data, shape...)
		if err != nil {
			return nil
		}
		in[string("xy"[i])] = x
	}
	results, err := p.Run(context.Background(), in)
	if err != nil {
		return nil
	}
	defer results.Close()
	y, err := weir.Copy[float32](results.At(0))
	if err != nil || len(y)%rows != 0 {
		return nil
	}
	each := len(y) / rows
	return y[at*each : (at+1)*each]
}

// same compares floats of one row. Sums may add up in another order.
func same(a, b []float32) bool {
	return slices.EqualFunc(a, b, func(a, b float32) bool {
		x, y := float64(a), float64(b)
		return x == y || math.IsNaN(x) && math.IsNaN(y) || math.Abs(x-y) <= 1e-3*max(1, math.Abs(x))
	})
}

// TestRandomNetworks draws networks: no network is proved whose rows depend on each other.
func TestRandomNetworks(t *testing.T) {
	count := weirtest.Trials(1500, 250)
	if v, err := strconv.Atoi(os.Getenv("WEIR_ROWS")); err == nil {
		count = v
	}
	first, _ := strconv.Atoi(os.Getenv("WEIR_ROWS_FIRST"))
	var compiled, proved, independent int
	for seed := range count {
		found, ok := try(t, uint64(first+seed))
		if !ok {
			continue
		}
		compiled++
		if found.proved {
			proved++
		}
		if !found.differs {
			independent++
		}
	}
	t.Logf("%d of %d networks compiled: %d proved, %d whose rows did not differ", compiled, count, proved, independent)
	if compiled < count/2 || proved*2 < independent {
		t.Errorf("%d of %d compiled, %d proved of %d: the test tries too little", compiled, count, proved, independent)
	}
}
