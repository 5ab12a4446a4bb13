//go:build !linux

package mem

// KernelSize returns the size of the mappings of the given blocks by the kernel's own list. This system does not tell:
// ok is false.
func KernelSize(blocks ...*Block) (bytes int64, ok bool) { return 0, false }

// KernelBytes returns the kernel's own count of the mappings of the given blocks. This system does not tell: ok
// is false.
func KernelBytes(blocks ...*Block) (e Extent, ok bool) { return Extent{}, false }

// KernelNamed returns, by kind, the kernel's count of every mapping that carries one of our names. This system
// keeps no names: ok is false.
func KernelNamed() (kinds [Kinds]Extent, ok bool) { return kinds, false }

// nameMapping does nothing: this system keeps no names.
func nameMapping(pages []byte, name string) {}
