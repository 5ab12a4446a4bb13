package conformance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/importer/onnx"
	"github.com/weirml/weir/internal/importer/onnx/schema"
	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/tensor"
)

// The limits of one fuzzed input: fuzzing's instrumentation makes everything about ten times slower.
const (
	fuzzTime  = 10 * time.Second
	fuzzBytes = 64 << 20
)

// fuzzSmall is the greatest size of a seed, so that most mutations change something.
const fuzzSmall = 4096

// survive loads, compiles and runs a model of any bytes. It returns "" if the model gives results or an error that is
// not internal, within the limits; otherwise the fault.
func survive(data []byte, target weir.Target, fill byte) string {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	mem.ResetPeaks()
	held := weir.Usage()
	start := time.Now()
	err := attempt(data, target, fill)
	took := time.Since(start)
	runtime.ReadMemStats(&after)
	var e *weir.Error
	now := weir.Usage()
	switch {
	case err != nil && !errors.As(err, &e) && !errors.Is(err, context.DeadlineExceeded):
		return fmt.Sprintf("an error of no kind: %v", err)
	case errors.Is(err, weir.ErrInternal) || errors.Is(err, weir.ErrClosed):
		return err.Error()
	case took > fuzzTime:
		return fmt.Sprintf("took %v: %v", took, err)
	// a run that reached its deadline may have allocated and freed all the time
	case after.TotalAlloc-before.TotalAlloc > fuzzBytes && !errors.Is(err, context.DeadlineExceeded):
		return fmt.Sprintf("allocated %d bytes: %v", after.TotalAlloc-before.TotalAlloc, err)
	case now.Peak-held.Current > fuzzBytes:
		return fmt.Sprintf("took %d bytes of the ledger's: %v", now.Peak-held.Current, err)
	case now.Current != held.Current:
		return fmt.Sprintf("%d bytes are held after it: %v", now.Current-held.Current, err)
	}
	return ""
}

// attempt makes one try; a run that takes more than a little memory is skipped.
func attempt(data []byte, target weir.Target, fill byte) error {
	ctx, cancel := context.WithTimeout(context.Background(), fuzzTime/20)
	defer cancel()
	m, err := weir.LoadBytes(data)
	if err != nil {
		return err
	}
	defer m.Close()
	m.Describe()
	p, err := weir.Compile(ctx, m, weir.Options{Threads: 1, Target: target})
	if err != nil {
		return err
	}
	defer p.Close()
	in := weir.Inputs{}
	for _, info := range p.Inputs() {
		var shape []int
		bytes := 16.0
		for _, e := range info.Shape {
			shape = append(shape, int(cmp.Or(max(e.Size, 0), int64(fill>>5))))
			bytes *= float64(shape[len(shape)-1])
		}
		if bytes > 1<<16 || info.DType == weir.StringType {
			return nil
		}
		x, err := weir.New(info.DType, shape...)
		if err != nil {
			return err
		}
		defer x.Close()
		set(x, info.DType, fill)
		in[info.Name] = x
	}
	dims, err := p.Bind(in)
	if err != nil {
		return err
	}
	if peak, err := p.Memory().Peak(1, dims); err != nil || peak > 16<<20 {
		return err
	}
	r, err := p.Run(ctx, in)
	if err != nil {
		return err
	}
	return r.Close()
}

// set fills a tensor with the value that a byte stands for.
func set(x *weir.Tensor, dt weir.DType, fill byte) {
	t, err := tensor.Over(dt, []int64{int64(x.Len())}, x.Bytes())
	if err != nil {
		return
	}
	for i := range t.Len() {
		switch v := oddNumbers[int(fill&31)%len(oddNumbers)]; {
		case dt.IsComplex():
		case dt == dtype.Bool:
			t.SetInt(i, v&1)
		case dt.IsInt():
			t.SetInt(i, v)
		case v < -1000:
			t.SetFloat(i, math.NaN())
		case v > 1000:
			t.SetFloat(i, math.Inf(1))
		default:
			t.SetFloat(i, float64(v))
		}
	}
}

var oddNumbers = []int64{0, 1, 2, 3, -1, -2, 4, 7, 5, 1 << 40, math.MinInt64, math.MaxInt64, 1 << 31, -1 << 31, 100,
	1 << 62}

// FuzzModel loads, compiles and runs damaged models.
func FuzzModel(f *testing.F) {
	for c := range hostileCases() {
		f.Add(c.Data, byte(1))
	}
	models, err := filepath.Glob(filepath.Join("..", "..", "testdata", "onnx", "*", "model.onnx"))
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range models {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		if len(data) < fuzzSmall {
			f.Add(data, byte(0x41))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte, fill byte) {
		if fault := survive(data, weir.Reference, fill); fault != "" {
			t.Fatal(fault)
		}
	})
}

// FuzzGraph compiles and runs graphs that are drawn node by node from ONNX's table of operators by the fuzzer's bytes:
// mostly well-formed, with odd attributes, constants and arguments.
func FuzzGraph(f *testing.F) {
	r := rand.New(rand.NewPCG(4, 2))
	for range 300 {
		seed := make([]byte, 20+r.IntN(100))
		for i := range seed {
			seed[i] = byte(r.Uint32())
		}
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed []byte) {
		m, target, fill := drawModel(seed)
		if fault := survive(m.Marshal(), target, fill); fault != "" {
			t.Fatalf("%s: %s\n%s", target, fault, sketch(m.Graph, ""))
		}
	})
}

// drawModel returns the model, target and fill byte of FuzzGraph's bytes.
func drawModel(seed []byte) (m *wire.ModelProto, target weir.Target, fill byte) {
	c := &choices{left: seed}
	target = []weir.Target{weir.Portable, weir.Reference}[c.next(2)]
	fill = byte(c.next(256))
	return c.model(), target, fill
}

// choices draws a model from bytes; after their end, every choice is the first.
type choices struct {
	left    []byte
	version int64
	count   int
}

// next returns a number below n.
func (c *choices) next(n int) int {
	if len(c.left) == 0 || n < 2 {
		return 0
	}
	v := int(c.left[0])
	c.left = c.left[1:]
	if n > 256 && len(c.left) > 0 {
		v = v<<8 | int(c.left[0])
		c.left = c.left[1:]
	}
	return v % n
}

var (
	operatorNames = schema.Names("")
	opsets        = []int64{schema.Newest, 21, 18, 17, 13, 11, 9, 7, 22, 23}
)

// model draws nodes one by one. A node that the importer refuses is mostly removed again; the types of a node's results
// guide its readers.
func (c *choices) model() *wire.ModelProto {
	c.version = opsets[c.next(len(opsets))]
	g := &wire.GraphProto{Name: "g"}
	names := map[string][]string{}
	input := func(name, dt string, dims ...*wire.Dimension) {
		t, _ := dtype.Parse(dt)
		g.Input = append(g.Input, wire.TensorValue(name, wire.DataTypeOf(t), dims...))
		names[dt] = append(names[dt], name)
	}
	input("x", "f32", wire.Size(2), wire.Size(3))
	input("image", "f32", wire.Size(1), wire.Size(2), wire.Size(3), wire.Size(3))
	input("rows", "f32", wire.Dim("n"), wire.Size(3))
	input("index", "i64", wire.Size(2))
	input("many", "i64", wire.Dim("n"))
	input("yes", "bool")
	input("bytes", "u8", wire.Size(2), wire.Dim("m"))
	m := &wire.ModelProto{IRVersion: 10, OpsetImport: []*wire.OperatorSetIDProto{{Version: c.version}}, Graph: g}
	for range 24 {
		if len(c.left) == 0 && len(g.Node) > 0 {
			break
		}
		op, ok := schema.Lookup("", operatorNames[c.next(len(operatorNames))], c.version)
		if !ok || op.Deprecated {
			continue
		}
		nodes, constants := len(g.Node), len(g.Initializer)
		outputs := c.node(g, op, names, 0)
		types, err := typesOf(m, outputs)
		if err != nil && c.next(16) < 14 {
			g.Node, g.Initializer = g.Node[:nodes], g.Initializer[:constants]
			continue
		}
		for i, name := range outputs {
			dt := "any"
			if err == nil {
				dt = types[i]
			}
			names[dt] = append(names[dt], name)
		}
	}
	for _, n := range g.Node[max(0, len(g.Node)-3):] {
		for _, o := range n.Output {
			g.Output = append(g.Output, &wire.ValueInfoProto{Name: o})
		}
	}
	return m
}

// typesOf converts a model and returns its values' element types.
func typesOf(m *wire.ModelProto, names []string) (types []string, err error) {
	whole, graph := *m, *m.Graph
	graph.Output = []*wire.ValueInfoProto{{Name: names[0]}}
	whole.Graph = &graph
	parsed, err := onnx.Parse(whole.Marshal())
	if err != nil {
		return nil, err
	}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("a panic, which the whole model meets again: %v", p)
		}
	}()
	module, _, err := parsed.Build(names)
	if err != nil {
		return nil, err
	}
	for _, v := range module.Main.Body.Results {
		types = append(types, v.Type.DType.String())
	}
	return types, nil
}

// node adds a node, and returns its outputs.
func (c *choices) node(g *wire.GraphProto, op *schema.Operator, names map[string][]string, depth int) []string {
	c.count++
	id := c.count
	n := &wire.NodeProto{OpType: op.Name, Name: fmt.Sprint("n", id)}
	outputs := 0
	if op.Name == "Loop" {
		outputs = c.loop(g, n, names, depth)
	} else {
		least, most := schema.Arity(op.Inputs)
		if most < 0 {
			most = least + 2
		}
		for i := range least + c.next(most-least+1) {
			n.Input = append(n.Input, c.operand(g, op.Accepts(op.Input(i)), op.Input(i).Optional, names))
		}
		for _, a := range op.Attributes {
			if a.Required || c.next(3) == 1 {
				n.Attribute = append(n.Attribute, c.attribute(a, names, depth))
			}
		}
		least, most = schema.Arity(op.Outputs)
		if most < 0 {
			most = least + 2
		}
		outputs = max(1, least+c.next(most-least+1))
	}
	for i := range outputs {
		n.Output = append(n.Output, fmt.Sprintf("v%d.%d", id, i))
	}
	g.Node = append(g.Node, n)
	return n.Output
}

// loop makes a node a Loop with a body that fits it, and returns its number of outputs.
func (c *choices) loop(g *wire.GraphProto, n *wire.NodeProto, names map[string][]string, depth int) int {
	n.Input = []string{c.operand(g, []string{"i64"}, true, names), c.operand(g, []string{"bool"}, true, names)}
	if c.next(3) == 0 {
		n.Input[1] = ""
	}
	carried := c.next(3)
	for range carried {
		n.Input = append(n.Input, c.operand(g, []string{"f32", "i64", "bool"}, false, names))
	}
	body := c.body("body", names, depth, 2+carried)
	n.Attribute = []*wire.AttributeProto{wire.GraphAttribute("body", body)}
	return max(1, len(body.Output)-1)
}

// operand returns a value of one of the types, a constant, or a node's result of unknown type.
func (c *choices) operand(g *wire.GraphProto, accepts []string, optional bool, names map[string][]string) string {
	how := c.next(8)
	if how == 7 && optional {
		return ""
	}
	if list := names["any"]; how == 6 && len(list) > 0 {
		return list[len(list)-1-c.next(len(list))]
	}
	if how >= 2 {
		for range 3 {
			if list := names[accepts[c.next(len(accepts))]]; len(list) > 0 {
				return list[len(list)-1-c.next(len(list))]
			}
		}
		for _, dt := range []string{"f32", "i64", "bool", "u8"} {
			if list := names[dt]; slices.Contains(accepts, dt) && len(list) > 0 {
				return list[len(list)-1-c.next(len(list))]
			}
		}
	}
	for _, dt := range []string{"i64", "f32", "bool", accepts[c.next(len(accepts))]} {
		if t, ok := dtype.Parse(dt); ok && slices.Contains(accepts, dt) && t != dtype.String {
			name := fmt.Sprintf("c%d.%d", c.count, len(g.Initializer))
			g.Initializer = append(g.Initializer, wire.FromTensor(name, c.constant(t)))
			return name
		}
	}
	return "x"
}

// constant draws a small tensor.
func (c *choices) constant(dt dtype.DType) *tensor.Tensor {
	shape := [][]int64{{2}, {1}, {}, {3}, {4}, {2, 3}, {0}, {1, 2, 1, 1}, {3, 3}, {1, 2, 3, 3}}[c.next(10)]
	t, err := tensor.New(dt, shape...)
	if err != nil {
		return tensor.Of[float32](1)
	}
	for i := range t.Len() {
		switch v := oddNumbers[c.next(256)%len(oddNumbers)]; {
		case dt.IsComplex():
		case dt == dtype.Bool:
			t.SetInt(i, v&1)
		case dt.IsInt():
			t.SetInt(i, v)
		default:
			t.SetFloat(i, float64(v))
		}
	}
	return t
}

var oddWords = []string{"", "SAME_UPPER", "SAME_LOWER", "VALID", "linear", "nearest", "cubic", "constant", "reflect",
	"edge", "wrap", "none", "sum", "mean", "tanh", "bidirectional", "reverse",
	"ij,jk->ik", "...i,i", "ii->i", "add", "mul", "max", "Relu", "half_pixel", "align_corners", "tf_crop_and_resize",
	"floor", "ceil", "bilinear", "border", "DCR", "CRD"}

// attribute draws an attribute of the type that the operator declares.
func (c *choices) attribute(a schema.Attribute, names map[string][]string, depth int) *wire.AttributeProto {
	number := func() int64 {
		if c.next(3) == 0 {
			return oddNumbers[c.next(len(oddNumbers))]
		}
		return int64(c.next(4))
	}
	switch a.Kind {
	case wire.AttributeInt:
		return wire.IntAttribute(a.Name, number())
	case wire.AttributeFloat:
		return wire.FloatAttribute(a.Name, float32(number()))
	case wire.AttributeInts:
		list := make([]int64, c.next(5))
		for i := range list {
			list[i] = number()
		}
		return wire.IntsAttribute(a.Name, list...)
	case wire.AttributeFloats:
		return wire.FloatsAttribute(a.Name, make([]float32, c.next(4))...)
	case wire.AttributeStrings:
		return wire.StringsAttribute(a.Name, oddWords[c.next(len(oddWords))], oddWords[c.next(len(oddWords))])
	case wire.AttributeTensor:
		return wire.TensorAttribute(a.Name, wire.FromTensor("",
			c.constant([]dtype.DType{dtype.F32, dtype.I64, dtype.U8, dtype.Bool}[c.next(4)])))
	case wire.AttributeGraph:
		return wire.GraphAttribute(a.Name, c.body(a.Name, names, depth, 0))
	}
	return wire.StringAttribute(a.Name, oddWords[c.next(len(oddWords))])
}

// body draws a subgraph: of If without inputs, of Loop with a counter, a condition and carried values.
func (c *choices) body(attribute string, names map[string][]string, depth, inputs int) *wire.GraphProto {
	g := &wire.GraphProto{Name: attribute}
	inner := map[string][]string{}
	for dt, list := range names {
		inner[dt] = slices.Clone(list)
	}
	id := c.count
	for i := range inputs {
		name := fmt.Sprintf("b%d.%d", id, i)
		g.Input = append(g.Input, &wire.ValueInfoProto{Name: name})
		dt := []string{"i64", "bool", "any"}[min(i, 2)]
		inner[dt] = append(inner[dt], name)
	}
	for range 1 + c.next(3) {
		op, ok := schema.Lookup("", operatorNames[c.next(len(operatorNames))], c.version)
		if depth < 3 && ok && !op.Deprecated {
			inner["any"] = append(inner["any"], c.node(g, op, inner, depth+1)...)
		}
	}
	for i := range max(1, inputs-1+c.next(2)) {
		dt := "any"
		if inputs > 0 && i == 0 {
			dt = "bool"
		}
		list := inner[dt]
		if len(list) == 0 {
			list = inner["f32"]
		}
		g.Output = append(g.Output, &wire.ValueInfoProto{Name: list[len(list)-1-c.next(len(list))]})
	}
	return g
}

// sketch returns a graph in readable lines.
func sketch(g *wire.GraphProto, indent string) string {
	var b strings.Builder
	for _, t := range g.Initializer {
		v, _, err := t.Tensor()
		fmt.Fprintf(&b, "%s%s = %.100v %v\n", indent, t.Name, v, err)
	}
	for _, n := range g.Node {
		fmt.Fprintf(&b, "%s%q = %s(%q)", indent, n.Output, n.OpType, n.Input)
		for _, a := range n.Attribute {
			switch a.Kind() {
			case wire.AttributeInt:
				fmt.Fprintf(&b, " %s=%d", a.Name, a.I)
			case wire.AttributeInts:
				fmt.Fprintf(&b, " %s=%d", a.Name, a.Ints)
			case wire.AttributeFloat:
				fmt.Fprintf(&b, " %s=%g", a.Name, a.F)
			case wire.AttributeGraph:
				fmt.Fprintf(&b, " %s={\n%s%s}", a.Name, sketch(a.G, indent+"  "), indent)
			case wire.AttributeTensor:
				fmt.Fprintf(&b, " %s=%s%v", a.Name, a.T.DataType, a.T.Dims)
			default:
				fmt.Fprintf(&b, " %s=%q%q", a.Name, a.S, a.Strings)
			}
		}
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "%soutputs", indent)
	for _, o := range g.Output {
		fmt.Fprintf(&b, " %s", o.Name)
	}
	b.WriteByte('\n')
	return b.String()
}
