package spirv

// body is a function without parameters under construction. Control flow is structured: when and loop write an entire
// branch or loop, and call functions that write its inside.
type body struct {
	m         *module
	function  id
	variables []uint32             // the function's variables: they come first in its first block
	code      []uint32             // the instructions after them
	mentions  []id                 // the global variables that it mentions
	computed  []map[computation]id // earlier results, for each branch and loop around the next instruction
}

// computation is an instruction whose result depends on its operands alone.
type computation struct {
	op       opcode
	exactly  bool
	number   uint32 // of an extended instruction
	typ      id
	operands [4]id
}

// newBody returns an empty function of the module.
func (m *module) newBody() *body {
	return &body{m: m, function: m.fresh(), computed: []map[computation]id{{}}}
}

// The results of the instructions from firstAtomic to lastAtomic, and of OpLoad, depend on more than their operands.
const firstAtomic, lastAtomic opcode = 227, 242

// once returns the result of an earlier instruction that computed the same, or else that of write, which it calls.
func (b *body) once(c computation, operands []id, write func() id) id {
	if len(operands) > len(c.operands) || c.op == opLoad || c.op >= firstAtomic && c.op <= lastAtomic {
		return write()
	}
	copy(c.operands[:], operands)
	return b.remembered(c, write)
}

// remembered is once for an instruction whose result the caller knows to depend only on its operands.
func (b *body) remembered(c computation, write func() id) id {
	for _, known := range b.computed {
		if x, ok := known[c]; ok {
			return x
		}
	}
	x := write()
	b.computed[len(b.computed)-1][c] = x
	return x
}

// inside writes instructions that may not run although those after them do: later ones cannot use their results.
func (b *body) inside(write func()) {
	b.computed = append(b.computed, map[computation]id{})
	write()
	b.computed = b.computed[:len(b.computed)-1]
}

// finish adds the function to the module.
func (b *body) finish() {
	m := b.m
	void := m.voidType()
	m.functions = appendOp(m.functions, opFunction, uint32(void), uint32(b.function), functionControlNone,
		uint32(m.global(opTypeFunction, 0, uint32(void))))
	m.functions = appendOp(m.functions, opLabel, uint32(m.fresh()))
	m.functions = append(append(m.functions, b.variables...), b.code...)
	m.functions = appendOp(m.functions, opReturn)
	m.functions = appendOp(m.functions, opFunctionEnd)
}

// do writes an instruction without a result.
func (b *body) do(op opcode, operands ...uint32) { b.code = appendOp(b.code, op, operands...) }

// op writes an instruction with a result of a type.
func (b *body) op(op opcode, typ id, operands ...id) id {
	return b.once(computation{op: op, typ: typ}, operands, func() id { return b.write(op, typ, operands) })
}

// write writes an instruction with a result of a type, without looking for an earlier one.
func (b *body) write(op opcode, typ id, operands []id) id {
	x := b.m.fresh()
	b.code = append(b.code, uint32(len(operands)+3)<<16|uint32(op), uint32(typ), uint32(x))
	for _, o := range operands {
		b.code = append(b.code, uint32(o))
	}
	return x
}

// exactly is op for arithmetic of floats that a driver must not contract with other arithmetic.
func (b *body) exactly(op opcode, typ id, operands ...id) id {
	return b.once(computation{op: op, typ: typ, exactly: true}, operands, func() id {
		x := b.write(op, typ, operands)
		b.m.decorate(x, decorationNoContraction)
		return x
	})
}

// extended writes a function of GLSL.std.450, by its number.
func (b *body) extended(number uint32, typ id, operands ...id) id {
	return b.once(computation{op: opExtInst, number: number, typ: typ}, operands, func() id {
		x := b.m.fresh()
		b.code = append(b.code, uint32(len(operands)+5)<<16|uint32(opExtInst), uint32(typ), uint32(x), uint32(b.m.glsl()),
			number)
		for _, o := range operands {
			b.code = append(b.code, uint32(o))
		}
		return x
	})
}

// Variable declares a variable of the function.
func (b *body) Variable(typ id) id {
	x := b.m.fresh()
	b.variables = appendOp(b.variables, opVariable, uint32(b.m.pointerType(storageClassFunction, typ)), uint32(x),
		storageClassFunction)
	return x
}

// Get loads a variable.
func (b *body) Get(variable, typ id) id { return b.op(opLoad, typ, variable) }

// Set stores to a variable.
func (b *body) Set(variable, x id) { b.do(opStore, uint32(variable), uint32(x)) }

// element returns a pointer to an element of an array variable.
func (b *body) element(class uint32, variable, typ, index id) id {
	return b.op(opAccessChain, b.m.pointerType(class, typ), variable, index)
}

// When writes a branch; otherwise may be nil.
func (b *body) When(condition id, then, otherwise func()) {
	yes, no, after := b.m.fresh(), b.m.fresh(), b.m.fresh()
	if otherwise == nil {
		no = after
	}
	b.do(opSelectionMerge, uint32(after), selectionControlNone)
	b.do(opBranchConditional, uint32(condition), uint32(yes), uint32(no))
	b.do(opLabel, uint32(yes))
	b.inside(then)
	b.do(opBranch, uint32(after))
	if otherwise != nil {
		b.do(opLabel, uint32(no))
		b.inside(otherwise)
		b.do(opBranch, uint32(after))
	}
	b.do(opLabel, uint32(after))
}

// Loop writes a loop: before each iteration condition is computed, and inside and then next run while it holds.
func (b *body) Loop(condition func() id, inside, next func()) {
	head, test, run, again, after := b.m.fresh(), b.m.fresh(), b.m.fresh(), b.m.fresh(), b.m.fresh()
	b.do(opBranch, uint32(head))
	b.do(opLabel, uint32(head))
	b.do(opLoopMerge, uint32(after), uint32(again), loopControlNone)
	b.do(opBranch, uint32(test))
	b.do(opLabel, uint32(test))
	b.inside(func() {
		b.do(opBranchConditional, uint32(condition()), uint32(run), uint32(after))
		b.do(opLabel, uint32(run))
		b.inside(inside)
		b.do(opBranch, uint32(again))
		b.do(opLabel, uint32(again))
		next()
	})
	b.do(opBranch, uint32(head))
	b.do(opLabel, uint32(after))
}

// Barrier writes a barrier of the threads of a block, after which each sees the others' earlier writes to shared memory
// and buffers.
func (b *body) Barrier() {
	const workgroup, available, visible = 2, 0x2000, 0x4000
	semantics := uint32(0x8 | 0x100 | 0x40) // acquire and release, of shared memory and of buffers
	if b.m.vulkan {
		semantics |= available | visible
	}
	scope := b.m.constant32(workgroup)
	b.do(opControlBarrier, uint32(scope), uint32(scope), uint32(b.m.constant32(semantics)))
}

// uses notes that the function mentions a global variable.
func (b *body) uses(variable id) id {
	for _, known := range b.mentions {
		if known == variable {
			return variable
		}
	}
	b.mentions = append(b.mentions, variable)
	return variable
}
