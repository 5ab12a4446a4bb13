package vulkan_test

import (
	"errors"
	"flag"
	"runtime/debug"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/tensor"
	"github.com/weirml/weir/internal/values"
)

var runs = flag.Int("runs", 3000, "number of runs of TestRuns")

// TestRuns: after many runs with alternating sizes, the memory of the device and of the process has not grown.
func TestRuns(t *testing.T) {
	available(t)
	n := newNetwork(4, 3, 20, 40)
	for range 6 {
		n.grow()
	}
	p, err := compile(t, n.model(), weir.Options{Target: weir.Vulkan})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	var inputs []weir.Inputs
	for rows := range int64(3) {
		shape := []int64{3, 20, 40}
		if n.dynamic {
			shape[0] += rows
		}
		x, err := values.ToWeir(tensor.Must(tensor.New(dtype.F32, shape...)))
		if err != nil {
			t.Fatal(err)
		}
		defer x.Close()
		inputs = append(inputs, weir.Inputs{"x": x})
	}
	run := func(count int) {
		for i := range count {
			r, err := p.Run(t.Context(), inputs[i%len(inputs)])
			if err != nil {
				t.Fatal(err)
			}
			if err := r.Close(); err != nil {
				t.Fatal(err)
			}
		}
		debug.FreeOSMemory()
	}
	run(300)
	asked, held := measured(t, p, inputs[0]), resident()
	run(*runs)
	if now := measured(t, p, inputs[0]); now != asked {
		t.Errorf("%d bytes were requested from the driver, and now %d", asked, now)
	}
	if grown := resident() - held; grown > 8<<20 {
		t.Errorf("after %d runs the process has %d bytes more", *runs, grown)
	}
}

// measured returns the measured device memory of a run.
func measured(t *testing.T, p *weir.Program, in weir.Inputs) int64 {
	t.Helper()
	m, err := p.Measure(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	return m.DeviceWeights + m.DeviceCall
}

// resident returns the process's resident memory; 0 if the system does not report it.
func resident() int64 {
	held, _ := mem.ProcessBytes()
	return held.Resident
}

// TestBudgets: the host's and the device's memory have separate budgets; a program that exceeds one is ErrBudget.
func TestBudgets(t *testing.T) {
	available(t)
	data := randomNetwork(2).model()
	bounds := map[string]weir.Range{}
	if randomNetwork(2).dynamic {
		bounds["n"] = weir.Range{Min: 1, Max: 3}
	}
	p, err := compile(t, data, weir.Options{Target: weir.Vulkan, Dims: bounds})
	if err != nil {
		t.Fatal(err)
	}
	host, err := p.Memory().Max(1)
	if err != nil {
		t.Fatal(err)
	}
	device, err := p.Memory().Device.Formula(1).Max()
	if err != nil {
		t.Fatal(err)
	}
	p.Close()
	for _, c := range []struct {
		host, device int64
		fits         bool
	}{{host, device, true}, {host - 1, 0, false}, {0, device - 1, false}, {host, device - 1, false}, {1, 1, false}} {
		p, err := compile(t, data, weir.Options{Target: weir.Vulkan, Dims: bounds, Budget: c.host, DeviceBudget: c.device})
		if c.fits != (err == nil) || err != nil && !errors.Is(err, weir.ErrBudget) {
			t.Errorf("%+v: %v", c, err)
		}
		if err == nil {
			p.Close()
		}
	}
	if _, err := compile(t, data, weir.Options{Target: weir.CPU, DeviceBudget: 1 << 30}); !errors.Is(err, weir.ErrInput) {
		t.Errorf("a device's budget without a device: %v", err)
	}
}
