package nn

import "github.com/weirml/weir/array"

// randomness gives keys in the order in which layers ask for them.
type randomness struct {
	key   *array.Array
	asked int
}
