//go:build !arm64

package call

import (
	"unsafe"

	"github.com/weirml/weir/internal/diag"
)

// Supported reports whether Call works on this architecture.
const Supported = false

// Call panics: machine code for arm64 runs on arm64 only.
func Call(code uintptr, frame unsafe.Pointer, begin, end int64) (status int64) {
	panic(diag.Internalf("call: machine code for arm64"))
}
