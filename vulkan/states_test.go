package vulkan_test

import (
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/device"
)

// countText is a model with a state of many elements, one that is counted in integers, and an output.
const countText = `weir 1 ir @count { main @main(%x: f32[4096], %sum: f32[4096], %steps: i32[]) {
	state %sum -> %total state %steps -> %next const %one: i32[] = [1]
	%total: f32[4096] = add(%sum, %x) %next: i32[] = add(%steps, %one) %twice: f32[4096] = add(%total, %total)
	return %total, %next, %twice } }`

// done fails the test after an error.
func done(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// shareDevice returns the device that programs use, to read its counts.
func shareDevice(t *testing.T) device.Device {
	t.Helper()
	available(t)
	d, err := device.Share("vulkan", 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { done(t, device.Leave(d)) })
	return d
}

// stateProgram compiles a model for a target.
func stateProgram(t *testing.T, text string, target weir.Target) *weir.Program {
	t.Helper()
	p, err := compile(t, []byte(text), weir.Options{Target: target, Calls: 2})
	done(t, err)
	t.Cleanup(func() { done(t, p.Close()) })
	return p
}

// newTensor returns a tensor of zeros, which the test closes.
func newTensor(t *testing.T, dt weir.DType, shape ...int) *weir.Tensor {
	t.Helper()
	x, err := weir.New(dt, shape...)
	done(t, err)
	t.Cleanup(func() { done(t, x.Close()) })
	return x
}

// once runs a program and closes the results.
func once(t *testing.T, p *weir.Program, in weir.Inputs) {
	t.Helper()
	r, err := p.Run(t.Context(), in)
	done(t, err)
	done(t, r.Close())
}

// counting is a program of countText with its arguments.
type counting struct {
	t        *testing.T
	d        device.Device
	p        *weir.Program
	x        *weir.Tensor
	sum      *weir.Tensor
	steps    *weir.Tensor
	expected []float32 // the state's elements
}

const (
	xBytes     = 4 * 4096     // of the argument, and of the output
	stateBytes = 4*4096 + 4   // of both states
	runBytes   = xBytes * 2   // what a run copies if the states stay on the device
	carryBytes = 2 * 4 * 4096 // what it copies more if the first state is in the host's memory
)

// newCounting compiles countText and makes its arguments.
func newCounting(t *testing.T, d device.Device) *counting {
	c := &counting{t: t, d: d, p: stateProgram(t, countText, weir.Vulkan), x: newTensor(t, weir.F32, 4096),
		sum: newTensor(t, weir.F32, 4096), steps: newTensor(t, weir.I32), expected: make([]float32, 4096)}
	numbers := make([]float32, 4096)
	for i := range numbers {
		numbers[i] = float32(i%17) / 4
	}
	done(t, c.x.SetFloats(numbers))
	return c
}

// run runs the program, and checks how many bytes were copied.
func (c *counting) run(copied int64) {
	c.t.Helper()
	before := c.d.Copied()
	once(c.t, c.p, weir.Inputs{"x": c.x, "sum": weir.Update(c.sum), "steps": weir.Update(c.steps)})
	if got := c.d.Copied() - before; got != copied {
		c.t.Errorf("a run copied %d bytes, not %d", got, copied)
	}
	for i := range c.expected {
		c.expected[i] += float32(i%17) / 4
	}
}

// check reads the state, and checks how many bytes were copied.
func (c *counting) check(copied int64) {
	c.t.Helper()
	before := c.d.Copied()
	got, err := weir.Copy[float32](c.sum)
	done(c.t, err)
	if n := c.d.Copied() - before; n != copied {
		c.t.Errorf("reading the state copied %d bytes, not %d", n, copied)
	}
	if !slices.Equal(got, c.expected) {
		c.t.Errorf("the state is %v…, not %v…", got[:8], c.expected[:8])
	}
}

// TestStatesStay: runs do not copy states between the host's memory and the device's. A reader copies once, a writer
// makes the next run copy once, and a view makes all runs copy.
func TestStatesStay(t *testing.T) {
	d := shareDevice(t)
	c := newCounting(t, d)
	if steps := c.p.OnHost(); len(steps) > 0 {
		t.Fatalf("%v runs on the host", steps)
	}
	c.run(runBytes + stateBytes) // the first run brings the zeros
	for range 3 {
		c.run(runBytes)
	}
	c.check(xBytes)
	c.check(0)
	c.run(runBytes)
	c.run(runBytes)
	steps, err := weir.Copy[int32](c.steps)
	done(t, err)
	if steps[0] != 6 {
		t.Errorf("%d steps, not 6", steps[0])
	}
	for i := range c.expected {
		c.expected[i] = float32(i)
	}
	done(t, c.sum.SetFloats(c.expected))
	c.run(runBytes + xBytes)
	c.check(xBytes)
	view, err := weir.View[float32](c.sum)
	done(t, err)
	c.run(runBytes + carryBytes)
	if !slices.Equal(view, c.expected) {
		t.Errorf("the view is %v…, not %v…", view[:8], c.expected[:8])
	}
	view[0], c.expected[0] = 100, 100
	c.run(runBytes + carryBytes)
	c.check(0)
}

// TestStatesMemory: the certificate has the states' bytes, as many as are requested from the driver; a state that is
// closed is freed, after its program too, and two tensors never share memory.
func TestStatesMemory(t *testing.T) {
	d := shareDevice(t)
	held := d.Usage().Memory
	c := newCounting(t, d)
	m := c.p.Memory().Device
	if at, err := m.States.At(nil); err != nil || at != stateBytes {
		t.Errorf("states take %d bytes (%v), not %d", at, err, stateBytes)
	}
	in := weir.Inputs{"x": c.x, "sum": weir.Update(c.sum), "steps": weir.Update(c.steps)}
	checkMemory(t, c.p, in, m)
	peak, err := m.Formula(1).At(nil)
	done(t, err)
	c.run(runBytes + stateBytes)
	checkMemory(t, c.p, in, m) // with states that are on the device already
	c.check(0)
	queue, err := m.Queue.At(nil)
	done(t, err)
	if got := d.Usage().Memory - held; got > peak || got < peak-queue {
		t.Errorf("%d bytes are held, and %d predicted, of which %d are of the queue", got, peak, queue)
	}
	other, twin := newTensor(t, weir.F32, 4096), newTensor(t, weir.I32)
	for range 2 {
		once(t, c.p, weir.Inputs{"x": c.x, "sum": weir.Update(other), "steps": weir.Update(twin)})
	}
	c.run(runBytes)
	numbers, err := weir.Copy[float32](other)
	done(t, err)
	if numbers[3] != 1.5 {
		t.Errorf("the second state's element 3 is %g, not 1.5", numbers[3])
	}
	c.check(xBytes)
	before := d.Usage().Memory
	done(t, other.Close())
	done(t, twin.Close())
	if freed := before - d.Usage().Memory; freed != stateBytes {
		t.Errorf("closing the states freed %d bytes, not %d", freed, stateBytes)
	}
	c.run(runBytes)
	done(t, c.p.Close())
	c.check(xBytes) // the program is closed, and the state is still there
	done(t, c.sum.Close())
	done(t, c.steps.Close())
	if now := d.Usage().Memory; now != held {
		t.Errorf("%d bytes are held after all is closed, %d before", now, held)
	}
}

// TestStatesOnce: one tensor for two states, and one that is lent beside its update, are refused as on the host.
func TestStatesOnce(t *testing.T) {
	available(t)
	p := stateProgram(t, `weir 1 ir @m { main @main(%x: f32[8], %a: f32[8], %b: f32[8]) { state %a -> %c state %b -> %d
		%c: f32[8] = add(%a, %x) %d: f32[8] = sub(%b, %x) return %c, %d } }`, weir.Vulkan)
	x, a := newTensor(t, weir.F32, 8), newTensor(t, weir.F32, 8)
	once(t, p, weir.Inputs{"x": x, "a": weir.Update(a), "b": weir.Update(newTensor(t, weir.F32, 8))})
	for _, in := range []weir.Inputs{{"x": x, "a": weir.Update(a), "b": weir.Update(a)},
		{"x": a, "a": weir.Update(a), "b": weir.Update(x)}} {
		if r, err := p.Run(t.Context(), in); err == nil || !strings.Contains(err.Error(), "updated") {
			t.Errorf("one tensor is given twice: %v (%v)", err, r)
		}
	}
}

// TestStatesRandom compares states that programs of the device and of the host update in turn, and that the host reads,
// writes and views in between, with the same operations on the host alone.
func TestStatesRandom(t *testing.T) {
	available(t)
	text, err := os.ReadFile("../testdata/states/training.weir")
	done(t, err)
	device, host := stateProgram(t, string(text), weir.Vulkan), stateProgram(t, string(text), weir.CPU)
	for seed := range uint64(4) {
		r := rand.New(rand.NewPCG(seed, 5))
		names := []string{"w0", "w1", "w2", "m0", "m1", "m2", "steps", "previous"}
		sets := [2]map[string]*weir.Tensor{{}, {}}
		for _, info := range device.Inputs() {
			for k := range sets {
				shape := []int{}
				for _, e := range info.Shape {
					shape = append(shape, int(max(e.Size, 5)))
				}
				if len(info.Shape) > 0 && info.Shape[0].Dim != "" {
					shape[0] = 5
				}
				sets[k][info.Name] = newTensor(t, info.DType, shape...)
			}
			if info.DType == weir.F32 {
				numbers := make([]float32, sets[0][info.Name].Len())
				for i := range numbers {
					numbers[i] = float32(r.NormFloat64() / 4)
				}
				done(t, sets[0][info.Name].SetFloats(numbers))
				done(t, sets[1][info.Name].SetFloats(numbers))
			}
		}
		step := func(p *weir.Program, set map[string]*weir.Tensor) {
			in := weir.Inputs{"x": set["x"], "y": set["y"]}
			for _, name := range names {
				in[name] = weir.Update(set[name])
			}
			once(t, p, in)
		}
		call, err := device.NewCall(weir.Dims{"n": 5})
		done(t, err)
		for range 40 {
			name := names[r.IntN(6)]
			a, b := sets[0][name], sets[1][name]
			switch r.IntN(12) {
			case 0, 1:
				step(host, sets[0])
				step(host, sets[1])
			case 2:
				near(t, name, a, b)
			case 3:
				numbers, err := a.Floats()
				done(t, err)
				numbers[0]++
				done(t, a.SetFloats(numbers))
				numbers, err = b.Floats()
				done(t, err)
				numbers[0]++
				done(t, b.SetFloats(numbers))
			case 4:
				if r.IntN(6) == 0 {
					for _, x := range []*weir.Tensor{a, b} {
						view, err := weir.View[float32](x)
						done(t, err)
						view[len(view)-1] /= 2
					}
				}
			case 5, 6:
				for _, n := range []string{"x", "y"} {
					done(t, call.Bind(n, sets[0][n]))
				}
				for _, n := range names {
					done(t, call.Bind(n, weir.Update(sets[0][n])))
				}
				for range 2 {
					done(t, call.Run(t.Context()))
					step(host, sets[1])
				}
			default:
				step(device, sets[0])
				step(host, sets[1])
			}
		}
		done(t, call.Close())
		for _, name := range names {
			if name != "steps" {
				near(t, name, sets[0][name], sets[1][name])
			}
		}
	}
}

// near compares two tensors of f32.
func near(t *testing.T, name string, a, b *weir.Tensor) {
	t.Helper()
	x, err := a.Floats()
	done(t, err)
	y, err := b.Floats()
	done(t, err)
	for i := range x {
		if d := math.Abs(float64(x[i] - y[i])); !(d <= 2e-4*(1+math.Abs(float64(y[i])))) {
			t.Fatalf("%s[%d] is %g, not %g", name, i, x[i], y[i])
		}
	}
}
