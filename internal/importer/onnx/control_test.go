package onnx

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/tensor"
)

// graphOf returns a graph of nodes whose only output is out.
func graphOf(out string, nodes ...*wire.NodeProto) *wire.GraphProto {
	return &wire.GraphProto{Name: out, Output: results(strings.Split(out, ",")...), Node: nodes}
}

// choice returns an If that removes axis 1 of x if cond holds, and otherwise leaves x as it is.
func choice(cond, x, out string) *wire.NodeProto {
	return node("If", cond, out, wire.GraphAttribute("then_branch",
		graphOf(out+".t", node("Squeeze", x+",axis", out+".t"))),
		wire.GraphAttribute("else_branch", graphOf(out+".e", node("Identity", x, out+".e"))))
}

func int64s(name string, x ...int64) *wire.TensorProto {
	return wire.FromTensor(name, tensor.Must(tensor.FromSlice(x, int64(len(x)))))
}

// extentIsOne returns nodes that compute whether the second extent of x is 1.
func extentIsOne(x, out string) []*wire.NodeProto {
	return []*wire.NodeProto{node("Shape", x, out+".s"), node("Gather", out+".s,axis", out+".g"),
		node("Squeeze", out+".g", out+".h"), node("Equal", out+".h,one", out)}
}

// TestImpossibleBranch shows that if the nodes after an If can be valid in one branch only, the condition that it takes
// this branch becomes a condition of the model.
func TestImpossibleBranch(t *testing.T) {
	one := wire.FromTensor("one", tensor.Scalar(int64(1)))
	for name, c := range map[string]struct {
		after  []*wire.NodeProto
		y      *wire.ValueInfoProto
		cond   []*wire.NodeProto
		want   string // the condition
		from   string // a substring of the condition's origin
		refuse string
	}{
		"by what follows": {cond: extentIsOne("x", "c"),
			after: []*wire.NodeProto{node("Einsum", "a,a", "y", wire.StringAttribute("equation", "ij,ij->i"))},
			y:     &wire.ValueInfoProto{Name: "y"}, want: "n == 1",
			from: "a (If): its else branch cannot be valid: node y (Einsum): operand 0 of einsum"},
		"by the declared rank": {cond: extentIsOne("x", "c"), after: []*wire.NodeProto{node("Neg", "a", "y")},
			y:    wire.TensorValue("y", wire.FloatType, wire.Dim("p"), wire.Dim("q"), wire.Dim("r")),
			want: "n != 1", from: "its then branch cannot be valid: tensor y"},
		"by data": {cond: []*wire.NodeProto{node("Greater", "b,one", "c")}, after: []*wire.NodeProto{node("Neg", "a", "y")},
			y: wire.TensorValue("y", wire.FloatType, wire.Dim("p"), wire.Dim("q")), want: `?"c.1[0]" == 1`,
			from: "its else branch cannot be valid"},
		"in neither": {cond: extentIsOne("x", "c"),
			after: []*wire.NodeProto{node("Einsum", "a", "y", wire.StringAttribute("equation", "ijkl->i"))},
			y:     &wire.ValueInfoProto{Name: "y"}, refuse: "operand 0 of einsum"},
		"in both": {cond: extentIsOne("x", "c"), after: []*wire.NodeProto{node("Neg", "a", "y")},
			y: &wire.ValueInfoProto{Name: "y"}},
	} {
		x := wire.TensorValue("x", wire.FloatType, wire.Dim("m"), wire.Dim("n"), wire.Size(3))
		b := wire.TensorValue("b", wire.Int64Type)
		m := parsed(t, 8, &wire.GraphProto{Input: []*wire.ValueInfoProto{x, b}, Output: []*wire.ValueInfoProto{c.y},
			Initializer: []*wire.TensorProto{one, int64s("axis", 1)},
			Node:        append(append(c.cond, choice("c", "x", "a")), c.after...)})
		module, _, err := m.Build(nil)
		if c.refuse != "" {
			if err == nil || !strings.Contains(err.Error(), c.refuse) || errors.Is(err, diag.ErrInternal) {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		found := c.want == "" && len(module.Requires) == 0
		for _, r := range module.Requires {
			found = found || r.Cond.String() == c.want && strings.Contains(r.From, c.from)
		}
		if !found {
			t.Errorf("%s: the conditions are %v\n%s", name, module.Requires, module)
		}
	}
}

// TestManyBranches shows that consecutive branches of different ranks cost as many attempts if their ranks agree again,
// and are refused if they never do.
func TestManyBranches(t *testing.T) {
	for _, merging := range []bool{true, false} {
		g := &wire.GraphProto{Input: []*wire.ValueInfoProto{wire.TensorValue("a0", wire.FloatType, wire.Dim("m"),
			wire.Size(1), wire.Size(3))}, Output: results("y"),
			Initializer: []*wire.TensorProto{int64s("axis", 1), int64s("form", -1, 1, 3), int64s("flat", -1)}}
		for i := range 40 {
			g.Input = append(g.Input, wire.TensorValue(fmt.Sprintf("c%d", i), wire.BoolType))
			in, out := fmt.Sprintf("a%d", i), fmt.Sprintf("a%d", i+1)
			if merging {
				g.Node = append(g.Node, choice(fmt.Sprintf("c%d", i), in, "b"+out), node("Reshape", "b"+out+",form", out))
				continue
			}
			g.Node = append(g.Node, node("If", fmt.Sprintf("c%d", i), out,
				wire.GraphAttribute("then_branch", graphOf(out+".t", node("Unsqueeze", in+",axis", out+".t"))),
				wire.GraphAttribute("else_branch", graphOf(out+".e",
					node("ReduceSum", in+",axis", out+".e", wire.IntAttribute("keepdims", 0))))))
		}
		g.Node = append(g.Node, node("Reshape", "a40,flat", "y"))
		start := time.Now()
		_, _, err := parsed(t, 8, g).Build(nil)
		took := time.Since(start)
		if merging != (err == nil) || err != nil && !errors.Is(err, diag.ErrUnsupported) || took > 20*time.Second {
			t.Errorf("merging %v: %v after %v", merging, err, took)
		}
		t.Logf("merging %v: %v, %v", merging, took, err)
	}
}
