package weir

import "github.com/weirml/weir/internal/compiler"

// Processor describes a processor, and the level of instructions that programs are compiled for on it.
type Processor struct {
	Name     string
	Features []string // the features that code could use, sorted
	Cache    [3]int64 // bytes of a core's caches: L1 for data, L2, L3; assumed if the processor does not tell
	CPU      string   // the level of programs without Options.CPU, as named there
	Why      string   // why it is not a higher level
}

// HostProcessor describes the processor of this machine.
func HostProcessor() Processor { return Processor(compiler.Here()) }
