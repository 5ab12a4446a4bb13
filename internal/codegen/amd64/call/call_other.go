//go:build !amd64

package call

import (
	"unsafe"

	"github.com/weirml/weir/internal/diag"
)

// Supported reports whether Call works on this architecture.
const Supported = false

// Call panics: this architecture has no executable pages (see mem.MapCode), so no code can be called.
func Call(code uintptr, frame unsafe.Pointer, begin, end int64) (status int64) {
	panic(diag.Internalf("call: machine code for amd64"))
}
