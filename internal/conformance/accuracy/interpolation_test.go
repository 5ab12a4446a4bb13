package accuracy

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/weirtest"
)

// reading says how an axis of extent elements is interpolated: by a cubic or linear kernel, scaled by 1/shrink. clip
// returns the element that a position outside stands for; -1 stands for 0.
type reading struct {
	extent int
	cubic  bool
	shrink float64
	clip   func(i int) int
}

// repeated clips a position to the nearest element.
func (r reading) repeated(i int) int { return min(max(i, 0), r.extent-1) }

// weight returns the kernel's weight at a distance: a triangle, or Keys's cubic kernel with a = -0.75.
func (r reading) weight(d float64) float64 {
	switch d = math.Abs(d) * r.shrink; {
	case !r.cubic:
		return max(1-d, 0)
	case d <= 1:
		return (1.25*d-2.25)*d*d + 1
	case d < 2:
		return ((-0.75*d+3.75)*d-6)*d + 3
	}
	return 0
}

// reach returns the distance from a position within which elements have a weight.
func (r reading) reach() float64 {
	if r.cubic {
		return 2 / r.shrink
	}
	return 1 / r.shrink
}

// each calls f with each element around a position, and its share of the weight.
func (r reading) each(place float64, f func(i int, share float64)) {
	from, to, sum := int(math.Floor(place-r.reach())), int(math.Ceil(place+r.reach())), 0.0
	for i := from; i <= to; i++ {
		sum += r.weight(float64(i) - place)
	}
	for i := from; i <= to; i++ {
		if w := r.weight(float64(i) - place); w != 0 {
			f(r.clip(i), w/sum)
		}
	}
}

// interpolated returns x[rows, columns] at a position, and docs/accuracy.md's bound of its error if the position is off
// by at most off.
func interpolated(x []float32, rows, columns reading, place, off [2]float64) (want, limit float64) {
	at := func(i, j int) float64 {
		if i < 0 || j < 0 {
			return 0
		}
		return float64(x[i*columns.extent+j])
	}
	rows.each(place[0], func(i int, p float64) {
		columns.each(place[1], func(j int, q float64) { want += p * q * at(i, j) })
	})
	greatest, top, left := 0.0, place[0]-rows.reach()-off[0], place[1]-columns.reach()-off[1]
	for i := math.Floor(top); i <= 2*place[0]-top; i++ {
		for j := math.Floor(left); j <= 2*place[1]-left; j++ {
			greatest = max(greatest, math.Abs(at(rows.clip(int(i)), columns.clip(int(j)))))
		}
	}
	share := 2*(off[0]+off[1]) + (2*6+4)*unit
	if rows.cubic {
		share = 1.5 * (6*(off[0]+off[1]) + 2*160*unit)
	}
	if rows.shrink < 1 || columns.shrink < 1 {
		share = 4*share + 2*(rows.reach()+columns.reach()+2)*unit
	}
	return want, share*greatest + 16*0x1p-149
}

// bounds collects how near results come to their bounds: worst is the largest quotient.
type bounds struct {
	t     *testing.T
	worst float64
}

// hold compares a result with its bound.
func (h *bounds) hold(what string, i int, got float32, want, limit float64) {
	h.t.Helper()
	if off := math.Abs(float64(got) - want); !(off <= limit) {
		h.t.Errorf("%s: y[%d] is %g, not %g: %.3g away, at most %.3g", what, i, got, want, off, limit)
	} else if limit > 0 {
		h.worst = max(h.worst, off/limit)
	}
}

// oneNode returns a model of one node with the output y; constants are its integer inputs.
func oneNode(n *wire.NodeProto, inputs []*wire.ValueInfoProto, constants map[string][]int64) []byte {
	g := &wire.GraphProto{Name: "g", Node: []*wire.NodeProto{n}, Input: inputs,
		Output: []*wire.ValueInfoProto{{Name: "y"}}}
	for name, list := range constants {
		var raw []byte
		for _, v := range list {
			raw = binary.LittleEndian.AppendUint64(raw, uint64(v))
		}
		g.Initializer = append(g.Initializer, &wire.TensorProto{Name: name, DataType: wire.Int64Type,
			Dims: []int64{int64(len(list))}, RawData: raw})
	}
	return (&wire.ModelProto{IRVersion: 10, OpsetImport: []*wire.OperatorSetIDProto{{Version: 24}}, Graph: g}).Marshal()
}

// TestResizeBound holds interpolation by Resize to its bound: positions and weights are rounded.
func TestResizeBound(t *testing.T) {
	const height, width = 6, 300
	rules := map[string]func(o, from, to float64) float64{
		"half_pixel":           func(o, from, to float64) float64 { return (o+0.5)*from/to - 0.5 },
		"half_pixel_symmetric": func(o, from, to float64) float64 { return (o+0.5)*from/to - 0.5 },
		"asymmetric":           func(o, from, to float64) float64 { return o * from / to },
		"align_corners":        func(o, from, to float64) float64 { return o * (from - 1) / (to - 1) },
	}
	r, h := rand.New(rand.NewSource(12)), &bounds{t: t}
	for rule, place := range rules {
		for k, size := range [][2]int{{9, 331}, {4, 93}} {
			for _, cubic := range []bool{false, true} {
				mode := map[bool]string{false: "linear", true: "cubic"}[cubic]
				n := weirtest.NodeOf("Resize x,,,size y", wire.StringAttribute("mode", mode),
					wire.StringAttribute("coordinate_transformation_mode", rule), wire.IntAttribute("antialias", int64(k)))
				data := oneNode(n, []*wire.ValueInfoProto{wire.TensorValue("x", 1, wire.Size(1), wire.Size(1), wire.Size(height),
					wire.Size(width))}, map[string][]int64{"size": {1, 1, int64(size[0]), int64(size[1])}})
				from := [2]float64{height, width}
				var axes [2]reading
				for i := range axes {
					axes[i] = reading{extent: int(from[i]), cubic: cubic, shrink: 1}
					axes[i].clip = axes[i].repeated
					if k == 1 {
						axes[i].shrink = float64(size[i]) / from[i]
					}
				}
				everyLevel(t, data, weir.Options{}, func(cpu string, run func(map[string][]float32, map[string][]int) []float32) {
					for _, kind := range []string{"wide", "outliers"} {
						x := weirtest.Roughly(r, kind, height*width)
						for i, got := range run(map[string][]float32{"x": x}, map[string][]int{"x": {1, 1, height, width}}) {
							var at, off [2]float64
							for a, o := range []int{i / size[1], i % size[1]} {
								at[a] = place(float64(o), from[a], float64(size[a]))
								off[a] = 8 * unit * (math.Abs(at[a]) + from[a] + 1)
							}
							want, limit := interpolated(x, axes[0], axes[1], at, off)
							h.hold(fmt.Sprintf("%s, %s, %s, to %v, %s", mode, rule, kind, size, cpu), i, got, want, limit)
						}
					}
				})
			}
		}
	}
	t.Logf("at most %.3g of the bound", h.worst)
}

// TestGridSampleBound holds GridSample to its bound, at positions in the middle, at edges and far outside.
func TestGridSampleBound(t *testing.T) {
	const height, width, places = 9, 300, 400
	r, h := rand.New(rand.NewSource(13)), &bounds{t: t}
	for _, mode := range []string{"linear", "cubic"} {
		for _, padding := range []string{"zeros", "border", "reflection"} {
			for _, align := range []int64{0, 1} {
				n := weirtest.NodeOf("GridSample x,grid y", wire.StringAttribute("mode", mode),
					wire.StringAttribute("padding_mode", padding), wire.IntAttribute("align_corners", align))
				data := oneNode(n, []*wire.ValueInfoProto{wire.TensorValue("x", 1, wire.Size(1), wire.Size(1), wire.Size(height),
					wire.Size(width)),
					wire.TensorValue("grid", 1, wire.Size(1), wire.Size(1), wire.Size(places), wire.Size(2))}, nil)
				var axes [2]reading
				for i, extent := range []int{height, width} {
					axes[i] = reading{extent: extent, cubic: mode == "cubic", shrink: 1}
					axes[i].clip = map[string]func(int) int{"border": axes[i].repeated, "zeros": func(at int) int {
						if at >= extent {
							return -1
						}
						return at
					}, "reflection": func(at int) int { return mirror(at, extent, align == 1) }}[padding]
				}
				everyLevel(t, data, weir.Options{}, func(cpu string, run func(map[string][]float32, map[string][]int) []float32) {
					for kind := range weirtest.Rough {
						x, grid := weirtest.Roughly(r, kind, height*width), weirtest.Roughly(r, "normal", 2*places)
						for i := range grid {
							grid[i] *= []float32{0.5, 1, 30, 1e-5}[i/2%4]
						}
						for i, got := range run(map[string][]float32{"x": x, "grid": grid},
							map[string][]int{"x": {1, 1, height, width}, "grid": {1, 1, places, 2}}) {
							var at, off [2]float64
							for a := range at {
								g, d := float64(grid[2*i+1-a]), float64(axes[a].extent)
								if at[a] = ((g+1)*d - 1) / 2; align == 1 {
									at[a] = (g + 1) / 2 * (d - 1)
								}
								off[a] = 8 * unit * (math.Abs(at[a]) + d + 1)
							}
							want, limit := interpolated(x, axes[0], axes[1], at, off)
							h.hold(fmt.Sprintf("%s, %s, align %d, %s, %s", mode, padding, align, kind, cpu), i, got, want, limit)
						}
					}
				})
			}
		}
	}
	t.Logf("at most %.3g of the bound", h.worst)
}

// mirror returns the element that a position outside stands for: mirrored at the middles of the outer elements, or at
// their edges.
func mirror(at, extent int, middles bool) int {
	for at < 0 || at >= extent {
		switch {
		case middles && at < 0:
			at = -at
		case middles:
			at = 2*extent - 2 - at
		case at < 0:
			at = -1 - at
		default:
			at = 2*extent - 1 - at
		}
	}
	return at
}

// TestRoiAlignBound holds means over a region's bins to their bound: each sample has its own error, and their sum is
// rounded.
func TestRoiAlignBound(t *testing.T) {
	const height, width, regions, bins, samples = 40, 300, 30, 3, 2
	r, h := rand.New(rand.NewSource(14)), &bounds{t: t}
	n := weirtest.NodeOf("RoiAlign x,regions,images y", wire.IntAttribute("output_height", bins),
		wire.IntAttribute("output_width", bins), wire.IntAttribute("sampling_ratio", samples))
	data := oneNode(n, []*wire.ValueInfoProto{wire.TensorValue("x", 1, wire.Size(1), wire.Size(1), wire.Size(height),
		wire.Size(width)), wire.TensorValue("regions", 1, wire.Size(regions), wire.Size(4))},
		map[string][]int64{"images": make([]int64, regions)})
	var axes [2]reading
	for i, extent := range []int{height, width} {
		axes[i] = reading{extent: extent, shrink: 1}
		axes[i].clip = axes[i].repeated
	}
	everyLevel(t, data, weir.Options{}, func(cpu string, run func(map[string][]float32, map[string][]int) []float32) {
		for kind := range weirtest.Rough {
			x, boxes := weirtest.Roughly(r, kind, height*width), make([]float32, 4*regions)
			for i := range boxes {
				boxes[i] = float32((r.Float64()*1.2 - 0.1) * []float64{width, height}[i%2])
			}
			for i, got := range run(map[string][]float32{"x": x, "regions": boxes},
				map[string][]int{"x": {1, 1, height, width}, "regions": {regions, 4}}) {
				sum, most, terms := 0.0, 0.0, 0.0
				for s := range samples * samples {
					var at, off [2]float64
					for a := range at {
						low, high := float64(boxes[i/(bins*bins)*4+1-a]), float64(boxes[i/(bins*bins)*4+3-a])
						bin := (high - low) / bins
						o, k := []int{i / bins % bins, i % bins}[a], []int{s / samples, s % samples}[a]
						at[a] = low - 0.5 + bin*(float64(o)+(float64(k)+0.5)/samples)
						off[a] = 8 * unit * (math.Abs(low) + math.Abs(high) + 1)
					}
					if outside(at[0], height) || outside(at[1], width) {
						continue
					}
					for a := range at {
						at[a] = min(max(at[a], 0), float64(axes[a].extent-1))
					}
					v, limit := interpolated(x, axes[0], axes[1], at, off)
					sum, most, terms = sum+v, most+limit, terms+math.Abs(v)
				}
				h.hold(fmt.Sprintf("%s, %s", kind, cpu), i, got, sum/(samples*samples),
					most/(samples*samples)+(samples*samples+1)*unit*terms/(samples*samples))
			}
		}
	})
	t.Logf("at most %.3g of the bound", h.worst)
}

// outside reports whether a sample lies more than one element outside, and is left out.
func outside(at float64, extent int) bool { return at < -1 || at > float64(extent) }

// TestAffineGridBound holds positions to n + 3 roundings of the magnitudes of their terms.
func TestAffineGridBound(t *testing.T) {
	const height, width = 17, 301
	r, h := rand.New(rand.NewSource(15)), &bounds{t: t}
	for _, align := range []int64{0, 1} {
		n := weirtest.NodeOf("AffineGrid x,size y", wire.IntAttribute("align_corners", align))
		data := oneNode(n, []*wire.ValueInfoProto{wire.TensorValue("x", 1, wire.Size(1), wire.Size(2), wire.Size(3))},
			map[string][]int64{"size": {1, 1, height, width}})
		everyLevel(t, data, weir.Options{}, func(cpu string, run func(map[string][]float32, map[string][]int) []float32) {
			for kind := range weirtest.Rough {
				theta := weirtest.Roughly(r, kind, 6)
				for i, got := range run(map[string][]float32{"x": theta}, map[string][]int{"x": {1, 2, 3}}) {
					row := theta[i%2*3:]
					want, magnitude := float64(row[2]), math.Abs(float64(row[2]))
					for j, extent := range []float64{width, height} {
						place := (2*float64([]int{i / 2 % width, i / 2 / width}[j]) + 1 - extent) / extent
						if align == 1 {
							place *= extent / (extent - 1)
						}
						want, magnitude = want+float64(row[j])*place, magnitude+math.Abs(float64(row[j])*place)
					}
					h.hold(fmt.Sprintf("align %d, %s, %s", align, kind, cpu), i, got, want, 5*unit*magnitude+4*0x1p-149)
				}
			}
		})
	}
	t.Logf("at most %.3g of the bound", h.worst)
}
