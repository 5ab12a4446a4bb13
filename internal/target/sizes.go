package target

// Sizes are the sizes by which recipes divide work, and passes lay out values, before the steps that know a machine's
// tiles and limits. A module's layouts and blocks are then the same on all levels of a processor.
type Sizes struct {
	Lanes   int64 // neighbouring elements of 32 bits that are computed together: one or two vectors
	Columns int64 // output channels of a part of a product: with fewer, its weights are read too often for each sum
	Rows    int64 // of a product of unknown height: a multiple of the rows of the tiles of most levels
	Sums    int64 // that fit registers, with the operands of their products
	Blocks  int64 // the fewest blocks of work that keep all threads busy
	Workers int64 // the most workers of a run
	// Bytes of data that stay in a worker's caches while they are read again: Near in half of the second level, Far in
	// what a worker has of all levels.
	Near, Far int64
	// Streamed is the number of bytes from which on data that are read again and again come from beyond a worker's own
	// caches each time.
	Streamed int64
}

// Sizes returns the sizes for a machine with vector registers.
func (m Machine) Sizes() Sizes {
	return Sizes{Lanes: 16, Columns: 64, Rows: 168, Sums: 7, Blocks: 16, Workers: int64(m.Threads), Near: 256 << 10,
		Far: 4 << 20, Streamed: m.Limits.L2 / 4 * 3}
}
