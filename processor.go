package weir

import "github.com/weirml/weir/internal/compiler"

// Processor is what is known of a machine's processor, and what is made of it.
type Processor struct {
	Name     string
	Features []string // that code could use, sorted
	Cache    [3]int64 // bytes of a core's caches: L1 for data, L2, L3; assumed where the processor does not tell
	CPU      string   // the level that programs are compiled for without Options.CPU
	Why      string   // not for a higher one
}

// HostProcessor describes the processor of the machine that this runs on.
func HostProcessor() Processor { return Processor(compiler.Here()) }
