//go:build !amd64

package call

import (
	"unsafe"

	"github.com/weirml/weir/internal/diag"
)

// Supported is whether Call works on this architecture.
const Supported = false

// Call returns not to be reached on this architecture, which has no executable pages (see mem.MapCode).
func Call(code uintptr, frame unsafe.Pointer, begin, end int64) (status int64) {
	panic(diag.Internalf("call: machine code for amd64"))
}
