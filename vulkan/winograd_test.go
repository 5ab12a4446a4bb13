package vulkan_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/tensor"
)

// tiled is a convolution of 3 × 3 that a device computes in tiles: y = relu(conv(x) + b) + z.
type tiled struct {
	channels, filters, height, width int64
	pads                             []int64 // top, left, bottom, right
}

// extents returns the height and width of the result.
func (c tiled) extents() (height, width int64) {
	return c.height + c.pads[0] + c.pads[2] - 2, c.width + c.pads[1] + c.pads[3] - 2
}

// model returns the convolution's file; the rows of the image have a name if dynamic.
func (c tiled) model(w, b *tensor.Tensor, dynamic bool) []byte {
	height, width := c.extents()
	rows, resultRows := wire.Size(c.height), wire.Size(height)
	if dynamic {
		rows, resultRows = wire.Dim("h"), wire.Dim("p")
	}
	float := wire.DataTypeOf(dtype.F32)
	g := &wire.GraphProto{Name: "tiled",
		Input: []*wire.ValueInfoProto{wire.TensorValue("x", float, wire.Size(2), wire.Size(c.channels), rows,
			wire.Size(c.width)),
			wire.TensorValue("z", float, wire.Size(2), wire.Size(c.filters), resultRows, wire.Size(width))},
		Initializer: []*wire.TensorProto{wire.FromTensor("w", w), wire.FromTensor("b", b)},
		Node: []*wire.NodeProto{
			{OpType: "Conv", Input: []string{"x", "w", "b"}, Output: []string{"c"},
				Attribute: []*wire.AttributeProto{wire.IntsAttribute("pads", c.pads...)}},
			{OpType: "Relu", Input: []string{"c"}, Output: []string{"r"}},
			{OpType: "Add", Input: []string{"r", "z"}, Output: []string{"y"}},
		},
		Output: []*wire.ValueInfoProto{wire.TensorValue("c", float), wire.TensorValue("y", float)},
	}
	m := &wire.ModelProto{IRVersion: 10, OpsetImport: []*wire.OperatorSetIDProto{{Version: 21}}, Graph: g}
	return m.Marshal()
}

// normal returns a tensor of normally distributed numbers.
func normal(r *rand.Rand, shape ...int64) *tensor.Tensor {
	t := tensor.Must(tensor.New(dtype.F32, shape...))
	for i := range t.Len() {
		t.SetFloat(i, r.NormFloat64())
	}
	return t
}

// TestTiles: on the device, the error of convolutions in tiles is at most 1e-5 · Σ|x| · max|w| over each result's
// window and filter, for any input. The processor computes the reference, and the bound as a convolution of magnitudes
// with the greatest weight. Infinities and NaN are in the same elements as without tiles.
func TestTiles(t *testing.T) {
	available(t)
	r := rand.New(rand.NewPCG(1, 2))
	for i, c := range []tiled{{32, 40, 24, 28, []int64{1, 1, 1, 1}}, {33, 64, 21, 26, []int64{0, 2, 1, 0}},
		{48, 32, 17, 31, []int64{2, 1, 0, 1}}, {64, 64, 56, 7, []int64{1, 1, 1, 1}}, {64, 64, 10, 20, []int64{1, 1, 1, 1}}} {
		w, b := normal(r, c.filters, c.channels, 3, 3), normal(r, c.filters)
		largest := tensor.Must(tensor.New(dtype.F32, c.filters, c.channels, 3, 3))
		for o := range c.filters {
			each, most := c.channels*9, 0.0
			for j := range each {
				most = max(most, math.Abs(w.Float(o*each+j)))
			}
			for j := range each {
				largest.SetFloat(o*each+j, most)
			}
		}
		zeros := tensor.Must(tensor.New(dtype.F32, c.filters))
		for _, dynamic := range []bool{false, true} {
			device := must(t, c.model(w, b, dynamic), weir.Options{Target: weir.Vulkan})
			_, kernels := device.DeviceKernels()
			var names []string
			for _, k := range kernels {
				names = append(names, k.Name)
			}
			if !strings.Contains(strings.Join(names, " "), "winograd_output") {
				t.Errorf("case %d: not in tiles: %v", i, names)
			}
			reference, bound := must(t, c.model(w, b, dynamic), weir.Options{Exact: true}),
				must(t, c.model(largest, zeros, dynamic), weir.Options{Exact: true})
			for _, outlier := range []float64{1, 1e4, 1e30, 1e-44, 0, math.Inf(1), math.NaN()} {
				height, width := c.extents()
				x, z := normal(r, 2, c.channels, c.height, c.width), normal(r, 2, c.filters, height, width)
				if outlier != 1 {
					for range 3 {
						x.SetFloat(r.Int64N(x.Len()), outlier)
					}
				}
				if outlier == 0 { // zeros except in the left third
					for j := range x.Len() {
						if j%c.width > c.width/3 {
							x.SetFloat(j, 0)
						}
					}
				}
				magnitudes := x.Clone()
				for j := range x.Len() {
					magnitudes.SetFloat(j, math.Abs(x.Float(j)))
				}
				inputs := map[string]*tensor.Tensor{"x": x, "z": z}
				got, want := results(t, device, inputs), results(t, reference, inputs)
				sums := results(t, bound, map[string]*tensor.Tensor{"x": magnitudes, "z": z})[0]
				if err := withinTiles(got, want, sums, b, z); err != nil {
					t.Errorf("case %d, dynamic %v, outlier %g: %v", i, dynamic, outlier, err)
				}
			}
			for _, p := range []*weir.Program{device, reference, bound} {
				if err := p.Close(); err != nil {
					t.Error(err)
				}
			}
		}
	}
}

// must compiles a model's file.
func must(t *testing.T, data []byte, o weir.Options) *weir.Program {
	t.Helper()
	p, err := compile(t, data, o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// withinTiles compares a convolution's sums, and the output computed from them, with the reference within the bound
// sums.
func withinTiles(got, want []*tensor.Tensor, sums, b, z *tensor.Tensor) error {
	if got[0].Len() != want[0].Len() || got[0].Len() != sums.Len() {
		return errors.New("results of different sizes")
	}
	plane := sums.Shape()[2] * sums.Shape()[3]
	for i := range sums.Len() {
		limit := 1e-5*sums.Float(i) + 1e-6*math.Abs(b.Float(i/plane%b.Len())) + 1e-37
		for k, more := range []float64{0, 1e-6 * math.Abs(z.Float(i))} {
			g, w := got[k].Float(i), want[k].Float(i)
			if math.IsInf(limit, 0) || limit != limit {
				if math.IsNaN(g) != math.IsNaN(w) || math.IsInf(g, 0) != math.IsInf(w, 0) {
					return fmt.Errorf("output %d, element %d is %g, not %g", k, i, g, w)
				}
				continue
			}
			if !(math.Abs(g-w) <= limit+more) {
				return fmt.Errorf("output %d, element %d is %g, not %g: the bound is %g", k, i, g, w, limit+more)
			}
		}
	}
	return nil
}

// TestTilesOrBudget: a convolution that does not fit the device's budget in tiles is computed directly, which is listed
// as a saving.
func TestTilesOrBudget(t *testing.T) {
	available(t)
	c, r := tiled{64, 64, 40, 40, []int64{1, 1, 1, 1}}, rand.New(rand.NewPCG(3, 4))
	data := c.model(normal(r, c.filters, c.channels, 3, 3), normal(r, c.filters), false)
	peak := func(o weir.Options) (int64, []weir.Saving) {
		o.Target = weir.Vulkan
		p := must(t, data, o)
		defer p.Close()
		most, err := p.Memory().Device.Formula(1).Max()
		if err != nil {
			t.Fatal(err)
		}
		return most, p.Savings()
	}
	tiles, none := peak(weir.Options{})
	direct, _ := peak(weir.Options{Exact: true})
	if len(none) > 0 || direct >= tiles {
		t.Fatalf("savings %v; %d bytes in tiles, %d without", none, tiles, direct)
	}
	if same, none := peak(weir.Options{DeviceBudget: tiles}); same != tiles || len(none) > 0 {
		t.Errorf("%d bytes and savings %v within %d", same, none, tiles)
	}
	for _, budget := range []int64{tiles - 1, direct} {
		less, saved := peak(weir.Options{DeviceBudget: budget})
		if less != direct || len(saved) != 1 || saved[0].Kind != "direct" || saved[0].Bytes != tiles-direct {
			t.Errorf("%d bytes and savings %v within %d", less, saved, budget)
		}
	}
	_, err := compile(t, data, weir.Options{Target: weir.Vulkan, DeviceBudget: direct - 1})
	if !errors.Is(err, weir.ErrBudget) || !strings.Contains(err.Error(), fmt.Sprint(direct)) {
		t.Errorf("within %d bytes: %v", direct-1, err)
	}
}
