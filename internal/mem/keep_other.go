//go:build !unix || aix

package mem

import (
	"errors"
	"os"
)

// again returns nil: this system does not map ranges of a file.
func again(f *os.File) *os.File { return nil }

// hide is not supported on this system.
func (m mapping) hide(first, last int) error { return errors.ErrUnsupported }

// show is not supported on this system.
func (m mapping) show(f *os.File, first, last int, a access) error { return errors.ErrUnsupported }

// inParts is false: reserved memory has all of its pages.
const inParts = false

// reserve is not supported on this system.
func reserve(bytes int) (mapping, error) { return mapping{}, errors.ErrUnsupported }

// open is not supported on this system.
func (m mapping) open(first, last int, name string) error { return errors.ErrUnsupported }

// stat is empty on this system.
type stat struct{}

// unchanged reports true: there is no keeper on this system.
func (k *keeper) unchanged() bool { return true }
