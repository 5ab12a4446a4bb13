package torch

import (
	"slices"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
)

// sharing says whether a result shares the memory of an argument.
type sharing int

const (
	separate sharing = iota
	shared
	unknown
)

// viewer is an operator whose result may share its argument's memory.
type viewer struct {
	shares func(c *call) sharing
	// back returns base with the elements of the view replaced by v; nil if that is not known.
	back func(c *call, base, v *ir.Value, result int) *ir.Value
}

// views has the operators whose results may share their arguments' memory.
var views map[string]*viewer

// init fills views.
func init() {
	always := func(*call) sharing { return shared }
	never := func(*call) sharing { return unknown }
	reshaped, turned, numbered := &viewer{always, reshapedBack}, &viewer{always, turnedBack}, &viewer{always, numberedBack}
	views = map[string]*viewer{
		"aten.reshape.default": {sharesReshaped, reshapedBack}, "aten.flatten.using_ints": {sharesReshaped, reshapedBack},
		"aten.contiguous.default": {sharesContiguous, reshapedBack}, "aten.permute.default": {always, permutedBack},
		"aten.slice.Tensor": {always, slicedBack}, "aten.select.int": {always, selectedBack},
		"aten.narrow.default": {always, narrowedBack},
		"aten.split.Tensor":   {always, cutBack}, "aten.split_with_sizes.default": {always, cutBack},
		"aten.chunk.default": {always, cutBack},
		"aten.unbind.int":    {always, unboundBack}, "aten.expand.default": {always, expandedBack},
		"aten.expand_as.default": {always, expandedBack},
		"aten.diagonal.default":  numbered, "aten.as_strided.default": {always, stridedBack},
		"aten.unfold.default":  {always, nil},
		"aten.dropout.default": {sharesDropped, reshapedBack},
	}
	for _, name := range []string{"view.default", "_unsafe_view.default", "unsqueeze.default", "squeeze.default",
		"squeeze.dim", "squeeze.dims",
		"unflatten.int", "alias.default", "detach.default"} {
		views["aten."+name] = reshaped
	}
	for _, name := range []string{"transpose.int", "t.default", "numpy_T.default"} {
		views["aten."+name] = turned
	}
	for _, name := range []string{"to.dtype", "to.dtype_layout", "to.device", "type_as.default"} {
		views["aten."+name] = &viewer{sharesConverted, reshapedBack}
	}
	for _, name := range []string{"einsum.default", "real.default", "imag.default", "view_as_real.default",
		"view_as_complex.default",
		"_conj.default", "resolve_conj.default", "resolve_neg.default", "_neg_view.default"} {
		views["aten."+name] = &viewer{never, nil}
	}
}

// viewed returns the name of the argument that a node views; "" if it has none.
func (c *call) viewed() string {
	for _, arg := range []string{"self", "input", "a", "tensors"} {
		var n named
		var list []named
		switch a := c.args[arg]; {
		case a == nil:
		case a.kind == "as_tensor" && a.into(&n) == nil:
			return n.Name
		case a.kind == "as_tensors" && a.into(&list) == nil && len(list) == 1:
			return list[0].Name
		}
	}
	return ""
}

// putBack returns base with the elements of a view replaced by v.
func (c *call) putBack(base, v *ir.Value, result int) *ir.Value {
	back := views[c.name].back
	if back == nil {
		c.Fail(diag.Unsupportedf("a write to a view that %s makes", c.name))
	}
	return back(c.on(base), base, v, result)
}

// reshapedBack is putBack for views of all elements in their order.
func reshapedBack(c *call, base, v *ir.Value, _ int) *ir.Value {
	return ops.Reshape(c.Builder, v, base.Type.Shape...)
}

// turnedBack is putBack for views that exchange two axes.
func turnedBack(c *call, _, v *ir.Value, _ int) *ir.Value {
	c.base = v
	return transpose(c)[0]
}

// permutedBack is putBack for views that permute the axes.
func permutedBack(c *call, _, v *ir.Value, _ int) *ir.Value {
	perm := c.listOf("dims")
	back := make([]int64, len(perm))
	for i, axis := range perm {
		back[c.axisOf(axis, len(perm))] = int64(i)
	}
	return ops.Transpose(c.Builder, v, back...)
}

// slicedBack is putBack for slices.
func slicedBack(c *call, base, v *ir.Value, _ int) *ir.Value {
	axis, begin, end := c.sliced(base)
	return c.within(base, v, axis, begin, end, c.int("step", 1))
}

// narrowedBack is putBack for narrow.
func narrowedBack(c *call, base, v *ir.Value, _ int) *ir.Value {
	axis := c.axis("dim", 0, len(base.Type.Shape))
	begin := c.bound(c.sym("start"), base.Type.Shape[axis])
	return c.within(base, v, axis, begin, begin.Add(v.Type.Shape[axis]), 1)
}

// selectedBack is putBack for the slice at one index.
func selectedBack(c *call, base, v *ir.Value, _ int) *ir.Value {
	if a := c.args["index"]; a != nil && c.decidedBy(a) != nil {
		return numberedBack(c, base, v, 0)
	}
	axis := c.axis("dim", 0, len(base.Type.Shape))
	index := c.position(base, axis)
	v = ops.Reshape(c.Builder, v, insertExtent(v.Type.Shape, axis, unit)...)
	return c.within(base, v, axis, index, index.Add(unit), 1)
}

// cutBack is putBack for the pieces of a tensor along an axis.
func cutBack(c *call, base, v *ir.Value, result int) *ir.Value {
	axis := c.axis("dim", 0, len(base.Type.Shape))
	begin := sym.Const(0)
	for _, piece := range rules[c.name](c)[:result] {
		begin = begin.Add(piece.Type.Shape[axis])
	}
	return c.within(base, v, axis, begin, begin.Add(v.Type.Shape[axis]), 1)
}

// unboundBack is putBack for the slices at all indices.
func unboundBack(c *call, base, v *ir.Value, result int) *ir.Value {
	axis, index := c.axis("dim", 0, len(base.Type.Shape)), sym.Const(int64(result))
	v = ops.Reshape(c.Builder, v, insertExtent(v.Type.Shape, axis, unit)...)
	return c.within(base, v, axis, index, index.Add(unit), 1)
}

// expandedBack is putBack for expanded views that repeat nothing.
func expandedBack(c *call, base, v *ir.Value, _ int) *ir.Value {
	if c.Dims().EQ(product(base.Type.Shape), product(v.Type.Shape)) != sym.Yes {
		c.Fail(diag.Unsupportedf("a write to a view of %s that repeats elements", base.Type))
	}
	return ops.Reshape(c.Builder, v, base.Type.Shape...)
}

// stridedBack is putBack for views of a tensor's memory whose strides are known to reach no element twice.
func stridedBack(c *call, base, v *ir.Value, _ int) *ir.Value {
	sizes, strides := c.syms("size"), c.syms("stride")
	if !c.rowMajor(sizes, strides) && !reachOnce(sizes, strides) {
		c.Fail(diag.Unsupportedf("a write to a view of memory whose elements may be the same"))
	}
	return numberedBack(c, base, v, 0)
}

// reachOnce reports whether sizes and strides are known, and reach no element twice.
func reachOnce(sizes, strides []sym.Expr) bool {
	known := map[int64]int64{} // sizes by strides
	for i := range sizes {
		size, ok := sizes[i].Const()
		stride, also := strides[i].Const()
		if !ok || !also || size > mostIndices || stride > mostIndices {
			return false
		}
		if size == 1 {
			continue
		}
		if known[stride] != 0 {
			return false
		}
		known[stride] = size
	}
	for stride := range known {
		reach := int64(0) // the greatest offset along the axes with smaller strides
		for other, size := range known {
			if other < stride {
				reach += other * (size - 1)
			}
		}
		if stride <= reach {
			return false
		}
	}
	return true
}

// numberedBack is putBack for any view that has no element twice: it applies the view to a tensor of the elements'
// indices.
func numberedBack(c *call, base, v *ir.Value, result int) *ir.Value {
	count := c.Dims().Simplify(product(base.Type.Shape))
	numbers := ops.Reshape(c.Builder, ops.Counting(c.Builder, dtype.I64, count), base.Type.Shape...)
	indices := c.again(numbers, result)
	n := c.Dims().Simplify(product(v.Type.Shape))
	indices, v = ops.Reshape(c.Builder, indices, n, unit), ops.Reshape(c.Builder, v, n)
	flat := ops.ScatterND(c.Builder, ops.Reshape(c.Builder, base, count), indices, v, "none")
	return ops.Reshape(c.Builder, flat, base.Type.Shape...)
}

// sharesConverted is the viewer.shares of conversions: they return the tensor itself if it already has the type.
func sharesConverted(c *call) sharing {
	switch {
	case c.made().Type.DType != c.values[c.viewed()].Type.DType || c.bool("copy", false):
		return separate
	case c.has("memory_format"):
		return unknown
	}
	return shared
}

// sharesDropped is the viewer.shares of dropout: outside of training it returns the tensor itself.
func sharesDropped(c *call) sharing {
	if c.bool("train", false) && c.float("p", 0.5) != 0 {
		return separate
	}
	return shared
}

// made returns the first result of a node that is built.
func (c *call) made() *ir.Value {
	names := c.outputNames(c.node)
	if len(names) == 0 || c.values[names[0]] == nil {
		c.Fail(diag.Inputf("a view without a result"))
	}
	return c.values[names[0]]
}

// sharesContiguous is the viewer.shares of contiguous: it returns the tensor itself if that is in row-major order.
func sharesContiguous(c *call) sharing {
	sizes, strides, ok := c.layout()
	if ok && c.rowMajor(sizes, strides) {
		return shared
	}
	if _, _, static := constantView(sizes, strides); ok && static {
		return separate
	}
	return unknown
}

// sharesReshaped is the viewer.shares of reshape: its result is a view if strides can express it.
func sharesReshaped(c *call) sharing {
	sizes, strides, ok := c.layout()
	if ok && c.rowMajor(sizes, strides) {
		return shared
	}
	from, by, static := constantView(sizes, strides)
	out := c.made().Type.Shape
	to, _, also := constantView(out, out)
	switch {
	case !ok || !static || !also:
		return unknown
	case viewable(from, by, to):
		return shared
	}
	return separate
}

// layout returns the sizes and strides of the tensor that a node views, if the file has them.
func (c *call) layout() (sizes, strides []sym.Expr, ok bool) {
	meta, ok := c.json.Tensors[c.viewed()]
	if !ok || len(meta.Strides) != len(meta.Sizes) {
		return nil, nil, false
	}
	for i := range meta.Sizes {
		size, err := c.extent(meta.Sizes[i], c.symbol)
		if err != nil {
			return nil, nil, false
		}
		stride, err := c.extent(meta.Strides[i], c.symbol)
		if err != nil {
			return nil, nil, false
		}
		sizes, strides = append(sizes, size), append(strides, stride)
	}
	return sizes, strides, true
}

// constantView returns sizes and strides as numbers; ok is false unless all are known.
func constantView(sizes, strides []sym.Expr) (from, by []int64, ok bool) {
	for i := range sizes {
		size, ok := sizes[i].Const()
		stride, also := strides[i].Const()
		if !ok || !also {
			return nil, nil, false
		}
		from, by = append(from, size), append(by, stride)
	}
	return from, by, true
}

// viewable reports whether strides can express a tensor in another shape without a copy.
func viewable(sizes, strides, to []int64) bool {
	if slices.Contains(sizes, 0) {
		return true
	}
	next := len(to) - 1
	for i := len(sizes) - 1; i >= 0; {
		step := strides[i] // the step of the axes that are contiguous
		count, viewed := int64(1), int64(1)
		for {
			count *= sizes[i]
			i--
			if i < 0 || sizes[i] != 1 && strides[i] != count*step {
				break
			}
		}
		for next >= 0 && (viewed < count || to[next] == 1) {
			viewed *= to[next]
			next--
		}
		if viewed != count {
			return false
		}
	}
	return true
}
