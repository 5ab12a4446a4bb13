package vulkan_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/tensor"
)

// products is a model with a product of f16 and one of f32, both of a dynamic number of rows and constant weights.
// Their sums are of large terms that cancel each other almost.
type products struct {
	data          []byte
	inputs        map[string]*tensor.Tensor
	halves, whole [2]*tensor.Tensor // the operands
}

// newProducts returns the model with rows × steps by steps × columns elements.
func newProducts(rows, steps, columns int64) (p products) {
	g := &fusionGraph{graph: &wire.GraphProto{Name: "products"}, inputs: map[string]*tensor.Tensor{}, small: true,
		random: rand.New(rand.NewPCG(3, 3))}
	product := func(name string, dt dtype.DType) [2]*tensor.Tensor {
		x, w := g.input(name, dt, -rows, steps), tensor.Must(tensor.New(dt, steps, columns))
		for i := range w.Len() {
			w.SetFloat(i, g.random.NormFloat64())
		}
		left := g.inputs[name]
		for i := range left.Len() {
			if k := i % steps; k%2 == 1 && g.random.IntN(3) > 0 {
				left.SetFloat(i, -left.Float(i-1)+g.random.NormFloat64()/64)
				continue
			}
			left.SetFloat(i, g.random.NormFloat64()*math.Exp2(float64(g.random.IntN(8))))
		}
		for k := int64(1); k < steps; k += 2 {
			for j := range columns {
				w.SetFloat(k*columns+j, w.Float((k-1)*columns+j))
			}
		}
		g.output(g.node("MatMul", []string{x, g.weight(w)}), dt)
		return [2]*tensor.Tensor{left, w}
	}
	p.halves, p.whole = product("x", dtype.F16), product("y", dtype.F32)
	m := &wire.ModelProto{IRVersion: 10, OpsetImport: []*wire.OperatorSetIDProto{{Version: 21}}, Graph: g.graph}
	p.data, p.inputs = m.Marshal(), g.inputs
	return p
}

// matrixTypes returns the program that options give, and the types of matrices that its SPIR-V has, by the extensions
// and the number of kernels.
func matrixTypes(t *testing.T, data []byte, o weir.Options) (p *weir.Program, kernels int, brains bool) {
	t.Helper()
	o.Target = weir.Vulkan
	o.Stage = func(name, text string) {
		if name == "spirv" {
			kernels = strings.Count(text, "OpExtension \"SPV_KHR_cooperative_matrix\"")
			brains = strings.Contains(text, "BFloat16CooperativeMatrixKHR")
		}
	}
	p, err := compile(t, data, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p, kernels, brains
}

// TestMatrixOptions: cooperative matrices compute the products of a model's f16, and with Precision those of f32 in
// bf16, if a device has them for the type; none with Exact. Products of f32 without Precision never use them.
func TestMatrixOptions(t *testing.T) {
	data := newProducts(40, 70, 50).data
	const both = "desktop,shuffle,matrix-f16-16x16x16,matrix-bf16-16x16x16,shared=30000"
	for _, c := range []struct {
		limits  string
		options weir.Options
		kernels int
		brains  bool
	}{
		{both, weir.Options{}, 1, false}, {both, weir.Options{Precision: weir.BF16}, 2, true},
		{both, weir.Options{Exact: true}, 0, false}, {both, weir.Options{Exact: true, Precision: weir.BF16}, 0, false},
		{"desktop,shuffle,matrix-f16-16x16x16", weir.Options{Precision: weir.BF16}, 1, false},
		{"desktop,shuffle,matrix-bf16-16x16x16", weir.Options{}, 0, false},
		{"desktop,shuffle,matrix-i8-16x16x16", weir.Options{}, 0, false}, {"desktop,shuffle", weir.Options{}, 0, false},
		{both + ",cached-reads", weir.Options{}, 0, false},
	} {
		o := c.options
		o.Limits = c.limits
		p, kernels, brains := matrixTypes(t, data, o)
		if kernels != c.kernels || brains != c.brains {
			t.Errorf("%s, %+v: %d kernels have matrices, of bf16: %v", c.limits, c.options, kernels, brains)
		}
		_, list := p.DeviceKernels()
		for _, k := range list {
			if k.Shared > 49152 || strings.Contains(c.limits, "shared") && k.Shared > 30000 {
				t.Errorf("%s: %s has %d shared bytes", c.limits, k.Name, k.Shared)
			}
		}
		for _, h := range p.OnHost() {
			t.Errorf("%s: %s runs on the host: %s", c.limits, h.Nodes, h.Reason)
		}
	}
}

// TestMatrixBound runs products on the device, with its cooperative matrices if it has some, and compares them with the
// bounds of docs/accuracy.md.
func TestMatrixBound(t *testing.T) {
	d := available(t)
	has := slices.ContainsFunc(d.Features, func(f string) bool { return strings.HasPrefix(f, "matrix-f16") })
	if !has {
		t.Log("THE DRIVER REPORTS NO COOPERATIVE MATRICES OF f16: the bounds are those of other products")
	}
	limits := smallerLimits(t, 1<<20, 1024, 512)
	for _, size := range [][3]int64{{40, 70, 50}, {0, 20, 20}, {64, 256, 96}} {
		m := newProducts(size[0], size[1], size[2])
		for _, precision := range []weir.DType{weir.F32, weir.BF16} {
			p, kernels, _ := matrixTypes(t, m.data, weir.Options{Limits: limits, Precision: precision})
			if has && kernels == 0 && size[0] > 0 {
				t.Errorf("%v: no kernel has matrices", size)
			}
			got := results(t, p, m.inputs)
			share := map[weir.DType]float64{weir.F32: 0, weir.BF16: 0x1p-7}[precision]
			withinBound(t, got[0], m.halves, 0, 0x1p-11)
			withinBound(t, got[1], m.whole, share, 0)
		}
	}
}

// withinBound compares a product with the true one: the error is at most (share + n · 2⁻²²) · Σ|x·w| for n terms, and
// rounded of the result.
func withinBound(t *testing.T, got *tensor.Tensor, of [2]*tensor.Tensor, share, rounded float64) {
	t.Helper()
	rows, steps, columns := of[0].Shape()[0], of[0].Shape()[1], of[1].Shape()[1]
	worst := 0.0
	for i := range rows {
		for j := range columns {
			sum, all := 0.0, 0.0
			for k := range steps {
				x := of[0].Float(i*steps+k) * of[1].Float(k*columns+j)
				sum, all = sum+x, all+math.Abs(x)
			}
			most := (share+float64(steps)*0x1p-22)*all + rounded*math.Abs(sum) + 0x1p-24
			off := math.Abs(got.Float(i*columns+j) - sum)
			if worst = max(worst, off/most); !(off <= most) {
				t.Fatalf("element [%d, %d] of %v is %g, not %g: the error is more than %g", i, j, got.Shape(),
					got.Float(i*columns+j), sum, most)
			}
		}
	}
	t.Logf("%v by %v: at most %.2f of the bound", of[0].Shape(), of[1].Shape(), worst)
}
