package conformance

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/conformance/conformancetest"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/tensor"
	"github.com/weirml/weir/internal/values"
)

// realModels is testdata/models/models.json: the pinned packages with the models, and the cases to run.
type realModels struct {
	Packages []struct {
		Package, Version, Hash, Licence string
		Models                          map[string]string
	}
	Cases []realCase
}

// realCase is a run of a model, or several runs whose outputs are fed back.
type realCase struct {
	Name, Model string
	Heavy       bool                // compiling it for free dimensions takes long, and happens once
	Steps       int64               // 0 is one
	Feed        map[string]string   // output → the input of the next step
	Tolerance   float64             // relative to an output's largest element; 0 is 1e-4
	Inputs      map[string]realFill // of the first step
}

// realFill is the formula of an input's elements; testdata/models/record.py computes the same.
type realFill struct {
	Fill  string
	Value float64
	Shape []int64
}

// realOutput is onnxruntime's output: sums over all elements, and a few elements.
type realOutput struct {
	Shape           []int64
	Sum, Magnitudes float64
	At              []int64
	Values          []float64
}

// realWay is a way in which a case is compiled.
type realWay struct {
	name     string
	target   weir.Target
	cpu      string
	bound    bool
	artefact bool
	steps    int64 // at most
}

// realWays are the ways in which each case is compiled; in a short run, most cases are compiled in the first two alone.
// Portable code is slow, so it runs only a few steps.
var realWays = []realWay{
	{name: "best"}, {name: "bound", bound: true}, {name: "artefact", artefact: true, steps: 3},
	{name: "avx2", cpu: "avx2", steps: 3}, {name: "portable", target: weir.Portable, bound: true, steps: 2},
	{name: "vulkan", target: weir.Vulkan, steps: 2},
}

// TestRealModels runs models that people use, from pinned packages, and compares each step's outputs with
// onnxruntime's, and the memory of the last step with the predicted bytes. WEIR_MODELS is the folder that
// testdata/models/fetch.py fills; `make conformance` does both.
func TestRealModels(t *testing.T) {
	folder := os.Getenv("WEIR_MODELS")
	if folder == "" {
		t.Skip("WEIR_MODELS is not set: it names the folder that testdata/models/fetch.py fills with models of pinned " +
			"packages")
	}
	var models realModels
	var expected struct {
		Cases map[string][]map[string]realOutput
	}
	readJSON(t, "models.json", &models)
	readJSON(t, "expected.json", &expected)
	paths, unused := map[string]string{}, map[string]bool{}
	for _, p := range models.Packages {
		for name := range p.Models {
			paths[name], unused[name] = filepath.Join(folder, fmt.Sprintf("%s-%s.onnx", name, p.Hash[:8])), true
		}
	}
	for i, c := range models.Cases {
		delete(unused, c.Model)
		ways := realWays
		if testing.Short() && i%5 != 0 {
			ways = ways[:2]
		}
		t.Run(c.Name, func(t *testing.T) { c.run(t, ways, paths[c.Model], expected.Cases[c.Name]) })
	}
	if len(unused) > 0 {
		t.Errorf("no case runs %v", slices.Sorted(maps.Keys(unused)))
	}
}

// readJSON decodes the file name into a value.
func readJSON(t *testing.T, name string, into any) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "testdata", "models", name))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, into); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// run compiles the case in each way and compares its outputs with want, by step.
func (c realCase) run(t *testing.T, ways []realWay, path string, want []map[string]realOutput) {
	if int64(len(want)) != max(c.Steps, 1) {
		t.Fatalf("%d steps were recorded: python testdata/models/record.py records them anew", len(want))
	}
	have := levels()
	for _, way := range ways {
		if way.cpu != "" && !slices.Contains(have[:len(have)-1], way.cpu) || way.target == weir.Portable && len(have) == 1 {
			continue // it is what "best" or "bound" does here, or cannot be had
		}
		if way.cpu != "" && c.Heavy {
			continue // the light cases suffice
		}
		t.Run(way.name, func(t *testing.T) {
			if _, err := conformancetest.Device(); err != nil && way.target == weir.Vulkan {
				t.Skipf("THERE IS NO VULKAN DEVICE HERE, and the model is not run on one: %v", err)
			}
			m, err := weir.Load(path)
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			var faults schedulingFaults
			decide := false
			o := weir.Options{Target: way.target, CPU: way.cpu, Logger: faults.log(), Stage: watchData(nil, &decide)}
			if way.bound || c.Heavy && way.name != "best" {
				o.Dims = c.dims(m)
			}
			p, err := weir.Compile(t.Context(), m, o)
			if err != nil {
				t.Fatal(err)
			}
			if way.artefact {
				p = reloaded(t, p)
			}
			defer p.Close()
			for _, fault := range faults.list {
				t.Error(fault)
			}
			steps := max(c.Steps, 1)
			if way.steps > 0 {
				steps = min(steps, way.steps)
			}
			c.stream(t, p, want[:steps], decide)
		})
	}
}

// dims returns the sizes of the model's dimensions in the case's inputs.
func (c realCase) dims(m *weir.Model) map[string]weir.Range {
	dims := map[string]weir.Range{}
	for _, info := range m.Inputs() {
		for axis, e := range info.Shape {
			if size := c.Inputs[info.Name].Shape[axis]; e.Dim != "" {
				dims[e.Dim] = weir.Range{Min: size, Max: size}
			}
		}
	}
	return dims
}

// reloaded writes a program as an artefact, closes it, and compiles the artefact.
func reloaded(t *testing.T, p *weir.Program) *weir.Program {
	t.Helper()
	var file bytes.Buffer
	if _, err := p.WriteTo(&file); err != nil {
		t.Fatal(err)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	m, err := weir.LoadBytes(file.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	if p, err = weir.Compile(t.Context(), m, weir.Options{}); err != nil {
		t.Fatal(err)
	}
	return p
}

// stream runs a program step by step. decide says that data decide the memory of a run.
func (c realCase) stream(t *testing.T, p *weir.Program, want []map[string]realOutput, decide bool) {
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	in := weir.Inputs{}
	give := func(name string, x *tensor.Tensor) {
		w, err := values.ToWeir(x)
		check(err)
		if old, ok := in[name].(*weir.Tensor); ok {
			check(old.Close())
		}
		in[name] = w
	}
	fed := map[string]bool{}
	for _, input := range c.Feed {
		fed[input] = true
	}
	for step, outputs := range want {
		for _, info := range p.Inputs() {
			if step == 0 || !fed[info.Name] {
				x, err := c.Inputs[info.Name].tensor(info, int64(step))
				check(err)
				give(info.Name, x)
			}
		}
		r, err := p.Run(t.Context(), in)
		check(err)
		next := map[string]*tensor.Tensor{}
		for _, info := range p.Outputs() {
			got, err := values.FromWeir(r.Get(info.Name))
			check(err)
			if w, ok := outputs[info.Name]; ok {
				if err := w.compare(got, max(c.Tolerance, 1e-4)); err != nil {
					t.Fatalf("step %d, %s: %v", step, info.Name, err)
				}
			}
			if input, ok := c.Feed[info.Name]; ok {
				next[input] = got.Clone()
			}
		}
		check(r.Close())
		for name, x := range next {
			give(name, x)
		}
	}
	memory, err := MemoryOf(t.Context(), p, in)
	check(err)
	if fault := memoryFault(Result{Memory: []Memory{memory}, DataDecide: decide}); fault != "" {
		t.Error(fault)
	}
	for _, x := range in {
		check(x.(*weir.Tensor).Close())
	}
}

// compare compares an output with the recorded one. Errors are relative to the largest recorded element, which is the
// largest of all.
func (w realOutput) compare(got *tensor.Tensor, tolerance float64) error {
	if !slices.Equal(got.Shape(), w.Shape) {
		return fmt.Errorf("its shape is %v, %v was recorded", got.Shape(), w.Shape)
	}
	sum, magnitudes, largest := 0.0, 0.0, 0.0
	for i := range got.Len() {
		v := value(got, i)
		sum, magnitudes = sum+v, magnitudes+math.Abs(v)
	}
	for _, v := range w.Values {
		largest = max(largest, math.Abs(v))
	}
	for k, i := range w.At {
		if v := value(got, i); !(math.Abs(v-w.Values[k]) <= tolerance*largest) {
			return fmt.Errorf("element %d is %v, %v was recorded", i, v, w.Values[k])
		}
	}
	if slack := tolerance * (w.Magnitudes + largest); !(math.Abs(sum-w.Sum) <= slack &&
		math.Abs(magnitudes-w.Magnitudes) <= slack) {
		return fmt.Errorf("its elements sum to %v and their magnitudes to %v, %v and %v were recorded", sum, magnitudes,
			w.Sum, w.Magnitudes)
	}
	return nil
}

// tensor returns an input of a step, computed in integers and hence exact.
func (f realFill) tensor(info weir.Info, step int64) (*tensor.Tensor, error) {
	x, err := tensor.New(info.DType, f.Shape...)
	if err != nil {
		return nil, err
	}
	for i := range x.Len() {
		switch f.Fill {
		case "zeros":
		case "number", "integer":
			if info.DType == dtype.I64 {
				x.SetInt(i, int64(f.Value))
			} else {
				x.SetFloat(i, f.Value)
			}
		case "sound":
			x.SetFloat(i, float64(sound(i+step*x.Len()))/32768)
		case "page":
			x.SetFloat(i, (float64(page(i, f.Shape))-127.5)/127.5)
		default:
			return nil, fmt.Errorf("input %s is filled with %q", info.Name, f.Fill)
		}
	}
	return x, nil
}

// noise returns 24 pseudorandom bits.
func noise(i int64) int64 {
	h := uint32(i+1) * 2654435761
	h = (h ^ h>>16) * 73244475
	return int64((h ^ h>>16) >> 8)
}

// sound returns a sample of a voice-like sound: triangles of a pitch that steps, three overtones, noise, and pauses.
func sound(i int64) int64 {
	period, v := 96+16*(i/3000%4), int64(0)
	for _, o := range [...]struct{ overtone, loud int64 }{{1, 4096}, {2, 3072}, {4, 2048}, {7, 1024}} {
		p := period / o.overtone
		v += floorDiv(o.loud*(2*abs(2*(i%p)-p)-p), p)
	}
	loud := int64(0)
	if i/2000%5 != 4 {
		loud = 256 - abs(i%2000-1000)/8
	}
	return floorDiv(v*loud, 256) + noise(i)/65536 - 128
}

// page returns a pixel of black words on grey paper, from 0 to 255.
func page(i int64, shape []int64) int64 {
	width, height := shape[len(shape)-1], shape[len(shape)-2]
	x, y, channel := i%width, i/width%height, i/(width*height)%3
	row, ink := y/4%6, noise(y/24*4099+y/3*65599+x/3)
	if row > 0 && row < 5 && x/40%3 != 2 && ink%3 == 0 {
		return 16 + 8*channel
	}
	return 224 - (x+y)%32
}

func abs(i int64) int64 { return max(i, -i) }

func floorDiv(a, b int64) int64 {
	if q := a / b; a%b >= 0 {
		return q
	}
	return a/b - 1
}
