//go:build !amd64 && !arm64

package probe

// kinds returns the kinds that this machine has, the widest first.
func kinds() []Kind { return []Kind{portable} }
