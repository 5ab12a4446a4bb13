package ops

import (
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// reduction is a way to combine the elements along axes: begin, combine, and what is done with the sum at the end.
type reduction struct {
	name    string
	combine loop.BinaryOp
	begin   func(dt dtype.DType) *loop.Const
	accepts accepts
}

func zero(dt dtype.DType) *loop.Const  { return loop.Number(dt, 0) }
func unity(dt dtype.DType) *loop.Const { return loop.Number(dt, 1) }

// reductions are the primitive ones; means, norms and logarithms of sums are expansions of them.
var reductions = []reduction{
	{"reduce_sum", loop.Add, zero, numbers},
	{"reduce_prod", loop.Mul, unity, numbers},
	{"reduce_min", loop.Min, loop.Highest, func(dt dtype.DType) bool { return numbers(dt) || truths(dt) }},
	{"reduce_max", loop.Max, loop.Lowest, func(dt dtype.DType) bool { return numbers(dt) || truths(dt) }},
}

func init() {
	for _, r := range reductions {
		define(r.define())
	}
}

// ReduceSum and the like combine the elements along axes, which stay as extents of 1 where keep is true.
func ReduceSum(b *ir.Builder, x *ir.Value, keep bool, axes ...int64) *ir.Value {
	return reduce(b, "reduce_sum", x, keep, axes)
}

// ReduceMax is the largest element along axes; NaN where there is one.
func ReduceMax(b *ir.Builder, x *ir.Value, keep bool, axes ...int64) *ir.Value {
	return reduce(b, "reduce_max", x, keep, axes)
}

func reduce(b *ir.Builder, op string, x *ir.Value, keep bool, axes []int64) *ir.Value {
	if axes == nil {
		axes = []int64{}
	}
	return b.Op(op, ir.Attrs{"axes": axes, "keep": keep}, x)
}

// reducedShape is a shape with some axes reduced.
func reducedShape(n *ir.Node, shape []sym.Expr) ([]sym.Expr, []int, error) {
	axes, err := axesOf(n, n.Attrs.Ints("axes"), len(shape))
	if err != nil {
		return nil, nil, err
	}
	gone := make([]bool, len(shape))
	for _, a := range axes {
		gone[a] = true
	}
	out := []sym.Expr{}
	for i, extent := range shape {
		if !gone[i] {
			out = append(out, extent)
		} else if n.Attrs.Bool("keep") {
			out = append(out, one)
		}
	}
	return out, axes, nil
}

// reducedIndex puts the result's index and the reduced axes' index together.
func reducedIndex[T any](rank int, axes []int, keep bool, at, inner []T) []T {
	full := make([]T, rank)
	next, reduced := 0, 0
	for i := range full {
		if reduced < len(axes) && axes[reduced] == i {
			full[i] = inner[reduced]
			reduced++
			if keep {
				next++
			}
			continue
		}
		full[i] = at[next]
		next++
	}
	return full
}

func (r reduction) define() *Def {
	return &Def{Op: r.name, Shape: r.shape, Mean: r.mean, Lowerings: []Lowering{{Name: "nest", Build: r.nest}}}
}

func (r reduction) shape(c *ir.Inference, n *ir.Node) error {
	if err := arity(n, 1, 1); err != nil {
		return err
	}
	x := n.Inputs[0].Type
	if !r.accepts(x.DType) {
		return fault(n, "elements of type %s", x.DType)
	}
	shape, axes, err := reducedShape(n, x.Shape)
	if err != nil {
		return err
	}
	v := n.Result(0, ir.Type{DType: x.DType, Shape: shape})
	if known := n.Inputs[0].Known; known != nil && len(axes) == len(x.Shape) && len(known) > 0 {
		total := known[0]
		for _, e := range known[1:] {
			next, ok := knownBinary[r.combine](c.Dims(), total, e)
			if !ok {
				return nil
			}
			total = next
		}
		v.Known = []sym.Expr{total}
	}
	return nil
}

func (r reduction) mean(e *ir.Evaluation, n *ir.Node, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	out, err := result(e, n, 0)
	if err != nil {
		return nil, err
	}
	x := in[0]
	axes, err := axesOf(n, n.Attrs.Ints("axes"), x.Rank())
	if err != nil {
		return nil, err
	}
	inner := make([]int64, len(axes))
	for i, a := range axes {
		inner[i] = x.Shape()[a]
	}
	wide := wider(x.DType())
	strides, flat := tensor.Strides(x.Shape()), int64(0)
	tensor.Each(out.Shape(), func(at []int64) {
		total := r.begin(wide).Bits
		tensor.Each(inner, func(k []int64) {
			from := reducedIndex(x.Rank(), axes, n.Attrs.Bool("keep"), at, k)
			total = loop.EvalBinary(r.combine, wide, total, loop.EvalCast(wide, x.DType(), false, bitsOf(x, tensor.Offset(strides, from))))
		})
		setBits(out, flat, loop.EvalCast(x.DType(), wide, false, total))
		flat++
	})
	return []*tensor.Tensor{out}, nil
}

// wider is the type in which the reference sums elements of dt.
func wider(dt dtype.DType) dtype.DType {
	if dt.IsFloat() {
		return dtype.F64
	}
	return dt
}

func (r reduction) nest(k *Nest, n *ir.Node) {
	x, out := k.In[0], k.Out[0]
	axes, _ := axesOf(n, n.Attrs.Ints("axes"), len(x.Shape))
	inner := make([]sym.Expr, len(axes))
	for i, a := range axes {
		inner[i] = x.Shape[a]
	}
	dt := computing(x.DType)
	k.Nest(loop.Each, "i", out.Shape, func(at []sym.Expr) {
		total := k.Var("total", r.begin(dt))
		k.Nest(loop.Serial, "k", inner, func(at2 []sym.Expr) {
			k.Reduce(total, r.combine, loop.Convert(dt, x.Load(reducedIndex(len(x.Shape), axes, n.Attrs.Bool("keep"), at, at2)...)))
		})
		k.Store(out, at, loop.Convert(out.DType, total))
	})
}
