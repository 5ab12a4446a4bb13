package onnx

import (
	"errors"
	"fmt"
	"maps"
	"math/rand"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/importer/onnx/convert"
	"github.com/weirml/weir/internal/importer/onnx/schema"
	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// TestRulesRefuse gives every rule nodes with operands and attributes that are mostly wrong. A rule may convert a node
// or return an error; it never panics.
func TestRulesRefuse(t *testing.T) {
	rounds := 150
	if testing.Short() {
		rounds = 20
	}
	for _, name := range rules.Names() {
		if name == "If" || name == "Loop" || name == "Scan" {
			continue // their graphs have tests of their own
		}
		domain, operator, found := strings.Cut(name, ":")
		if !found {
			domain, operator = "", name
		}
		versions := schema.Versions(domain, operator)
		seen := map[string]bool{}
		for i := range rounds {
			r := rand.New(rand.NewSource(int64(i)))
			since := int64(convert.Newest)
			if len(versions) > 0 {
				since = max(convert.Oldest, versions[r.Intn(len(versions))])
			}
			op, _ := schema.Lookup(domain, operator, since)
			if rules.Rule(name, since) == nil {
				continue // the version was withdrawn
			}
			if found := refusal(r, name, domain, operator, since, op); found != "" && !seen[found] && len(seen) < 3 {
				seen[found] = true
				t.Errorf("%s at version %d, seed %d: %s", name, since, i, found)
			}
		}
	}
}

// refusal converts one random node; it returns the description of a panic, or "".
func refusal(r *rand.Rand, name, domain, operator string, since int64, op *schema.Operator) (found string) {
	c := randomCall(r, domain, operator, since, op)
	defer func() {
		if p := recover(); p != nil {
			found = fmt.Sprintf("%v, of %s\n%s", p, describe(c), location(debug.Stack()))
		}
	}()
	err := func() (err error) {
		defer ir.Catch(&err)
		composed := slices.ContainsFunc(c.In, func(v *ir.Value) bool { return c.Scope.Composites[v] != nil })
		out := c.Scope.Apply(c, rules.Rule(name, c.Version))
		for _, v := range out {
			if _, sequence := c.Scope.Composites[v]; !sequence && v != nil && v.Type.DType == dtype.Invalid {
				return fmt.Errorf("a result without a type")
			}
		}
		if composed { // no stand-in may be left in the built block
			for _, v := range out {
				if v != nil && c.Scope.FormOf(v).Of.DType != dtype.Invalid {
					c.Block.Results = append(c.Block.Results, c.Scope.As(v, c.Scope.FormOf(v))...)
				}
			}
			return ir.Verify(c.Module)
		}
		return nil
	}()
	if err != nil && !errors.Is(err, diag.ErrInput) && !errors.Is(err, diag.ErrUnsupported) {
		return fmt.Sprintf("%v, of %s", err, describe(c))
	}
	return ""
}

// location returns the lines of a stack after the panic that name this repository's functions.
func location(stack []byte) string {
	_, after, _ := strings.Cut(string(stack), "panic(")
	var lines []string
	for line := range strings.Lines(after) {
		if strings.HasPrefix(line, "\t") && strings.Contains(line, "/internal/") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return strings.Join(lines[:min(len(lines), 4)], "\n")
}

// describe prints a call's inputs and attributes, for errors.
func describe(c *convert.Call) string {
	var parts []string
	for _, v := range c.In {
		if v == nil {
			parts = append(parts, "_")
		} else {
			parts = append(parts, v.Type.String())
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Attributes)) {
		a := c.Attributes[name]
		parts = append(parts, fmt.Sprintf("%s=%v%v%v%q", name, a.I, a.Ints, a.F, a.S))
	}
	return strings.Join(parts, " ")
}

var oddNumbers = []int64{0, 1, 1, 2, 2, 3, -1, -2, 4, 7, 1 << 40, -1 << 63, 1<<63 - 1}

// randomComposite returns a tensor of strings, a sequence, a list or an optional.
func randomComposite(r *rand.Rand, g *convert.Scope) *ir.Value {
	kind := convert.Kind(r.Intn(4))
	p := convert.Port{Name: "c", Kind: kind, Type: ir.Type{DType: []dtype.DType{dtype.String, dtype.String, dtype.F32,
		dtype.I64}[r.Intn(4)]}}
	if kind == convert.Tensor {
		p.Type.DType = dtype.String
	}
	if kind.Unwrapped() == convert.Tensor || r.Intn(2) == 0 {
		p.Type.Shape = []sym.Expr{}
		for range r.Intn(4) {
			p.Type.Shape = append(p.Type.Shape, []sym.Expr{sym.Const(2), sym.Const(1), sym.Dim("n")}[r.Intn(3)])
		}
	}
	return g.Parameter(p)
}

// randomCall returns a call of an operator with random inputs and attributes, most of the kinds that it accepts.
func randomCall(r *rand.Rand, domain, operator string, since int64, op *schema.Operator) *convert.Call {
	body := &ir.Block{}
	m := &ir.Module{Name: "main", Dims: sym.NewDims(), Main: &ir.Func{Name: "main", Body: body}}
	m.Funcs = []*ir.Func{m.Main}
	for _, name := range []string{"n", "m"} {
		m.Dims.Set(sym.User(name), sym.Range{Min: 0, Max: sym.NoMax})
	}
	b := ir.NewBuilder(ir.NewInference(m), body)
	b.Source = "node"
	model := newModel(noClaim(), &wire.ModelProto{Graph: &wire.GraphProto{}})
	model.Opsets[""], model.Opsets[domain] = since, since
	g := convert.NewScope(&model.Source, b, nil)
	node := &wire.NodeProto{OpType: operator, Domain: domain, Name: "node"}
	c := &convert.Call{Builder: b, Scope: g, Node: node, Version: since, Outputs: 1 + r.Intn(4),
		Attributes: map[string]*wire.AttributeProto{}}
	count := r.Intn(5)
	if op != nil {
		least, most := schema.Arity(op.Inputs)
		count = least + r.Intn(max(1, min(most, least+4)-least+1))
		for _, a := range op.Attributes {
			if a.Required || r.Intn(2) == 0 {
				c.Attributes[a.Name] = randomAttribute(r, a)
			}
		}
		c.Outputs = 1 + r.Intn(max(1, len(op.Outputs)))
	}
	rank := r.Intn(5)
	real := []dtype.DType{dtype.F32, dtype.F32, dtype.F16, dtype.I64, dtype.U8, dtype.I8, dtype.Bool}[r.Intn(7)]
	for i := range count {
		if r.Intn(12) == 0 {
			c.In = append(c.In, nil)
			continue
		}
		if r.Intn(10) == 0 {
			c.In = append(c.In, randomComposite(r, g))
			continue
		}
		dt := real
		if op != nil && i < len(op.Inputs) && r.Intn(6) > 0 {
			if own, ok := dtype.Parse(op.Inputs[i].Type); ok {
				dt = own
			} else if set := op.Types[op.Inputs[i].Type]; len(set) > 0 && !slices.Contains(set, dt.String()) {
				if own, ok := dtype.Parse(set[r.Intn(len(set))]); ok {
					dt = own
				}
			}
		}
		axes := rank
		if r.Intn(3) == 0 {
			axes = r.Intn(5)
		}
		c.In = append(c.In, randomValue(r, b, i, dt, axes))
	}
	return c
}

// randomValue returns a constant or a parameter, whose extents may be named.
func randomValue(r *rand.Rand, b *ir.Builder, i int, dt dtype.DType, rank int) *ir.Value {
	shape, sizes, static := make([]sym.Expr, rank), make([]int64, rank), true
	for axis := range shape {
		sizes[axis] = []int64{1, 2, 2, 3, 4, 0}[r.Intn(6)]
		shape[axis] = sym.Const(sizes[axis])
		if r.Intn(6) == 0 {
			shape[axis], static = sym.Dim([]string{"n", "m"}[r.Intn(2)]), false
		}
	}
	if static && dt != dtype.String && r.Intn(2) == 0 {
		x := tensor.Must(tensor.New(dt, sizes...))
		for j := int64(0); j < x.Len() && !dt.IsComplex(); j++ {
			if dt.IsInt() {
				x.SetInt(j, oddNumbers[r.Intn(len(oddNumbers))])
			} else {
				x.SetFloat(j, r.NormFloat64())
			}
		}
		return b.Constant(fmt.Sprintf("c%d", i), x)
	}
	return b.Param(fmt.Sprintf("x%d", i), ir.Type{DType: dt, Shape: shape})
}

// randomAttribute returns an attribute of the declared kind with a random value.
func randomAttribute(r *rand.Rand, a schema.Attribute) *wire.AttributeProto {
	words := []string{"", "SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET", "linear", "nearest", "cubic", "constant",
		"reflect", "none", "sum", "mean", "tanh", "bidirectional", "reverse", "ij,jk->ik", "...i,i", "ii->i", "add", "Relu",
		"x"}
	numbers := func() []int64 {
		list := make([]int64, r.Intn(5))
		for i := range list {
			list[i] = oddNumbers[r.Intn(len(oddNumbers))]
			if r.Intn(3) > 0 {
				list[i] = int64(r.Intn(3))
			}
		}
		return list
	}
	word := func() string {
		if a.Default != nil && r.Intn(2) == 0 {
			return string(a.Default.S)
		}
		return words[r.Intn(len(words))]
	}
	switch a.Kind {
	case wire.AttributeInt:
		return wire.IntAttribute(a.Name, oddNumbers[r.Intn(len(oddNumbers))])
	case wire.AttributeFloat:
		return wire.FloatAttribute(a.Name, float32(r.NormFloat64()))
	case wire.AttributeInts:
		return wire.IntsAttribute(a.Name, numbers()...)
	case wire.AttributeFloats:
		return wire.FloatsAttribute(a.Name, make([]float32, r.Intn(4))...)
	case wire.AttributeStrings:
		return wire.StringsAttribute(a.Name, word(), word())
	case wire.AttributeTensor:
		return wire.TensorAttribute(a.Name, &wire.TensorProto{DataType: 1, Dims: []int64{1}, FloatData: wire.Floats(1)})
	default:
		return wire.StringAttribute(a.Name, word())
	}
}
