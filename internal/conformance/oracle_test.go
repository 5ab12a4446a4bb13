package conformance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"unsafe"

	"github.com/weirml/weir/internal/compiler"
	"github.com/weirml/weir/internal/compiler/budget"
	"github.com/weirml/weir/internal/device/cpu"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/executor"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// configuration is a way to compile a module.
type configuration struct {
	name     string
	cpu      string
	exact    bool
	ranges   bool // dimensions have bounds
	bound    bool // dimensions have one value
	budget   bool // less memory than it would otherwise take
	artefact bool // written as an artefact and read
	within   bool // see trial.within
}

// configurations are the ways in which models are compiled and compared.
var configurations = []configuration{
	{name: "default"}, {name: "exact", exact: true}, {name: "ranges", ranges: true}, {name: "bound", bound: true},
	{name: "budget", bound: true, budget: true},
	{name: "artefact", artefact: true}, {name: "avx2", cpu: "avx2"}, {name: "portable", cpu: "portable"},
	{name: "within", within: true},
}

// trial is a module, built again for each way to compile it, and its arguments.
type trial struct {
	build func() (*ir.Module, error)
	args  []*tensor.Tensor
	cpu   string // the level of the processor that loaded chooses; "": the machine's
	// coarse is the error of the coarsest type in the module; reference sets it.
	coarse float64
	// unread says that the module may have results that nothing reads, entirely or in part. A program does not compute
	// these, and may accept arguments that the reference refuses for them.
	unread bool
	// view, if not nil, returns result i in the form that is compared.
	view func(i int, t *tensor.Tensor) *tensor.Tensor
	// free, if not nil, reports the elements of result i that are not defined. node computes the module's first result
	// from the operands that the reference had, and want is the reference's result.
	free func(node *ir.Node, operands []*tensor.Tensor, i int, want *tensor.Tensor) func(k int64) bool
	// plant, if not nil, changes the program's results, so that a comparison must fail.
	plant func(got []*tensor.Tensor)

	node     *ir.Node // the node of operands
	operands []*tensor.Tensor
}

// verdict is the outcome of a trial in one configuration.
type verdict uint8

const (
	equal        verdict = iota
	notSupported         // not supported, or a budget that cannot be kept
	bothRefuse           // the reference refuses the arguments, and so does the program
	meaningless          // the module cannot be built
	unread               // the reference refuses, and the program does not compute the result that it refuses
)

// errDiffers is the cause of every difference that rounding does not excuse.
var errDiffers = errors.New("differs from the reference")

// compare compiles and runs the trial, and compares the results with those of the reference.
func (x *trial) compare(ctx context.Context, how configuration) (v verdict, err error) {
	defer diag.Recover(&err, "trying")
	m, err := x.build()
	if err != nil {
		return meaningless, nil
	}
	want, scale, reject := x.reference(m, 0)
	if diagnosed := (*diag.Error)(nil); reject != nil && (!errors.As(reject, &diagnosed) ||
		errors.Is(reject, diag.ErrInternal)) {
		return 0, fmt.Errorf("the reference: %w", reject)
	}
	got, err := x.compiled(ctx, how)
	switch {
	case errors.Is(err, diag.ErrUnsupported) || errors.Is(err, diag.ErrBudget):
		return notSupported, nil
	case err != nil && reject != nil && errors.Is(err, diag.ErrInput):
		return bothRefuse, nil
	case err != nil:
		return 0, err
	case reject != nil && x.unread:
		return unread, nil
	case reject != nil:
		return 0, fmt.Errorf("%w, which refuses: %w", errDiffers, reject)
	}
	if x.plant != nil {
		x.plant(got)
	}
	for i := range want {
		if err := x.tolerant(x.compared(i, got[i], want[i]), x.compared(i, want[i], want[i]), scale); err != nil {
			if x.excused(got, scale) {
				return equal, nil
			}
			return 0, fmt.Errorf("%w: result %d: %w", errDiffers, i, err)
		}
	}
	return equal, nil
}

// compared returns result i in the form that is compared, with 0 for undefined elements.
func (x *trial) compared(i int, t, want *tensor.Tensor) *tensor.Tensor {
	if x.free != nil && t.DType() == want.DType() && slices.Equal(t.Shape(), want.Shape()) {
		free := x.free(x.node, x.operands, i, want)
		t = t.Clone()
		for k := range t.Len() {
			if free(k) {
				t.SetFloat(k, 0)
			}
		}
	}
	if x.view != nil {
		return x.view(i, t)
	}
	return t
}

// coarseness returns the relative error of a few operations of a type.
func coarseness(dt dtype.DType) float64 {
	return map[dtype.DType]float64{dtype.F16: 4e-3, dtype.BF16: 3e-2, dtype.F32: 2e-5, dtype.F64: 1e-9, dtype.C64: 2e-5,
		dtype.C128: 1e-9}[dt]
}

// tolerant compares two tensors. scale is the largest magnitude that the reference has met.
func (x *trial) tolerant(got, want *tensor.Tensor, scale float64) error {
	e := x.coarse
	if !want.DType().IsFloat() {
		e = 0
	}
	return tensor.Compare(got, want, e, e*(1+scale))
}

// reference interprets the module, and returns its results and the largest finite magnitude of any node's result. If
// seed is not 0, each computed float is off by about an error of its type.
func (x *trial) reference(m *ir.Module, seed uint64) (out []*tensor.Tensor, scale float64, err error) {
	r := rand.New(rand.NewPCG(seed, 5))
	own := map[*byte]bool{}
	for _, a := range x.args {
		own[unsafe.SliceData(a.Bytes())] = true
	}
	if seed == 0 && x.free != nil {
		x.node = m.Main.Body.Results[0].Node
		x.operands = make([]*tensor.Tensor, len(x.node.Inputs))
	}
	out, err = ir.Evaluate(m, x.args, func(v *ir.Value, t *tensor.Tensor) {
		if seed == 0 && x.free != nil {
			if i := slices.Index(x.node.Inputs, v); i >= 0 {
				x.operands[i] = t.Clone()
			}
		}
		if x.coarse = max(x.coarse, coarseness(t.DType())); !t.DType().IsFloat() || t.Len() == 0 {
			return
		}
		shared := own[unsafe.SliceData(t.Bytes())] || v.Node == nil
		own[unsafe.SliceData(t.Bytes())] = true
		for i := range t.Len() {
			f := t.Float(i)
			if a := math.Abs(f); a <= math.MaxFloat64 {
				scale = max(scale, a)
				if seed != 0 && !shared {
					t.SetFloat(i, f*(1+(2*r.Float64()-1)*coarseness(t.DType())/4))
				}
			}
		}
	})
	return out, min(scale, 1e6), err
}

// trials is the number of perturbed references of an excuse.
const trials = 12

// excused reports whether every result lies within the range of perturbed references: rounding may decide a step, a
// comparison or an order either way.
func (x *trial) excused(got []*tensor.Tensor, scale float64) bool {
	var all [][]*tensor.Tensor
	var want []*tensor.Tensor
	for seed := range uint64(trials) {
		m, err := x.build()
		if err != nil {
			return false
		}
		out, _, err := x.reference(m, seed)
		if err != nil {
			return false
		}
		if seed == 0 {
			want = slices.Clone(out)
		}
		for i := range out {
			out[i] = x.compared(i, out[i], want[i])
		}
		all = append(all, out)
	}
	for i, t := range got {
		t = x.compared(i, t, want[i])
		for k := range t.Len() {
			lo, hi, nan, same := math.Inf(1), math.Inf(-1), false, true
			for _, out := range all {
				o := out[i]
				if o.DType() != t.DType() || o.Len() != t.Len() {
					return false
				}
				f := value(o, k)
				if nan = nan || f != f; f == f {
					lo, hi = min(lo, f), max(hi, f)
				}
				same = same && f == value(all[0][i], k)
			}
			f, e := value(t, k), x.coarse
			if !t.DType().IsFloat() {
				e = 0
			}
			if f != f && nan {
				continue
			}
			slack := e * (1 + scale)
			if !same {
				slack += 2 * (hi - lo)
			}
			if !(f >= lo-slack && f <= hi+slack) && f != lo && f != hi {
				return false
			}
		}
	}
	return true
}

func value(t *tensor.Tensor, i int64) float64 {
	switch dt := t.DType(); {
	case dt.IsFloat():
		return t.Float(i)
	case dt.IsInt() || dt == dtype.Bool:
		return float64(t.Int(i))
	}
	return math.NaN()
}

// sizes returns the extents of the module's dimensions in the arguments.
func (x *trial) sizes(m *ir.Module) map[sym.Name]int64 {
	sizes := map[sym.Name]int64{}
	for i, p := range m.Main.Body.Params {
		for axis, e := range p.Type.Shape {
			if name, ok := e.Name(); ok {
				sizes[name] = x.args[i].Shape()[axis]
			}
		}
	}
	return sizes
}

// compiled compiles the module in one way, and runs it.
func (x *trial) compiled(ctx context.Context, how configuration) ([]*tensor.Tensor, error) {
	if how.within {
		return x.within(ctx)
	}
	m, err := x.build()
	if err != nil {
		return nil, err
	}
	for name, size := range x.sizes(m) {
		switch old, _ := m.Dims.Get(name); {
		case how.bound:
			m.Dims.Set(name, sym.Range{Min: size, Max: size})
		case how.ranges:
			m.Dims.Set(name, sym.Range{Min: max(old.Min, 0), Max: min(old.Max, max(size+2, 33))})
		}
	}
	machine, err := compiler.Machine(how.cpu, 2, false)
	if err != nil {
		return nil, err
	}
	o := compiler.Options{Machine: machine, ReorderOnly: how.exact}
	c, err := compiler.Compile(m, o)
	if err != nil {
		return nil, err
	}
	if len(c.Faults) > 0 {
		release(c)
		return nil, fmt.Errorf("a fault that a simpler way was found around: %w", c.Faults[0])
	}
	if how.budget {
		least, err := lessThan(c)
		release(c)
		if err != nil {
			return nil, diag.Unsupportedf("a budget for what nothing bounds")
		}
		if m, err = x.build(); err != nil {
			return nil, err
		}
		for name, size := range x.sizes(m) {
			m.Dims.Set(name, sym.Range{Min: size, Max: size})
		}
		o.Budget = &budget.Budget{Bytes: least, Calls: 1, Workers: 2}
		if c, err = compiler.Compile(m, o); err != nil {
			return nil, err
		}
	}
	if how.artefact {
		var file bytes.Buffer
		_, err := c.WriteTo(&file, nil)
		release(c)
		if err != nil {
			return nil, err
		}
		a, err := compiler.ReadArtefact(mem.NewClaim(context.Background(), int64(file.Len())), file.Bytes())
		if err != nil {
			return nil, fmt.Errorf("the artefact: %w", err)
		}
		if c, err = a.Compile(compiler.Options{}, nil, nil); err != nil {
			return nil, fmt.Errorf("the artefact: %w", err)
		}
	}
	return execute(ctx, c, x.args)
}

// lessThan returns a budget below the memory of a module of fixed sizes, by a third of its arena.
func lessThan(c *compiler.Compiled) (int64, error) {
	sum := sym.Sum(c.Arena.Arena.Mul(sym.Const(2)).FloorDiv(sym.Const(3)), c.Outputs, c.Scratch.Mul(sym.Const(2)),
		sym.Const(c.Code.Bytes))
	for _, w := range c.Program.Weights {
		sum = sum.Add(sym.Const(int64(len(w.Data))))
	}
	return sym.AtLimits(sum, c.Loop.Limits).Eval(func(sym.Name) (int64, bool) { return 0, false })
}

// release frees the memory of a compiled module.
func release(c *compiler.Compiled) {
	if c.Code != nil && c.Code.Release != nil {
		c.Code.Release()
	}
}

// execute runs a compiled module once, and releases it.
func execute(ctx context.Context, c *compiler.Compiled, args []*tensor.Tensor) ([]*tensor.Tensor, error) {
	exe, err := executor.New(c.Program, c.Code, executor.Options{Host: cpu.Host{}, Threads: 2})
	if err != nil {
		release(c)
		return nil, err
	}
	defer exe.Close()
	values := map[sym.Name]int64{}
	for i, port := range c.Program.Inputs {
		for axis, e := range c.Program.Tensors[port.Tensor].Shape {
			if name, ok := e.Name(); ok {
				values[name] = args[i].Shape()[axis]
			}
		}
		for k, d := range port.Elements {
			values[c.Program.Dims[d].Name] = args[i].Int(int64(k))
		}
	}
	dims := make([]int64, len(c.Program.Dims))
	for i, d := range c.Program.Dims {
		if _, given := values[d.Name]; !given && !d.Data {
			values[d.Name] = d.Range.Min // bound
		}
		if dims[i] = values[d.Name]; !d.Data && (dims[i] < d.Range.Min || dims[i] > d.Range.Max) {
			return nil, diag.Inputf("%s is %d, outside %s", d.Name, dims[i], d.Range)
		}
	}
	if err := exe.Check(dims); err != nil {
		return nil, err
	}
	if err := c.Recheck(dims); err != nil {
		return nil, err
	}
	call, err := exe.Bind(context.Background(), dims)
	if err != nil {
		return nil, err
	}
	defer call.Close()
	for i, a := range args {
		data := bytes.Clone(a.Bytes())
		if err := call.Input(i, unsafe.Pointer(unsafe.SliceData(data)), int64(len(data))); err != nil {
			return nil, err
		}
	}
	if err := call.Run(ctx); err != nil {
		return nil, err
	}
	var out []*tensor.Tensor
	for i, port := range c.Program.Outputs {
		shape, data, err := call.Output(i)
		if err != nil {
			return nil, err
		}
		t, err := tensor.Over(c.Program.Tensors[port.Tensor].DType, shape, data)
		if err != nil {
			return nil, err
		}
		out = append(out, t.Clone())
	}
	return out, nil
}
