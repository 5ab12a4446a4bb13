package array

import (
	"math"
	"slices"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// filled returns an array of a known shape whose element i is f(i), rounded to the type.
func (s *Scope) filled(name string, dt weir.DType, shape []int, f func(i int) float64) *Array {
	if s.stopped() {
		return s.none(1)[0]
	}
	sizes := make([]int64, len(shape))
	for i, e := range shape {
		if sizes[i] = int64(e); e < 0 {
			return s.refuse(name, diag.Inputf("an extent of %d", e))
		}
	}
	t, a, err := s.fillable(dt, sizes, shape)
	if err != nil {
		return s.refuse(name, err)
	}
	for i := range t.Len() {
		if dt.IsFloat() {
			t.SetFloat(i, f(int(i)))
		} else {
			t.SetInt(i, int64(f(int(i))))
		}
	}
	if a == nil {
		return s.trace.constant(s, t)
	}
	return a
}

// mostConstant is the maximum size of a constant in a trace: 1 GiB. Constants lie in Go's heap, where an allocation
// cannot fail with an error.
const mostConstant = 1 << 30

// fillable returns a tensor of a known shape to write. It shares a new array's memory; in a trace, a is nil, and the
// tensor is to become a constant.
func (s *Scope) fillable(dt weir.DType, sizes []int64, shape []int) (t *tensor.Tensor, a *Array, err error) {
	if s.trace == nil {
		if a, err = s.empty(dt, slices.Clone(shape), dt.IsSubByte()); err != nil {
			return nil, nil, err
		}
		if t, err = tensor.Over(dt, sizes, a.tensor.Bytes()); err != nil {
			a.Close()
		}
		return t, a, err
	}
	bytes := int64(max(dt.Size(), 1)) // a shape without elements may have extents that no sum of sizes can hold
	for _, e := range sizes {
		if e = max(e, 1); bytes > mostConstant/e {
			return nil, nil, diag.New(weir.ErrMemory, "a constant of the shape %v in a trace, which may have %d bytes", shape,
				int64(mostConstant))
		}
		bytes *= e
	}
	t, err = tensor.New(dt, sizes...)
	return t, nil, err
}

// Arange returns start, start + step, … up to but excluding stop.
func (s *Scope) Arange(dt weir.DType, start, stop, step float64) *Array {
	count := math.Ceil((stop - start) / step)
	if step == 0 || !(math.Abs(count) <= 1<<40) {
		if !s.stopped() {
			s.failAt("arange", diag.Inputf("from %v on before %v in steps of %v", start, stop, step))
		}
		return s.none(1)[0]
	}
	return s.filled("arange", dt, []int{max(int(count), 0)}, func(i int) float64 { return start + float64(i)*step })
}

// Iota returns 0, 1, … n − 1; n may be a named extent.
func (s *Scope) Iota(dt weir.DType, n int) *Array {
	if s.stopped() {
		return s.none(1)[0]
	}
	exprs, err := s.extents([]int{n})
	if err != nil {
		return s.refuse("iota", err)
	}
	if s.trace == nil && (dt.IsInt() || dt.IsFloat()) {
		return s.filled("iota", dt, []int{n}, func(i int) float64 { return float64(i) })
	}
	return s.op("iota", []int{int(dt), n}, func(b *ir.Builder, _ []*ir.Value) *ir.Value {
		return ops.Counting(b, dt, exprs[0])
	})
}

// Linspace returns n equally spaced numbers from start to stop, both included.
func (s *Scope) Linspace(dt weir.DType, start, stop float64, n int) *Array {
	return s.filled("linspace", dt, []int{n}, func(i int) float64 {
		if i > 0 && i == n-1 {
			return stop
		}
		return start + float64(i)*((stop-start)/math.Max(float64(n-1), 1))
	})
}

// Eye returns a matrix of n rows and m columns with ones in column row + k, and zeros elsewhere.
func (s *Scope) Eye(dt weir.DType, n, m, k int) *Array {
	return s.filled("eye", dt, []int{n, m}, func(i int) float64 { return float64(flag(m > 0 && i%m == i/m+k)) })
}

// ZerosLike returns zeros of x's shape and type.
func (s *Scope) ZerosLike(x *Array) *Array { return s.FullLike(0, x) }

// OnesLike returns ones of x's shape and type.
func (s *Scope) OnesLike(x *Array) *Array { return s.FullLike(1, x) }

// FullLike returns an array of x's shape and type whose elements all equal number.
func (s *Scope) FullLike(number float64, x *Array) *Array {
	if !s.ready("full_like", []*Array{x}) {
		return s.none(1)[0]
	}
	return s.Full(number, x.dtype, x.shape...)
}

// Meshgrid broadcasts vectors to a common grid: vector i varies along axis i of its result, and each result has all
// vectors' extents as its shape. NumPy calls this indexing "ij".
func (s *Scope) Meshgrid(xs ...*Array) []*Array {
	if !s.ready("meshgrid", xs) {
		return s.none(len(xs))
	}
	for _, x := range xs {
		if len(x.shape) != 1 {
			s.failAt("meshgrid", diag.Inputf("%v is no vector", x))
			return s.none(len(xs))
		}
	}
	return s.many(operation{name: "meshgrid", build: func(b *ir.Builder, v []*ir.Value) []*ir.Value {
		shape, out := make([]sym.Expr, len(v)), make([]*ir.Value, len(v))
		for i, x := range v {
			shape[i] = x.Type.Shape[0]
		}
		for i, x := range v {
			at := slices.Repeat([]sym.Expr{one}, len(v))
			at[i] = shape[i]
			out[i] = same(b, ops.Expand(b, ops.Reshape(b, x, at...), shape...))
		}
		return out
	}}, len(xs), xs...)
}
