package schedule

import "github.com/weirml/weir/internal/loop"

// Choice changes the tile of a kernel of products from the default (see panels.go); the zero value changes nothing. It
// does not change results: the order of a sum does not depend on the tile.
//
// Default tiles come from target.Machine.Tile, by features and maker, with the sizes of caches and the constants of
// panels.go; default algorithms from pass.Winograd's table.
type Choice struct {
	Vectors int64 // vectors of sums in a row of a panel, which decide its columns
	Rows    int   // the rows of a tile are multiplied by two to this power
}

// choice returns the choice for a kernel.
func (s *scheduler) choice(k *loop.Kernel) Choice {
	if s.options.Choice == nil {
		return Choice{}
	}
	return s.options.Choice(k.Source)
}

// rows returns n scaled by the choice.
func (c Choice) rows(n int64) int64 {
	for range c.Rows {
		n *= 2
	}
	for range -c.Rows {
		n = max(1, n/2)
	}
	return n
}
