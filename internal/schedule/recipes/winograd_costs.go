package recipes

const (
	tilesLeast     = 32  // the least input and output channels: with fewer, transforms take more time than they save
	tilesFaster    = 0.8 // the share of a direct convolution's time that tiles must stay below
	tilesPlanes    = 5   // the most planes of a kernel
	tilesWorthByte = 10  // multiplications for each image that an additional byte of weights must save
)

// Known reports whether enough sizes are known, and the kernel has few enough planes, to compute a convolution in
// tiles.
func (i Image) Known() bool { return i.Channels*i.Filters != 0 && i.Kernel <= tilesPlanes }

// BestTile returns the best size of tiles for an image; 0 if a direct convolution is better. direct is the speed of a
// multiplication without tiles relative to one with tiles.
func (i Image) BestTile(direct float64) int64 { return i.bestTile(direct, i.Cost) }

// BestTileOfStages is BestTile for the algorithm in stages.
func (i Image) BestTileOfStages() int64 {
	return i.bestTile(1, func(tile int64) (int64, bool) { return i.StagesCost(tile), true })
}

// bestTile is BestTile with the given cost of tiles.
func (i Image) bestTile(direct float64, cost func(tile int64) (int64, bool)) int64 {
	if i.Channels < tilesLeast || i.Filters < tilesLeast {
		return 0
	}
	tile, taps := int64(0), int64(9)
	best, _ := i.Cost(0)
	best = int64(float64(best) / direct)
	limit := int64(float64(best) * tilesFaster)
	for _, t := range []int64{2, 4} {
		time, ok := cost(t)
		side := (t + 2) * (t + 2)
		if more := 4 * (side - taps) * i.Kernel * i.Channels * i.Filters; ok && time < limit &&
			best-time >= tilesWorthByte*more {
			tile, taps, best = t, side, time
		}
	}
	return tile
}
