package probe

import "golang.org/x/sys/cpu"

// kinds returns the kinds that this machine has, the widest first.
func kinds() []Kind {
	var list []Kind
	if cpu.X86.HasAVX512F {
		list = append(list, Kind{Name: "avx512", more: []string{"avx512vnni", "avx512bf16", "avx512amx"},
			arithmetic: arithmetic512, operations: 12 * 16 * 2, read: read512})
	}
	if cpu.X86.HasAVX2 && cpu.X86.HasFMA {
		list = append(list, Kind{Name: "avx2", more: []string{"avxvnni"}, arithmetic: arithmetic256, operations: 12 * 8 * 2,
			read: read256})
	}
	return append(list, portable)
}

// The arithmetic functions do 12 independent multiply-adds of whole registers a round, more than the units' number
// times their latency. The read functions load bytes, a multiple of 4096, from p on.

// arithmetic256 does rounds of multiply-adds in AVX2 and FMA.
//
//go:noescape
func arithmetic256(rounds int64)

// arithmetic512 does rounds of multiply-adds in AVX-512.
//
//go:noescape
func arithmetic512(rounds int64)

// read256 reads bytes from p on in AVX2.
//
//go:noescape
func read256(p *byte, bytes int64)

// read512 reads bytes from p on in AVX-512.
//
//go:noescape
func read512(p *byte, bytes int64)
