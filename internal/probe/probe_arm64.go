package probe

import "golang.org/x/sys/cpu"

// kinds returns the kinds that this machine has, the widest first.
func kinds() []Kind {
	if !cpu.ARM64.HasASIMD {
		return []Kind{portable}
	}
	return []Kind{{Name: "neon", more: []string{"dotprod", "i8mm", "bf16"}, arithmetic: arithmetic128,
		operations: 24 * 4 * 2, read: read128}, portable}
}

// arithmetic128 does 24 independent multiply-adds of whole registers a round, more than the units' number times their
// latency.
//
//go:noescape
func arithmetic128(rounds int64)

// read128 loads bytes, a multiple of 4096, from p on.
//
//go:noescape
func read128(p *byte, bytes int64)
