//go:build !linux

package mem

func (m mapping) fetch(first, last int) {}

func (m mapping) large() {}

func (m mapping) populate() {}
