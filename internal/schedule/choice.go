package schedule

import "github.com/weirml/weir/internal/loop"

// Choice is what a kernel of products does otherwise than the table says (see panels.go); the zero value is nothing. It
// changes no result: the order of a sum depends on neither.
//
// The table of what is done otherwise is target.Machine.Tile, by features and maker, with the sizes of caches and the
// constants of panels.go; of algorithms, pass.Winograd's.
type Choice struct {
	Vectors int64 // of sums in a row of a panel: its columns
	Rows    int   // of a tile: as many times two to this power
}

// choice is what was chosen for a kernel.
func (s *scheduler) choice(k *loop.Kernel) Choice {
	if s.options.Choice == nil {
		return Choice{}
	}
	return s.options.Choice(k.Source)
}

// rows is a number of rows as it was chosen.
func (c Choice) rows(n int64) int64 {
	for range c.Rows {
		n *= 2
	}
	for range -c.Rows {
		n = max(1, n/2)
	}
	return n
}
