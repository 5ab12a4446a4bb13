package pass

import (
	"slices"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// phasesAxis is a transposed convolution along one axis, with strides s: output s·u + t sees input u + tap − begin through element first[t] + s·(last[t] − tap) of the
// kernel, wherever that is one, for each tap. From the outputs, those from cut on are the convolution's.
type phasesAxis struct {
	stride, kernel, taps int64
	begin                int64
	first, last          []int64 // by t
	cut                  int64
	outputs              sym.Expr // in all, a multiple of the stride
}

// phasesOf says how to compute a transposed convolution along an axis. Where that takes no more taps, the outputs are counted from the first that is wanted.
func phasesOf(stride, kernel, begin int64, extent sym.Expr) phasesAxis {
	reach := (kernel + stride - 1) / stride // taps of each t at least
	make := func(cut int64) phasesAxis {
		a := phasesAxis{stride: stride, kernel: kernel, cut: cut}
		least, most := (begin-cut)/stride, (stride-1+begin-cut)/stride
		a.taps, a.begin = reach+most-least, reach-1-least
		for t := range stride {
			at := t + begin - cut
			a.first, a.last = append(a.first, at%stride), append(a.last, at/stride+a.begin)
		}
		a.outputs = extent.Add(sym.Const(cut)).CeilDiv(sym.Const(stride)).Mul(sym.Const(stride))
		return a
	}
	if a := make(0); a.taps == reach {
		return a
	}
	return make(begin)
}

// element is the kernel's element by which t sees a tap; false for none.
func (a phasesAxis) element(t, tap int64) (int64, bool) {
	k := a.first[t] + a.stride*(a.last[t]-tap)
	return k, tap <= a.last[t] && k < a.kernel
}

// full reports whether every output sees an element of the kernel by every tap.
func (a phasesAxis) full() bool {
	for t := range a.stride {
		for tap := range a.taps {
			if _, some := a.element(t, tap); !some {
				return false
			}
		}
	}
	return true
}

// formOfTransposed is of transposed convolutions: convolutions whose channels are those of strides × strides neighbouring outputs, which are then put side by side.
func formOfTransposed(l *layout, n *ir.Node) *form {
	w, groups := n.Inputs[1], n.Attrs.Int("groups", 1)
	plain := !slices.ContainsFunc(n.Attrs.Ints("dilations"), func(d int64) bool { return d != 1 })
	if w.Const == nil || groups != 1 || !plain || n.Outputs[0].Type.DType != dtype.F32 || len(n.Inputs) > 2 && n.Inputs[2] != nil && n.Inputs[2].Const == nil {
		return nil
	}
	var axes []phasesAxis
	for i, begin := range n.Attrs.Exprs("begin") {
		b, fixed := begin.Const()
		if !fixed || b < 0 {
			return nil
		}
		a := phasesOf(n.Attrs.Ints("strides")[i], n.Attrs.Ints("kernel")[i], b, n.Outputs[0].Type.Shape[2+i])
		if l.exact && !a.full() {
			return nil
		}
		axes = append(axes, a)
	}
	return &form{images: first(n), gain: unbreakable, build: func(b *ir.Builder, n *ir.Node, in []*ir.Value) *ir.Value {
		return inPhases(b, n, in[0], axes)
	}}
}

// inPhases builds the convolution of x, whose channels are last, and puts its outputs in their places.
func inPhases(b *ir.Builder, n *ir.Node, x *ir.Value, axes []phasesAxis) *ir.Value {
	w := n.Inputs[1].Const
	channels, filters := w.Shape()[0], w.Shape()[1]
	window := ops.Window{}
	taps, strides, neighbours := []int64{}, []int64{}, int64(1)
	split, perm, joined := []sym.Expr{x.Type.Shape[0]}, []int64{0}, []sym.Expr{x.Type.Shape[0]}
	begin, extent, step := []sym.Expr{{}}, []sym.Expr{x.Type.Shape[0]}, []int64{1}
	cut := false
	for i, a := range axes {
		taps, strides, neighbours = append(taps, a.taps), append(strides, a.stride), neighbours*a.stride
		places := a.outputs.FloorDiv(sym.Const(a.stride))
		window.Kernel, window.Strides, window.Dilations = append(window.Kernel, a.taps), append(window.Strides, 1), append(window.Dilations, 1)
		window.Begin = append(window.Begin, sym.Const(a.begin))
		window.End = append(window.End, b.Dims().Simplify(places.Sub(x.Type.Shape[1+i]).Add(sym.Const(a.taps-1-a.begin))))
		split = append(split, places)
		perm = append(perm, int64(1+i), int64(1+len(axes)+i))
		joined = append(joined, a.outputs)
		begin, extent, step = append(begin, sym.Const(a.cut)), append(extent, n.Outputs[0].Type.Shape[2+i]), append(step, 1)
		cut = cut || a.cut != 0 || b.Dims().EQ(a.outputs, n.Outputs[0].Type.Shape[2+i]) != sym.Yes
	}
	weights := tensor.Must(tensor.New(w.DType(), append(slices.Clone(taps), channels, neighbours*filters)...))
	holes := slices.ContainsFunc(axes, func(a phasesAxis) bool { return !a.full() })
	from, to := tensor.Strides(w.Shape()), int64(0)
	tensor.Each(taps, func(tap []int64) {
		for c := range channels {
			tensor.Each(strides, func(t []int64) {
				at, some := c*from[0], true
				for i, a := range axes {
					k, ok := a.element(t[i], tap[i])
					at, some = at+k*from[2+i], some && ok
				}
				for o := range filters {
					if some {
						v := w.Float(at + o*from[1])
						if holes {
							v = noHole(v)
						}
						weights.SetFloat(to, v)
					}
					to++
				}
			})
		}
	})
	attrs := window.Attrs()
	attrs["groups"], attrs["last"] = int64(1), true
	if holes {
		attrs["holes"] = true
	}
	inputs := []*ir.Value{x, b.Constant(n.Inputs[1].Name, weights)}
	if len(n.Inputs) > 2 && n.Inputs[2] != nil {
		bias := tensor.Must(tensor.New(w.DType(), neighbours*filters))
		for i := range bias.Len() {
			bias.SetFloat(i, n.Inputs[2].Const.Float(i%filters))
		}
		inputs = append(inputs, b.Constant(n.Inputs[2].Name, bias))
	}
	y := b.Op("convolution", attrs, inputs...)
	for _, s := range strides {
		split = append(split, sym.Const(s))
	}
	o := sym.Const(filters)
	split, perm, joined = append(split, o), append(perm, int64(1+2*len(axes))), append(joined, o)
	y = ops.Reshape(b, ops.Transpose(b, ops.Reshape(b, y, split...), perm...), joined...)
	if cut {
		y = ops.Slice(b, y, append(begin, sym.Expr{}), append(extent, o), append(step, 1))
	}
	return y
}
