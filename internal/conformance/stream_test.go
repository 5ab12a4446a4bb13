package conformance

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/tensor"
	"github.com/weirml/weir/internal/tensor/npy"
	"github.com/weirml/weir/internal/values"
)

// TestStreams runs models whose state is fed back from step to step, over recordings. WEIR_STREAMS names a folder of cases: in each folder model.onnx; for every input
// NAME.npy, its values of all steps along a first axis, or of a state the one it begins with; want.NAME.npy, what an output becomes in all steps; and states.json, the input that
// each output becomes. Outputs may differ by 1e-4, and the memory of the last step must be as predicted for the sizes that its data decide.
func TestStreams(t *testing.T) {
	root := os.Getenv("WEIR_STREAMS")
	if root == "" {
		t.Skip("WEIR_STREAMS does not name a folder of cases")
	}
	cases, _ := filepath.Glob(filepath.Join(root, "*", "model.onnx"))
	if cases == nil {
		t.Fatalf("no cases in %s", root)
	}
	for _, model := range cases {
		t.Run(filepath.Base(filepath.Dir(model)), func(t *testing.T) { stream(t, filepath.Dir(model)) })
	}
}

func stream(t *testing.T, folder string) {
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	states := map[string]string{}
	data, err := os.ReadFile(filepath.Join(folder, "states.json"))
	check(err)
	check(json.Unmarshal(data, &states))
	m, err := weir.Load(filepath.Join(folder, "model.onnx"))
	check(err)
	defer m.Close()
	p, err := weir.Compile(t.Context(), m, weir.Options{})
	check(err)
	defer p.Close()
	read := func(name string) *tensor.Tensor {
		data, err := os.ReadFile(filepath.Join(folder, name+".npy"))
		check(err)
		x, err := npy.Read(bytes.NewReader(data))
		check(err)
		return x
	}
	fed := map[string]bool{}
	for _, input := range states {
		fed[input] = true
	}
	whole, in, want := map[string]*tensor.Tensor{}, weir.Inputs{}, map[string]*tensor.Tensor{}
	give := func(name string, x *tensor.Tensor) {
		w, err := values.ToWeir(x)
		check(err)
		if old, ok := in[name].(*weir.Tensor); ok {
			check(old.Close())
		}
		in[name] = w
	}
	for _, info := range p.Inputs() {
		x := read(info.Name)
		if whole[info.Name] = x; fed[info.Name] {
			give(info.Name, x)
		}
	}
	steps := int64(0)
	for _, info := range p.Outputs() {
		if _, state := states[info.Name]; !state {
			want[info.Name] = read("want." + info.Name)
			steps = want[info.Name].Shape()[0]
		}
	}
	for step := range steps {
		for name, x := range whole {
			if !fed[name] {
				give(name, part(t, x, step))
			}
		}
		r, err := p.Run(t.Context(), in)
		check(err)
		for name, w := range want {
			got, err := values.FromWeir(r.Get(name))
			check(err)
			if err := tensor.Compare(got, part(t, w, step), 1e-4, 1e-4); err != nil {
				t.Fatalf("step %d, %s: %v", step, name, err)
			}
		}
		for output, input := range states {
			next, err := values.FromWeir(r.Get(output))
			check(err)
			give(input, next.Clone())
		}
		check(r.Close())
	}
	memory, err := MemoryOf(t.Context(), p, in)
	check(err)
	t.Logf("%d steps; predicted %d bytes, measured %d", steps, memory.Predicted, memory.Measured)
	if memory.Measured > memory.Predicted {
		t.Errorf("more memory than predicted")
	}
	for _, x := range in {
		check(x.(*weir.Tensor).Close())
	}
}

// part is a step's slice of all steps.
func part(t *testing.T, x *tensor.Tensor, step int64) *tensor.Tensor {
	shape := x.Shape()[1:]
	size := x.Len() / x.Shape()[0]
	width, err := x.DType().Bytes(size)
	if err != nil {
		t.Fatal(err)
	}
	out, err := tensor.Over(x.DType(), shape, x.Bytes()[step*width:][:width])
	if err != nil {
		t.Fatal(err)
	}
	return out
}
