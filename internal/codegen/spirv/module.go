package spirv

import (
	"slices"
	"strconv"

	"github.com/weirml/weir/internal/codegen/blocks"
)

// id is the number of an instruction's result; 0 is none.
type id = blocks.ID

// module is a SPIR-V module under construction: its sections, in the order of its words.
type module struct {
	last         id
	capabilities []uint32
	extensions   []string
	functionSet  id // the import of GLSL.std.450; 0 until it is used
	entries      []uint32
	modes        []uint32
	names        []uint32
	decorations  []uint32
	globals      []uint32      // types, constants and variables, each after those that it uses
	known        map[string]id // types and constants, by their words
	functions    []uint32
	// vulkan: the module has Vulkan's memory model, as matrices require: accesses that other threads of a block see are
	// not private, and barriers make them available and visible.
	vulkan bool
}

// newModule returns an empty module.
func newModule() *module { return &module{known: map[string]id{}} }

// version is SPIR-V 1.5, the version for Vulkan 1.2.
const (
	magic   = 0x07230203
	version = 0x00010500
)

// Words returns the module's words.
func (m *module) Words() []uint32 {
	out := []uint32{magic, version, 0, uint32(m.last) + 1, 0}
	for _, c := range m.capabilities {
		out = appendOp(out, opCapability, c)
	}
	for _, e := range m.extensions {
		out = appendOp(out, opExtension, literal(e)...)
	}
	if m.functionSet != 0 {
		out = appendOp(out, opExtInstImport, append([]uint32{uint32(m.functionSet)}, literal("GLSL.std.450")...)...)
	}
	model := uint32(memoryModelGLSL450)
	if m.vulkan {
		model = memoryModelVulkan
	}
	out = appendOp(out, opMemoryModel, addressingModelPhysicalStorageBuffer64, model)
	return slices.Concat(out, m.entries, m.modes, m.names, m.decorations, m.globals, m.functions)
}

// appendOp appends an instruction's words.
func appendOp(to []uint32, op opcode, operands ...uint32) []uint32 {
	return append(append(to, uint32(len(operands)+1)<<16|uint32(op)), operands...)
}

// literal returns a string as words: its bytes and a zero byte, padded with zeros.
func literal(s string) []uint32 {
	words := make([]uint32, len(s)/4+1)
	for i := range len(s) {
		words[i/4] |= uint32(s[i]) << (8 * (i % 4))
	}
	return words
}

// fresh returns an unused id.
func (m *module) fresh() id {
	m.last++
	return m.last
}

// allThreads returns the scope of atomic operations that all threads of a launch see.
func (m *module) allThreads() id {
	const device, queueFamily = 1, 5
	if m.vulkan { // the scope of the device is an optional feature of Vulkan's memory model
		return m.constant32(queueFamily)
	}
	return m.constant32(device)
}

// access returns the flags of an access to memory that other threads may touch, with some other flags.
func (m *module) access(flags uint32) uint32 {
	if m.vulkan {
		flags |= memoryAccessNonPrivate
	}
	return flags
}

// capability declares that the module uses capabilities.
func (m *module) capability(list ...uint32) {
	for _, c := range list {
		if !slices.Contains(m.capabilities, c) {
			m.capabilities = append(m.capabilities, c)
		}
	}
}

// extension declares that the module uses an extension.
func (m *module) extension(name string) {
	if !slices.Contains(m.extensions, name) {
		m.extensions = append(m.extensions, name)
	}
}

// decorate decorates an id.
func (m *module) decorate(x id, decoration uint32, operands ...uint32) {
	m.decorations = appendOp(m.decorations, opDecorate, append([]uint32{uint32(x), decoration}, operands...)...)
}

// global returns the type or the constant with some operands, and declares it if it is new. typ is its type; 0 for
// types.
func (m *module) global(op opcode, typ id, operands ...uint32) id {
	key := strconv.Itoa(int(op)) + " " + strconv.Itoa(int(typ))
	for _, w := range operands {
		key += " " + strconv.FormatUint(uint64(w), 36)
	}
	if x, ok := m.known[key]; ok {
		return x
	}
	x := m.unique(op, typ, operands...)
	m.known[key] = x
	return x
}

// unique declares a global that differs from others with the same operands, such as a variable.
func (m *module) unique(op opcode, typ id, operands ...uint32) id {
	x := m.fresh()
	head := []uint32{uint32(x)}
	if typ != 0 {
		head = []uint32{uint32(typ), uint32(x)}
	}
	m.globals = appendOp(m.globals, op, append(head, operands...)...)
	return x
}

func (m *module) voidType() id { return m.global(opTypeVoid, 0) }

func (m *module) boolType() id { return m.global(opTypeBool, 0) }

// intType returns the type of integers with a number of bits. Instructions decide whether they are signed.
func (m *module) intType(bits uint32) id {
	if bits == 64 {
		m.capability(capabilityInt64)
	}
	return m.global(opTypeInt, 0, bits, 0)
}

// floatType returns the type of floats with a number of bits.
func (m *module) floatType(bits uint32) id {
	if bits == 64 {
		m.capability(capabilityFloat64)
	}
	return m.global(opTypeFloat, 0, bits)
}

// pairType returns the type of two words: an address or a complex number without integers of 64 bits.
func (m *module) pairType() id { return m.global(opTypeVector, 0, uint32(m.intType(32)), 2) }

func (m *module) pointerType(class uint32, to id) id {
	return m.global(opTypePointer, 0, class, uint32(to))
}

func (m *module) arrayType(element id, length int64) id {
	return m.global(opTypeArray, 0, uint32(element), uint32(m.constant32(uint32(length))))
}

func (m *module) constant32(bits uint32) id { return m.global(opConstant, m.intType(32), bits) }

func (m *module) constant64(bits uint64) id {
	return m.global(opConstant, m.intType(64), uint32(bits), uint32(bits>>32))
}

func (m *module) constantFloat(bits uint32) id { return m.global(opConstant, m.floatType(32), bits) }

func (m *module) constantDouble(bits uint64) id {
	return m.global(opConstant, m.floatType(64), uint32(bits), uint32(bits>>32))
}

func (m *module) constantPair(low, high uint32) id {
	return m.global(opConstantComposite, m.pairType(), uint32(m.constant32(low)), uint32(m.constant32(high)))
}

// Bool returns a constant of type bool.
func (m *module) Bool(b bool) id {
	if b {
		return m.global(opConstantTrue, m.boolType())
	}
	return m.global(opConstantFalse, m.boolType())
}

// glsl returns the import of GLSL's functions.
func (m *module) glsl() id {
	if m.functionSet == 0 {
		m.functionSet = m.fresh()
	}
	return m.functionSet
}
