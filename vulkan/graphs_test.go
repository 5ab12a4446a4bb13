package vulkan_test

import (
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/conformance/conformancetest"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/tensor"
	"github.com/weirml/weir/internal/values"
)

// The numbers of random graphs and models that the tests draw: more take longer.
var (
	graphs   = flag.Int("graphs", 90, "the number of random graphs that TestLimits compiles")
	networks = flag.Int("networks", 12, "the number of random graphs that TestNetworks runs on the device")
	models   = flag.Int("models", 50, "the number of random models that TestRandomModels runs on the device")
)

// network is a graph under construction: a chain of layers that are common in models. Its first extent is dynamic or
// fixed, and the others are fixed.
type network struct {
	*rand.Rand
	graph   *wire.GraphProto
	last    string
	shape   []int64 // of last; if dynamic is true, the first extent is the dimension n
	inputs  map[string][]int64
	count   int
	dynamic bool
	rounds  bool // a layer rounds to a grid: values that differ by rounding may differ by one step of it, in few elements
}

// newNetwork returns a network that has only its input x, of the given shape. The seed decides whether the first extent
// is dynamic.
func newNetwork(seed uint64, shape ...int64) *network {
	n := &network{Rand: rand.New(rand.NewPCG(seed, 3)), graph: &wire.GraphProto{Name: "network"}, last: "x", shape: shape,
		inputs: map[string][]int64{"x": shape}}
	n.dynamic = n.IntN(2) == 0
	var dims []*wire.Dimension
	for i, size := range shape {
		if i == 0 && n.dynamic {
			dims = append(dims, wire.Dim("n"))
		} else {
			dims = append(dims, wire.Size(size))
		}
	}
	n.graph.Input = append(n.graph.Input, wire.TensorValue("x", wire.DataTypeOf(dtype.F32), dims...))
	return n
}

// node adds an operator that takes the last value and then the values named in others. Its result becomes the last
// value.
func (n *network) node(op string, others []string, attributes ...*wire.AttributeProto) {
	n.count++
	out := fmt.Sprintf("%s%d", op, n.count)
	n.graph.Node = append(n.graph.Node, &wire.NodeProto{OpType: op, Input: append([]string{n.last}, others...),
		Output: []string{out}, Attribute: attributes})
	n.last = out
}

// constant adds a weight with random elements and returns its name.
func (n *network) constant(dt dtype.DType, shape ...int64) string {
	n.count++
	name := fmt.Sprintf("w%d", n.count)
	t := tensor.Must(tensor.New(dt, shape...))
	for i := range t.Len() {
		if dt.IsInt() {
			t.SetInt(i, n.Int64N(255)-127)
		} else {
			t.SetFloat(i, n.NormFloat64()/8)
		}
	}
	n.graph.Initializer = append(n.graph.Initializer, wire.FromTensor(name, t))
	return name
}

// scalar adds t as a constant and returns its name.
func (n *network) scalar(t *tensor.Tensor) string {
	n.count++
	name := fmt.Sprintf("c%d", n.count)
	n.graph.Initializer = append(n.graph.Initializer, wire.FromTensor(name, t))
	return name
}

// weight adds a weight of f32, or one of i8 with the operator that dequantises it, and returns the name of the f32
// value.
func (n *network) weight(shape ...int64) string {
	if n.IntN(2) == 0 {
		return n.constant(dtype.F32, shape...)
	}
	q := n.constant(dtype.I8, shape...)
	out := q + "f"
	n.graph.Node = append(n.graph.Node, &wire.NodeProto{OpType: "DequantizeLinear",
		Input: []string{q, n.scalar(tensor.Scalar(float32(0.01))), n.scalar(tensor.Scalar(int8(0)))}, Output: []string{out}})
	return out
}

// grow adds a random layer, or none if a drawn layer of images does not fit.
func (n *network) grow() {
	if len(n.shape) == 4 {
		n.growImage()
		return
	}
	last := n.shape[len(n.shape)-1]
	switch n.IntN(7) {
	case 0, 1:
		columns := 1 + n.Int64N(150)
		n.node("MatMul", []string{n.weight(last, columns)})
		n.shape = append(append([]int64{}, n.shape[:len(n.shape)-1]...), columns)
		n.node("Add", []string{n.constant(dtype.F32, columns)})
	case 2:
		n.node("Softmax", nil, wire.IntAttribute("axis", -1))
	case 3:
		n.node("LayerNormalization", []string{n.constant(dtype.F32, last), n.constant(dtype.F32, last)},
			wire.IntAttribute("axis", -1))
	case 4:
		n.attention()
	case 5:
		n.node([]string{"Relu", "Tanh", "Sigmoid", "Gelu"}[n.IntN(4)], nil)
	default:
		n.rounds = true
		n.node("QuantizeLinear", []string{n.scalar(tensor.Scalar(float32(0.05))), n.scalar(tensor.Scalar(uint8(128)))})
		n.node("DequantizeLinear", []string{n.scalar(tensor.Scalar(float32(0.05))), n.scalar(tensor.Scalar(uint8(128)))})
	}
}

// attention adds softmax(x·xᵀ)·x over the last two axes of the last value x.
func (n *network) attention() {
	x := n.last
	perm := make([]int64, len(n.shape))
	for i := range perm {
		perm[i] = int64(i)
	}
	perm[len(perm)-1], perm[len(perm)-2] = perm[len(perm)-2], perm[len(perm)-1]
	n.node("Transpose", nil, wire.IntsAttribute("perm", perm...))
	transposed := n.last
	n.last = x
	n.node("MatMul", []string{transposed})
	n.node("Softmax", nil, wire.IntAttribute("axis", -1))
	n.node("MatMul", []string{x})
}

// growImage adds a random layer to a network whose last value has the axes batch, channel, row and column. It adds none
// if the drawn window does not fit in the image.
func (n *network) growImage() {
	channels, height, width := n.shape[1], n.shape[2], n.shape[3]
	switch n.IntN(7) {
	case 6: // with enough channels, this convolution is computed in tiles
		filters := 32 + n.Int64N(40)
		n.node("Conv", []string{n.constant(dtype.F32, filters, channels, 3, 3), n.constant(dtype.F32, filters)},
			wire.IntsAttribute("pads", 1, 1, 1, 1))
		n.shape = []int64{n.shape[0], filters, height, width}
	case 0, 1, 2:
		groups := int64(1)
		if n.IntN(3) == 0 {
			groups = channels
		}
		filters := groups * (1 + n.Int64N(max(1, 70/groups)))
		kernel, stride, dilation := 1+n.Int64N(min(3, height, width)), 1+n.Int64N(2), 1+n.Int64N(2)
		pad := n.Int64N(2) + (kernel-1)*dilation/2
		positions := func(size int64) int64 { return (size+2*pad-(kernel-1)*dilation-1)/stride + 1 }
		if positions(height) < 1 || positions(width) < 1 {
			return
		}
		n.node("Conv", []string{n.weight(filters, channels/groups, kernel, kernel), n.constant(dtype.F32, filters)},
			wire.IntAttribute("group", groups),
			wire.IntsAttribute("strides", stride, stride), wire.IntsAttribute("dilations", dilation, dilation),
			wire.IntsAttribute("pads", pad, pad, pad, pad))
		n.shape = []int64{n.shape[0], filters, positions(height), positions(width)}
	case 3:
		n.node("Relu", nil)
	case 4:
		if height < 2 || width < 2 {
			return
		}
		n.node("MaxPool", nil, wire.IntsAttribute("kernel_shape", 2, 2), wire.IntsAttribute("strides", 2, 2))
		n.shape = []int64{n.shape[0], channels, height / 2, width / 2}
	default:
		n.node("Reshape", []string{n.scalar(tensor.Must(tensor.FromSlice([]int64{0, channels, -1}, 3)))})
		n.shape = []int64{n.shape[0], channels, height * width}
	}
}

// model returns the graph, with the last value as its output, as the bytes of an ONNX file.
func (n *network) model() []byte {
	n.graph.Output = append(n.graph.Output, wire.TensorValue(n.last, wire.DataTypeOf(dtype.F32)))
	m := &wire.ModelProto{IRVersion: 10, OpsetImport: []*wire.OperatorSetIDProto{{Version: 21}}, Graph: n.graph}
	return m.Marshal()
}

// randomNetwork returns a network of two to seven layers over rows or over images. Attention needs known extents, so
// only the first axis can be dynamic.
func randomNetwork(seed uint64) *network {
	r := rand.New(rand.NewPCG(seed, 5))
	shape := []int64{1 + r.Int64N(3), 1 + r.Int64N(70), 1 + r.Int64N(90)}
	if r.IntN(2) == 0 {
		shape = []int64{1 + r.Int64N(2), 1 + r.Int64N(40), 2 + r.Int64N(20), 2 + r.Int64N(20)}
	}
	n := newNetwork(seed, shape...)
	for range 2 + n.IntN(6) {
		n.grow()
	}
	if n.count == 0 {
		n.node("Relu", nil)
	}
	return n
}

// randomInputs returns a tensor of normally distributed elements for each input.
func (n *network) randomInputs() map[string]*tensor.Tensor {
	inputs := map[string]*tensor.Tensor{}
	for name, shape := range n.inputs {
		x := tensor.Must(tensor.New(dtype.F32, shape...))
		for i := range x.Len() {
			x.SetFloat(i, n.NormFloat64())
		}
		inputs[name] = x
	}
	return inputs
}

// compile compiles the ONNX model in data. A model that does not load ends the test; the error is of the compilation.
func compile(t testing.TB, data []byte, o weir.Options) (*weir.Program, error) {
	t.Helper()
	m, err := weir.LoadBytes(data)
	if err != nil {
		t.Fatal(err)
	}
	p, err := weir.Compile(t.Context(), m, o)
	if closed := m.Close(); closed != nil {
		t.Error(closed)
	}
	return p, err
}

// TestLimits compiles random graphs for devices with small and with large limits, and shows that none is refused, that
// every kernel keeps within the device's shared memory and threads, and that nothing runs on the host.
func TestLimits(t *testing.T) {
	kernels, tiled := 0, 0
	for seed := range uint64(*graphs) {
		r := rand.New(rand.NewPCG(seed, 9))
		shared := []int64{2, 4, 16, 32, 64, 227}[seed%6] << 10
		threads, private := int64(1)<<r.IntN(11), int64(16)<<r.IntN(7)
		limits := fmt.Sprintf("desktop,keeps-subnormal,shared=%d,invocations=%d,subgroup=1,private=%d", shared, threads,
			private)
		if r.IntN(4) == 0 {
			limits += ",cached-reads"
		}
		p, err := compile(t, randomNetwork(seed).model(), weir.Options{Target: weir.Vulkan, Limits: limits})
		if err != nil {
			t.Errorf("seed %d, %s: %v", seed, limits, err)
			continue
		}
		_, list := p.DeviceKernels()
		for _, k := range list {
			kernels++
			if k.Shared > 0 {
				tiled++
			}
			if k.Shared > shared || k.Threads > threads {
				t.Errorf("seed %d, %s: kernel %s has %d shared bytes and %d threads", seed, limits, k.Name, k.Shared, k.Threads)
			}
		}
		for _, h := range p.OnHost() {
			t.Errorf("seed %d, %s: %s (%s) runs on the host: %s", seed, limits, h.Step, h.Nodes, h.Reason)
		}
		p.Close()
	}
	t.Logf("%d graphs, %d entries of kernels, %d with shared memory", *graphs, kernels, tiled)
	if tiled == 0 {
		t.Error("no kernel has shared memory")
	}
}

// results runs a program on inputs and returns copies of its outputs. On a device it also checks the predicted memory.
func results(t testing.TB, p *weir.Program, inputs map[string]*tensor.Tensor) (list []*tensor.Tensor) {
	t.Helper()
	in := weir.Inputs{}
	for name, x := range inputs {
		w, err := values.ToWeir(x)
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		in[name] = w
	}
	r, err := p.Run(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for i := range p.Outputs() {
		x, err := values.FromWeir(r.At(i))
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, x.Clone())
	}
	if d := p.Memory().Device; d != nil {
		checkMemory(t, p, in, d)
	}
	return list
}

// checkMemory compares the device memory that the program predicts for a call with the bytes that it requests from the
// driver.
func checkMemory(t testing.TB, p *weir.Program, in weir.Inputs, d *weir.DeviceMemory) {
	t.Helper()
	m, err := p.Measure(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	dims, err := p.Bind(in)
	if err != nil {
		t.Fatal(err)
	}
	for name, v := range m.Decided {
		dims[name] = v
	}
	want, err := d.Formula(1).At(dims)
	if err != nil {
		t.Fatal(err)
	}
	if got := m.DeviceWeights + m.DeviceCall; got != want {
		t.Errorf("%d bytes of the device's memory were predicted, and %d were requested", want, got)
	}
}

// driverLimits returns the empty text, which stands for the device's own limits, for an even seed, and random smaller
// limits for an odd one.
func driverLimits(t testing.TB, seed uint64) string {
	if seed%2 == 0 {
		return ""
	}
	r := rand.New(rand.NewPCG(seed, 11))
	limits := smallerLimits(t, 16<<r.IntN(11), 1<<r.IntN(8), 16<<r.IntN(8))
	if r.IntN(3) == 0 {
		limits += ",cached-reads"
	}
	return limits
}

// smallerLimits returns limits with all features of the device except cached-reads, so that tiles lie in shared memory.
// The bytes of shared memory and the threads are the given ones or the device's, whichever are fewer; the bytes of
// private memory are the given ones.
func smallerLimits(t testing.TB, shared, threads, private int64) string {
	d := available(t)
	words := []string{"minimum"}
	for _, f := range d.Features {
		subgroups := f == "shuffle" || strings.HasPrefix(f, "matrix-")
		if f != "cached-reads" && (!subgroups || min(threads, d.Threads) >= d.Subgroup) {
			words = append(words, f)
		}
	}
	if slices.Contains(words, "shuffle") {
		words = append(words, fmt.Sprintf("subgroup=%d", d.Subgroup))
	}
	return fmt.Sprintf("%s,shared=%d,invocations=%d,private=%d", strings.Join(words, ","), min(shared, d.Shared),
		min(threads, d.Threads), private)
}

// TestNetworks runs random graphs on the device, with its own or with smaller limits, and on the processor, and shows
// that the results agree.
func TestNetworks(t *testing.T) {
	available(t)
	for seed := range uint64(*networks) {
		n := randomNetwork(seed)
		data := n.model()
		inputs := n.randomInputs()
		limits := driverLimits(t, seed)
		var list [2][]*tensor.Tensor
		for i, o := range []weir.Options{{}, {Target: weir.Vulkan, Limits: limits}} {
			p, err := compile(t, data, o)
			if err != nil {
				t.Fatalf("seed %d, %q: %v", seed, limits, err)
			}
			list[i] = results(t, p, inputs)
			p.Close()
		}
		for i, want := range list[0] {
			if err := n.compare(list[1][i], want); err != nil {
				t.Errorf("seed %d, %q: %v", seed, limits, err)
			}
		}
	}
}

// compare returns an error if got differs from want by more than rounding explains. If a layer rounds to a grid, one
// element of a hundred may differ further.
func (n *network) compare(got, want *tensor.Tensor) error {
	err := tensor.Compare(got, want, 2e-3, 2e-3)
	if err == nil || !n.rounds || got.Len() != want.Len() {
		return err
	}
	different := int64(0)
	for i := range got.Len() {
		if x, y := got.Float(i), want.Float(i); !(math.Abs(x-y) <= 2e-3+2e-3*math.Abs(y)) {
			different++
		}
	}
	if different*100 <= got.Len() {
		return nil
	}
	return fmt.Errorf("%d elements of %d differ; %w", different, got.Len(), err)
}

// TestRandomModels runs the random models of the conformance tests on the device and on the processor, and shows that
// the results agree. The models have every type, empty extents, branches and loops.
func TestRandomModels(t *testing.T) {
	available(t)
	ran := 0
	for seed := range uint64(*models) {
		m := conformancetest.Random(seed)
		data := m.Model.Marshal()
		inputs := map[string]*tensor.Tensor{}
		for i, x := range m.Inputs {
			inputs[m.Model.Graph.Input[i].Name] = x
		}
		var list [2][]*tensor.Tensor
		refused := false
		for i, target := range []weir.Target{weir.CPU, weir.Vulkan} {
			p, err := compile(t, data, weir.Options{Target: target})
			if errors.Is(err, weir.ErrUnsupported) && i == 0 {
				refused = true
				break
			}
			if err != nil {
				t.Fatalf("seed %d, %s: %v", seed, target, err)
			}
			list[i] = results(t, p, inputs)
			p.Close()
		}
		if refused {
			continue
		}
		ran++
		for i := range list[0] {
			tolerance := max(64*m.Error[i], 1e-6)
			if m.Error[i] == 0 {
				tolerance = 0
			}
			if err := tensor.Compare(list[1][i], list[0][i], tolerance, tolerance*100); err != nil {
				t.Errorf("seed %d, output %d: %v", seed, i, err)
			}
		}
	}
	t.Logf("%d models", ran)
}

// TestStory compiles a convolution that another compiler refused because its kernel needed 606,208 bytes of shared
// memory on a device with 65,536. It shows that every kernel of Weir fits in the shared memory that there is, that the
// arena holds the images only, so that the dequantised weights are never stored, and that the device's results agree
// with the processor's.
func TestStory(t *testing.T) {
	story := func(size int64) []byte {
		n := newNetwork(1, 1, 64, size, size)
		n.dynamic = false
		n.graph.Input = []*wire.ValueInfoProto{wire.TensorValue("x", wire.DataTypeOf(dtype.F32), wire.Size(1), wire.Size(64),
			wire.Size(size), wire.Size(size))}
		dequantized := func(scale float32, shape ...int64) string {
			q := n.constant(dtype.I8, shape...)
			inputs := []string{q, n.scalar(tensor.Scalar(scale)), n.scalar(tensor.Scalar(int8(0)))}
			n.graph.Node = append(n.graph.Node, &wire.NodeProto{OpType: "DequantizeLinear", Input: inputs,
				Output: []string{q + "f"}})
			return q + "f"
		}
		n.node("Conv", []string{dequantized(0.01, 256, 64, 3, 3), dequantized(0.1, 256)},
			wire.IntsAttribute("pads", 1, 1, 1, 1))
		return n.model()
	}
	for _, shared := range []int64{65536, 32768, 16384, 8192, 4096, 2048, 1024, 32, 16} {
		p, err := compile(t, story(512), weir.Options{Target: weir.Vulkan, Limits: fmt.Sprintf("desktop,shared=%d", shared)})
		if err != nil {
			t.Fatal(err)
		}
		_, list := p.DeviceKernels()
		for _, k := range list {
			if k.Shared > shared {
				t.Errorf("%s has %d bytes of shared memory, and the device has %d", k.Name, k.Shared, shared)
			}
		}
		arena, err := p.Memory().Device.Arena.At(nil)
		if err != nil {
			t.Fatal(err)
		}
		if images := int64(4 * 512 * 512 * (64 + 256)); shared > 1024 && arena != images {
			t.Errorf("with %d bytes of shared memory the arena has %d bytes, and the images have %d", shared, arena, images)
		}
		p.Close()
	}
	available(t)
	x := tensor.Must(tensor.New(dtype.F32, 1, 64, 24, 24))
	for i := range x.Len() {
		x.SetFloat(i, float64(i%13)/8-0.7)
	}
	var list [2][]*tensor.Tensor
	for _, limits := range []string{"", smallerLimits(t, 32768, 1024, 512), smallerLimits(t, 16384, 1024, 512),
		smallerLimits(t, 16, 128, 256)} {
		for i, o := range []weir.Options{{}, {Target: weir.Vulkan, Limits: limits}} {
			p, err := compile(t, story(24), o)
			if err != nil {
				t.Fatal(err)
			}
			list[i] = results(t, p, map[string]*tensor.Tensor{"x": x})
			p.Close()
		}
		if err := tensor.Compare(list[1][0], list[0][0], 1e-3, 1e-3); err != nil {
			t.Errorf("%q: %v", limits, err)
		}
	}
}

// TestProductsWithout64Bits: on a device without integers of 64 bits, products run whole on the device, with the
// processor's results if there is a device here. A run whose sizes need more bits is refused at entry.
func TestProductsWithout64Bits(t *testing.T) {
	kernels := 0
	for seed := range uint64(4) { // the seed decides whether the rows are dynamic
		for _, size := range [][2]int64{{2048, 96}, {2048, 3}, {17, 96}, {300, 301}, {1, 1}} {
			for _, dims := range []map[string]weir.Range{nil, {"n": {Min: 1, Max: 64}}} {
				n := newNetwork(seed, 2, size[0])
				if !n.dynamic && dims != nil {
					continue
				}
				n.node("MatMul", []string{n.constant(dtype.F32, size[0], size[1])})
				p, err := compile(t, n.model(), weir.Options{Target: weir.Vulkan, Limits: "minimum", Dims: dims})
				if err != nil {
					t.Fatalf("rows are dynamic: %v, %v, %v: %v", n.dynamic, size, dims, err)
				}
				for _, h := range p.OnHost() {
					t.Errorf("rows are dynamic: %v, %v, %v: %s runs on the host: %q", n.dynamic, size, dims, h.Step, h.Reason)
				}
				_, list := p.DeviceKernels()
				kernels += len(list)
				err = p.Check(weir.Dims{"n": 1 << 30})
				if n.dynamic && dims == nil && (err == nil || !strings.Contains(err.Error(), "32 bits")) {
					t.Errorf("2^30 rows: %v", err)
				}
				n.compareWithout64Bits(t, p, dims)
				p.Close()
			}
		}
	}
	if t.Logf("%d kernels on the device", kernels); kernels == 0 {
		t.Error("no kernel is on the device")
	}
}

// compareWithout64Bits compares the results of a program for a device with the processor's, if there is a device here.
func (n *network) compareWithout64Bits(t *testing.T, p *weir.Program, dims map[string]weir.Range) {
	t.Helper()
	if _, err := conformancetest.Device(); err != nil {
		t.Logf("THERE IS NO VULKAN DEVICE HERE: the program is not run: %v", err)
		return
	}
	inputs := n.randomInputs()
	host, err := compile(t, n.model(), weir.Options{Dims: dims})
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	if err := tensor.Compare(results(t, p, inputs)[0], results(t, host, inputs)[0], 1e-3, 1e-3); err != nil {
		t.Errorf("rows are dynamic: %v, %v: %v", n.dynamic, dims, err)
	}
}
