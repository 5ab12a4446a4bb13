package conformance

import (
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/conformance/conformancetest"
	"github.com/weirml/weir/internal/importer/onnx"
	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/tensor"
	"github.com/weirml/weir/internal/values"
)

// checkModel runs the model on the portable target and in the reference interpreter, and compares the results and the
// memory.
func checkModel(t *testing.T, m *conformancetest.RandomModel) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("a panic: %v", p)
		}
	}()
	data := m.Model.Marshal()
	loaded, err := weir.LoadBytes(data)
	if err != nil {
		return err
	}
	defer loaded.Close()
	decide := false
	var faults schedulingFaults
	p, err := weir.Compile(t.Context(), loaded, weir.Options{Threads: 2, Stage: watchData(nil, &decide),
		Logger: faults.log()})
	if err != nil {
		return err
	}
	defer p.Close()
	if faults.list != nil {
		return errors.New(faults.list[0])
	}
	want, largest, err := reference(data, m.Inputs)
	if err != nil {
		return fmt.Errorf("the reference: %w", err)
	}
	in := weir.Inputs{}
	for i, x := range m.Inputs {
		w, err := values.ToWeir(x)
		if err != nil {
			return err
		}
		defer w.Close()
		in[m.Model.Graph.Input[i].Name] = w
	}
	r, err := p.Run(t.Context(), in)
	if err != nil {
		return err
	}
	defer r.Close()
	for i := range want {
		got, err := values.FromWeir(r.At(i))
		if err != nil {
			return err
		}
		tolerance := 64 * m.Error[i]
		if err := tensor.Compare(got, want[i], tolerance, tolerance*(1+largest)*(1+largest)); err != nil {
			return fmt.Errorf("output %s: %w", m.Model.Graph.Output[i].Name, err)
		}
	}
	memory, err := MemoryOf(t.Context(), p, in)
	if err != nil {
		return err
	}
	if fault := memoryFault(Result{Memory: []Memory{memory}, DataDecide: decide}); fault != "" {
		return errors.New(fault)
	}
	return nil
}

// reference interprets the model, and returns its results and the largest finite magnitude of any value.
func reference(data []byte, inputs []*tensor.Tensor) (out []*tensor.Tensor, largest float64, err error) {
	m, err := onnx.Parse(data)
	if err != nil {
		return nil, 0, err
	}
	defer m.Close()
	module, _, err := m.Build(nil)
	if err != nil {
		return nil, 0, err
	}
	out, err = ir.Evaluate(module, inputs, func(_ *ir.Value, x *tensor.Tensor) {
		if x.DType().IsFloat() {
			for i := range x.Len() {
				if a := math.Abs(x.Float(i)); a <= math.MaxFloat64 {
					largest = max(largest, a)
				}
			}
		}
	})
	return out, largest, err
}

// shrunk returns the model with only its first wrong value as output, and only the nodes before it.
func shrunk(t *testing.T, m *conformancetest.RandomModel) (*conformancetest.RandomModel, error) {
	for i, n := range m.Model.Graph.Node {
		for _, name := range n.Output {
			g := *m.Model.Graph
			g.Node, g.Output = g.Node[:i+1], []*wire.ValueInfoProto{{Name: name}}
			proto := *m.Model
			proto.Graph = &g
			small := &conformancetest.RandomModel{Seed: m.Seed, Model: &proto, Inputs: m.Inputs, Error: []float64{2.0 / 1024}}
			if err := checkModel(t, small); err != nil && !errors.Is(err, weir.ErrUnsupported) {
				return small, err
			}
		}
	}
	return m, nil
}

// TestRandomModels compares the portable target with the reference on random models. WEIR_FUZZ_GRAPHS is their number,
// WEIR_FUZZ_SEED the first seed.
func TestRandomModels(t *testing.T) {
	number := func(name string, otherwise int) int {
		if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
			return n
		}
		return otherwise
	}
	count, first := number("WEIR_FUZZ_GRAPHS", 300), number("WEIR_FUZZ_SEED", 0)
	var refusals, wrong atomic.Int64
	seeds := make(chan uint64)
	var wait sync.WaitGroup
	for range 2 {
		wait.Go(func() {
			for seed := range seeds {
				m := conformancetest.Random(seed)
				err := checkModel(t, m)
				switch {
				case err == nil:
				case errors.Is(err, weir.ErrUnsupported):
					refusals.Add(1)
					t.Logf("seed %d is refused: %v", seed, err)
				case wrong.Add(1) <= 20:
					small, why := shrunk(t, m)
					t.Errorf("%v; shrunk: %v\n%s", err, why, small.Text())
				}
			}
		})
	}
	for i := range count {
		seeds <- uint64(first + i)
	}
	close(seeds)
	wait.Wait()
	t.Logf("%d models: %d differ, %d refused", count, wrong.Load(), refusals.Load())
	if wrong.Load() > 0 || refusals.Load() > int64(count/100) {
		t.Fail()
	}
}
