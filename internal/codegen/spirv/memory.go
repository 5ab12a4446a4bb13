package spirv

import (
	"github.com/weirml/weir/internal/codegen/blocks"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/target"
)

// classOf returns the storage class of a buffer that is a variable.
func classOf(m *memory) uint32 {
	if m.Shared {
		return storageClassWorkgroup
	}
	return storageClassFunction
}

// Private declares an array variable of a thread.
func (w *writer) Private(dt dtype.DType, count int64) id {
	return w.Variable(w.arrayType(w.Held(dt), count))
}

// Shared declares an array variable of a block.
func (w *writer) Shared(dt dtype.DType, count int64) id {
	array := w.arrayType(w.sharedType(dt), count)
	return w.uses(w.unique(opVariable, w.pointerType(storageClassWorkgroup, array), storageClassWorkgroup))
}

// Held returns the type of values of an element type: bool, integers of 32 or 64 bits, f32 for floats of at most 32
// bits, f64, and two integers for complex numbers. It refuses types that the machine does not have.
func (w *writer) Held(dt dtype.DType) id {
	switch {
	case dt == dtype.Bool:
		return w.boolType()
	case dt == dtype.C64:
		return w.pairType()
	case dt == dtype.F64:
		if !w.machine.Has(target.Float64) {
			blocks.Refuse("f64, which the device does not have")
		}
		return w.floatType(64)
	case dt.IsFloat():
		return w.floatType(32)
	case dt.Bits() == 64:
		if !w.int64s() {
			blocks.Refuse("%s, which the device does not have", dt)
		}
		return w.intType(64)
	case dt.IsInt():
		return w.intType(32)
	}
	blocks.Refuse("elements of %s", dt)
	return 0
}

// rawType returns the type of integers in memory with a number of bits.
func (w *writer) rawType(bits int) id {
	switch bits {
	case 8:
		w.capability(capabilityStorageBuffer8BitAccess)
		w.extension("SPV_KHR_8bit_storage")
		if !w.int64s() {
			w.capability(capabilityInt8)
		}
	case 16:
		w.capability(capabilityStorageBuffer16BitAccess)
		w.extension("SPV_KHR_16bit_storage")
		if !w.int64s() {
			w.capability(capabilityInt16)
		}
	case 64:
		if !w.int64s() {
			return w.pairType()
		}
	}
	return w.intType(uint32(bits))
}

// bitsStored returns the width of the integers by which elements of a type are read and written: the elements' own, or
// 32 if they have fewer than 8 bits or the machine cannot access narrow integers.
func (w *writer) bitsStored(dt dtype.DType) int {
	bits := dt.Bits()
	if bits < 8 || bits == 8 && !w.stores(target.Storage8, target.Int8) || bits == 16 &&
		!w.stores(target.Storage16, target.Int16) {
		return 32
	}
	return bits
}

// stores reports whether memory may be read and written in narrow integers. If addresses are two words, the machine
// must also compute with narrow integers: pointers to types that exist only in memory cannot be made from two words.
func (w *writer) stores(storage, arithmetic string) bool {
	return w.machine.Has(storage) && (w.int64s() || w.machine.Has(arithmetic))
}

// Load reads the element at an offset in elements.
func (w *writer) Load(m *memory, offset sym.Expr) id {
	if m.Variable != 0 {
		return w.loadVariable(m, w.kernel.Integer(offset))
	}
	return w.loadAt(m, w.elementOf(m, offset))
}

// element locates an element: the address of the integer that holds it, and its first bit there.
type element struct {
	address id
	shift   id // 0 if the element is the entire integer
}

// elementOf locates the element at an offset in elements.
func (w *writer) elementOf(m *memory, offset sym.Expr) element {
	bits, stored := m.DType.Bits(), w.bitsStored(m.DType)
	if bits == stored {
		return element{address: w.Address(m.Base, w.kernel.Scaled(offset, int64(bits/8)))}
	}
	per := sym.Const(int64(stored / bits))
	word := w.Address(m.Base, w.kernel.Scaled(offset.FloorDiv(per), int64(stored/8)))
	at := w.kernel.Product(w.kernel.Sized(w.kernel.Integer(offset.Mod(per)), false), w.kernel.Constant(int64(bits)))
	return element{word, at.ID}
}

// loadAt reads an element.
func (w *writer) loadAt(m *memory, e element) id {
	bits := w.bitsStored(m.DType)
	raw := w.rawType(bits)
	from := w.pointer(raw, e.address)
	var x id
	if m.Written { // some drivers assume that memory at an address never changes
		x = w.op2(opLoad, raw, from, w.access(memoryAccessAligned|memoryAccessVolatile), uint32(bits/8))
	} else {
		x = w.remembered(computation{op: opLoad, typ: raw, operands: [4]id{from}}, func() id {
			return w.op2(opLoad, raw, from, memoryAccessAligned, uint32(bits/8))
		})
	}
	if bits < 32 {
		x = w.op(opUConvert, w.intType(32), x)
	}
	if e.shift != 0 {
		word := w.intType(32)
		x = w.op(opBitwiseAnd, word, w.op(opShiftRightLogical, word, x, e.shift), w.constant32(1<<m.DType.Bits()-1))
	}
	return w.decode(m.DType, x)
}

// Store writes the element at an offset in elements.
func (w *writer) Store(m *memory, offset sym.Expr, x id) {
	if m.Variable != 0 {
		w.storeVariable(m, w.kernel.Integer(offset), x)
		return
	}
	e := w.elementOf(m, offset)
	x = w.encode(m.DType, x)
	bits := w.bitsStored(m.DType)
	raw := w.rawType(bits)
	to := w.pointer(raw, e.address)
	if e.shift != 0 {
		w.replaceBits(to, e.shift, m.DType.Bits(), x)
		return
	}
	if bits < 32 {
		x = w.op(opUConvert, raw, x)
	}
	w.do(opStore, uint32(to), uint32(x), w.access(memoryAccessAligned), uint32(bits/8))
}

// replaceBits writes some bits of a word atomically, since other threads may write its other bits.
func (w *writer) replaceBits(to, shift id, bits int, x id) {
	word := w.intType(32)
	mask := w.constant32(1<<bits - 1)
	x = w.op(opBitwiseAnd, word, x, mask)
	hole := w.op(opNot, word, w.op(opShiftLeftLogical, word, mask, shift))
	all, relaxed := w.allThreads(), w.constant32(0)
	w.op(opAtomicAnd, word, to, all, relaxed, hole)
	w.op(opAtomicOr, word, to, all, relaxed, w.op(opShiftLeftLogical, word, x, shift))
}

// loadVariable reads an element of a variable.
func (w *writer) loadVariable(m *memory, at integer) id {
	typ := w.variableType(m)
	from := w.element(classOf(m), m.Variable, typ, at.ID)
	if !m.Shared {
		return w.op(opLoad, typ, from)
	}
	if w.vulkan {
		return w.fromShared(m.DType, w.op2(opLoad, typ, from, w.access(memoryAccessNone)))
	}
	return w.fromShared(m.DType, w.op(opLoad, typ, from))
}

// storeVariable writes an element of a variable.
func (w *writer) storeVariable(m *memory, at integer, x id) {
	typ := w.variableType(m)
	if m.Shared {
		x = w.toShared(m.DType, x)
	}
	to := uint32(w.element(classOf(m), m.Variable, typ, at.ID))
	if m.Shared && w.vulkan {
		w.do(opStore, to, uint32(x), w.access(memoryAccessNone))
		return
	}
	w.do(opStore, to, uint32(x))
}

// variableType returns the type of a variable's elements: Held for a thread's own variable, and sharedType for
// shared memory.
func (w *writer) variableType(m *memory) id {
	if !m.Shared {
		return w.Held(m.DType)
	}
	return w.sharedType(m.DType)
}

// sharedType returns the type of elements in shared memory: f32, or else integers of SharedBits bits.
func (w *writer) sharedType(dt dtype.DType) id {
	switch bits := w.machine.SharedBits(dt.Bits()); {
	case dt == dtype.F32:
		return w.floatType(32)
	case bits == 8:
		w.capability(capabilityInt8)
		return w.intType(8)
	case bits == 16:
		w.capability(capabilityInt16)
		return w.intType(16)
	case bits == 64 && !w.int64s():
		return w.pairType()
	default:
		return w.intType(uint32(bits))
	}
}

// toShared converts a value to an element of shared memory.
func (w *writer) toShared(dt dtype.DType, x id) id {
	if dt == dtype.F32 {
		return x
	}
	x = w.encode(dt, x)
	if bits := w.machine.SharedBits(dt.Bits()); bits < 32 {
		return w.op(opUConvert, w.sharedType(dt), x)
	}
	return x
}

// fromShared converts an element of shared memory to a value.
func (w *writer) fromShared(dt dtype.DType, x id) id {
	if dt == dtype.F32 {
		return x
	}
	if bits := w.machine.SharedBits(dt.Bits()); bits < 32 {
		x = w.op(opUConvert, w.intType(32), x)
	}
	return w.decode(dt, x)
}

// LoadIf reads the element at an offset if a mask holds, and else the first one.
func (w *writer) LoadIf(m *memory, offset sym.Expr, mask id) id {
	if m.Variable != 0 {
		at := w.kernel.Integer(offset)
		first := w.kernel.Sized(w.kernel.Constant(0), at.Wide)
		return w.loadVariable(m, integer{ID: w.Choose(w.IntegerType(at.Wide), mask, at.ID, first.ID), Wide: at.Wide})
	}
	at := w.elementOf(m, offset)
	if at.shift != 0 {
		at.shift = w.Choose(w.intType(32), mask, at.shift, w.constant32(0))
	}
	at.address = w.chooseAddress(mask, at.address, m.Base)
	return w.loadAt(m, at)
}
