// Package conformancetest has what tests of whole models share: models drawn at random and at the edges of what
// operators mean, artefacts that are changed at random, and the device that tests run on.
package conformancetest

import (
	"errors"
	"fmt"
	"hash/fnv"

	"github.com/weirml/weir"
)

// Hash is a number that a text decides.
func Hash(text string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(text))
	x := h.Sum64()
	x ^= x >> 29
	x *= 0xbf58476d1ce4e5b9
	return x ^ x>>32
}

// Device is the device that tests run on, the first; an error if there is none that can be used.
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
