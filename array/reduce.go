package array

import (
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
)

// reduce applies a reduction along axes, all of them if none is given; negative axes count from the last.
func (s *Scope) reduce(name string, x *Array, keep bool, axes []int, build func(b *ir.Builder, v *ir.Value, keep bool, axes ...int64) *ir.Value) *Array {
	x, _ = s.settle(x, nil)
	if s.failed() {
		return s.none(1)[0]
	}
	list, err := axesOf(x, axes)
	if err != nil {
		s.failAt(name, err)
		return s.none(1)[0]
	}
	ints := []int{0}
	if keep {
		ints[0] = 1
	}
	for _, a := range list {
		ints = append(ints, int(a))
	}
	return s.one(operation{name: name, ints: ints, build: func(b *ir.Builder, in []*ir.Value) []*ir.Value {
		return []*ir.Value{build(b, in[0], keep, list...)}
	}}, x)
}

// axesOf are axes from 0 on; all of them if none is given.
func axesOf(x *Array, axes []int) ([]int64, error) {
	if x == nil {
		return nil, diag.Inputf("an array is nil")
	}
	var out []int64
	if len(axes) == 0 {
		for i := range x.shape {
			out = append(out, int64(i))
		}
	}
	for _, a := range axes {
		i, err := axisOf(x, a)
		if err != nil {
			return nil, err
		}
		out = append(out, i)
	}
	return out, nil
}

// axisOf is an axis from 0 on.
func axisOf(x *Array, axis int) (int64, error) {
	i := axis
	if i < 0 {
		i += len(x.shape)
	}
	if i < 0 || i >= len(x.shape) {
		return 0, diag.Inputf("axis %d of %v", axis, x)
	}
	return int64(i), nil
}

// Sum is the sum along axes, all of them if none is given.
func (s *Scope) Sum(x *Array, axes ...int) *Array {
	return s.reduce("sum", x, false, axes, ops.ReduceSum)
}

// Mean is the mean along axes, all of them if none is given.
func (s *Scope) Mean(x *Array, axes ...int) *Array {
	return s.reduce("mean", x, false, axes, ops.ReduceMean)
}

// Softmax is the exponentials along an axis, divided by their sum.
func (s *Scope) Softmax(x *Array, axis int) *Array { return s.along("softmax", x, axis, ops.Softmax) }

// LogSoftmax is the logarithm of Softmax.
func (s *Scope) LogSoftmax(x *Array, axis int) *Array {
	return s.along("log_softmax", x, axis, ops.LogSoftmax)
}

// along applies an operation that has one axis.
func (s *Scope) along(name string, x *Array, axis int, build func(b *ir.Builder, v *ir.Value, axis int64) *ir.Value) *Array {
	x, _ = s.settle(x, nil)
	if s.failed() {
		return s.none(1)[0]
	}
	i, err := axisOf(x, axis)
	if err != nil {
		s.failAt(name, err)
		return s.none(1)[0]
	}
	return s.one(operation{name: name, ints: []int{int(i)}, build: func(b *ir.Builder, in []*ir.Value) []*ir.Value {
		return []*ir.Value{build(b, in[0], i)}
	}}, x)
}
