//go:build !amd64 && !arm64

package cpu

// relax does nothing on other processors.
func relax() {}
