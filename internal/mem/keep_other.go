//go:build !unix || aix

package mem

import (
	"errors"
	"os"
)

// again returns nil: this system does not map ranges of a file.
func again(f *os.File) *os.File { return nil }

func (m mapping) hide(first, last int) error { return errors.ErrUnsupported }

func (m mapping) show(f *os.File, first, last int, a access) error { return errors.ErrUnsupported }

// inParts is false: reserved memory has all of its pages.
const inParts = false

func reserve(bytes int) (mapping, error) { return mapping{}, errors.ErrUnsupported }

func (m mapping) open(first, last int, name string) error { return errors.ErrUnsupported }

// stat is empty on this system.
type stat struct{}

func (k *keeper) unchanged() bool { return true }
