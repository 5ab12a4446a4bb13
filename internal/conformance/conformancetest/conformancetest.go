// Package conformancetest has helpers for tests of complete models: random models and models at the limits of
// operators' definitions, randomly changed artefacts, and the device that tests run on.
package conformancetest

import (
	"errors"
	"fmt"
	"hash/fnv"

	"github.com/weirml/weir"
)

// Hash returns a number that depends on a string alone.
func Hash(text string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(text))
	x := h.Sum64()
	x ^= x >> 29
	x *= 0xbf58476d1ce4e5b9
	return x ^ x>>32
}

// Device returns the first device, which tests run on; an error if none can be used.
func Device() (d weir.DeviceInfo, err error) {
	list, err := weir.Devices()
	switch {
	case len(list) == 0:
		return d, errors.Join(errors.New("no device"), err)
	case list[0].Why != "":
		return d, fmt.Errorf("%s: %s", list[0].Product, list[0].Why)
	}
	return list[0], nil
}
