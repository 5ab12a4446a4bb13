package recipes

import (
	"github.com/weirml/weir/internal/sliding"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/target"
)

// Image holds the sizes that decide how a convolution of 3 × 3, or of planes of that size, is divided into
// blocks, and its cost.
type Image struct {
	Planes, Height, Width int64 // of the output; an image has one plane
	Kernel                int64 // planes of the kernel
	Pairs                 int64 // pairs of an output plane and a kernel plane that meet a plane of the input
	Channels, Filters     int64
	Fixed                 bool // rows and columns are known; otherwise they are guessed
	sizes                 target.Sizes
}

// usualSide and usualPlanes are the guessed values of dimensions that decide an image's rows or columns, and its
// planes.
const (
	usualSide   = 256
	usualPlanes = 16
)

// ImageOf returns the sizes of a convolution of x with a kernel of `kernel` planes, with begin padding before.
// Unknown numbers of channels and filters are 0.
func (c Costs) ImageOf(x, out, begin []sym.Expr, kernel int64, d *sym.Dims) Image {
	last := len(out) - 1
	_, rows := out[last-2].Const()
	_, columns := out[last-1].Const()
	i := Image{Planes: 1, Pairs: 1, Kernel: kernel, Fixed: rows && columns,
		Height: likely(out[last-2], usualSide, d), Width: likely(out[last-1], usualSide, d),
		Channels: constant(x[last], 0), Filters: constant(out[last], 0), sizes: c.sizes}
	if last == 4 {
		i.Planes = likely(out[1], usualPlanes, d)
		i.Pairs = i.Planes * kernel
		w := sliding.Window{Kernel: []int64{kernel}, Strides: []int64{1}, Dilations: []int64{1}, Begin: begin[:1],
			End: begin[:1]}
		pairs := sym.Const(0)
		for k := range kernel {
			pairs = pairs.Add(w.Seen(0, k, x[1], out[1]))
		}
		i.Pairs = constant(pairs, i.Pairs)
	}
	return i
}

// likely returns an extent or, if it is not known, a guess: each dimension is taken to be usual, within its range.
func likely(extent sym.Expr, usual int64, d *sym.Dims) int64 {
	if v, fixed := extent.Const(); fixed {
		return v
	}
	v, err := extent.Eval(func(name sym.Name) (int64, bool) {
		r, ok := d.Get(name)
		if !ok {
			return usual, true
		}
		return min(max(usual, r.Min), r.Max), true
	})
	if err != nil {
		return usual
	}
	return min(max(v, 1), 1<<20)
}

// winogradBlock is the work that is done at once: planes, rows and columns of tiles. The output channels are divided
// into splits, each a loop over chunks of channels.
type winogradBlock struct{ planes, rows, columns, splits, chunk int64 }

const (
	fewestTiles    = 24 // least rows of a product: with fewer, loading the weights costs more than it serves
	mostTiles      = 64 // most tiles of a block in a plane
	sharedTiles    = 8  // least tiles of a plane of a block that is made smaller for several workers
	sharedBlocks   = 2  // about the least number of blocks for each of several workers
	winogradPlanes = 4  // most planes of a block, if the number of planes is not known
)

// winogradPlaneBytes returns the bytes of a plane of transformed tiles.
func winogradPlaneBytes(tiles, channels, tile int64) int64 {
	return tiles * (tile + 2) * (tile + 2) * channels * 4
}

// winogradBlockOf chooses a block for an image; false if none fits. A block covers full tiles, or the image. Input
// planes that several output planes of a block read are transformed once.
func winogradBlockOf(i Image, tile int64) (b winogradBlock, ok bool) {
	rows, columns := (i.Height+tile-1)/tile, (i.Width+tile-1)/tile
	if i.Height < 1 || i.Width < 1 || i.Planes < 1 || i.Channels < 1 || i.Filters < 1 {
		return b, false
	}
	b.rows, b.columns = rows, columns
	if i.Width%tile == 0 && columns > mostTiles {
		b.columns = divisor(columns, fewestTiles, mostTiles)
	}
	if i.Height%tile == 0 {
		b.rows = divisor(rows, (fewestTiles+b.columns-1)/b.columns, rows)
	}
	fit := i.sizes.Far / winogradPlaneBytes(b.rows*b.columns, i.Channels, tile)
	if fit < i.Kernel {
		return b, false
	}
	b.planes = i.evenPlanes(fit - i.Kernel + 1)
	b.divide(i, tile)
	return b, true
}

// evenPlanes returns the number of planes of a block, at most most, such that all blocks have about as many; 1 if there
// are no planes. Planes that share no inputs are blocks of their own.
func (i Image) evenPlanes(most int64) int64 {
	if i.Kernel == 1 || i.Planes < 1 || most < 1 {
		return 1
	}
	return ceilDiv(i.Planes, ceilDiv(i.Planes, most))
}

// divide chooses chunks of the output channels, and as many splits as give each worker enough blocks.
func (b *winogradBlock) divide(i Image, tile int64) {
	b.chunk = i.Filters
	if i.Filters%i.sizes.Columns == 0 {
		b.chunk = i.sizes.Columns
	}
	tiles := max(1, ceilDiv(i.Height, tile)*ceilDiv(i.Width, tile)*ceilDiv(i.Planes, b.planes))
	b.splits = divisor(i.Filters/b.chunk, (8*b.rows*b.columns+tiles-1)/tiles, i.Filters/b.chunk)
}

// share makes a block smaller if there are fewer blocks than a few for each worker of a run, as long as a block takes
// some microseconds: it has fewer planes or, if the image has one plane, fewer rows. Costs are those of blocks for one
// worker, so that the algorithm, and with it the result, does not depend on the number of workers.
func (b *winogradBlock) share(i Image, tile int64) {
	enough := sharedBlocks * i.sizes.Workers
	rows, columns := ceilDiv(i.Height, tile), ceilDiv(i.Width, tile)
	blocks := func() int64 { return b.splits * (rows / b.rows) * (columns / b.columns) * ceilDiv(i.Planes, b.planes) }
	work := func(planes, rows int64) int64 {
		return (tile + 2) * (tile + 2) * planes * i.Kernel * rows * b.columns * i.Channels * i.Filters / b.splits
	}
	for i.sizes.Workers > 1 && blocks() < enough {
		planes, down := b.planes, b.rows
		switch {
		case i.Kernel > 1 && planes > 1:
			planes = i.evenPlanes(planes - 1)
			for planes == b.planes { // blocks of that many are even already
				planes--
			}
		case i.Height%tile == 0 && down > 1:
			down = divisor(rows, down/2, down-1)
			if down*b.columns < sharedTiles {
				return
			}
		default:
			return
		}
		if work(planes, down) < sharedWork {
			return
		}
		b.planes, b.rows = planes, down
	}
}

// winogradFreeBlock returns the largest block for an image of guessed size; false if it would have too few tiles.
func winogradFreeBlock(i Image, tile int64) (b winogradBlock, ok bool) {
	if i.Channels < 1 || i.Filters < 1 {
		return b, false
	}
	for b.planes = i.evenPlanes(min(winogradPlanes, i.Planes)); b.planes > 0; b.planes-- {
		tiles := min(mostTiles, i.sizes.Far/((b.planes+i.Kernel-1)*winogradPlaneBytes(1, i.Channels, tile)))
		if tiles >= fewestTiles {
			b.columns = min(tiles, i.sizes.Lanes)
			b.rows = tiles / b.columns
			b.divide(i, tile)
			return b, true
		}
	}
	return b, false
}

// winogradGrid describes the layout of blocks in an image. If the image's size is not known, a block has at most rows ×
// columns tiles: columns are shared evenly among the blocks of a row, so that the last one may extend beyond the image,
// and the last row of blocks has the remaining rows.
type winogradGrid struct {
	winogradBlock
	count  [2]sym.Expr // the number of blocks along rows and columns
	deep   sym.Expr    // the number of blocks along planes
	tiles  [2]sym.Expr // the image's tiles along rows and columns; not set if fixed
	fixed  bool        // every block has rows × columns tiles
	ragged [2]bool     // whether tiles may extend beyond the image, along rows and columns
}

// winogradGridOf chooses the blocks of a convolution of x with the original weights; false if none fits.
func (c Costs) winogradGridOf(x, out, original, begin []sym.Expr, tile int64, d *sym.Dims) (g winogradGrid, ok bool) {
	i := c.ImageOf(x, out, begin, planesOf(original), d)
	by, number, last := sym.Const(tile), sym.Const, len(out)-1
	height, width, planes := out[last-2], out[last-1], one
	if last == 4 {
		planes = out[1]
	}
	if g.winogradBlock, ok = i.block(tile, planes); !ok {
		return g, false
	}
	g.deep = d.Simplify(planes.CeilDiv(number(g.planes)))
	if g.fixed = i.Fixed; g.fixed {
		g.count = [2]sym.Expr{number(ceilDiv(i.Height, tile) / g.rows), number(ceilDiv(i.Width, tile) / g.columns)}
		g.ragged = [2]bool{i.Height%tile != 0, i.Width%tile != 0}
		return g, true
	}
	g.tiles = [2]sym.Expr{height.CeilDiv(by), width.CeilDiv(by)}
	g.count = [2]sym.Expr{g.tiles[0].CeilDiv(number(g.rows)), g.tiles[1].CeilDiv(number(g.columns))}
	g.ragged = [2]bool{!isMultiple(height, tile), true}
	return g, true
}

// planesOf returns the number of planes of a kernel with these weights: 1 for images.
func planesOf(original []sym.Expr) int64 {
	if len(original) == 5 {
		return constant(original[0], 1)
	}
	return 1
}

// winogradPieceFits reports whether the blocks of a piece of that many rows, or planes, take no more scratch than those
// of the entire result.
func (c Costs) winogradPieceFits(x, out, original, begin []sym.Expr, tile, rows int64) bool {
	// Blocks of images of unknown sizes do not depend on the number of rows.
	if _, ok := constants(out[1 : len(out)-1]); !ok {
		return true
	}
	i := c.ImageOf(x, out, begin, planesOf(original), nil)
	full, _ := winogradBlockOf(i, tile)
	full.share(i, tile)
	if len(out) == 5 {
		i.Planes = rows
	} else {
		i.Height = rows
	}
	piece, ok := winogradBlockOf(i, tile)
	piece.share(i, tile)
	return ok && piece.rows*piece.columns <= full.rows*full.columns && piece.planes <= full.planes
}

// block returns the block of an image with that number of planes, which may not be known.
func (i Image) block(tile int64, planes sym.Expr) (b winogradBlock, ok bool) {
	if !i.Fixed {
		return winogradFreeBlock(i, tile)
	}
	if _, known := planes.Const(); !known {
		i.Planes = min(i.Planes, winogradPlanes)
	}
	if b, ok = winogradBlockOf(i, tile); ok {
		b.share(i, tile)
	}
	return b, ok
}

// isMultiple reports whether an extent is provably a multiple of a number.
func isMultiple(extent sym.Expr, by int64) bool {
	rest, ok := extent.Mod(sym.Const(by)).Const()
	return ok && rest == 0
}

// sizeOf returns the rows and columns of tiles of the blocks in a row of blocks.
func (g *winogradGrid) sizeOf(row sym.Expr) (rows, columns sym.Expr) {
	if g.fixed {
		return sym.Const(g.rows), sym.Const(g.columns)
	}
	rows = g.tiles[0].Sub(row.Mul(sym.Const(g.rows))).Min(sym.Const(g.rows))
	return rows, g.tiles[1].CeilDiv(g.count[1].Max(one)).Min(sym.Const(g.columns))
}

// Cost estimates the multiplications of the convolution for each image, by tiles of tile × tile outputs, or directly if
// tile is 0; ok is false if no block fits.
func (i Image) Cost(tile int64) (cost int64, ok bool) {
	if tile == 0 {
		return i.Height * i.Width * 9 * i.Pairs * i.Channels * i.Filters, true
	}
	if !i.Fixed {
		return i.freeCost(tile)
	}
	b, ok := winogradBlockOf(i, tile)
	if !ok {
		return 0, false
	}
	return i.costOf(b, tile), true
}

// stagesTransform is the cost of transforming an element of a tile in stages, in multiplications of a product: the
// element is read from memory and written to it.
const stagesTransform = 24

// StagesCost is Cost for the algorithm in stages (see winograd_stages.go).
func (i Image) StagesCost(tile int64) int64 {
	tiles, side := ceilDiv(i.Height, tile)*ceilDiv(i.Width, tile), (tile+2)*(tile+2)
	return tiles * side * (i.Channels*i.Filters + stagesTransform*(i.Channels+i.Filters))
}

// freeCost is Cost for an image of guessed size, rounded up to full blocks.
func (i Image) freeCost(tile int64) (cost int64, ok bool) {
	b, ok := winogradFreeBlock(i, tile)
	if !ok {
		return 0, false
	}
	rows, columns := ceilDiv(i.Height, tile), ceilDiv(i.Width, tile)
	b.rows, b.columns = min(b.rows, rows), min(b.columns, columns)
	i.Height, i.Width = ceilDiv(rows, b.rows)*b.rows*tile, ceilDiv(columns, b.columns)*b.columns*tile
	return i.costOf(b, tile), true
}

// costOf is Cost with a block.
func (i Image) costOf(b winogradBlock, tile int64) int64 {
	side := (tile + 2) * (tile + 2)
	blocks := (ceilDiv(i.Height, tile) / b.rows) * (ceilDiv(i.Width, tile) / b.columns)
	tiles := b.rows * b.columns
	// Planes before the first and after the last of the image are not transformed.
	seen := min(ceilDiv(i.Planes, b.planes)*(b.planes+i.Kernel-1), i.Pairs)
	// Transforming an element of a tile costs about as much as eight multiplications of a product.
	return blocks * side * (i.Pairs*max(tiles, fewestTiles)*i.Channels*i.Filters +
		8*tiles*(i.Channels*b.splits*seen+i.Filters*i.Planes))
}
