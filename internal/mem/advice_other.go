//go:build !linux

package mem

// fetch does nothing: this system is not given advice.
func (m mapping) fetch(first, last int) {}

// large does nothing.
func (m mapping) large() {}

// populate does nothing.
func (m mapping) populate() {}
