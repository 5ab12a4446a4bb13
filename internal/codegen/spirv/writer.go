package spirv

import (
	"github.com/weirml/weir/internal/codegen/blocks"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/target"
)

// writer writes one kernel's module: see blocks.Language, whose methods are its exported ones, and those of module and
// body.
type writer struct {
	*module
	*body
	kernel    *blocks.Writer
	machine   target.Machine
	numbers   map[id]float64 // values of floats that are constants
	words     map[id]id      // of floats that back made: their bits
	modes     []uint32       // execution modes that take the width of floats
	arguments id             // the address of the argument block
	subgroups bool           // the entry relies on the size of subgroups
}

type (
	integer = blocks.Integer
	value   = blocks.Value
	memory  = blocks.Memory
)

// Begin begins an entry: it loads the address of the argument block.
func (w *writer) Begin() {
	w.body, w.subgroups = w.newBody(), false
	w.arguments = w.pushed(0, w.addressType())
}

// Step loads the number of the step.
func (w *writer) Step() id { return w.pushed(1, w.intType(32)) }

// pushed loads a member of the push constants, which have two: an address, and a step's number.
func (w *writer) pushed(member uint32, typ id) id {
	block := w.global(opTypeStruct, 0, uint32(w.addressType()), uint32(w.intType(32)))
	if !w.noted("block") {
		w.decorate(block, decorationBlock)
		for member, offset := range []uint32{0, 8} {
			w.decorations = appendOp(w.decorations, opMemberDecorate, uint32(block), uint32(member), decorationOffset, offset)
		}
	}
	constants := w.global(opVariable, w.pointerType(storageClassPushConstant, block), storageClassPushConstant)
	at := w.op(opAccessChain, w.pointerType(storageClassPushConstant, typ), w.uses(constants), w.constant32(member))
	return w.op(opLoad, typ, at)
}

// Finish adds the written function to the module as an entry point.
func (w *writer) Finish(e *target.Entry) {
	m := w.module
	w.body.finish()
	if w.subgroups {
		e.Subgroup = w.machine.Limits.Subgroup
	}
	operands := append([]uint32{executionModelGLCompute, uint32(w.body.function)}, literal(e.Name)...)
	for _, x := range w.body.mentions {
		operands = append(operands, uint32(x))
	}
	m.entries = appendOp(m.entries, opEntryPoint, operands...)
	m.modes = appendOp(m.modes, opExecutionMode, uint32(w.body.function), executionModeLocalSize, uint32(e.Threads), 1, 1)
	for _, mode := range w.modes {
		m.modes = appendOp(m.modes, opExecutionMode, uint32(w.body.function), mode, 32)
	}
}

// float32Modes requests the modes of IEEE 754 for f32 that the machine has.
func (w *writer) float32Modes() {
	for _, row := range []struct {
		feature          string
		capability, mode uint32
	}{
		{target.KeepsSpecial, capabilitySignedZeroInfNanPreserve, executionModeSignedZeroInfNanPreserve},
		{target.KeepsSubnormal, capabilityDenormPreserve, executionModeDenormPreserve},
	} {
		if w.machine.Has(row.feature) {
			w.extension("SPV_KHR_float_controls")
			w.capability(row.capability)
			w.modes = append(w.modes, row.mode)
		}
	}
}

// noted reports whether a name was noted before, and notes it.
func (w *writer) noted(what string) bool {
	_, was := w.known[what]
	w.known[what] = 0
	return was
}

// int64s reports whether the machine computes with integers of 64 bits.
func (w *writer) int64s() bool { return w.machine.Has(target.Int64) }

// addressType returns the type of an address: an integer of 64 bits, or two of 32.
func (w *writer) addressType() id {
	if w.int64s() {
		return w.intType(64)
	}
	return w.pairType()
}

// Argument loads the i-th word of the argument block, as an address.
func (w *writer) Argument(i int) id {
	at := w.Address(w.arguments, w.kernel.Constant(int64(8*i)))
	return w.op2(opLoad, w.addressType(), w.pointer(w.addressType(), at), memoryAccessAligned, 8)
}

// Word converts a word of the argument block to an integer.
func (w *writer) Word(argument id, wide bool) id {
	switch {
	case !w.int64s():
		return w.op(opCompositeExtract, w.intType(32), argument, 0)
	case wide:
		return argument
	}
	return w.op(opUConvert, w.intType(32), argument)
}

// op2 is op for an instruction with one id and then numbers as operands. It always writes a new instruction.
func (w *writer) op2(op opcode, typ, x id, numbers ...uint32) id {
	result := w.fresh()
	w.code = append(w.code, uint32(4+len(numbers))<<16|uint32(op), uint32(typ), uint32(result), uint32(x))
	w.code = append(w.code, numbers...)
	return result
}

// Address returns an address plus an offset in bytes. If the address is two words, the offset is not negative.
func (w *writer) Address(base id, offset integer) id {
	if w.int64s() {
		return w.op(opIAdd, w.intType(64), base, w.kernel.Widened(offset).ID)
	}
	word := w.intType(32)
	low, high := w.op2(opCompositeExtract, word, base, 0), w.op2(opCompositeExtract, word, base, 1)
	both := w.op(opIAddCarry, w.global(opTypeStruct, 0, uint32(word), uint32(word)), low, offset.ID)
	high = w.op(opIAdd, word, high, w.op2(opCompositeExtract, word, both, 1))
	return w.op(opCompositeConstruct, w.pairType(), w.op2(opCompositeExtract, word, both, 0), high)
}

// pointer converts an address to a pointer to a type.
func (w *writer) pointer(typ, address id) id {
	to := w.pointerType(storageClassPhysicalStorageBuffer, typ)
	if w.int64s() {
		return w.op(opConvertUToPtr, to, address)
	}
	return w.op(opBitcast, to, address)
}

// IntegerType returns the type of an integer.
func (w *writer) IntegerType(wide bool) id {
	if wide {
		return w.intType(64)
	}
	return w.intType(32)
}

// Number returns a constant integer.
func (w *writer) Number(v int64, wide bool) id {
	if wide {
		return w.constant64(uint64(v))
	}
	return w.constant32(uint32(v))
}

// operations has the instructions for integers.
var operations = [...]opcode{blocks.Add: opIAdd, blocks.Subtract: opISub, blocks.Multiply: opIMul,
	blocks.Quotient: opUDiv, blocks.Remainder: opUMod, blocks.Divide: opSDiv, blocks.Less: opSLessThan,
	blocks.Greater: opSGreaterThan, blocks.Unequal: opINotEqual}

// Arithmetic computes with two integers of one width.
func (w *writer) Arithmetic(op blocks.Operation, wide bool, x, y id) id {
	return w.op(operations[op], w.IntegerType(wide), x, y)
}

// Compare compares two integers.
func (w *writer) Compare(op blocks.Operation, x, y id) id { return w.test(operations[op], x, y) }

// Or returns whether one of two bools is true.
func (w *writer) Or(x, y id) id { return w.op(opLogicalOr, w.boolType(), x, y) }

// Resize changes the width of an integer; its sign stays if it becomes wide.
func (w *writer) Resize(x id, wide bool) id {
	if wide {
		return w.op(opSConvert, w.intType(64), x)
	}
	return w.op(opUConvert, w.intType(32), x)
}

// Thread returns the number of the thread in its block.
func (w *writer) Thread() id { return w.builtIn(builtInLocalInvocationId, 0) }

// Block returns the block's column (0) or row (1) in the grid.
func (w *writer) Block(axis uint32) id { return w.builtIn(builtInWorkgroupId, axis) }

// builtIn loads a component of a built-in vector, by the vector's number in the grammar.
func (w *writer) builtIn(number, component uint32) id {
	vector := w.global(opTypeVector, 0, uint32(w.intType(32)), 3)
	return w.op2(opCompositeExtract, w.intType(32), w.given(number, vector), component)
}

// given loads a built-in variable of a type, by its number in the grammar.
func (w *writer) given(number uint32, typ id) id {
	x := w.known["builtin "+string(rune('0'+number))]
	if x == 0 {
		x = w.unique(opVariable, w.pointerType(storageClassInput, typ), storageClassInput)
		w.known["builtin "+string(rune('0'+number))] = x
		w.decorate(x, decorationBuiltIn, number)
	}
	return w.op(opLoad, typ, w.uses(x))
}

// Subgroup returns the number of the thread's subgroup in its block.
func (w *writer) Subgroup() id { return w.ofSubgroup(builtInSubgroupId) }

// Lane returns the number of the thread in its subgroup.
func (w *writer) Lane() id { return w.ofSubgroup(builtInSubgroupLocalInvocationId) }

// ofSubgroup loads a built-in number of subgroups.
func (w *writer) ofSubgroup(number uint32) id {
	w.subgroups = true
	w.capability(capabilityGroupNonUniform)
	return w.given(number, w.intType(32))
}

// Further returns the value x of the thread whose lane is greater by lanes.
func (w *writer) Further(dt dtype.DType, x id, lanes int64) id {
	const subgroup = 3 // the scope
	w.capability(capabilityGroupNonUniform, capabilityGroupNonUniformShuffleRelative)
	return w.write(opGroupNonUniformShuffleDown, w.Held(dt), []id{w.constant32(subgroup), x,
		w.constant32(uint32(lanes))})
}
