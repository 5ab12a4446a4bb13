package target

import (
	"slices"

	"github.com/weirml/weir/internal/dtype"
)

// This file describes machines that run blocks of threads with shared memory: GPUs.

// VulkanName is the name of machines that run SPIR-V through Vulkan.
const VulkanName = "vulkan"

// The names in Machine.Features of the features of such machines. Each is an optional feature of Vulkan. Kinds of
// cooperative matrices are further features: see Matrix.
const (
	Int8            = "int8"             // arithmetic of 8-bit integers
	Int16           = "int16"            // arithmetic of 16-bit integers
	Int64           = "int64"            // arithmetic of 64-bit integers
	Float16         = "float16"          // arithmetic of f16
	Float64         = "float64"          // arithmetic of f64
	Storage8        = "storage8"         // elements of 8 bits in memory
	Storage16       = "storage16"        // elements of 16 bits in memory
	Dot8            = "dot8"             // products of four 8-bit integers, added up in one instruction
	PhysicalAddress = "physical-address" // buffers by address: there is no code for machines without it
	KeepsSpecial    = "keeps-special"    // f32 with signed zeros, infinities and NaN
	KeepsSubnormal  = "keeps-subnormal"  // f32 with subnormal numbers
	CachedReads     = "cached-reads"     // an element that a thread has read is read again as fast as shared memory
	Fused           = "fused"            // products and sums of floats in one instruction that rounds once
	Shuffle         = "shuffle"          // the Limits.Subgroup threads of a subgroup read one another's values
)

// ShuffleThreads is the largest number of threads of a block that uses Shuffle or matrices.
const ShuffleThreads = 256

// HasBlocks reports whether the machine runs kernels as blocks of threads.
func (m Machine) HasBlocks() bool { return m.Limits.Invocations > 0 }

// Vulkan returns a machine that runs SPIR-V, with the limits and features that a device reports or a user names. A
// limit of 0 becomes the one that Vulkan guarantees.
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
	m := Machine{Name: VulkanName, Arch: "spirv", CPU: VulkanName, Features: slices.Compact(features), Threads: 1,
		Limits: limits}
	if list := m.Matrices(dtype.BF16); len(list) > 0 {
		m.Dot.BF16 = list[0].Steps
	}
	return m
}

// Within reports whether code for m, a machine of blocks, runs on another: that one has all its features, and no
// smaller limits of a block. A thread's registers and CachedReads do not matter, and the size of subgroups matters if
// the code uses them.
func (m Machine) Within(other Machine) bool {
	for _, f := range m.Features {
		if f != CachedReads && !other.Has(f) {
			return false
		}
	}
	if (m.Has(Shuffle) || m.HasMatrices()) && m.Limits.Subgroup != other.Limits.Subgroup {
		return false
	}
	return m.Limits.Shared <= other.Limits.Shared && m.Limits.Invocations <= other.Limits.Invocations
}

// Binary is a kernel's code for a machine of blocks: a module and its entry points.
//
// The push constants of an entry are the address of the launch's argument block, and a 32-bit word with the number of
// the step. The block has 64-bit words in this order: the address of each operand, the value of each dimension, the
// address of the launch's scratch, and the address of a Report. Scratch and operands begin at multiples of 64 bytes; an
// empty operand may have any address.
type Binary struct {
	Words []uint32 // SPIR-V
	// Entries run in order: each begins after the one before it has ended, and sees its writes. Those from First to before
	// End run again for each step: see Blocks.Steps.
	Entries    []Entry
	First, End int
}

// RowBlocks is the number of blocks in a row of an entry's grid: block b is dispatched at x = b mod RowBlocks and
// y = b / RowBlocks. Blocks of the last row beyond the entry's number return at once.
const RowBlocks = 1 << 15

// Entry is one entry point of a Binary.
type Entry struct {
	Name    string
	Threads int64 // of a block
	Shared  int64 // bytes of a block's shared memory
	// Subgroup is the number of threads of a subgroup, all of them active, on which the code relies; 0 if it uses none.
	Subgroup int64
}

// Report is memory in which a launch reports a value that failed its check: four words, which are zero before. Word 0
// is the number of the check, from 1 on; the others are the value, and the least and the greatest allowed value. One of
// the threads whose checks failed writes it.
type Report [4]uint64

// Blocks is a Kernel for a machine of blocks. Its Run returns an error: a device runs its Binary. Its Scratch is the
// device memory for one launch of all blocks, and its Tiles the number of blocks of all entries.
type Blocks interface {
	Kernel
	Binary() *Binary
	// Grid sets blocks, which has an element for each entry, to the entries' numbers of blocks for some dimensions.
	Grid(dims, blocks []int64) error
	// Steps returns how many times the entries from Binary's First to before its End run, for some dimensions; 0 if there
	// are none.
	Steps(dims []int64) (int64, error)
	// Failed returns the error of a report; nil for a report of zeros.
	Failed(r Report) error
}

// SharedBits returns the number of bits that an element of a number of bits takes in shared memory: more if the machine
// does not have integers so narrow.
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
