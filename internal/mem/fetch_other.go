//go:build !arm64

package mem

// fetchable does nothing: processors for amd64 fetch what was written, and MapCode refuses others.
func fetchable([]byte) error { return nil }
