package conformance

import (
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"testing"

	"github.com/weirml/weir/internal/compiler"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/importer/onnx"
	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// spelling writes a model in one of two ways: with ONNX's operators for its layers or, as exporters of older versions
// do, with these spelled out as several nodes.
type spelling struct {
	graph *wire.GraphProto
	fused bool
	rand  *rand.Rand
	count int
}

func newSpelling(fused bool) *spelling {
	return &spelling{graph: &wire.GraphProto{Name: "spelled"}, fused: fused, rand: rand.New(rand.NewPCG(5, 5))}
}

// node adds an operator with one result.
func (s *spelling) node(op string, in []string, attributes ...*wire.AttributeProto) string {
	s.count++
	out := fmt.Sprintf("t%d", s.count)
	s.graph.Node = append(s.graph.Node, &wire.NodeProto{OpType: op, Name: out, Input: in, Output: []string{out},
		Attribute: attributes})
	return out
}

func (s *spelling) input(name string, dims ...*wire.Dimension) string {
	s.graph.Input = append(s.graph.Input, wire.TensorValue(name, wire.DataTypeOf(dtype.F32), dims...))
	return name
}

// weights returns an initializer; both spellings ask for them in the same order and get the same.
func (s *spelling) weights(name string, shape ...int64) string {
	t := tensor.Must(tensor.New(dtype.F32, shape...))
	for i := range t.Len() {
		t.SetFloat(i, s.rand.NormFloat64()/4)
	}
	s.graph.Initializer = append(s.graph.Initializer, wire.FromTensor(name, t))
	return name
}

func (s *spelling) constant(t *tensor.Tensor) string {
	s.count++
	name := fmt.Sprintf("c%d", s.count)
	s.graph.Initializer = append(s.graph.Initializer, wire.FromTensor(name, t))
	return name
}

func (s *spelling) number(x float64) string { return s.constant(tensor.Scalar(float32(x))) }

func (s *spelling) ints(x ...int64) string {
	return s.constant(tensor.Must(tensor.FromSlice(x, int64(len(x)))))
}

func (s *spelling) binary(op, x, y string) string { return s.node(op, []string{x, y}) }
func (s *spelling) unary(op, x string) string     { return s.node(op, []string{x}) }

func (s *spelling) mean(x string, axes ...int64) string {
	return s.node("ReduceMean", []string{x, s.ints(axes...)})
}

// normalized returns x divided by its deviation along the last axis, from its mean or from 0.
func (s *spelling) normalized(x string, epsilon float64, centred bool) string {
	if centred {
		x = s.binary("Sub", x, s.mean(x, -1))
	}
	variance := s.mean(s.binary("Pow", x, s.number(2)), -1)
	return s.binary("Div", x, s.unary("Sqrt", s.binary("Add", variance, s.number(epsilon))))
}

func (s *spelling) layerNorm(x, scale, shift string) string {
	if s.fused {
		return s.node("LayerNormalization", []string{x, scale, shift}, wire.IntAttribute("axis", -1),
			wire.FloatAttribute("epsilon", 1e-5))
	}
	return s.binary("Add", s.binary("Mul", s.normalized(x, 1e-5, true), scale), shift)
}

func (s *spelling) rmsNorm(x, scale string) string {
	if s.fused {
		return s.node("RMSNormalization", []string{x, scale}, wire.FloatAttribute("epsilon", 1e-6))
	}
	return s.binary("Mul", s.normalized(x, 1e-6, false), scale)
}

// heads reshapes [b, s, heads·8] to [b, heads, s, 8].
func (s *spelling) heads(x string, heads int64) string {
	return s.node("Transpose", []string{s.node("Reshape", []string{x, s.ints(0, 0, heads, 8)})},
		wire.IntsAttribute("perm", 0, 2, 1, 3))
}

// rotary rotates x, [b, heads, s, 8], by angles, [b, s, 4].
func (s *spelling) rotary(x, angles string) string {
	if s.fused {
		return s.node("RotaryEmbedding", []string{x, s.unary("Cos", angles), s.unary("Sin", angles)})
	}
	both := s.node("Concat", []string{angles, angles}, wire.IntAttribute("axis", -1))
	table := func(op string) string { return s.node("Unsqueeze", []string{s.unary(op, both), s.ints(1)}) }
	part := func(begin, end int64) string {
		return s.node("Slice", []string{x, s.ints(begin), s.ints(end), s.ints(3)})
	}
	turned := s.node("Concat", []string{s.unary("Neg", part(4, math.MaxInt64)), part(0, 4)}, wire.IntAttribute("axis", -1))
	return s.binary("Add", s.binary("Mul", x, table("Cos")), s.binary("Mul", turned, table("Sin")))
}

// attention returns causal attention of four heads of queries and two of keys.
func (s *spelling) attention(q, k, v string) string {
	if s.fused {
		return s.node("Attention", []string{q, k, v}, wire.IntAttribute("is_causal", 1))
	}
	extents := s.node("Shape", []string{q})
	sequence := s.node("Slice", []string{extents, s.ints(2), s.ints(3)})
	repeated := func(x string) string {
		wide := s.node("Concat", []string{s.node("Slice", []string{extents, s.ints(0), s.ints(1)}), s.ints(2, 2), sequence,
			s.ints(8)}, wire.IntAttribute("axis", 0))
		x = s.node("Expand", []string{s.node("Unsqueeze", []string{x, s.ints(2)}), wide})
		return s.node("Reshape", []string{x, s.ints(0, 4, -1, 8)})
	}
	k = s.node("Transpose", []string{repeated(k)}, wire.IntsAttribute("perm", 0, 1, 3, 2))
	root := s.number(math.Pow(8, -0.25))
	scores := s.binary("MatMul", s.binary("Mul", q, root), s.binary("Mul", k, root))
	count := s.node("Range", []string{s.constant(tensor.Scalar(int64(0))), s.node("Squeeze", []string{sequence}),
		s.constant(tensor.Scalar(int64(1)))})
	keep := s.binary("LessOrEqual", count, s.node("Unsqueeze", []string{count, s.ints(1)}))
	scores = s.node("Where", []string{keep, scores, s.number(math.Inf(-1))})
	greatest := s.node("ReduceMax", []string{scores, s.ints(-1)})
	e := s.unary("Exp", s.binary("Sub", scores, greatest))
	return s.binary("MatMul", s.binary("Div", e, s.node("ReduceSum", []string{e, s.ints(-1)})), repeated(v))
}

func (s *spelling) silu(x string) string {
	if s.fused {
		return s.unary("Swish", x)
	}
	return s.binary("Mul", x, s.unary("Sigmoid", x))
}

func (s *spelling) gelu(x string, tanh bool) string {
	switch {
	case s.fused && tanh:
		return s.node("Gelu", []string{x}, wire.StringAttribute("approximate", "tanh"))
	case s.fused:
		return s.unary("Gelu", x)
	case tanh:
		inner := s.binary("Add", x, s.binary("Mul", s.number(0.044715), s.binary("Pow", x, s.number(3))))
		return s.binary("Mul", s.binary("Mul", s.number(0.5), x),
			s.binary("Add", s.number(1), s.unary("Tanh", s.binary("Mul", s.number(math.Sqrt(2/math.Pi)), inner))))
	}
	return s.binary("Mul", s.binary("Mul", x, s.binary("Add", s.unary("Erf", s.binary("Div", x, s.number(math.Sqrt2))),
		s.number(1))), s.number(0.5))
}

// transformer adds a block of a language model, with free batch and sequence.
func (s *spelling) transformer() {
	x := s.input("x", wire.Dim("b"), wire.Dim("s"), wire.Size(32))
	angles := s.input("angles", wire.Dim("b"), wire.Dim("s"), wire.Size(4))
	normed := s.rmsNorm(x, s.weights("norm", 32))
	projected := func(name string, from string, rows, columns int64) string {
		return s.binary("MatMul", from, s.weights(name, rows, columns))
	}
	q, k, v := s.heads(projected("wq", normed, 32, 32), 4), s.heads(projected("wk", normed, 32, 16), 2),
		s.heads(projected("wv", normed, 32, 16), 2)
	y := s.attention(s.rotary(q, angles), s.rotary(k, angles), v)
	y = s.node("Reshape", []string{s.node("Transpose", []string{y}, wire.IntsAttribute("perm", 0, 2, 1, 3)),
		s.ints(0, 0, 32)})
	x = s.binary("Add", x, projected("wo", y, 32, 32))
	normed = s.layerNorm(x, s.weights("scale", 32), s.weights("shift", 32))
	gate := s.silu(projected("gate", normed, 32, 48))
	up := s.gelu(projected("up", normed, 32, 48), true)
	x = s.binary("Add", x, projected("down", s.binary("Mul", gate, up), 48, 32))
	s.output(x)
}

// vision adds a block of an image model: group normalisation, depth to space, hard functions, softmax over channels.
func (s *spelling) vision() {
	x := s.input("x", wire.Dim("n"), wire.Size(8), wire.Size(6), wire.Size(6))
	x = s.node("Conv", []string{x, s.weights("w", 16, 8, 3, 3), s.weights("b", 16)},
		wire.IntsAttribute("pads", 1, 1, 1, 1))
	scale, shift := s.weights("scale", 16), s.weights("shift", 16)
	if s.fused {
		x = s.node("GroupNormalization", []string{x, scale, shift}, wire.IntAttribute("num_groups", 4))
	} else {
		grouped := s.node("Reshape", []string{x, s.ints(0, 4, -1)})
		ones, none := tensor.Must(tensor.FromSlice([]float32{1, 1, 1, 1}, 4)), tensor.Must(tensor.New(dtype.F32, 4))
		grouped = s.node("InstanceNormalization", []string{grouped, s.constant(ones), s.constant(none)})
		column := func(v string) string { return s.node("Unsqueeze", []string{v, s.ints(1, 2)}) }
		x = s.binary("Add", s.binary("Mul", s.node("Reshape", []string{grouped, s.ints(-1, 16, 6, 6)}), column(scale)),
			column(shift))
	}
	x = s.silu(x)
	if s.fused {
		x = s.node("DepthToSpace", []string{x}, wire.IntAttribute("blocksize", 2))
	} else {
		x = s.node("Transpose", []string{s.node("Reshape", []string{x, s.ints(-1, 2, 2, 4, 6, 6)})},
			wire.IntsAttribute("perm", 0, 3, 4, 1, 5, 2))
		x = s.node("Reshape", []string{x, s.ints(-1, 4, 12, 12)})
	}
	x = s.gelu(x, false)
	if s.fused {
		x = s.node("Softmax", []string{x}, wire.IntAttribute("axis", 1))
		x = s.unary("HardSwish", x)
	} else {
		e := s.unary("Exp", x)
		x = s.binary("Div", e, s.node("ReduceSum", []string{e, s.ints(1)}))
		x = s.binary("Div", s.binary("Mul", x, s.node("Clip", []string{s.binary("Add", x, s.number(3)), s.number(0),
			s.number(6)})), s.number(6))
	}
	s.output(x)
}

func (s *spelling) output(x string) {
	s.graph.Output = []*wire.ValueInfoProto{{Name: x}}
}

// compiled imports and compiles the model.
func (s *spelling) compiled(t *testing.T) *compiler.Compiled {
	t.Helper()
	c, err := compiler.Compile(s.module(t), compiler.Options{Machine: compiler.Portable(2)})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// module imports the model, with the tensors of the given names as its results; without names, with the model's own.
func (s *spelling) module(t *testing.T, names ...string) *ir.Module {
	t.Helper()
	proto := &wire.ModelProto{IRVersion: 12, OpsetImport: []*wire.OperatorSetIDProto{{Version: 24}}, Graph: s.graph}
	m, err := onnx.Parse(proto.Marshal())
	if err != nil {
		t.Fatal(err)
	}
	module, _, err := m.Build(names)
	if err != nil {
		t.Fatal(err)
	}
	return module
}

var nameOf, sourceOf = regexp.MustCompile(`[%@]("[^"]*"|[A-Za-z0-9_.]+)`), regexp.MustCompile(` source "[^"]*"`)

// anonymous returns a text with its names numbered in order, and without sources.
func anonymous(text string) string {
	names := map[string]string{}
	return nameOf.ReplaceAllStringFunc(sourceOf.ReplaceAllString(text, ""), func(name string) string {
		if names[name] == "" {
			names[name] = fmt.Sprintf("%c%d", name[0], len(names))
		}
		return names[name]
	})
}

// spelled are the models that are written in both ways.
var spelled = map[string]func(*spelling){"transformer": (*spelling).transformer, "vision": (*spelling).vision}

// TestSpelledOut compiles models in both spellings: the kernels have the same text, except for names and for the order
// of independent kernels.
func TestSpelledOut(t *testing.T) {
	for name, write := range spelled {
		t.Run(name, func(t *testing.T) {
			var kernels [2][]string
			var modules [2]string
			for i, fused := range []bool{true, false} {
				s := newSpelling(fused)
				write(s)
				c := s.compiled(t)
				for _, k := range c.Loop.Kernels {
					kernels[i] = append(kernels[i], anonymous(k.String()))
				}
				slices.Sort(kernels[i])
				modules[i] = c.IR.String()
			}
			if slices.Equal(kernels[0], kernels[1]) {
				return
			}
			for i, form := range []string{"with operators", "spelled out"} {
				for _, k := range kernels[i] {
					if !slices.Contains(kernels[1-i], k) {
						t.Errorf("only %s:\n%s", form, k)
					}
				}
				t.Logf("%s, %d kernels:\n%s", form, len(kernels[i]), modules[i])
			}
			t.Error("the kernels differ")
		})
	}
}

// arguments draws values for the model's inputs, with the named extents as given.
func (s *spelling) arguments(m *ir.Module, size int64) []*tensor.Tensor {
	var args []*tensor.Tensor
	for _, p := range m.Main.Body.Params {
		var shape []int64
		for _, e := range p.Type.Shape {
			extent, _ := e.Eval(func(sym.Name) (int64, bool) { return size, true })
			shape = append(shape, extent)
		}
		x := tensor.Must(tensor.New(p.Type.DType, shape...))
		for i := range x.Len() {
			x.SetFloat(i, s.rand.NormFloat64())
		}
		args = append(args, x)
	}
	return args
}

// closeTo returns an error if a result differs by more than rounding.
func closeTo(got, want []*tensor.Tensor) error {
	for i := range want {
		if err := tensor.Compare(got[i], want[i], 1e-4, 1e-5); err != nil {
			return err
		}
	}
	return nil
}
