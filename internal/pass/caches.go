package pass

import (
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
)

// Caches narrows the states of main that are caches of f32 to bf16 and returns their number. A cache is a state whose
// new value equals the old value except for the elements that scatters replace. New elements are rounded when they are
// written, and every reader of the cache reads the stored elements, so that a run does not depend on how many elements
// earlier runs wrote.
func Caches(m *ir.Module) (narrowed int, err error) {
	defer ir.Catch(&err)
	c, body := ir.NewInference(m), m.Main.Body
	moved := map[*ir.Node]bool{}
	for i := range m.Main.States {
		s := &m.Main.States[i]
		old, last := s.In, body.Results[s.Out]
		chain := writes(old, last)
		if old.Type.DType != dtype.F32 || chain == nil {
			continue
		}
		for _, n := range chain {
			moved[n] = true
		}
		front := &ir.Block{}
		b := ir.NewBuilder(c, front)
		stored := &ir.Value{Name: b.Name(old.Name), Type: old.Type}
		stored.Type.DType = dtype.BF16
		wide := ops.Cast(b, stored, dtype.F32)
		// The readers of the old value now read the widened value, which keeps the old pointer.
		stored.TakeName(old)
		wide.Node.Outputs[0], old.Node = old, wide.Node
		for k, p := range body.Params {
			if p == old {
				body.Params[k] = stored
			}
		}
		s.In = stored
		body.Nodes = append(front.Nodes, body.Nodes...)
		end := ir.NewBuilder(c, body)
		body.Results[s.Out] = ops.Cast(end, last, dtype.BF16)
		body.Results[s.Out].TakeName(last)
		moved[body.Results[s.Out].Node] = true
		narrowed++
	}
	if narrowed == 0 {
		return 0, nil
	}
	ofCaches := func(apply func(b *ir.Builder, n *ir.Node, stored *ir.Value) *ir.Value) func(*rewriting, *ir.Builder,
		*ir.Node) *ir.Value {
		return func(_ *rewriting, b *ir.Builder, n *ir.Node) *ir.Value {
			if wide := producer(n.Inputs[0], "cast"); wide != nil && moved[n] && wide.Inputs[0].Type.DType == dtype.BF16 {
				return apply(b, n, wide.Inputs[0])
			}
			return nil
		}
	}
	return narrowed, apply(m, []rule{
		{"a scatter into a narrow cache", []string{"scatter_elements", "scatter_nd"}, ofCaches(scatterNarrow)},
		{"a narrow cache of another shape", []string{"reshape", "transpose"},
			ofCaches(func(b *ir.Builder, n *ir.Node, stored *ir.Value) *ir.Value {
				return ops.Cast(b, b.Op(n.Op.Name(), n.Attrs, stored), dtype.F32)
			})},
		{"the new value of a narrow cache", []string{"cast"},
			ofCaches(func(b *ir.Builder, n *ir.Node, stored *ir.Value) *ir.Value {
				return stored
			})},
	})
}

// scatterNarrow writes rounded elements into a narrow cache, and widens the new contents.
func scatterNarrow(b *ir.Builder, n *ir.Node, stored *ir.Value) *ir.Value {
	return ops.Cast(b, b.Op(n.Op.Name(), n.Attrs, stored, n.Inputs[1], ops.Cast(b, n.Inputs[2], dtype.BF16)), dtype.F32)
}

// writes returns the nodes that lead from a state's old value to its new one; nil if the state is not a cache.
func writes(old, last *ir.Value) (chain []*ir.Node) {
	scattered := false
	for v := last; v != old; {
		n := v.Node
		if n == nil {
			return nil
		}
		switch of := ops.Of(n); {
		case of.Scatter:
			if n.Attrs.String("reduction", "none") != "none" {
				return nil
			}
			scattered = true
		case of.Rearranges:
		default:
			return nil
		}
		chain = append(chain, n)
		v = n.Inputs[0]
	}
	if !scattered {
		return nil
	}
	return chain
}
