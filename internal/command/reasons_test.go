package command

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/tensor"
)

// reason is a model with one condition of a kind, values that break it, and the strings that its error must contain:
// for every way into the model, one of each list.
type reason struct {
	kind  string
	text  string // from the dimensions on; "": model
	model *wire.ModelProto
	dims  weir.Dims // of the inputs, which break it
	fill  int64     // the elements of integer inputs
	data  bool      // only a run can break it
	fix   bool
	want  [][]string
}

var reasons = []reason{
	{kind: "range", text: "dim n in [2, 32]\n main @main(%x: f32[n]) {\n %y: f32[n] = neg(%x)\n return %y }",
		dims: weir.Dims{"n": 33}, want: [][]string{{"dimension n"}, {"33"}, {"2..32"}}},
	{kind: "a range that a shape narrows",
		text: "dim n in [0, 32]\n main @main(%x: f32[n, 3]) {\n %y: f32[n - 4, 3] = slice(%x) {begin = syms [4, 0], step = " +
			"ints [1, 1], extent = syms [n - 4, 3]}\n return %y }",
		dims: weir.Dims{"n": 3}, fix: true, want: [][]string{{"line 5"}, {"4 <= n", "n - 4", "4 ≤ n"}, {"n = 3"}}},
	{kind: "divisibility", text: "dim n in [1, 64]\n main @main(%x: f32[n, 3]) {\n %y: f32[n//2, 6] = reshape(%x) " +
		"{shape = syms [n//2, 6]}\n return %y }",
		dims: weir.Dims{"n": 33}, fix: true, want: [][]string{{"line 5"}, {"n//2"}, {"n = 33"},
			{"keeps the number of elements"}}},
	{kind: "equality of two dimensions",
		text: "dim left in [1, 64]\n dim right in [1, 64]\n main @main(%x: f32[left, 1], %z: f32[right, 1]) {\n %u: " +
			"f32[left, 1] = neg(%x)\n %y: f32[left, 1] = add(%u, %z)\n return %y }",
		dims: weir.Dims{"left": 7, "right": 9}, fix: true, want: [][]string{{"line 7"}, {"left == right", "left = right"},
			{"left = 7"}, {"right = 9"}}},
	{kind: "a product of two dimensions",
		text: "dim p in [1, 64]\n dim q in [1, 64]\n main @main(%x: f32[p, q]) {\n storage %s: 64 bytes\n %t: f32[p, q] = " +
			"neg(%x) carve %s\n %y: f32[p, q] = exp(%t)\n return %y }",
		dims: weir.Dims{"p": 5, "q": 4}, fix: true, want: [][]string{{"line 7"}, {"tensor t"}, {"p*q"}, {"p = 5"},
			{"q = 4"}}},
	{kind: "a carve's", text: "dim n in [1, 64]\n main @main(%x: f32[n]) {\n storage %s: 64 bytes\n %t: f32[n] = " +
		"neg(%x) carve %s\n %y: f32[n] = exp(%t)\n return %y }",
		dims: weir.Dims{"n": 17}, fix: true, want: [][]string{{"line 6"}, {"tensor t"}, {"n <= 16", "4*n <= 64", "n ≤ 16"},
			{"n = 17"}}},
	{kind: "an assertion's", text: "dim n in [1, 64]\n main @main(%x: f32[n]) {\n assert n % 3 == 0 \"a bar has three " +
		"beats\"\n %y: f32[n] = exp(%x)\n return %y }",
		dims: weir.Dims{"n": 10}, fix: true, want: [][]string{{"line 5"}, {"a bar has three beats"}, {"n%3"}, {"n = 10"}}},
	{kind: "an assertion of a product",
		text: "dim p in [1, 64]\n dim q in [1, 64]\n main @main(%x: f32[p], %z: f32[q]) {\n assert p*q + p <= 64*q " +
			"\"rooms\"\n %y: f32[p] = exp(%x)\n %u: f32[q] = exp(%z)\n return %y, %u }",
		dims: weir.Dims{"p": 64, "q": 5}, fix: true, want: [][]string{{"line 6"}, {"rooms"}, {"p*q"}, {"p = 64"}, {"q = 5"}}},
	{kind: "a size past 64 bits",
		text: "dim n in [0, inf]\n dim m in [0, inf]\n main @main(%x: f32[n, m]) {\n %y: f32[n, n] = matmul(%x, %x) " +
			"{transpose_a = bool false, transpose_b = bool true}\n return %y }",
		dims: weir.Dims{"n": 1<<31 - 1, "m": 0}, want: [][]string{{"tensor y"}, {"4*n*n"}, {"64 bits"}, {"n = 2147483647"}}},
	{kind: "what data decide", text: "dim m in [1, 64]\n dim k in [0, 64] limit m\n main @main(%x: f32[m]) {\n %z: " +
		"i64[1, k] = nonzero(%x) {found = string \"k\"}\n assert 2 <= k \"two are found\"\n return %z }",
		dims: weir.Dims{"m": 5}, data: true, want: [][]string{{"line 7"}, {"two are found"}, {"2 <= k"}, {"k = 0"}}},
	{kind: "elements of an input", model: onnxReason("Tile", []string{"x", "repeats"}, []int64{2}),
		dims: weir.Dims{"repeats[0]": -1, "repeats[1]": -1}, fill: -1,
		want: [][]string{{"dimension repeats[0]"}, {"-1"}, {"0.."}, {"element 0 of repeats, read by tiled (Tile)"}}},
	{kind: "elements of two inputs", model: onnxReason("Pad", []string{"x", "pads"}, []int64{4}),
		dims: weir.Dims{"pads[0]": -3, "pads[1]": -3, "pads[2]": -3, "pads[3]": -3}, fill: -3, fix: true,
		want: [][]string{{"tiled (pad)"}, {"pads[0] + pads[2]", "pads[1] + pads[3]"}, {"pads[0] = -3", "pads[1] = -3"},
			{"an extent is not negative"}}},
	{kind: "a range that a node narrows", model: onnxReason("AveragePool", []string{"wide"}, nil),
		dims: weir.Dims{"width": 3}, fix: true,
		want: [][]string{{"tiled (average_pool)", "tiled (pool)"}, {"width - 4", "5 <= width"},
			{"width = 3", "3 leaves nothing"}, {"the window fits"}}},
	{kind: "what a node finds", model: foundReason(), data: true,
		want: [][]string{{"some (reshape)"}, {"found.count == 3", "3 == found.count"},
			{"found.count = 0 (the count that found (nonzero) finds)"}, {"keeps the number of elements"}}},
}

// onnxReason returns a model of one node: a pool, or an operator whose second input is integers.
func onnxReason(op string, inputs []string, shape []int64) *wire.ModelProto {
	g := &wire.GraphProto{Name: "g", Node: []*wire.NodeProto{{OpType: op, Name: "tiled", Input: inputs,
		Output: []string{"y"}}}, Output: []*wire.ValueInfoProto{{Name: "y"}}}
	if len(inputs) > 1 {
		g.Input = []*wire.ValueInfoProto{wire.TensorValue("x", wire.FloatType, wire.Size(4), wire.Size(5)),
			wire.TensorValue(inputs[1], wire.Int64Type, wire.Size(shape[0]))}
	} else {
		g.Input = []*wire.ValueInfoProto{wire.TensorValue(inputs[0], wire.FloatType, wire.Size(1), wire.Size(1),
			wire.Dim("width"))}
		g.Node[0].Attribute = []*wire.AttributeProto{wire.IntsAttribute("kernel_shape", 5)}
	}
	return &wire.ModelProto{IRVersion: 10, OpsetImport: []*wire.OperatorSetIDProto{{Version: 21}}, Graph: g}
}

// foundReason returns a model that needs exactly three nonzero elements in its input.
func foundReason() *wire.ModelProto {
	g := &wire.GraphProto{Name: "g",
		Node: []*wire.NodeProto{{OpType: "NonZero", Name: "found", Input: []string{"x"}, Output: []string{"places"}},
			{OpType: "Reshape", Name: "some", Input: []string{"places", "three"}, Output: []string{"y"}}},
		Input:       []*wire.ValueInfoProto{wire.TensorValue("x", wire.FloatType, wire.Size(6))},
		Initializer: []*wire.TensorProto{wire.FromTensor("three", tensor.Of[int64](3, 1))},
		Output:      []*wire.ValueInfoProto{{Name: "y"}}}
	return &wire.ModelProto{IRVersion: 10, OpsetImport: []*wire.OperatorSetIDProto{{Version: 21}}, Graph: g}
}

// file writes the model, and returns its path.
func (r *reason) file(t *testing.T) string {
	t.Helper()
	name, data := "m.weir", []byte("weir 1\nir @m {\n"+r.text+" }\n")
	if r.model != nil {
		name, data = "m.onnx", r.model.Marshal()
	}
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// holds returns an error if a message lacks one of the strings.
func (r *reason) holds(way, text string) error {
	for _, any := range r.want {
		if !slices.ContainsFunc(any, func(want string) bool { return strings.Contains(text, want) }) {
			return fmt.Errorf("%s: %s: it does not say %q: %s", r.kind, way, any, strings.TrimSpace(text))
		}
	}
	if strings.Contains(text, "?") || strings.Contains(text, "internal") || r.fix && !strings.Contains(text, "(fix: ") {
		return fmt.Errorf("%s: %s: %s", r.kind, way, text)
	}
	return nil
}

// run runs a program on inputs whose dimensions break the condition.
func (r *reason) run(t *testing.T, p *weir.Program) error {
	t.Helper()
	in := weir.Inputs{}
	for _, info := range p.Inputs() {
		var shape []int
		for _, e := range info.Shape {
			if e.Dim != "" {
				e.Size = r.dims[e.Dim]
			}
			shape = append(shape, int(e.Size))
		}
		x, err := weir.New(info.DType, shape...)
		if info.DType == weir.I64 && err == nil {
			x.Close()
			x, err = weir.FromSlice(slices.Repeat([]int64{r.fill}, shape[0]), shape...)
		}
		if err != nil {
			t.Fatal(err)
		}
		defer x.Close()
		in[info.Name] = x
	}
	results, err := p.Run(t.Context(), in)
	if err == nil {
		results.Close()
	}
	return err
}

// TestReasons breaks each kind of condition, by each way into a model. The model or run is refused with an error of the
// user's that names the place, the condition, the value of each dimension in it, and a fix if there is one.
func TestReasons(t *testing.T) {
	for i := range reasons {
		r := &reasons[i]
		t.Run(r.kind, func(t *testing.T) {
			file := r.file(t)
			told := map[string]bool{}
			said := func(way string, err error) {
				if !errors.Is(err, weir.ErrInput) {
					t.Errorf("%s: %s: %v", r.kind, way, err)
				} else if fault := r.holds(way, err.Error()); fault != nil && !told[err.Error()] {
					told[err.Error()] = true
					t.Error(fault)
				}
			}
			m, err := weir.Load(file)
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			for _, target := range []weir.Target{weir.Best, weir.Portable, weir.Reference} {
				p, err := weir.Compile(t.Context(), m, weir.Options{Threads: 1, Target: target})
				if err != nil {
					t.Fatal(err)
				}
				said("run on "+string(target), r.run(t, p))
				if !r.data {
					said("check on "+string(target), p.Check(r.dims))
					_, err = p.Plan(r.dims)
					said("plan on "+string(target), err)
					_, err = p.NewCall(r.dims)
					said("call on "+string(target), err)
				}
				p.Close()
			}
			saved, err := weir.Load(artefact(t, file))
			if err != nil {
				t.Fatal(err)
			}
			defer saved.Close()
			p, err := weir.Compile(t.Context(), saved, weir.Options{Threads: 1})
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			said("run of an artefact", r.run(t, p))
			r.commands(t, file, said)
		})
	}
}

// commands breaks the condition by --dim, and passes each command's error to said.
func (r *reason) commands(t *testing.T, file string, said func(way string, err error)) {
	t.Helper()
	if r.data {
		if got := weirRun(t, "check", file); !strings.Contains(got.out, "checked") || strings.Contains(got.out, "?") {
			t.Errorf("%s: check lists %s", r.kind, got.out)
		}
		return
	}
	bound, exact := map[string]weir.Range{}, []string(nil)
	for name, v := range r.dims {
		bound[name] = weir.Range{Min: v, Max: v}
		exact = append(exact, "--dim", fmt.Sprintf("%s=%d", name, v))
	}
	m, err := weir.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	p, err := weir.Compile(t.Context(), m, weir.Options{Threads: 1, Dims: bound})
	if err == nil { // nothing is refused before a run
		err = r.run(t, p)
		p.Close()
	}
	said("bound dimensions", err)
	for _, command := range []string{"plan", "check", "compile"} {
		args := append([]string{command, file}, exact...)
		if command == "compile" {
			args = append(args, "-o", filepath.Join(t.TempDir(), "out.weir"))
		}
		for _, json := range []bool{false, true} {
			if json {
				args = append(args, "--json")
			}
			got := weirRun(t, args...)
			if got.code != 1 {
				t.Errorf("%s: %v: it ends with %d: %s%s", r.kind, args, got.code, got.out, got.err)
			} else if fault := r.holds(command, got.err); fault != nil && !json {
				t.Error(fault)
			}
		}
	}
}
