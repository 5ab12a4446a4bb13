package accuracy

import (
	"fmt"
	"math"
	"math/rand"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/weirtest"
)

// bytesCase is a product that is computed in bytes: a convolution if there is a kernel, or else a matrix product.
type bytesCase struct {
	images, height, width, channels, filters int
	kernel, stride, pad                      int
	relu                                     bool // before the product
}

// TestBytesBound holds products and convolutions in int8 to their proved bound: operands with signs and without, scales
// of rows, of positions and of images, padding, strides, and depths that no register's width divides. Among the
// elements are outliers, zeros and tiny numbers.
func TestBytesBound(t *testing.T) {
	r := rand.New(rand.NewSource(9))
	for _, c := range []bytesCase{
		{images: 3, height: 1, width: 5, channels: 97, filters: 33},
		{images: 1, height: 1, width: 1, channels: 1030, filters: 17, relu: true},
		{images: 2, height: 5, width: 6, channels: 40, filters: 19, kernel: 1, stride: 1},
		{images: 2, height: 5, width: 6, channels: 40, filters: 19, kernel: 1, stride: 2, relu: true},
		{images: 2, height: 6, width: 5, channels: 9, filters: 18, kernel: 3, stride: 1, pad: 1},
		{images: 2, height: 7, width: 9, channels: 16, filters: 32, kernel: 3, stride: 2, pad: 2, relu: true},
	} {
		for _, kind := range []string{"normal", "large", "wide", "outliers"} {
			t.Run(fmt.Sprintf("%+v %s", c, kind), func(t *testing.T) { c.check(t, r, kind) })
		}
	}
}

// check compiles the product at each level and compares its results on elements of a kind.
func (c bytesCase) check(t *testing.T, r *rand.Rand, kind string) {
	taps := max(1, c.kernel*c.kernel)
	w := weirtest.Roughly(r, kind, c.filters*c.channels*taps)
	weight := func(o, i, tap int) float64 { return float64(w[(o*c.channels+i)*taps+tap]) }
	node := &wire.NodeProto{Name: "product", Input: []string{"z", "w"}, Output: []string{"y"}}
	dims, shape := []int64{int64(c.filters), int64(c.channels)}, []int{c.images, c.channels, c.height, c.width}
	if c.kernel == 0 {
		node.OpType = "MatMul"
		dims, shape = []int64{int64(c.channels), int64(c.filters)}, []int{c.images, c.height * c.width, c.channels}
		weight = func(o, i, _ int) float64 { return float64(w[i*c.filters+o]) }
	} else {
		node.OpType = "Conv"
		dims = append(dims, int64(c.kernel), int64(c.kernel))
		ints := func(name string, v, count int) *wire.AttributeProto {
			list := make([]int64, count)
			for i := range list {
				list[i] = int64(v)
			}
			return &wire.AttributeProto{Name: name, Type: wire.AttributeInts, Ints: list}
		}
		node.Attribute = []*wire.AttributeProto{ints("strides", c.stride, 2), ints("pads", c.pad, 4)}
	}
	before := &wire.NodeProto{OpType: "Identity", Input: []string{"x"}, Output: []string{"z"}}
	if c.relu {
		before.OpType = "Relu"
	}
	sizes := make([]*wire.Dimension, len(shape))
	for i, n := range shape {
		sizes[i] = wire.Size(int64(n))
	}
	g := &wire.GraphProto{Name: "g", Node: []*wire.NodeProto{before, node},
		Initializer: []*wire.TensorProto{{Name: "w", DataType: wire.FloatType, Dims: dims, RawData: weirtest.RawFloats(w)}},
		Input:       []*wire.ValueInfoProto{wire.TensorValue("x", 1, sizes...)}, Output: []*wire.ValueInfoProto{{Name: "y"}}}
	data := (&wire.ModelProto{IRVersion: 10, OpsetImport: []*wire.OperatorSetIDProto{{Version: 21}}, Graph: g}).Marshal()
	everyLevel(t, data, weir.Options{Precision: weir.I8},
		func(cpu string, run func(map[string][]float32, map[string][]int) []float32) {
			x := weirtest.Roughly(r, kind, c.images*c.channels*c.height*c.width)
			y := run(map[string][]float32{"x": x}, map[string][]int{"x": shape})
			if c.relu {
				for i := range x {
					x[i] = max(x[i], 0)
				}
			}
			c.compare(t, cpu, x, y, weight)
		})
}

// compare holds each result to its bound. weight returns the weight of output o, input i and kernel position tap.
func (c bytesCase) compare(t *testing.T, cpu string, x, y []float32, weight func(o, i, tap int) float64) {
	element := func(image, i, row, column int) float64 {
		if c.kernel == 0 {
			return float64(x[((image*c.height+row)*c.width+column)*c.channels+i])
		}
		return float64(x[((image*c.channels+i)*c.height+row)*c.width+column])
	}
	kernel, stride := max(1, c.kernel), max(1, c.stride)
	rows, columns := (c.height+2*c.pad-kernel)/stride+1, (c.width+2*c.pad-kernel)/stride+1
	steps := 254.
	if c.relu {
		steps = 510
	}
	worst, failed := 0.0, 0
	for at := range len(y) {
		o, place := at/(rows*columns)%c.filters, at%(rows*columns)
		image := at / (rows * columns * c.filters)
		if c.kernel == 0 {
			o, place, image = at%c.filters, at/c.filters%(rows*columns), at/(c.filters*rows*columns)
		}
		want, of, ofX, ofW, terms, mostW, mostX := 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
		for i := range c.channels {
			for tap := range kernel * kernel {
				v := weight(o, i, tap)
				mostW = max(mostW, math.Abs(v))
				row, column := place/columns*stride+tap/kernel-c.pad, place%columns*stride+tap%kernel-c.pad
				if row < 0 || row >= c.height || column < 0 || column >= c.width {
					continue
				}
				e := element(image, i, row, column)
				want, of, ofX, ofW, terms = want+e*v, of+math.Abs(e*v), ofX+math.Abs(e), ofW+math.Abs(v), terms+1
				mostX = max(mostX, math.Abs(e))
			}
			for p := range c.height * c.width {
				if c.kernel > 1 || stride > 1 { // the image's
					mostX = max(mostX, math.Abs(element(image, i, p/c.width, p%c.width)))
				}
			}
		}
		bound := mostW/254*ofX + mostX/steps*ofW + terms*mostW*mostX/254/steps
		bound = bound*(1+1e-4) + 0x1p-21*of + 1e-30*(ofW+ofX+terms)
		off := math.Abs(float64(y[at]) - want)
		worst = max(worst, off/bound)
		if failed++; !(off <= bound) && failed < 5 {
			t.Errorf("%s: result %d is %g, not %g: %g away, the bound is %g", cpu, at, y[at], want, off, bound)
		}
	}
	if worst == 0 {
		t.Errorf("%s: nothing is rounded", cpu)
	}
}
