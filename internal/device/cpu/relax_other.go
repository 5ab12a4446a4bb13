//go:build !amd64

package cpu

// relax does nothing on other processors.
func relax() {}
