package spirv

import (
	"math"

	"github.com/weirml/weir/internal/dtype"
)

// Signed returns an integer value with a sign, and whether it is too large for one.
func (w *writer) Signed(x value) (v integer, beyond id) {
	v = integer{ID: x.ID, Wide: x.DType.Bits() == 64 && !x.Narrow}
	beyond = w.Bool(false)
	switch {
	case x.DType == dtype.U64:
		beyond = w.test(opUGreaterThan, x.ID, w.constant64(math.MaxInt64))
	case x.DType == dtype.U32 && w.int64s():
		v = integer{ID: w.op(opUConvert, w.intType(64), x.ID), Wide: true}
	case x.DType == dtype.U32:
		beyond = w.test(opUGreaterThan, x.ID, w.constant32(math.MaxInt32))
	}
	return v, beyond
}

// Report writes the launch's report, unless another thread did before.
func (w *writer) Report(at id, check int, x value, low, high integer) {
	word := w.intType(32)
	first := w.op(opAtomicCompareExchange, word, w.pointer(word, at), w.allThreads(), w.constant32(0), w.constant32(0),
		w.constant32(uint32(check)), w.constant32(0))
	w.When(w.test(opIEqual, first, w.constant32(0)), func() {
		typ := w.addressType()
		put := func(i int64, v id) {
			w.do(opStore, uint32(w.pointer(typ, w.Address(at, w.kernel.Constant(8*i)))), uint32(v), memoryAccessAligned, 8)
		}
		full := func(v integer, signed bool) id {
			switch {
			case v.Wide:
				return v.ID
			case w.int64s() && signed:
				return w.op(opSConvert, typ, v.ID)
			case w.int64s():
				return w.op(opUConvert, typ, v.ID)
			}
			high := w.constant32(0)
			if signed {
				high = w.word(opShiftRightArithmetic, v.ID, w.constant32(31))
			}
			return w.op(opCompositeConstruct, typ, v.ID, high)
		}
		put(1, full(integer{ID: x.ID, Wide: x.DType.Bits() == 64 && !x.Narrow}, x.DType.IsSigned()))
		put(2, full(low, true))
		put(3, full(high, true))
	}, nil)
}

// MultiplyAdd returns x·y + z. Floats may be rounded once or twice.
func (w *writer) MultiplyAdd(dt dtype.DType, x, y, z id) id {
	typ := w.Held(dt)
	if dt.IsFloat() {
		return w.extended(glslFma, typ, x, y, z)
	}
	return w.wrappedAny(dt, w.op(opIAdd, typ, z, w.op(opIMul, typ, x, y)))
}

// wrappedAny returns an integer reduced to the bits of a type, which may have 32 or more.
func (w *writer) wrappedAny(dt dtype.DType, x id) id {
	if dt.Bits() < 32 {
		return w.wrapped(dt, x)
	}
	return x
}
