package sentencepiece

import "unsafe"

// view returns b as a string that shares its memory. The caller does not use the string after b changes.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
