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

// blocksCase is a product by weights of few bits. Its model allows operands of bytes.
type blocksCase struct {
	rows, depth, columns, block, bits int
	zeros                             bool
}

// TestBlocksBytesBound holds products by weights of few bits, with operands rounded to bytes, to their proved bound:
// one row and many, blocks that do not divide the depth, with one zero point and with many. The model allows bytes;
// --precision int8 asks for them, and --exact forbids them.
func TestBlocksBytesBound(t *testing.T) {
	r := rand.New(rand.NewSource(4))
	for _, c := range []blocksCase{
		{1, 1056, 33, 32, 4, false}, {1, 700, 48, 16, 4, true}, {5, 1830, 17, 64, 4, true}, {13, 512, 70, 128, 4, false},
		{25, 775, 40, 32, 4, true}, {2, 1596, 20, 32, 2, true}, {7, 900, 35, 16, 8, false}, {3, 490, 64, 32, 8, true},
	} {
		for _, kind := range []string{"normal", "large", "wide", "outliers"} {
			t.Run(fmt.Sprintf("%+v %s", c, kind), func(t *testing.T) { c.check(t, r, kind) })
		}
	}
}

// model returns the product as a model's file, and the value of weight k of column o.
func (c blocksCase) model(r *rand.Rand, level int64) (data []byte, weight func(o, k int) float64) {
	blocks, perByte := (c.depth+c.block-1)/c.block, 8/c.bits
	packed, zeros := make([]byte, c.columns*blocks*c.block/perByte), make([]byte, c.columns*((blocks+perByte-1)/perByte))
	scales := make([]float32, c.columns*blocks)
	r.Read(packed)
	r.Read(zeros)
	for i := range scales {
		scales[i] = float32(math.Exp(r.NormFloat64()))
	}
	take := func(from []byte, line, i int) float64 {
		return float64(from[line+i/perByte] >> (c.bits * (i % perByte)) & (1<<c.bits - 1))
	}
	weight = func(o, k int) float64 {
		zero := float64(int(1) << (c.bits - 1))
		if c.zeros {
			zero = take(zeros, o*((blocks+perByte-1)/perByte), k/c.block)
		}
		return (take(packed, o*blocks*c.block/perByte, k) - zero) * float64(scales[o*blocks+k/c.block])
	}
	node := &wire.NodeProto{Name: "product", OpType: "MatMulNBits", Domain: "com.microsoft",
		Input: []string{"x", "w", "scales"}, Output: []string{"y"},
		Attribute: []*wire.AttributeProto{wire.IntAttribute("K", int64(c.depth)), wire.IntAttribute("N", int64(c.columns)),
			wire.IntAttribute("bits", int64(c.bits)),
			wire.IntAttribute("block_size", int64(c.block)), wire.IntAttribute("accuracy_level", level)}}
	bytes := func(name string, data []byte, dims ...int64) *wire.TensorProto {
		return &wire.TensorProto{Name: name, DataType: 2, Dims: dims, RawData: data}
	}
	constants := []*wire.TensorProto{bytes("w", packed, int64(c.columns), int64(blocks), int64(c.block/perByte)),
		{Name: "scales", DataType: wire.FloatType, Dims: []int64{int64(len(scales))}, RawData: weirtest.RawFloats(scales)}}
	if c.zeros {
		node.Input = append(node.Input, "zeros")
		constants = append(constants, bytes("zeros", zeros, int64(len(zeros))))
	}
	rows := wire.Dim("rows")
	if level == 0 {
		rows = wire.Size(int64(c.rows))
	}
	g := &wire.GraphProto{Name: "g", Node: []*wire.NodeProto{node}, Initializer: constants,
		Input:  []*wire.ValueInfoProto{wire.TensorValue("x", 1, rows, wire.Size(int64(c.depth)))},
		Output: []*wire.ValueInfoProto{{Name: "y"}}}
	return (&wire.ModelProto{IRVersion: 10, OpsetImport: []*wire.OperatorSetIDProto{{Version: 21},
		{Domain: "com.microsoft", Version: 1}}, Graph: g}).Marshal(), weight
}

// check compiles the product at each level, with bytes and without, and compares one row and many.
func (c blocksCase) check(t *testing.T, r *rand.Rand, kind string) {
	for _, o := range []struct {
		level   int64
		options weir.Options
		bytes   bool
	}{{4, weir.Options{}, true}, {0, weir.Options{Precision: weir.I8}, true}, {0, weir.Options{}, false},
		{4, weir.Options{Exact: true}, false}} {
		if !o.bytes && kind != "normal" {
			continue
		}
		data, weight := c.model(r, o.level)
		everyLevel(t, data, o.options, func(cpu string, run func(map[string][]float32, map[string][]int) []float32) {
			x := weirtest.Roughly(r, kind, c.rows*c.depth)
			y := run(map[string][]float32{"x": x}, map[string][]int{"x": {c.rows, c.depth}})
			vnni := cpu == "avx512vnni" || cpu == "avx512bf16" || cpu == "avx512amx"
			c.compare(t, cpu, x, y, weight, o.bytes && vnni, kind == "normal")
			x[c.depth-1] = float32(math.Inf(1))
			for i, v := range run(map[string][]float32{"x": x}, map[string][]int{"x": {c.rows, c.depth}}) {
				if finite := !math.IsInf(float64(v), 0) && v == v; i < c.columns == finite &&
					(i >= c.columns || weight(i, c.depth-1) != 0) {
					t.Fatalf("%s: result %d is %g beside an infinity", cpu, i, v)
				}
			}
		})
	}
}

// compare holds each result to its bound. If witness is set, some result must be off by more than the rounding of f32
// if the product is computed in bytes, and none if it is not.
func (c blocksCase) compare(t *testing.T, cpu string, x, y []float32, weight func(o, k int) float64, bytes,
	witness bool) {
	beyond := false
	for at := range y {
		row, o := at/c.columns, at%c.columns
		want, of, ofW, steps := 0.0, 0.0, 0.0, 0.0
		for first := 0; first < c.depth; first += c.block {
			most, ofBlock := 0.0, 0.0
			for k := first; k < min(first+c.block, c.depth); k++ {
				v, w := float64(x[row*c.depth+k]), weight(o, k)
				want, of, ofBlock, most = want+v*w, of+math.Abs(v*w), ofBlock+math.Abs(w), max(most, math.Abs(v))
			}
			steps, ofW = steps+most/254*ofBlock, ofW+ofBlock
		}
		rounding := float64(c.depth)*0x1p-23*of + 1e-30*ofW
		bound, off := rounding, math.Abs(float64(y[at])-want)
		if bytes {
			bound += steps * (1 + 1e-4)
		}
		if off > bound {
			t.Errorf("%s: result %d is %g, not %g: %g away, the bound is %g", cpu, at, y[at], want, off, bound)
			return
		}
		beyond = beyond || off > rounding
	}
	if witness && beyond != bytes {
		t.Errorf("%s: operands rounded to bytes: %v, not %v", cpu, beyond, bytes)
	}
}
