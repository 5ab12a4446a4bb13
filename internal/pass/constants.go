package pass

import (
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/tensor"
)

// deferredLeast is the size in bytes from which constants that a pass makes stay deferred until they are laid out for
// the code: so that they are never held twice.
const deferredLeast = 16 << 10

// deferredDeepest is how deep what is deferred may rest on what is deferred: a model may name every step between, and
// each would be computed from the first.
const deferredDeepest = 8

// settled has the elements of a constant computed that is small, or rests on too much.
func settled(t *tensor.Tensor) {
	if t.Size() >= deferredLeast && t.Depth() <= deferredDeepest {
		return
	}
	from := t.Origins()
	t.Bytes()
	for _, origin := range from {
		mem.Forget(origin.Bytes()) // what was read of a mapped file need not stay in memory
	}
}

// floats are the elements of a constant of f32, which a pass has made.
func floats(t *tensor.Tensor) []float32 {
	list, err := tensor.Data[float32](t)
	if err != nil {
		panic(diag.Internalf("the elements of a constant: %v", err))
	}
	return list
}

// converted is a tensor of floats as one of another type, rounded when its elements are wanted.
func converted(from *tensor.Tensor, to dtype.DType) (*tensor.Tensor, error) {
	if from.Rank() == 0 {
		return from.Convert(to, false)
	}
	return tensor.Deferred(to, from.Shape(), from, from.Major(), func(out *tensor.Tensor, axis int, begin, end int64) {
		part, release := tensor.Temporary(from.DType(), out.Shape()...)
		defer release()
		from.Fill(part, axis, begin, end)
		dtype.ConvertSlice(to, out.Bytes(), from.DType(), part.Bytes(), out.Len(), false)
	})
}
