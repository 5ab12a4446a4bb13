package ops

import (
	"slices"
	"strings"

	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/sym"
)

// Rows says of which rows of its operands the rows of a node's one result are made: whether the result's elements at index r of an axis depend, of operand i, on those at index r
// of axis in[i] alone (all of the operand where in[i] is −1). Where it is so a node may be computed in pieces of that axis; ok is false where it is not, or not known.
// A reshape's axes may differ in extent: then equal parts of one are equal parts of the other, as long as they are whole rows of both.
func Rows(n *ir.Node, axis int) (in []int, ok bool) {
	if len(n.Outputs) != 1 || n.Outputs[0].Type.Layout != nil {
		return nil, false
	}
	out := n.Outputs[0].Type.Shape
	in = make([]int, len(n.Inputs))
	for i, v := range n.Inputs {
		if v != nil && v.Type.Layout != nil {
			return nil, false
		}
		in[i] = -1
	}
	// aligned is the axis of a broadcast operand that the result's axis walks along.
	aligned := func(v *ir.Value, rank int) int {
		at := axis - (rank - len(v.Type.Shape))
		if at < 0 || !v.Type.Shape[at].Equal(out[axis]) {
			return -1
		}
		return at
	}
	name := n.Op.Name()
	switch {
	case elementwise[name]:
		for i, v := range n.Inputs {
			if v != nil {
				in[i] = aligned(v, len(out))
			}
		}
		return in, true
	case strings.HasPrefix(name, "reduce_"):
		axes, err := axesOf(n, n.Attrs.Ints("axes"), len(n.Inputs[0].Type.Shape))
		if err != nil {
			return nil, false
		}
		at := axis
		if !n.Attrs.Bool("keep") {
			for from := range n.Inputs[0].Type.Shape {
				if slices.Contains(axes, from) && from <= at {
					at++
				}
			}
		}
		in[0] = at
		return in, !slices.Contains(axes, at)
	}
	rule := rowRules[name]
	if rule == nil {
		return nil, false
	}
	return in, rule(n, axis, in, aligned)
}

// rowRules are the operators that Rows knows beyond elementwise ones and reductions; each fills in what it is not −1 for.
var rowRules = map[string]func(n *ir.Node, axis int, in []int, aligned func(v *ir.Value, rank int) int) bool{
	"matmul": func(n *ir.Node, axis int, in []int, aligned func(*ir.Value, int) int) bool {
		a, b, rank := n.Inputs[0], n.Inputs[1], len(n.Outputs[0].Type.Shape)
		if len(a.Type.Shape) < 2 || len(b.Type.Shape) < 2 {
			return false
		}
		switch axis {
		case rank - 1:
			return false // it would cut up weights
		case rank - 2:
			in[0] = len(a.Type.Shape) - 2
			if n.Attrs.Bool("transpose_a") {
				in[0]++
			}
		default:
			in[0], in[1] = aligned(a, rank), aligned(b, rank)
		}
		return true
	},
	"attention": func(n *ir.Node, axis int, in []int, aligned func(*ir.Value, int) int) bool {
		if len(n.Inputs) > 4 || axis == 1 || axis == 3 || axis == 2 && n.Attrs.Bool("causal") {
			return false
		}
		in[0] = axis
		if axis == 0 {
			in[1], in[2] = 0, 0
		}
		if len(n.Inputs) == 4 && n.Inputs[3] != nil {
			in[3] = aligned(n.Inputs[3], 4)
		}
		return true
	},
	"normalize": func(n *ir.Node, axis int, in []int, _ func(*ir.Value, int) int) bool {
		axes, err := axesOf(n, n.Attrs.Ints("axes"), len(n.Inputs[0].Type.Shape))
		in[0] = axis
		return err == nil && len(n.Inputs) == 1 && !slices.Contains(axes, axis)
	},
	"softmax": func(n *ir.Node, axis int, in []int, _ func(*ir.Value, int) int) bool {
		along := n.Attrs.Int("axis", -1)
		if along < 0 {
			along += int64(len(n.Outputs[0].Type.Shape))
		}
		in[0] = axis
		return len(n.Inputs) == 1 && int64(axis) != along
	},
	"transpose": func(n *ir.Node, axis int, in []int, _ func(*ir.Value, int) int) bool {
		perm := n.Attrs.Ints("perm")
		if axis >= len(perm) {
			return false
		}
		in[0] = int(perm[axis])
		return true
	},
	"reshape": func(n *ir.Node, axis int, in []int, _ func(*ir.Value, int) int) bool {
		// Parts of an axis lie at the same places under both shapes where as much stands before the axis.
		out, from := n.Outputs[0].Type.Shape, n.Inputs[0].Type.Shape
		if extent, number := out[axis].Const(); !number || extent < 2 {
			return false
		}
		before := sym.Product(out[:axis]...)
		for at := range from {
			extent, number := from[at].Const()
			if number && extent > 1 && sym.Product(from[:at]...).Equal(before) {
				in[0] = at
				return true
			}
		}
		return false
	},
	"concat": func(n *ir.Node, axis int, in []int, _ func(*ir.Value, int) int) bool {
		for i := range in {
			in[i] = axis
		}
		return int64(axis) != n.Attrs.Int("axis", -1) && n.Attrs.Int("axis", -1) >= 0
	},
	"slice": func(n *ir.Node, axis int, in []int, _ func(*ir.Value, int) int) bool {
		in[0] = axis
		begin, _ := n.Attrs.Exprs("begin")[axis].Const()
		return begin == 0 && n.Attrs.Ints("step")[axis] == 1 && n.Attrs.Exprs("extent")[axis].Equal(n.Inputs[0].Type.Shape[axis])
	},
	"convolution": images, "max_pool": images, "average_pool": images, "winograd": images, "convolution_transpose": images,
}

// images is the rule of what treats every image by itself.
func images(n *ir.Node, axis int, in []int, _ func(*ir.Value, int) int) bool {
	in[0] = 0
	return axis == 0
}

// CutRows makes a copy of a node's attributes say what a piece of its result along an axis asks for, of so many equal ones.
func CutRows(n *ir.Node, attrs ir.Attrs, axis int, pieces int64) {
	key := map[string]string{"reshape": "shape", "slice": "extent"}[n.Op.Name()]
	if key == "" {
		return
	}
	list := slices.Clone(attrs.Exprs(key))
	extent, _ := list[axis].Const()
	list[axis] = sym.Const(extent / pieces)
	attrs[key] = list
}
