//go:build !amd64

package target

import "runtime"

// detect knows the processors of amd64 only.
func detect() processor { return processor{Arch: runtime.GOARCH, Cache: anyCache} }
