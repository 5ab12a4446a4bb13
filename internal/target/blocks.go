package target

import "slices"

// This file is about machines that run blocks of threads, which share memory: GPUs.

// VulkanName is the name of machines that run SPIR-V through Vulkan.
const VulkanName = "vulkan"

// The features of such machines, as Machine.Features has them. Each is an optional part of Vulkan.
const (
	Int8            = "int8"             // arithmetic of 8-bit integers
	Int16           = "int16"            // arithmetic of 16-bit integers
	Int64           = "int64"            // arithmetic of 64-bit integers
	Float16         = "float16"          // arithmetic of f16
	Float64         = "float64"          // arithmetic of f64
	Storage8        = "storage8"         // elements of 8 bits in memory
	Storage16       = "storage16"        // elements of 16 bits in memory
	Dot8            = "dot8"             // products of four 8-bit integers, added up in one instruction
	PhysicalAddress = "physical-address" // buffers by address: without it there is no code for a machine
	KeepsSpecial    = "keeps-special"    // f32 with signed zeros, infinities and NaN
	KeepsSubnormal  = "keeps-subnormal"  // f32 with subnormal numbers
	CachedReads     = "cached-reads"     // what some thread has read is read again as fast as what a block shares
	Fused           = "fused"            // products and sums of floats in one instruction that rounds once
)

// HasBlocks reports whether kernels of a machine are blocks of threads.
func (m Machine) HasBlocks() bool { return m.Limits.Invocations > 0 }

// Vulkan is a machine that runs SPIR-V, with limits and features that a device reports or a user names. Limits that are
// 0 are those that Vulkan guarantees.
func Vulkan(limits Limits, features ...string) Machine {
	least := Limits{Shared: 16384, Invocations: 128, Subgroup: 1, Private: 256}
	for _, l := range []struct{ given, least *int64 }{
		{&limits.Shared, &least.Shared}, {&limits.Invocations, &least.Invocations}, {&limits.Subgroup, &least.Subgroup},
		{&limits.Private, &least.Private},
	} {
		if *l.given == 0 {
			*l.given = *l.least
		}
	}
	features = slices.Clone(features)
	slices.Sort(features)
	return Machine{Name: VulkanName, Arch: "spirv", CPU: VulkanName, Features: slices.Compact(features), Threads: 1,
		Limits: limits}
}

// Within reports whether code for a machine of blocks runs on another: that one has its features, and no smaller limits
// of what a block may have. What a thread keeps in registers is no limit, nor is how fast memory is read.
func (m Machine) Within(other Machine) bool {
	for _, f := range m.Features {
		if f != CachedReads && !other.Has(f) {
			return false
		}
	}
	return m.Limits.Shared <= other.Limits.Shared && m.Limits.Invocations <= other.Limits.Invocations
}

// Binary is a kernel's code for a machine of blocks: a module, and what is run of it.
//
// A launch is given the address of its argument block, 64-bit words in the order: the address of each operand, the
// value of each dimension, the address of the launch's scratch, the address of a Report. The address is the one push
// constant. Scratch and operands begin at multiples of 64 bytes; an operand without bytes may have any address.
type Binary struct {
	Words []uint32 // SPIR-V
	// in the order in which they run: each begins when the one before it has ended, and sees what it wrote
	Entries []Entry
}

// RowBlocks is the blocks of a row of an entry's grid: block b is dispatched at x = b mod RowBlocks, y = b / RowBlocks.
// Entries return at once in the blocks past their number that the last row has.
const RowBlocks = 1 << 15

// Entry is one entry point of a Binary.
type Entry struct {
	Name    string
	Threads int64 // of a block
	Shared  int64 // bytes that the threads of a block share
}

// Report is where the threads of a launch tell of a value that failed its check: four words, all zero until one did.
// Word 0 is the number of the check, from 1 on; the others are the value, and the least and the greatest that may be.
// One thread of those that failed writes it.
type Report [4]uint64

// Blocks is a Kernel for a machine of blocks, whose Run does nothing but return an error: a device runs its Binary. Its
// Scratch is what one launch of all blocks needs of the device's memory, its Tiles the blocks of all entries.
type Blocks interface {
	Kernel
	Binary() *Binary
	// Grid puts into blocks, which has a place for each entry, how many blocks of it are run for these dimensions.
	Grid(dims, blocks []int64) error
	// Failed is the error that a report tells of; nil for one that is all zero.
	Failed(r Report) error
}

// SharedBits is how many bits an element of so many takes in memory that a block shares: a machine without narrow
// integers has it in wider ones.
func (m Machine) SharedBits(bits int) int {
	switch {
	case bits <= 8 && m.Has(Int8):
		return 8
	case bits <= 16 && m.Has(Int16):
		return 16
	case bits <= 32:
		return 32
	}
	return bits
}
