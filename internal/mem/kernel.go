package mem

import "strings"

// Extent is the kernel's count of some mappings, in bytes.
type Extent struct {
	Size     int64 // address space
	Resident int64 // of it, in memory now
}

// maxName is the number of bytes of a mapping's name that the kernel keeps.
const maxName = 79

// name returns the kernel's name of a block's mapping: weir:KIND:LABEL, of the characters it takes.
func name(kind Kind, label string) string {
	text := namePrefix + kind.String() + ":" + label
	clean := func(r rune) rune {
		if r <= ' ' || r > '~' || strings.ContainsRune("[]\\$`", r) {
			return '_'
		}
		return r
	}
	text = strings.Map(clean, text)
	return text[:min(len(text), maxName)]
}

const (
	namePrefix  = "weir:"
	retiredName = "weir-closed"
)
