package pass

import (
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/tensor"
)

// deferredLeast is the size in bytes from which a pass's constants stay deferred until they are laid out for the code,
// so that they are never held twice.
const deferredLeast = 16 << 10

// deferredDeepest is the longest chain of deferred constants: if the model names each one, each is computed from the
// first.
const deferredDeepest = 8

// settled computes the elements of a constant now if it is small, or its chain of deferred constants is too long.
func settled(t *tensor.Tensor) {
	if t.Size() >= deferredLeast && t.Depth() <= deferredDeepest {
		return
	}
	from := t.Origins()
	t.Bytes()
	for _, origin := range from {
		mem.Forget(origin.Bytes()) // pages of a mapped file need not stay in memory
	}
}

// floats returns the elements of a constant of f32 that a pass has made.
func floats(t *tensor.Tensor) []float32 {
	list, err := tensor.Data[float32](t)
	if err != nil {
		panic(diag.Internalf("the elements of a constant: %v", err))
	}
	return list
}

// converted returns a tensor of floats as one of another type; its elements are rounded when they are first read.
func converted(from *tensor.Tensor, to dtype.DType) (*tensor.Tensor, error) {
	if from.Rank() == 0 {
		return from.Convert(to, false)
	}
	return tensor.Deferred(to, from.Shape(), from, from.Major(), func(out *tensor.Tensor, axis int, begin, end int64) {
		slab, release := tensor.Temporary(from.DType(), out.Shape()...)
		defer release()
		from.Fill(slab, axis, begin, end)
		dtype.ConvertSlice(to, out.Bytes(), from.DType(), slab.Bytes(), out.Len(), false)
	})
}
