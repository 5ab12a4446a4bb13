package ops

import (
	"math/rand"
	"slices"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
	"github.com/weirml/weir/internal/winograd"
)

// This file has Winograd's algorithm in stages, for machines that run blocks of threads, whose scratch has no room for
// a block of tiles. The inputs of all tiles are transformed, multiplied by the weights in one product for each element
// of a tile, and transformed back. Between the stages they are in memory. Channels come before rows and columns.

// init defines the operators winograd_far, winograd_input and winograd_output.
func init() {
	lowering := func(build func(k *Nest, n *ir.Node), error float64) []Lowering {
		return []Lowering{{Name: "tiles", Build: build, Error: error}}
	}
	define(&Def{Op: "winograd_far", NoGrad: byPasses, Shape: winogradFarShape, Mean: winogradFarMean,
		Samples: winogradFarSamples, Lowerings: lowering(winogradFarTiles, 0)})
	define(&Def{Op: "winograd_input", NoGrad: byPasses, Shape: winogradInputShape, Mean: winogradInputMean,
		Samples:   winogradInputSamples,
		Lowerings: lowering(winogradInputTiles, 1e-5)})
	define(&Def{Op: "winograd_output", NoGrad: byPasses, Shape: winogradOutputShape, Mean: winogradOutputMean,
		Samples:   winogradOutputSamples,
		Lowerings: lowering(winogradOutputTiles, 1e-4)})
}

// WinogradStages convolves x, [N, C, H, W], with the original weights, [O, C, 3, 3], with strides of 1, without
// dilation or groups. transformed are the winograd.Weights for tiles of tile × tile outputs, [(tile + 2)², C, O].
// Errors have the same bound as those of Winograd.
func WinogradStages(b *ir.Builder, x, transformed, original, bias *ir.Value, tile int64, begin,
	end []sym.Expr) *ir.Value {
	attrs := func() ir.Attrs { return ir.Attrs{"tile": tile, "begin": begin, "end": end} }
	reach := Reduce(b, "reduce_l1", x, false, 1)
	far := b.Op("winograd_far", attrs(), reach)
	seen := b.Op("winograd_input", attrs(), x)
	shape := seen.Type.Shape
	columns := Reshape(b, seen, shape[0], shape[1], sym.Product(shape[2:]...))
	sums := MatMul(b, transformed, columns, true, false)
	sums = Reshape(b, sums, shape[0], transformed.Type.Shape[2], shape[2], shape[3], shape[4])
	inputs := []*ir.Value{sums, far, x, original}
	if bias != nil {
		inputs = append(inputs, bias)
	}
	return b.Op("winograd_output", attrs(), inputs...)
}

// winogradTiling describes the layout of tiles in the images of a node.
type winogradTiling struct {
	tile, side    int64 // outputs and inputs of a tile each way
	begin         [2]sym.Expr
	size, outSize [2]sym.Expr // rows and columns of the input and of the output
	tiles         [2]sym.Expr
}

// winogradTilingOf returns the tiling of a node for an input with rows and columns size; ok is false if the attributes
// are wrong.
func winogradTilingOf(n *ir.Node, d *sym.Dims, size []sym.Expr) (t winogradTiling, ok bool) {
	begin, end := n.Attrs.Exprs("begin"), n.Attrs.Exprs("end")
	t.tile = n.Attrs.Int("tile", 0)
	if t.side = t.tile + 2; winograd.Of(t.tile) == nil || len(begin) != 2 || len(end) != 2 || len(size) != 2 {
		return t, false
	}
	for i := range size {
		t.begin[i], t.size[i] = begin[i], size[i]
		t.outSize[i] = d.Simplify(sym.Sum(size[i], begin[i], end[i], sym.Const(-2)))
		t.tiles[i] = d.Simplify(t.outSize[i].CeilDiv(sym.Const(t.tile)))
	}
	return t, true
}

// inferred sets t to the tiling of a node by its input i, which has `axes` axes and ends with rows and columns.
func (t *winogradTiling) inferred(c *ir.Inference, n *ir.Node, i, axes int) error {
	x := n.Inputs[i].Type
	fits := len(x.Shape) == axes && x.DType == dtype.F32
	if fits {
		*t, fits = winogradTilingOf(n, c.Dims(), x.Shape[axes-2:])
	}
	if !fits {
		return fault(n, "input %s in tiles of %d", x, n.Attrs.Int("tile", 0))
	}
	for _, outSize := range t.outSize {
		if err := c.Require(n, sym.Cond{A: sym.Const(0), Rel: sym.LE, B: outSize},
			"the kernel fits the padded input"); err != nil {
			return err
		}
	}
	return nil
}

// winogradFarShape gives the result one element for each tile of each image.
func winogradFarShape(c *ir.Inference, n *ir.Node) error {
	var t winogradTiling
	if err := arity(n, 1, 1); err != nil {
		return err
	}
	if err := t.inferred(c, n, 0, 3); err != nil {
		return err
	}
	n.Result(0, ir.Type{DType: dtype.F32, Shape: []sym.Expr{n.Inputs[0].Type.Shape[0], t.tiles[0], t.tiles[1]}})
	return nil
}

// winogradInputShape gives the result the elements of a tile, then channels, images and tiles.
func winogradInputShape(c *ir.Inference, n *ir.Node) error {
	var t winogradTiling
	if err := arity(n, 1, 1); err != nil {
		return err
	}
	if err := t.inferred(c, n, 0, 4); err != nil {
		return err
	}
	x := n.Inputs[0].Type.Shape
	n.Result(0, ir.Type{DType: dtype.F32, Shape: []sym.Expr{sym.Const(t.side * t.side), x[1], x[0], t.tiles[0],
		t.tiles[1]}})
	return nil
}

// winogradOutputShape checks the stages' results against the input and the weights.
func winogradOutputShape(c *ir.Inference, n *ir.Node) error {
	var t winogradTiling
	if err := arity(n, 4, 5); err != nil {
		return err
	}
	if err := t.inferred(c, n, 2, 4); err != nil {
		return err
	}
	sums, far, x, original := n.Inputs[0].Type, n.Inputs[1].Type, n.Inputs[2].Type, n.Inputs[3].Type
	if len(sums.Shape) != 5 || len(far.Shape) != 3 || len(original.Shape) != 4 || sums.DType != dtype.F32 ||
		far.DType != dtype.F32 || original.DType != dtype.F32 {
		return fault(n, "sums %s, far tiles %s and weights %s", sums, far, original)
	}
	filters := sums.Shape[1]
	pairs := [][2]sym.Expr{{sums.Shape[0], sym.Const(t.side * t.side)}, {original.Shape[0], filters},
		{original.Shape[1], x.Shape[1]},
		{original.Shape[2], sym.Const(3)}, {original.Shape[3], sym.Const(3)}}
	for i, extent := range []sym.Expr{x.Shape[0], t.tiles[0], t.tiles[1]} {
		pairs = append(pairs, [2]sym.Expr{sums.Shape[2+i], extent}, [2]sym.Expr{far.Shape[i], extent})
	}
	if bias := input(n, 4); bias != nil {
		if len(bias.Type.Shape) != 1 || bias.Type.DType != dtype.F32 {
			return fault(n, "a bias %s", bias.Type)
		}
		pairs = append(pairs, [2]sym.Expr{bias.Type.Shape[0], filters})
	}
	for _, pair := range pairs {
		if err := c.RequireEqual(n, pair[0], pair[1], "tiles of a convolution"); err != nil {
			return err
		}
	}
	n.Result(0, ir.Type{DType: dtype.F32, Shape: []sym.Expr{x.Shape[0], filters, t.outSize[0], t.outSize[1]}})
	return nil
}

// winogradTilesOf is winogradTiling with known sizes, for the references.
type winogradTilesOf struct {
	tile, side    int64
	begin         []int64
	size, outSize []int64
}

// winogradTiles evaluates the tiling of a node for an input with rows and columns size.
func winogradTiles(e *ir.Evaluation, n *ir.Node, size []int64) (t winogradTilesOf, err error) {
	t = winogradTilesOf{tile: n.Attrs.Int("tile", 0), size: size}
	t.side = t.tile + 2
	end, err := e.Ints(n.Attrs.Exprs("end"))
	if err != nil {
		return t, err
	}
	if t.begin, err = e.Ints(n.Attrs.Exprs("begin")); err != nil {
		return t, err
	}
	for i := range size {
		t.outSize = append(t.outSize, size[i]+t.begin[i]+end[i]-2)
	}
	return t, nil
}

// at returns the flat index, in a plane of the input, of element i, j of a tile; −1 if it is in the padding.
func (t *winogradTilesOf) at(down, right, i, j int64) int64 {
	row, column := down*t.tile+i-t.begin[0], right*t.tile+j-t.begin[1]
	if row < 0 || row >= t.size[0] || column < 0 || column >= t.size[1] {
		return -1
	}
	return row*t.size[1] + column
}

// seen returns the elements that a tile reads from the plane of x that begins at element from.
func (t *winogradTilesOf) seen(x *tensor.Tensor, from, down, right int64) [][]float64 {
	values := make([][]float64, t.side)
	for i := range values {
		values[i] = make([]float64, t.side)
		for j := range values[i] {
			if at := t.at(down, right, int64(i), int64(j)); at >= 0 {
				values[i][j] = x.Float(from + at)
			}
		}
	}
	return values
}

// winogradFarMean decides each tile from the sums of magnitudes at its positions.
func winogradFarMean(e *ir.Evaluation, n *ir.Node, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	out, err := result(e, n, 0)
	if err != nil {
		return nil, err
	}
	reach := in[0]
	t, err := winogradTiles(e, n, reach.Shape()[1:])
	if err != nil {
		return nil, err
	}
	flat := int64(0)
	tensor.Each(out.Shape(), func(at []int64) {
		seen := t.seen(reach, at[0]*t.size[0]*t.size[1], at[1], at[2])
		out.SetFloat(flat, t.far(seen, at[1], at[2]))
		flat++
	})
	return []*tensor.Tensor{out}, nil
}

// far returns 1 if a tile with these sums of magnitudes is far, and 0 otherwise. Sums are rounded to f32.
func (t *winogradTilesOf) far(seen [][]float64, down, right int64) float64 {
	largest, fits := 0.0, true
	for _, row := range seen {
		for _, v := range row {
			if fits = fits && v == v; v > largest {
				largest = v
			}
		}
	}
	for p := range min(t.tile, t.outSize[0]-down*t.tile) {
		for q := range min(t.tile, t.outSize[1]-right*t.tile) {
			sum := float32(0)
			for i := range int64(3) {
				row := seen[p+i]
				sum += float32(row[q]) + float32(row[q+1]) + float32(row[q+2])
			}
			fits = fits && largest <= float64(sum)
		}
	}
	if fits && largest <= winograd.Above && (largest >= winograd.Below || largest == 0) {
		return 0
	}
	return 1
}

// sandwiched returns matrix · values · matrixᵀ.
func sandwiched(matrix, values [][]float64) [][]float64 {
	out := make([][]float64, len(matrix))
	for i := range out {
		out[i] = make([]float64, len(matrix))
		for j := range out[i] {
			for k, row := range values {
				for l, v := range row {
					if f := matrix[i][k] * matrix[j][l]; f != 0 {
						out[i][j] += f * v
					}
				}
			}
		}
	}
	return out
}

// winogradInputMean transforms each tile in f64.
func winogradInputMean(e *ir.Evaluation, n *ir.Node, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	out, err := result(e, n, 0)
	if err != nil {
		return nil, err
	}
	x := in[0]
	size := x.Shape()
	t, err := winogradTiles(e, n, size[2:])
	if err != nil {
		return nil, err
	}
	shape := out.Shape()
	tensor.Each(shape[1:], func(at []int64) { // channel, image, tile
		seen := t.seen(x, (at[1]*size[1]+at[0])*size[2]*size[3], at[2], at[3])
		for i, row := range sandwiched(winograd.Of(t.tile).Input, seen) {
			for j, v := range row {
				out.SetFloat(broadcastFlat(append([]int64{int64(i)*t.side + int64(j)}, at...), shape), v)
			}
		}
	})
	return []*tensor.Tensor{out}, nil
}

// winogradOutputMean transforms each tile back in f64, or computes it directly if it is far.
func winogradOutputMean(e *ir.Evaluation, n *ir.Node, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	out, err := result(e, n, 0)
	if err != nil {
		return nil, err
	}
	sums, far, x, original, bias := in[0], in[1], in[2], in[3], present(in, 4)
	size, shape := x.Shape(), sums.Shape()
	t, err := winogradTiles(e, n, size[2:])
	if err != nil {
		return nil, err
	}
	results := func(at []int64) [][]float64 { // filter, image, tile
		values := make([][]float64, t.side)
		for i := range values {
			values[i] = make([]float64, t.side)
			for j := range values[i] {
				values[i][j] = sums.Float(broadcastFlat(append([]int64{int64(i)*t.side + int64(j)}, at...), shape))
			}
		}
		return sandwiched(winograd.Of(t.tile).Output, values)
	}
	direct := func(at []int64, p, q int64) (sum float64) {
		tensor.Each([]int64{size[1], 3, 3}, func(k []int64) {
			if from := t.at(at[2], at[3], p+k[1], q+k[2]); from >= 0 {
				sum += x.Float((at[1]*size[1]+k[0])*size[2]*size[3]+from) * original.Float(((at[0]*size[1]+k[0])*3+k[1])*3+k[2])
			}
		})
		return sum
	}
	tensor.Each(shape[1:], func(at []int64) {
		isFar := far.Float(broadcastFlat(at[1:], far.Shape())) != 0
		tile := results(at)
		for p := range min(t.tile, t.outSize[0]-at[2]*t.tile) {
			for q := range min(t.tile, t.outSize[1]-at[3]*t.tile) {
				sum := tile[p][q]
				if isFar {
					sum = direct(at, p, q)
				}
				if bias != nil {
					sum += bias.Float(at[0])
				}
				out.SetFloat(broadcastFlat([]int64{at[1], at[0], at[2]*t.tile + p, at[3]*t.tile + q}, out.Shape()), sum)
			}
		}
	})
	return []*tensor.Tensor{out}, nil
}

// winogradStage writes a stage's loops for one tile.
type winogradStage struct {
	*Nest
	winogradTiling
}

// newWinogradStage returns the stage of a node whose operand x ends with rows and columns.
func newWinogradStage(k *Nest, n *ir.Node, x *loop.Memory) winogradStage {
	t, _ := winogradTilingOf(n, k.D, x.Shape[len(x.Shape)-2:])
	return winogradStage{k, t}
}

// load returns element i, j of a tile of the plane of x that the first indices select; 0 if it is in the padding.
func (s *winogradStage) load(x *loop.Memory, plane []sym.Expr, down, right, i, j sym.Expr) loop.Expr {
	tile := sym.Const(s.tile)
	row, column := down.Mul(tile).Add(i).Sub(s.begin[0]), right.Mul(tile).Add(j).Sub(s.begin[1])
	inside := loop.Apply2(loop.And, loop.Inside(row, sym.Const(0), s.size[0]),
		loop.Inside(column, sym.Const(0), s.size[1]))
	return x.LoadIf(inside, loop.Number(x.DType, 0), with(plane, row, column)...)
}

// transformed returns matrix · values · matrixᵀ.
func (s *winogradStage) transformed(matrix [][]float64, values func(i, j int) loop.Expr) (out [][]loop.Expr) {
	columns := make([][]loop.Expr, s.side)
	for j := range columns {
		column := make([]loop.Expr, s.side)
		for i := range column {
			column[i] = s.Let("d", values(i, j))
		}
		columns[j] = winograd.Combined(s.Builder, matrix, column)
	}
	for i := range matrix {
		row := make([]loop.Expr, s.side)
		for j := range row {
			row[j] = columns[j][i]
		}
		out = append(out, winograd.Combined(s.Builder, matrix, row))
	}
	return out
}

// winogradFarTiles loads a tile's sums of magnitudes once, and decides in f32 as the reference does.
func winogradFarTiles(k *Nest, n *ir.Node) {
	reach, out := k.In[0], k.Out[0]
	s := newWinogradStage(k, n, reach)
	k.Nest(loop.Each, "t", out.Shape, func(t []sym.Expr) {
		seen := make([]loop.Expr, s.side*s.side)
		for i := range seen {
			row, column := sym.Const(int64(i)/s.side), sym.Const(int64(i)%s.side)
			seen[i] = k.Let("n", s.load(reach, t[:1], t[1], t[2], row, column))
		}
		var sums []loop.Expr
		for p := range s.tile {
			for q := range s.tile {
				row := func(i int64) loop.Expr {
					from := seen[(p+i)*s.side+q:]
					return plus(plus(from[0], from[1]), from[2])
				}
				sums = append(sums, plus(plus(row(0), row(1)), row(2)))
			}
		}
		first := [2]sym.Expr{t[1].Mul(sym.Const(s.tile)), t[2].Mul(sym.Const(s.tile))}
		winograd.Existing(sums, s.tile, first, s.outSize, s.ragged())
		k.Store(out, t, winograd.IsFar(k.Builder, winograd.Extreme(loop.Max, seen), winograd.Extreme(loop.Min, sums)))
	})
}

// ragged reports whether tiles may extend beyond the image, along rows and columns.
func (t *winogradTiling) ragged() [2]bool {
	return [2]bool{!isMultiple(t.outSize[0], t.tile), !isMultiple(t.outSize[1], t.tile)}
}

// winogradInputTiles transforms a tile in one iteration.
func winogradInputTiles(k *Nest, n *ir.Node) {
	x, out := k.In[0], k.Out[0]
	s := newWinogradStage(k, n, x)
	k.Nest(loop.Each, "t", out.Shape[1:], func(t []sym.Expr) { // channel, image, tile
		plane := []sym.Expr{t[1], t[0]}
		value := func(i, j int) loop.Expr {
			return s.load(x, plane, t[2], t[3], sym.Const(int64(i)), sym.Const(int64(j)))
		}
		for i, row := range s.transformed(winograd.Of(s.tile).Input, value) {
			for j, v := range row {
				k.Store(out, append([]sym.Expr{sym.Const(int64(i)*s.side + int64(j))}, t...), v)
			}
		}
	})
}

// winogradOutputTiles begins all results of a tile with the bias. A far tile adds the products of the convolution,
// another one the sums transformed back.
func winogradOutputTiles(k *Nest, n *ir.Node) {
	sums, far, x, original, bias, out := k.In[0], k.In[1], k.In[2], k.In[3], present(k.In, 4), k.Out[0]
	s := newWinogradStage(k, n, x)
	tile := sym.Const(s.tile)
	k.Nest(loop.Each, "t", []sym.Expr{x.Shape[0], out.Shape[1], s.tiles[0], s.tiles[1]}, func(t []sym.Expr) {
		image, filter, down, right := t[0], t[1], t[2], t[3]
		begin := loop.Expr(loop.Number(dtype.F32, 0))
		if bias != nil {
			begin = bias.Load(filter)
		}
		results := make([]*loop.Ref, s.tile*s.tile)
		for i := range results {
			results[i] = k.Var("r", begin)
		}
		isFar := loop.Apply2(loop.Ne, far.Load(image, down, right), loop.Number(dtype.F32, 0))
		k.When(isFar, func() {
			k.Nest(loop.Serial, "k", []sym.Expr{x.Shape[1], sym.Const(3), sym.Const(3)}, func(at []sym.Expr) {
				weight := k.Let("w", original.Load(with([]sym.Expr{filter}, at...)...))
				for i, r := range results {
					p, q := sym.Const(int64(i)/s.tile), sym.Const(int64(i)%s.tile)
					k.Reduce(r, loop.Add, times(s.load(x, []sym.Expr{image, at[0]}, down, right, p.Add(at[1]), q.Add(at[2])), weight))
				}
			})
		}, func() {
			value := func(i, j int) loop.Expr {
				return sums.Load(sym.Const(int64(i)*s.side+int64(j)), filter, image, down, right)
			}
			for p, row := range s.transformed(winograd.Of(s.tile).Output, value) {
				for q, v := range row {
					k.Reduce(results[p*int(s.tile)+q], loop.Add, v)
				}
			}
		})
		// One store for all results, so that their consumers can be fused here.
		local := k.Local("tile", dtype.F32, tile, tile)
		for i, r := range results {
			k.Store(local, []sym.Expr{sym.Const(int64(i) / s.tile), sym.Const(int64(i) % s.tile)}, r)
		}
		first, extents := []sym.Expr{down.Mul(tile), right.Mul(tile)}, make([]sym.Expr, 2)
		for i := range extents {
			extents[i] = tile
			if s.ragged()[i] {
				extents[i] = tile.Min(s.outSize[i].Sub(first[i]))
			}
		}
		k.Nest(loop.Each, "o", extents, func(o []sym.Expr) {
			k.Store(out, []sym.Expr{image, filter, first[0].Add(o[0]), first[1].Add(o[1])}, local.Load(o...))
		})
	})
}

// winogradStageSamples returns samples of images [N, C, H, W]; inputs makes the operands for a shape and its tiles.
func winogradStageSamples(inputs func(tile int64, shape, tiles []int64) []*tensor.Tensor) (out []Sample) {
	for _, tile := range []int64{2, 4} {
		for i, shape := range [][]int64{{1, 3, 8, 8}, {2, 2, 7, 6}, {1, 1, 5, 3}, {0, 2, 4, 4}, {2, 1, 9, 10}} {
			begin, end := []int64{int64(i % 2), 1}, []int64{1, int64(i % 3)}
			tiles := []int64{shape[0]}
			for axis := range 2 {
				tiles = append(tiles, ceilDiv(shape[2+axis]+begin[axis]+end[axis]-2, tile))
			}
			out = append(out, Sample{Attrs: ir.Attrs{"tile": tile, "begin": ir.Constants(begin), "end": ir.Constants(end)},
				Inputs: inputs(tile, shape, tiles)})
		}
	}
	return out
}

// winogradFarSamples are sums of magnitudes among which a few are zero, huge or tiny.
func winogradFarSamples(r *rand.Rand) []Sample {
	return winogradStageSamples(func(_ int64, shape, _ []int64) []*tensor.Tensor {
		reach := sampleNormal(r, dtype.F32, shape[0], shape[2], shape[3])
		for i := range reach.Len() {
			v := max(reach.Float(i), -reach.Float(i))
			if r.Intn(40) == 0 {
				v *= []float64{0, 1e10, 1e30, 1e-25}[r.Intn(4)]
			}
			reach.SetFloat(i, v)
		}
		return []*tensor.Tensor{reach}
	})
}

// winogradInputSamples are images with full and ragged tiles.
func winogradInputSamples(r *rand.Rand) []Sample {
	return winogradStageSamples(func(_ int64, shape, _ []int64) []*tensor.Tensor {
		return []*tensor.Tensor{sampleNormal(r, dtype.F32, shape...)}
	})
}

// winogradOutputSamples have random tiles far, some with a bias.
func winogradOutputSamples(r *rand.Rand) []Sample {
	const filters = 3
	return winogradStageSamples(func(tile int64, shape, tiles []int64) []*tensor.Tensor {
		sums := sampleNormal(r, dtype.F32, slices.Concat([]int64{(tile + 2) * (tile + 2), filters}, tiles)...)
		far := tensor.Must(tensor.New(dtype.F32, tiles...))
		for i := range far.Len() {
			far.SetFloat(i, float64(r.Intn(2)))
		}
		in := []*tensor.Tensor{sums, far, sampleNormal(r, dtype.F32, shape...),
			sampleNormal(r, dtype.F32, filters, shape[1], 3, 3)}
		if shape[0] == 2 {
			in = append(in, sampleNormal(r, dtype.F32, filters))
		}
		return in
	})
}
