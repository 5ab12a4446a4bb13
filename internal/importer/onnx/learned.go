package onnx

import (
	"slices"

	"github.com/weirml/weir/internal/importer/onnx/convert"
	"github.com/weirml/weir/internal/importer/onnx/wire"
)

// all stands for every input of an operator.
const all = -1

// settings has the inputs that configure an operator. A value that is read as a setting is not learned, even if other
// nodes read it as well.
var settings = map[string][]int{
	"BatchNormalization": {3, 4}, "Clip": {1, 2}, "Dropout": {1, 2}, "Pad": {1, 2, 3}, "Pow": {1}, "Range": {all},
	"OneHot": {all}, "Resize": {1, 2, 3}, "Upsample": {1}, "STFT": {1, 2, 3}, "RoiAlign": {1, 2},
	"MaxRoiPool": {1}, "AffineGrid": {1}, "NonMaxSuppression": {all}, "MelWeightMatrix": {all}, "Gradient": {all},
	"Adam": {all}, "Adagrad": {all}, "Momentum": {all}, "QuantizeLinear": {1, 2}, "DequantizeLinear": {1, 2},
	"QLinearConv": {all}, "QLinearMatMul": {all}, "QLinearAdd": {all}, "QLinearMul": {all},
	"QLinearSigmoid": {all}, "QLinearAveragePool": {all}, "QLinearGlobalAveragePool": {all},
	"QLinearConcat": {all}, "QLinearSoftmax": {all}, "QLinearLeakyRelu": {all}, "QGemm": {all},
	"QAttention": {all}, "MatMulNBits": {1, 2, 3, 4}, "DynamicQuantizeMatMul": {all},
	"MatMulIntegerToFloat": {all}, "DynamicQuantizeLSTM": {all}, "GatherBlockQuantized": {all},
}

// opaque has the operators that block derivatives.
var opaque = map[string]bool{
	"Shape": true, "Size": true, "NonZero": true, "ArgMax": true, "ArgMin": true, "Hardmax": true, "Round": true,
	"Floor": true, "Ceil": true, "Sign": true, "IsNaN": true, "IsInf": true, "Equal": true, "Less": true,
	"LessOrEqual": true, "Greater": true, "GreaterOrEqual": true, "Not": true, "QuantizeLinear": true,
	"DynamicQuantizeLinear": true,
}

// passing has the operators whose results are settings if their operands are: a setting may pass through them.
var passing = map[string]bool{
	"Identity": true, "Cast": true, "Reshape": true, "Squeeze": true, "Unsqueeze": true, "Flatten": true,
	"Transpose": true, "Expand": true, "Slice": true, "Split": true, "Gather": true, "Concat": true,
	"CastLike": true,
}

// use has the values on which a graph's outputs depend: learned if a derivative reaches them, set if they are settings.
type use struct{ learned, set map[string]bool }

// learned returns a function that reports whether an initializer is reached by a derivative and never read as a
// setting.
func (m *Model) learned() func(name string) bool {
	var outputs []string
	for _, o := range m.Outputs {
		outputs = append(outputs, o.Name)
	}
	u := m.useOf(m.Proto.Graph.Node, outputs, map[*wire.FunctionProto]*use{})
	return func(name string) bool { return u.learned[name] && !u.set[name] }
}

// useOf finds the use of a graph's values, from its outputs backwards; done has the functions that were already walked.
func (m *Model) useOf(nodes []*wire.NodeProto, outputs []string, done map[*wire.FunctionProto]*use) *use {
	u := &use{learned: map[string]bool{}, set: map[string]bool{}}
	by := makers(nodes)
	var learned, set []string
	visit := func(n *wire.NodeProto) { m.readBy(n, done, &learned, &set) }
	seen := map[*wire.NodeProto]bool{}
	for learned = slices.Clone(outputs); len(learned) > 0; {
		name := learned[len(learned)-1]
		learned = learned[:len(learned)-1]
		u.learned[name] = true
		if n := by[name]; n != nil && !seen[n] {
			seen[n] = true
			visit(n)
		}
	}
	for len(set) > 0 {
		name := set[len(set)-1]
		if set = set[:len(set)-1]; u.set[name] {
			continue
		}
		u.set[name] = true
		if n := by[name]; n != nil && passing[n.OpType] {
			set = append(set, n.Input...)
		}
	}
	return u
}

// readBy appends the names that a node reads to learned or to set. Names that are read within branches and bodies count
// as learned, unless they are read there as a setting.
func (m *Model) readBy(n *wire.NodeProto, done map[*wire.FunctionProto]*use, learned, set *[]string) {
	inner := (*use)(nil)
	f := m.Functions[convert.FunctionKey(n.Domain, n.OpType, n.Overload)]
	if f != nil {
		if inner = done[f]; inner == nil {
			done[f] = &use{} // for a function that calls itself, which is refused later
			done[f] = m.useOf(f.Node, f.Output, done)
			inner = done[f]
		}
	}
	list, through := settings[n.OpType], !opaque[n.OpType] && (n.OpType != "Cast" || toFloat(n))
	for i, name := range n.Input {
		switch {
		case f != nil && i < len(f.Input):
			if inner.learned[f.Input[i]] {
				*learned = append(*learned, name)
			}
			if inner.set[f.Input[i]] {
				*set = append(*set, name)
			}
		case f == nil && (slices.Contains(list, all) || slices.Contains(list, i)):
			*set = append(*set, name)
		case f != nil || through:
			*learned = append(*learned, name)
		}
	}
	for _, a := range n.Attribute {
		for _, body := range append(a.Graphs[:len(a.Graphs):len(a.Graphs)], a.G) {
			if body != nil {
				m.readIn(body, done, learned, set)
			}
		}
	}
}

// readIn is readBy for all nodes and outputs of a body.
func (m *Model) readIn(body *wire.GraphProto, done map[*wire.FunctionProto]*use, learned, set *[]string) {
	for _, n := range body.Node {
		m.readBy(n, done, learned, set)
	}
	for _, o := range body.Output {
		*learned = append(*learned, o.Name)
	}
}

// toFloat reports whether a Cast is to floats.
func toFloat(n *wire.NodeProto) bool {
	for _, a := range n.Attribute {
		if a.Name == "to" {
			dt, ok := wire.DataType(a.I).DType()
			return ok && dt.IsFloat()
		}
	}
	return true
}
