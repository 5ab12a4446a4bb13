//go:build !linux

package serve

import "errors"

// mapShared returns an error: shared memory is supported on Linux.
func mapShared(string, int64, int64) ([]byte, func([]byte) error, error) {
	return nil, nil, errors.New("the server maps shared memory on Linux only")
}
