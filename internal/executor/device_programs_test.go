package executor

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/weirml/weir/internal/codegen/reference"
	"github.com/weirml/weir/internal/device/devicetest"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/hostop"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/program"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/target"
	"github.com/weirml/weir/internal/tensor"
)

// kernelTexts are the kernels of the programs below. The host runs the kernels whose names begin with h, a device the
// others.
var kernelTexts = []string{
	`kernel @double(%x: f32[n] read, %y: f32[n] write) dims(n) { local %copy: f32[n] ` +
		`each i < n { store %copy[i] = mul(load %x[i], 2) } each i < n { store %y[i] = load %copy[i] } }`,
	`kernel @add(%x: f32[n] read, %y: f32[n] read, %z: f32[n] write) dims(n) { ` +
		`each i < n { store %z[i] = add(load %x[i], load %y[i]) } }`,
	`kernel @gather(%x: f32[n] read, %at: i64[m] read, %y: f32[m] write) dims(m, n) { ` +
		`each j < m { check k = load %at[j] in [0, n - 1] "an index" store %y[j] = load %x[k] } }`,
	`kernel @hdouble(%x: f32[n] read, %y: f32[n] write) dims(n) { each i < n { store %y[i] = mul(load %x[i], 2) } }`,
}

// testKernels compiles the kernels of a program.
func testKernels(t testing.TB, p *program.Program) *target.Code {
	t.Helper()
	var kernels []*loop.Kernel
	for _, text := range kernelTexts {
		k, err := loop.ParseKernel(text)
		if err != nil {
			t.Fatal(err)
		}
		kernels = append(kernels, k)
	}
	made := map[string]target.Kernel{}
	for _, k := range reference.Compile(kernels).Kernels {
		if made[k.Name()] = k; k.Name()[0] != 'h' {
			made[k.Name()] = devicetest.Blocks(k)
		}
	}
	code := &target.Code{}
	for _, name := range p.Kernels {
		if made[name] == nil {
			t.Fatalf("no kernel %s", name)
		}
		code.Kernels = append(code.Kernels, made[name])
	}
	return code
}

// deviceProgram is a program for a device, and its inputs.
type deviceProgram struct {
	name, text string
	inputs     func(r *rand.Rand) []*tensor.Tensor
	host       bool // it uses no device
}

// floats returns n random f32 elements.
func floats(r *rand.Rand, n int64) *tensor.Tensor {
	x := tensor.Must(tensor.New(dtype.F32, n))
	for i := range n {
		x.SetFloat(i, float64(r.IntN(2000)-1000)/8)
	}
	return x
}

// number returns an integer scalar.
func number(dt dtype.DType, v int64) *tensor.Tensor {
	x := tensor.Must(tensor.New(dt))
	x.SetInt(0, v)
	return x
}

// vector returns a function that makes inputs: for each number of first a random integer from 0 to it, then a vector of
// 1 to most random elements.
func vector(most int64, first ...int64) func(r *rand.Rand) (in []*tensor.Tensor) {
	return func(r *rand.Rand) (in []*tensor.Tensor) {
		for _, m := range first {
			in = append(in, number(dtype.I64, r.Int64N(m+1)))
		}
		return append(in, floats(r, 1+r.Int64N(most)))
	}
}

// vectorHead declares n elements twice on the host and three times on the device.
const vectorHead = `weir 1 program @p { dim n in [1, 300] storage %g: arena bytes 12*n align 4 on "gpu" storage %h: arena bytes 8*n align 4 storage %o: results bytes 4*n align 4 plan { }
	tensor %x: f32[n] argument tensor %a: f32[n] in %g at 0 tensor %b: f32[n] in %g at 4*n tensor %c: f32[n] in %g at 8*n
	tensor %u: f32[n] in %h at 0 tensor %v: f32[n] in %h at 4*n tensor %y: f32[n] in %o at 0
	kernel @double kernel @add kernel @hdouble stream @s on "gpu" stream @r on "gpu" stream @q event @e event @f `

// vectorPorts declares the input and the output, and begins the body.
const vectorPorts = ` input "x" = %x borrow output "y" = %y borrow body { `

// devicePrograms are the programs that the tests compare with the interpreter.
var devicePrograms = []deviceProgram{
	{name: "up, launches, down", inputs: vector(300), text: vectorHead + vectorPorts + `carve %a carve %b carve %c carve %y copy %a = %x on @s launch @double(%a, write %b) dims (n) on @s launch @add(%a, %b, write %c) dims (n) on @s
		copy %y = %c on @s record @e on @s wait @e release %a, %b, %c } }`},
	{name: "the host before, between and after", inputs: vector(300), text: vectorHead + vectorPorts + `carve %u launch @hdouble(%x, write %u) dims (n) carve %a carve %b copy %a = %u on @s launch @double(%a, write %b) dims (n) on @s
		carve %v copy %v = %b on @s record @e on @s wait @e launch @hdouble(%v, write %u) dims (n) copy %a = %u on @s copy %b = %a on @s carve %y copy %y = %b on @s release %a, %b, %u, %v } }`},
	{name: "two streams of a device", inputs: vector(300), text: vectorHead + vectorPorts + `carve %a carve %b carve %c carve %y copy %a = %x on @s record @e on @s wait @e on @r launch @double(%a, write %b) dims (n) on @r
		launch @double(%a, write %c) dims (n) on @s record @f on @s wait @f on @r launch @add(%b, %c, write %a) dims (n) on @r copy %y = %a on @r record @e on @r wait @e on @q wait @e release %a, %b, %c } }`},
	{name: "a weight in both memories", inputs: func(r *rand.Rand) []*tensor.Tensor { return []*tensor.Tensor{floats(r, 3)} }, text: `weir 1 program @p { storage %g: arena bytes 24 align 4 on "gpu" storage %h: arena bytes 12 align 4
		storage %o: results bytes 12 align 4 plan { } tensor %x: f32[3] argument tensor %w: f32[3] constant tensor %m: f32[2] constant tensor %v: f32[3] constant weight "w" %w on "gpu" = [1, 2, 3] weight "m" %m on "gpu" = [7, 8]
		weight "v" %v = [4, 5, 6] tensor %a: f32[3] in %g at 0 tensor %b: f32[3] in %g at 12 tensor %u: f32[3] in %h at 0 tensor %y: f32[3] in %o at 0 tensor %mid: f32[1] part of %w at 4
		tensor %first: f32[1] part of %b at 0 dim n in [3, 3] dim one in [1, 1] kernel @add kernel @hdouble kernel @double stream @s on "gpu" input "x" = %x borrow output "y" = %y borrow
		body { carve %u launch @hdouble(%v, write %u) dims (n) carve %a copy %a = %u on @s carve %b launch @add(%a, %w, write %b) dims (n) on @s launch @double(%mid, write %first) dims (one) on @s copy %a = %b on @s carve %y copy %y = %a on @s
		release %a, %b, %u } }`},
	{name: "a loop", inputs: vector(300, 5), text: vectorHead + `tensor %k: i64[] argument input "k" = %k borrow` + vectorPorts + `carve %a carve %b copy %a = %x on @s loop trip %k { launch @double(%a, write %b) dims (n) on @s copy %a = %b on @s }
		carve %y copy %y = %a on @s release %a, %b } }`},
	{name: "a loop that goes through the host", inputs: vector(300, 4), text: vectorHead + `tensor %k: i64[] argument input "k" = %k borrow` + vectorPorts + `carve %a carve %b carve %u carve %v copy %u = %x loop trip %k { copy %a = %u on @s
		launch @double(%a, write %b) dims (n) on @s copy %v = %b on @s record @e on @s wait @e launch @hdouble(%v, write %u) dims (n) } carve %y copy %y = %u release %a, %b, %u, %v } }`},
	{name: "a branch", inputs: func(r *rand.Rand) []*tensor.Tensor {
		return []*tensor.Tensor{number(dtype.Bool, r.Int64N(2)), floats(r, 1+r.Int64N(300))}
	}, text: vectorHead + `tensor %k: bool[] argument input "k" = %k borrow` + vectorPorts + `carve %a carve %b copy %a = %x on @s if %k { launch @double(%a, write %b) dims (n) on @s } else { copy %b = %a on @s }
		carve %y copy %y = %b on @s release %a, %b } }`},
	{name: "late storage", inputs: func(r *rand.Rand) []*tensor.Tensor {
		m := r.Int64N(40)
		at := tensor.Must(tensor.New(dtype.I64, 40))
		for i := range int64(40) {
			at.SetInt(i, r.Int64N(300))
		}
		return []*tensor.Tensor{floats(r, 300), at, number(dtype.I64, m)}
	}, text: `weir 1 program @p { dim n in [300, 300] dim k in [0, inf] data limit inf storage %g: arena bytes 1200 align 4 on "gpu" storage %i: arena bytes 320 align 4 on "gpu" storage %l: late arena bytes &r + 4*k align 4 on "gpu" { let &r = 4*k }
		storage %o: late results bytes 4*k align 4 plan { } kernel @gather kernel @double stream @s on "gpu" event @e tensor %x: f32[n] argument tensor %at: i64[40] argument tensor %m: i64[] argument tensor %some: i64[k] part of %at at 0
		tensor %a: f32[n] in %g at 0 tensor %all: i64[40] in %i at 0 tensor %few: i64[k] part of %all at 0 tensor %b: f32[k] in %l at 0 tensor %c: f32[k] in %l at &r tensor %y: f32[k] in %o at 0
		input "x" = %x borrow input "at" = %at borrow input "m" = %m borrow output "y" = %y borrow
		body { carve %a carve %all copy %a = %x on @s copy %all = %at on @s bind k = %m[0] take %l carve %b carve %c launch @gather(%a, %few, write %b) dims (k, n) on @s launch @double(%b, write %c) dims (k) on @s
		take %o carve %y copy %y = %c on @s record @e on @s wait @e release %a, %all, %b, %c } }`},
	{name: "late storage that grows", inputs: func(r *rand.Rand) []*tensor.Tensor {
		return []*tensor.Tensor{floats(r, 40), number(dtype.I64, 1+r.Int64N(30))}
	}, text: `weir 1 program @p { dim k in [0, inf] data limit inf dim j in [0, 40] data limit 40 storage %g: arena bytes 160 align 4 on "gpu" storage %l: late arena bytes 4*k align 4 on "gpu" storage %o: results bytes 160 align 4 plan { } kernel @double stream @s on "gpu"
		tensor %x: f32[40] argument tensor %m: i64[] argument tensor %a: f32[40] in %g at 0 tensor %some: f32[k] part of %a at 0 tensor %l: f32[k] in %l at 0 tensor %y: f32[40] in %o at 0
		input "x" = %x borrow input "m" = %m borrow output "y" = %y borrow
		body { carve %a copy %a = %x on @s loop trip %m count j { bind k = j take %l carve %l launch @double(%some, write %l) dims (k) on @s copy %some = %l on @s release %l } carve %y copy %y = %a on @s release %a } }`},
	{name: "scratch that grows", inputs: func(r *rand.Rand) []*tensor.Tensor {
		return []*tensor.Tensor{floats(r, 40), number(dtype.I64, 1+r.Int64N(30))}
	}, text: `weir 1 program @p { dim k in [0, inf] data limit inf dim j in [0, 40] data limit 40 storage %g: arena bytes 320 align 4 on "gpu" storage %o: results bytes 160 align 4 plan { } kernel @double stream @s on "gpu"
		tensor %x: f32[40] argument tensor %m: i64[] argument tensor %a: f32[40] in %g at 0 tensor %some: f32[k] part of %a at 0 tensor %b: f32[40] in %g at 160 tensor %to: f32[k] part of %b at 0 tensor %y: f32[40] in %o at 0
		input "x" = %x borrow input "m" = %m borrow output "y" = %y borrow
		body { carve %a carve %b copy %a = %x on @s loop trip %m count j { bind k = j launch @double(%some, write %to) dims (k) on @s copy %some = %to on @s } carve %y copy %y = %a on @s release %a, %b } }`},
	{name: "states", inputs: func(r *rand.Rand) []*tensor.Tensor {
		n := 1 + r.Int64N(300)
		return []*tensor.Tensor{floats(r, n), floats(r, n), floats(r, n)}
	}, text: `weir 1 program @p { dim n in [1, 300] storage %g: arena bytes 4*n align 4 on "gpu" storage %o: results bytes 4*n align 4 plan { } tensor %x: f32[n] argument tensor %s: f32[n] argument tensor %r: f32[n] argument
		tensor %s.new: f32[n] part of %s at 0 tensor %r.new: f32[n] part of %r at 0 tensor %a: f32[n] in %g at 0 tensor %y: f32[n] in %o at 0 kernel @add kernel @double stream @s on "gpu" event @e
		input "x" = %x borrow input "s" = %s state on "gpu" input "r" = %r state on "gpu" output "s.new" = %s.new borrow output "r.new" = %r.new borrow output "y" = %y borrow
		body { carve %a copy %a = %x on @s launch @add(%r, %s, write %r.new) dims (n) on @s launch @add(%a, %s, write %s.new) dims (n) on @s launch @double(%s.new, write %a) dims (n) on @s carve %y copy %y = %a on @s record @e on @s wait @e release %a } }`},
	{name: "streams of the host", host: true, inputs: vector(300), text: `weir 1 program @p { dim n in [1, 300] storage %h: arena bytes 8*n align 4 storage %o: results bytes 4*n align 4 plan { } tensor %x: f32[n] argument tensor %u: f32[n] in %h at 0 tensor %v: f32[n] in %h at 4*n
		tensor %y: f32[n] in %o at 0 kernel @hdouble stream @s stream @r event @e input "x" = %x borrow output "y" = %y borrow
		body { carve %u carve %v launch @hdouble(%x, write %u) dims (n) on @s record @e on @s wait @e on @r launch @hdouble(%u, write %v) dims (n) on @r record @e on @r wait @e carve %y copy %y = %v release %u, %v } }`},
}

// interpret returns the results of a program that the interpreter of package program runs.
func interpret(t testing.TB, p *program.Program, code *target.Code, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	t.Helper()
	byName := map[string]*loop.Kernel{}
	for _, text := range kernelTexts {
		k, err := loop.ParseKernel(text)
		if err != nil {
			t.Fatal(err)
		}
		byName[k.Name] = k
	}
	fixed := map[sym.Name]int64{}
	for _, d := range p.Dims {
		if d.Range.Min == d.Range.Max {
			fixed[d.Name] = d.Range.Min
		}
	}
	o := program.Interpreter{Dims: fixed, Kernel: func(name string, operands []program.Operand, dims []int64) error {
		k := reference.Compile([]*loop.Kernel{byName[name]}).Kernels[0]
		args := &target.Args{Dims: dims}
		for _, o := range operands {
			args.Operands = append(args.Operands, target.Operand{Base: unsafe.Pointer(unsafe.SliceData(o.Data)),
				Bytes: int64(len(o.Data))})
		}
		tiles, err := k.Tiles(dims)
		if err != nil {
			return err
		}
		need, err := k.Scratch(dims)
		if err != nil {
			return err
		}
		return k.Run(args, 0, tiles, make([]byte, need))
	}, Host: func(op string, attrs map[string]any, in []*tensor.Tensor,
		result func(i int, shape ...int64) (*tensor.Tensor, error)) error {
		f, err := hostop.Lookup(op)
		if err != nil {
			return err
		}
		return f(&hostop.Call{In: in, Attrs: attrs, Result: result})
	}}
	return o.Run(p, in)
}

// parsed parses and verifies a program.
func parsed(t testing.TB, text string) *program.Program {
	t.Helper()
	p, err := program.Parse(text, program.ParseOptions{})
	if err == nil {
		err = p.Verify()
	}
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// bindTo binds a call for inputs.
func bindTo(x *Executable, in []*tensor.Tensor) (*Call, error) {
	p := x.program
	dims := make([]int64, len(p.Dims))
	for d := range p.Dims {
		dims[d] = p.Dims[d].Range.Min
	}
	for i, port := range p.Inputs {
		for axis, e := range p.Tensors[port.Tensor].Shape {
			for d := range p.Dims {
				if name, ok := e.Name(); ok && p.Dims[d].Name == name {
					dims[d] = in[i].Shape()[axis]
				}
			}
		}
	}
	return x.Bind(context.Background(), dims)
}

// runWith runs a call on inputs, and returns copies of its results.
func runWith(ctx context.Context, c *Call, in []*tensor.Tensor) (out []*tensor.Tensor, err error) {
	for i, x := range in {
		if err := c.Input(i, unsafe.Pointer(unsafe.SliceData(x.Bytes())), int64(len(x.Bytes()))); err != nil {
			return nil, err
		}
	}
	if err := c.Run(ctx); err != nil {
		return nil, err
	}
	for i, port := range c.x.program.Outputs {
		shape, data, err := c.Output(i)
		if err != nil {
			return nil, err
		}
		for k, x := range in {
			if c.x.program.NewValue(k) == i && c.x.OnDeviceOf(k) != nil {
				data = x.Bytes() // the run has copied it back
			}
		}
		y, err := tensor.New(c.x.program.Tensors[port.Tensor].DType, shape...)
		if err != nil {
			return nil, err
		}
		copy(y.Bytes(), data)
		out = append(out, y)
	}
	return out, nil
}

// sameAs returns an error unless the tensors are equal.
func sameAs(got, want []*tensor.Tensor) error {
	if len(got) != len(want) {
		return fmt.Errorf("%d results, not %d", len(got), len(want))
	}
	for i := range want {
		if err := tensor.Compare(got[i], want[i], 0, 0); err != nil {
			return fmt.Errorf("result %d: %v", i, err)
		}
	}
	return nil
}
