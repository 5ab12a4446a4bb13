//go:build !amd64 && !arm64

package target

import "runtime"

// detect knows only the architecture: features are detected on amd64 and arm64 only.
func detect() processor { return processor{Arch: runtime.GOARCH, Cache: anyCache} }
