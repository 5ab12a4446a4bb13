//go:build !linux

package mem

// KernelBytes returns what the kernel itself counts for the mappings of the given blocks. This system does not tell: ok
// is false.
func KernelBytes(blocks ...*Block) (e Extent, ok bool) { return Extent{}, false }

// KernelNamed returns, by kind, what the kernel counts for every mapping that carries one of our names. This system
// keeps no names: ok is false.
func KernelNamed() (kinds [Kinds]Extent, ok bool) { return kinds, false }

func nameMapping(pages []byte, name string) {}
