package ops

import (
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/tensor"
)

// moveElement copies one element, of any type, between tensors of one type.
func moveElement(to *tensor.Tensor, i int64, from *tensor.Tensor, j int64) {
	switch bits := to.DType().Bits(); {
	case to.DType() == dtype.String:
		to.Strings()[i] = from.Strings()[j]
	case bits%8 == 0:
		w := int64(bits / 8)
		copy(to.Bytes()[i*w:(i+1)*w], from.Bytes()[j*w:(j+1)*w])
	default:
		setBits(to, i, bitsOf(from, j))
	}
}
