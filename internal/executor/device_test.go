package executor

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"
	"unsafe"

	"github.com/weirml/weir/internal/device"
	"github.com/weirml/weir/internal/device/cpu"
	"github.com/weirml/weir/internal/device/devicetest"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/program"
	"github.com/weirml/weir/internal/target"
	"github.com/weirml/weir/internal/tensor"
)

// TestDevicePrograms: programs for a device have the interpreter's results, however late and slowly the device works,
// and the device memory that a call and an executable report equals the memory requested from the device.
func TestDevicePrograms(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 11))
	for _, d := range devicePrograms {
		for name, o := range map[string]struct {
			gpu devicetest.Options
			x   Options
		}{
			"": {}, "late": {gpu: devicetest.Options{Late: true}},
			"slow":   {gpu: devicetest.Options{Delay: func() { time.Sleep(time.Duration(rand.IntN(200)) * time.Microsecond) }}},
			"yields": {gpu: devicetest.Options{Delay: runtime.Gosched}}, "guarded": {x: Options{Guard: true}},
			"poisoned": {gpu: devicetest.Options{Late: true}, x: Options{Poison: true}},
			"own":      {x: Options{Own: true}},
		} {
			t.Run(d.name+" "+name, func(t *testing.T) {
				p := parsed(t, d.text)
				gpu := devicetest.New(o.gpu)
				code := testKernels(t, p)
				o.x.Host, o.x.Threads, o.x.Device = cpu.Host{}, 2, gpu
				x, err := New(p, code, o.x)
				if err != nil {
					t.Fatal(err)
				}
				if held, asked := x.OnDevice(), gpu.Usage(); held.All() != asked.Memory || asked.Queues != 0 {
					t.Errorf("the executable holds %+v, and the device was asked for %+v", held, asked)
				}
				for range 3 {
					in := d.inputs(random)
					c, err := bindTo(x, in)
					if err != nil {
						t.Fatal(err)
					}
					for range 3 {
						want, err := interpret(t, p, code, clones(in))
						if err != nil {
							t.Fatal(err)
						}
						if c.Watch(0x5a); o.x.Poison {
							c.watch = nil // a watched call is not poisoned
						}
						got, err := runWith(t.Context(), c, in)
						if err == nil {
							err = sameAs(got, want)
						}
						if err != nil {
							t.Fatal(err)
						}
						seen, asked := c.OnDevice(), gpu.Usage()
						seen.Weights = x.OnDevice().Weights
						if c.watch != nil && c.Measured(0x5a).Device != seen {
							t.Errorf("measured %+v, held %+v", c.Measured(0x5a).Device, seen)
						}
						if seen.Weights+seen.Arena+seen.States+seen.Scratch != asked.Memory || seen.Queues != asked.Queues {
							t.Errorf("the call holds %+v, and the device was asked for %+v", seen, asked)
						}
						if d.host != (asked.Most == 0) {
							t.Errorf("the device was asked for %+v", asked)
						}
						in = sameShapes(random, in, p)
					}
					if err := c.Close(); err != nil {
						t.Fatal(err)
					}
				}
				if err := errors.Join(x.Close(), gpu.Close()); err != nil || len(gpu.Faults()) > 0 {
					t.Error(err, gpu.Faults())
				}
			})
		}
	}
}

// clones returns copies of inputs, whose states a run may update.
func clones(in []*tensor.Tensor) (out []*tensor.Tensor) {
	for _, x := range in {
		out = append(out, x.Clone())
	}
	return out
}

// sameShapes returns other inputs of the same shapes.
func sameShapes(r *rand.Rand, in []*tensor.Tensor, p *program.Program) []*tensor.Tensor {
	var out []*tensor.Tensor
	for i, x := range in {
		y := tensor.Must(tensor.New(x.DType(), x.Shape()...))
		copy(y.Bytes(), x.Bytes())
		switch {
		case x.DType() == dtype.F32:
			for j := range x.Len() {
				y.SetFloat(j, float64(r.IntN(100)))
			}
		case x.DType() == dtype.Bool:
			y.SetInt(0, r.Int64N(2))
		case p.Inputs[i].Name == "m":
			y.SetInt(0, 1+r.Int64N(39))
		}
		out = append(out, y)
	}
	return out
}

// lifeOf makes an executable, binds a call, runs it and closes both. After the run, even if it failed, it calls again,
// unless that is nil. It returns the first error, but an error of again in place of the run's.
func lifeOf(p *program.Program, code *target.Code, gpu *devicetest.Device, in []*tensor.Tensor,
	again func(c *Call) error) error {
	x, err := New(p, code, Options{Host: cpu.Host{}, Threads: 1, Device: gpu})
	if err != nil {
		return err
	}
	defer x.Close()
	c, err := bindTo(x, in)
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = runWith(context.Background(), c, in)
	if again != nil {
		if err := again(c); err != nil {
			return err
		}
	}
	return err
}

// TestDeviceFails: for each allocation that the device refuses, and each operation at which the device is lost, the
// error has the right kind and no memory is held afterwards. A call that was refused memory then runs.
func TestDeviceFails(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 5))
	for _, d := range devicePrograms {
		if d.host {
			continue
		}
		t.Run(d.name, func(t *testing.T) {
			p := parsed(t, d.text)
			code, in := testKernels(t, p), d.inputs(random)
			want, err := interpret(t, p, code, clones(in))
			if err != nil {
				t.Fatal(err)
			}
			counts := devicetest.New(devicetest.Options{})
			if err := lifeOf(p, code, counts, clones(in), nil); err != nil {
				t.Fatal(err)
			}
			before := mem.Usage()
			check := func(what string, n int, gpu *devicetest.Device) {
				after := mem.Usage()
				if gpu.Held() != 0 || len(gpu.Faults()) > 0 || after.Blocks != before.Blocks || after.All != before.All {
					t.Errorf("%s %d: %d are held, faults %v, host %+v after %+v", what, n, gpu.Held(), gpu.Faults(),
						after, before)
				}
			}
			for n := 1; n <= counts.Operations(); n++ {
				for _, late := range []bool{false, true} {
					gpu := devicetest.New(devicetest.Options{Lose: n, Late: late})
					if err := lifeOf(p, code, gpu, clones(in), nil); !errors.Is(err, device.ErrLost) {
						t.Errorf("lost at operation %d: %v", n, err)
					}
					check("lost at operation", n, gpu)
				}
			}
			for n := 1; n <= counts.Allocations(); n++ {
				gpu := devicetest.New(devicetest.Options{Refuse: n})
				err := lifeOf(p, code, gpu, clones(in), func(c *Call) error {
					got, err := runWith(context.Background(), c, clones(in))
					if err == nil {
						err = sameAs(got, want)
					}
					if err != nil {
						t.Errorf("refused allocation %d, and then: %v", n, err)
					}
					return nil
				})
				if !errors.Is(err, diag.ErrMemory) {
					t.Errorf("refused allocation %d: %v", n, err)
				}
				check("refused allocation", n, gpu)
			}
		})
	}
}

// TestDeviceFlat: after a thousand runs a call holds as much memory as after the first.
func TestDeviceFlat(t *testing.T) {
	random := rand.New(rand.NewPCG(13, 17))
	for _, d := range devicePrograms {
		t.Run(d.name, func(t *testing.T) {
			p := parsed(t, d.text)
			gpu := devicetest.New(devicetest.Options{})
			x, err := New(p, testKernels(t, p), Options{Host: cpu.Host{}, Threads: 1, Device: gpu})
			if err != nil {
				t.Fatal(err)
			}
			defer x.Close()
			in := d.inputs(random)
			c, err := bindTo(x, in)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if _, err := runWith(t.Context(), c, in); err != nil {
				t.Fatal(err)
			}
			host, asked := mem.Usage(), gpu.Usage()
			for range 1000 {
				if err := c.Run(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if now := mem.Usage(); now.All != host.All || now.Blocks != host.Blocks || gpu.Usage() != asked {
				t.Errorf("host %+v, then %+v; device %+v, then %+v", host, now, asked, gpu.Usage())
			}
		})
	}
}

// TestDeviceTogether: calls of one executable run at the same time, each with memory of its own.
func TestDeviceTogether(t *testing.T) {
	random := rand.New(rand.NewPCG(19, 23))
	for _, d := range devicePrograms {
		p := parsed(t, d.text)
		gpu := devicetest.New(devicetest.Options{Delay: runtime.Gosched})
		code := testKernels(t, p)
		x, err := New(p, code, Options{Host: cpu.Host{}, Threads: 2, Device: gpu})
		if err != nil {
			t.Fatal(err)
		}
		var calls diag.Group
		for range 4 {
			in := d.inputs(random)
			want, err := interpret(t, p, code, clones(in))
			if err != nil {
				t.Fatal(err)
			}
			calls.Go("a call", func() error {
				c, err := bindTo(x, in)
				if err != nil {
					return err
				}
				defer c.Close()
				for range 10 {
					got, err := runWith(context.Background(), c, clones(in))
					if err == nil {
						err = sameAs(got, want)
					}
					if err != nil {
						return err
					}
				}
				return nil
			})
		}
		if err := errors.Join(calls.Wait(), x.Close(), gpu.Close()); err != nil || len(gpu.Faults()) > 0 {
			t.Errorf("%s: %v, %v", d.name, err, gpu.Faults())
		}
	}
}

// TestDeviceWeightPieces: a weight that is copied to the device in several pieces arrives complete.
func TestDeviceWeightPieces(t *testing.T) {
	const bytes = 2*pieceBytes + 48
	data := make([]byte, bytes)
	values := unsafe.Slice((*float32)(unsafe.Pointer(&data[0])), bytes/4)
	for i := range values {
		values[i] = float32(i)
	}
	p, err := program.Parse(fmt.Sprintf(`weir 1 program @p { dim n in [8, 8] storage %%g: arena bytes 32 align 4 on "gpu" storage %%o: results bytes 32 align 4 plan { } kernel @double stream @s on "gpu" tensor %%w: f32[%d] constant tensor %%i: f32[5] constant
		weight "i" %%i on "gpu" = [9, 9, 9, 9,
			9] weight "w" %%w on "gpu" data %d at 0 tensor %%end: f32[8] part of %%w at %d tensor %%b: f32[8] in %%g at 0 tensor %%y: f32[8] in %%o at 0 output "y" = %%y borrow
		body { carve %%b launch @double(%%end, write %%b) dims (n) on @s carve %%y copy %%y = %%b on @s release %%b } }`, bytes/4, bytes, bytes-32), program.ParseOptions{Data: data})
	if err == nil {
		err = p.Verify()
	}
	if err != nil {
		t.Fatal(err)
	}
	gpu := devicetest.New(devicetest.Options{})
	x, err := New(p, testKernels(t, p), Options{Host: cpu.Host{}, Threads: 1, Device: gpu})
	if err != nil {
		t.Fatal(err)
	}
	if held := x.OnDevice().Weights; held != 64+bytes || x.Held() != 0 {
		t.Errorf("%d bytes are held there, and %d here", held, x.Held())
	}
	c, err := bindTo(x, nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := runWith(t.Context(), c, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range int64(8) {
		if want := 2 * float64(values[bytes/4-8+i]); got[0].Float(i) != want {
			t.Errorf("element %d is %v, want %v", i, got[0].Float(i), want)
		}
	}
	if err := errors.Join(c.Close(), x.Close(), gpu.Close()); err != nil || len(gpu.Faults()) > 0 {
		t.Error(err, gpu.Faults())
	}
}

// TestDeviceEnds: an ended context, a value that fails its check, and a panic on the host end a run after the device
// has done its queued work; the call then runs again.
func TestDeviceEnds(t *testing.T) {
	p := parsed(t, `weir 1 program @p { dim n in [4, 4] dim k in [2, 2] storage %g: arena bytes 64 align 8 on "gpu" storage %o: results bytes 8 align 4 storage %h: arena bytes 8 align 4 plan { } kernel @gather kernel @hpanic stream @s on "gpu" event @e
		tensor %x: f32[n] argument tensor %at: i64[k] argument tensor %a: f32[n] in %g at 0 tensor %i: i64[k] in %g at 16 tensor %b: f32[k] in %g at 32 tensor %y: f32[k] in %o at 0 tensor %u: f32[k] in %h at 0
		input "x" = %x borrow input "at" = %at borrow output "y" = %y borrow
		body { carve %a carve %i carve %b copy %a = %x on @s copy %i = %at on @s launch @gather(%a, %i, write %b) dims (k, n) on @s source "the node" carve %u launch @hpanic(write %u) dims (k) source "the host" carve %y copy %y = %b on @s release %a, %i, %b, %u } }`)
	for _, late := range []bool{false, true} {
		gpu := devicetest.New(devicetest.Options{Late: late})
		q := *p
		q.Kernels = p.Kernels[:1]
		code := testKernels(t, &q)
		var do func()
		code.Kernels = append(code.Kernels, &hook{nothing{"hpanic", 1}, &do})
		x, err := New(p, code, Options{Host: cpu.Host{}, Threads: 1, Device: gpu})
		if err != nil {
			t.Fatal(err)
		}
		xs := tensor.Must(tensor.FromSlice([]float32{1, 2, 3, 4}, 4))
		at := func(i ...int64) []*tensor.Tensor {
			return []*tensor.Tensor{xs, tensor.Must(tensor.FromSlice(i, 2))}
		}
		c, err := bindTo(x, at(0, 0))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		for _, s := range []struct {
			do    func()
			ctx   context.Context
			at    []*tensor.Tensor
			wrong error
			want  []float32
		}{
			{at: at(3, 1), want: []float32{4, 2}},
			{at: at(3, 4), wrong: diag.ErrInput},
			{at: at(2, 2), want: []float32{3, 3}},
			{at: at(0, 1), do: func() { panic("a host's kernel") }, wrong: diag.ErrInternal},
			{at: at(0, 1), want: []float32{1, 2}},
			{at: at(1, 0), do: cancel, ctx: ctx, wrong: context.Canceled},
			{at: at(-1, 0), do: func() { panic("a host's kernel") }, wrong: diag.ErrInternal},
			{at: at(1, 0), want: []float32{2, 1}},
		} {
			do = s.do
			if s.ctx == nil {
				s.ctx = t.Context()
			}
			got, err := runWith(s.ctx, c, s.at)
			if s.wrong != nil {
				if !errors.Is(err, s.wrong) {
					t.Errorf("at %v: %v, not %v", s.at[1], err, s.wrong)
				}
				continue
			}
			if err != nil || sameAs(got, []*tensor.Tensor{tensor.Must(tensor.FromSlice(s.want, 2))}) != nil {
				t.Errorf("at %v: %v, %v", s.at[1], got, err)
			}
		}
		if err := errors.Join(c.Close(), x.Close(), gpu.Close()); err != nil || len(gpu.Faults()) > 0 {
			t.Error(err, gpu.Faults())
		}
	}
}

// TestDeviceWaits: the host's steps after a wait do not run if the awaited work failed; steps before it may.
func TestDeviceWaits(t *testing.T) {
	const head = `weir 1 program @p { dim n in [4, 4] dim k in [2, 2] storage %g: arena bytes 64 align 8 on "gpu" storage %h: arena bytes 16 align 4 plan { } kernel @gather kernel @hook stream @s on "gpu" event @e
		tensor %w: f32[4] constant weight "w" %w on "gpu" = [1, 2, 3, 4] tensor %at: i64[2] constant weight "at" %at on "gpu" = [1, 4] tensor %b: f32[k] in %g at 32 tensor %u: f32[k] in %h at 0 `
	const fails = `carve %b launch @gather(%w, %at, write %b) dims (k, n) on @s `
	const after = `carve %u launch @hook(write %u) dims (k) release %u `
	for text, runs := range map[string]int{
		head + "body { " + fails + "record @e on @s wait @e " + after + " release %b } }": 0,
		head + "body { " + fails + after + "record @e on @s wait @e release %b } }":       1,
		// the event was recorded before the failing launch
		head + "body { record @e on @s " + fails + "wait @e " + after + " release %b } }": 1,
		// the device waits, not the host
		head + "body { " + fails + "record @e on @s wait @e on @s " + after + " release %b } }": 1,
	} {
		p := parsed(t, text)
		gpu := devicetest.New(devicetest.Options{Late: true})
		q := *p
		q.Kernels = p.Kernels[:1]
		count := 0
		do := func() { count++ }
		code := testKernels(t, &q)
		code.Kernels = []target.Kernel{code.Kernels[0], &hook{nothing{"hook", 1}, &do}}
		x, err := New(p, code, Options{Host: cpu.Host{}, Threads: 1, Device: gpu})
		if err != nil {
			t.Fatal(err)
		}
		c, err := bindTo(x, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Run(t.Context()); !errors.Is(err, diag.ErrInput) || count != runs {
			t.Errorf("%v, and the host ran %d times, not %d, in %s", err, count, runs, text)
		}
		if err := errors.Join(c.Close(), x.Close(), gpu.Close()); err != nil || len(gpu.Faults()) > 0 {
			t.Error(err, gpu.Faults())
		}
	}
}

// hook is a kernel that calls a function, if there is one.
type hook struct {
	nothing
	do *func()
}

// Run calls the function, unless it is nil.
func (k *hook) Run(*target.Args, int64, int64, []byte) error {
	if *k.do != nil {
		(*k.do)()
	}
	return nil
}

// TestUnknownStep: a step of an unknown type ends the run with an error.
func TestUnknownStep(t *testing.T) {
	c := chain(t, 1, Options{Threads: 1}, func(name string) target.Kernel { return &nothing{name, 1} })
	c.x.program.Steps, c.own = append(c.x.program.Steps, nil), append(c.own, nil)
	if err := c.Run(t.Context()); !errors.Is(err, diag.ErrInternal) {
		t.Error(err)
	}
}

// TestNoDevice: New refuses a program for a device without the device, and a program for two devices. A wait for an
// event that was never recorded, and a step of the host on a device's tensor or the reverse, end the run with an error.
func TestNoDevice(t *testing.T) {
	one := parsed(t, vectorHead+vectorPorts+`carve %y copy %y = %x } }`)
	if _, err := New(one, testKernels(t, one), Options{Host: cpu.Host{}, Threads: 1}); !errors.Is(err,
		diag.ErrInternal) {
		t.Error(err)
	}
	gpu := devicetest.New(devicetest.Options{})
	two := parsed(t, `weir 1 program @p { plan { } stream @s on "gpu" stream @r on "npu" body { } }`)
	if _, err := New(two, testKernels(t, two), Options{Host: cpu.Host{}, Threads: 1, Device: gpu}); !errors.Is(err,
		diag.ErrUnsupported) {
		t.Error(err)
	}
	for _, body := range []string{`wait @e`, `carve %a copy %a = %x release %a`,
		`carve %a carve %b launch @hdouble(%a, write %b) dims (n)`,
		`carve %u copy %u = %x on @s carve %v launch @double(%u, write %v) dims (n) on @s`} {
		p, err := program.Parse(vectorHead+vectorPorts+body+` carve %y copy %y = %x } }`, program.ParseOptions{})
		if err != nil {
			t.Fatal(err)
		}
		x, err := New(p, testKernels(t, p), Options{Host: cpu.Host{}, Threads: 1, Device: gpu})
		if err != nil {
			t.Fatal(err)
		}
		in := []*tensor.Tensor{tensor.Must(tensor.FromSlice([]float32{1, 2}, 2))}
		c, err := bindTo(x, in)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := runWith(t.Context(), c, in); !errors.Is(err, diag.ErrInternal) {
			t.Errorf("%s: %v", body, err)
		}
		c.Close()
		x.Close()
	}
	if gpu.Held() != 0 || len(gpu.Faults()) > 0 {
		t.Error(gpu.Held(), gpu.Faults())
	}
}

// TestLateScratch: for extents that depend on data, late storage and scratch on the device grow with the largest extent
// so far. A run that was refused memory is an error, and later runs work.
func TestLateScratch(t *testing.T) {
	p := parsed(t, `weir 1 program @p { dim k in [0, inf] data limit inf dim ten in [10, 10] storage %g: arena bytes 80 align 4 on "gpu" storage %l: late arena bytes &r + 4*k align 4 on "gpu" { let &r = 4*k } storage %o: late results bytes 4*k align 4 plan { } kernel @double stream @s on "gpu"
		tensor %p: f32[10] in %g at 0 tensor %q: f32[10] in %g at 40 tensor %x: f32[100] argument tensor %begin: f32[10] part of %x at 0 tensor %m: i64[] argument tensor %some: f32[k] part of %x at 0 tensor %b: f32[k] in %l at 0 tensor %c: f32[k] in %l at &r tensor %y: f32[k] in %o at 0
		input "x" = %x borrow input "m" = %m borrow output "y" = %y borrow
		body { carve %p carve %q copy %p = %begin on @s launch @double(%p, write %q) dims (ten) on @s release %p, %q
			bind k = %m[0] take %l carve %b carve %c copy %b = %some on @s launch @double(%b, write %c) dims (k) on @s take %o carve %y copy %y = %c on @s release %b, %c } }`)
	gpu := devicetest.New(devicetest.Options{Late: true})
	code := testKernels(t, p)
	x, err := New(p, code, Options{Host: cpu.Host{}, Threads: 1, Device: gpu})
	if err != nil {
		t.Fatal(err)
	}
	xs := floats(rand.New(rand.NewPCG(1, 2)), 100)
	c, err := bindTo(x, []*tensor.Tensor{xs, number(dtype.I64, 0)})
	if err != nil {
		t.Fatal(err)
	}
	most := int64(0)
	for _, m := range []int64{0, 3, 50, 1, 100, 7} {
		in := []*tensor.Tensor{xs, number(dtype.I64, m)}
		want, err := interpret(t, p, code, in)
		if err != nil {
			t.Fatal(err)
		}
		if m == 100 { // the first request is refused
			gpu.Set(devicetest.Options{Late: true, Refuse: 2})
			if _, err := runWith(t.Context(), c, in); !errors.Is(err, diag.ErrMemory) {
				t.Error(err)
			}
			gpu.Set(devicetest.Options{Late: true})
			few := []*tensor.Tensor{xs, number(dtype.I64, 5)}
			if _, err := runWith(t.Context(), c, few); err != nil {
				t.Error(err)
			}
		}
		got, err := runWith(t.Context(), c, in)
		if err == nil {
			err = sameAs(got, want)
		}
		if err != nil {
			t.Errorf("%d: %v", m, err)
		}
		most = max(most, m)
		if h := c.OnDevice(); h.Scratch != max(40, 4*most) || h.Arena != 80+8*most {
			t.Errorf("%d: %+v", m, h)
		}
	}
	if err := errors.Join(c.Close(), x.Close(), gpu.Close()); err != nil || len(gpu.Faults()) > 0 {
		t.Error(err, gpu.Faults())
	}
}
