package conformance

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"iter"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/importer/onnx/wire/malformedtest"
	"github.com/weirml/weir/internal/tensor"
)

var rewrite = flag.Bool("rewrite", false, "write testdata anew")

// The limits of one broken file.
const (
	mostTime  = time.Second
	mostBytes = 64 << 20
)

// wireLevel are the attacks with the same outcome for every field: one row shows them.
var wireLevel = []string{"another wire type", "a group", "length past the end", "endless varint", "not UTF-8",
	"very long", "with line breaks"}

// hostile models are valid in the format, but impossible or impossibly large to run. Their input is x: f32[2,3].
var hostile = []struct {
	name string
	node *wire.NodeProto
	ints []int64 // the initializer "ints"
}{
	{"Transpose: an axis twice", node("Transpose", "x").with(wire.IntsAttribute("perm", 0, 0)), nil},
	{"Transpose: an axis out of range", node("Transpose", "x").with(wire.IntsAttribute("perm", 0, math.MaxInt64)), nil},
	{"Softmax: axis out of range", node("Softmax", "x").with(wire.IntAttribute("axis", -3)), nil},
	{"Concat: axis out of range", node("Concat", "x", "x").with(wire.IntAttribute("axis", math.MinInt64)), nil},
	{"ReduceSum: axis out of range", node("ReduceSum", "x", "ints").with(), []int64{5}},
	{"Unsqueeze: an axis twice", node("Unsqueeze", "x", "ints").with(), []int64{1, 1}},
	{"Squeeze: an axis that is not 1", node("Squeeze", "x", "ints").with(), []int64{0}},
	{"Reshape: another number of elements", node("Reshape", "x", "ints").with(), []int64{7}},
	{"Reshape: two unknown extents", node("Reshape", "x", "ints").with(), []int64{-1, -1}},
	{"Reshape: a product past 64 bits", node("Reshape", "x", "ints").with(), []int64{1 << 62, 4, 6}},
	{"Reshape: a negative extent", node("Reshape", "x", "ints").with(), []int64{-2, 3}},
	{"Tile: huge repeats", node("Tile", "x", "ints").with(), []int64{1 << 40, 1 << 40}},
	{"Tile: large repeats", node("Tile", "x", "ints").with(), []int64{1 << 22, 1 << 20}},
	{"Tile: negative repeats", node("Tile", "x", "ints").with(), []int64{-1, 1}},
	{"Expand: a huge shape", node("Expand", "x", "ints").with(), []int64{math.MaxInt64, 2, 3}},
	{"Expand: a negative shape", node("Expand", "x", "ints").with(), []int64{-5, 2, 3}},
	{"ConstantOfShape: a huge shape", node("ConstantOfShape", "ints").with(), []int64{1 << 31, 1 << 31, 1 << 31}},
	{"ConstantOfShape: a large shape", node("ConstantOfShape", "ints").with(), []int64{1 << 36}},
	{"ConstantOfShape: a negative shape", node("ConstantOfShape", "ints").with(), []int64{-1}},
	{"Pad: huge pads", node("Pad", "x", "ints").with(), []int64{math.MaxInt64, 0, 0, 0}},
	{"Pad: more cut off than there is", node("Pad", "x", "ints").with(), []int64{-3, 0, 0, 0}},
	{"Pad: too few pads", node("Pad", "x", "ints").with(), []int64{1}},
	{"Split: sizes of another sum", node("Split", "x", "ints").with(), []int64{9}},
	{"Split: no parts", node("Split", "x").with(wire.IntAttribute("num_outputs", 0)), nil},
	{"Gather: an index out of range", node("Gather", "x", "ints").with(), []int64{2}},
	{"Conv: no groups", node("Conv", "x", "x").with(wire.IntAttribute("group", 0)), nil},
	{"MaxPool: a kernel of 0", node("MaxPool", "image").with(wire.IntsAttribute("kernel_shape", 0, 0)), nil},
	{"MaxPool: a stride of 0", node("MaxPool", "image").with(wire.IntsAttribute("kernel_shape", 1, 1),
		wire.IntsAttribute("strides", 0, 0)), nil},
	{"MaxPool: huge pads", node("MaxPool", "image").with(wire.IntsAttribute("kernel_shape", 1, 1),
		wire.IntsAttribute("pads", 1<<62, 1<<62, 1<<62, 1<<62)), nil},
	{"MaxPool: a kernel larger than the image", node("MaxPool", "image").
		with(wire.IntsAttribute("kernel_shape", 1<<40, 1)), nil},
	{"Cast: no such type", node("Cast", "x").with(wire.IntAttribute("to", 99)), nil},
	{"MatMul: sizes that do not fit", node("MatMul", "x", "x").with(), nil},
	{"Add: shapes that do not broadcast", node("Add", "x", "image").with(), nil},
	{"TopK: more than there are", node("TopK", "x", "ints").with(), []int64{4}},
	{"OneHot: a huge depth", node("OneHot", "ints", "ints", "x").with(), []int64{1 << 50}},
	{"EyeLike: a diagonal far outside", node("EyeLike", "x").with(wire.IntAttribute("k", math.MaxInt64)), nil},
	{"no such operator", node("Nonsense", "x").with(), nil},
}

type hostileNode wire.NodeProto

func node(op string, inputs ...string) *hostileNode {
	return &hostileNode{OpType: op, Name: "n", Input: inputs, Output: []string{"y"}}
}

func (n *hostileNode) with(attributes ...*wire.AttributeProto) *wire.NodeProto {
	n.Attribute = attributes
	return (*wire.NodeProto)(n)
}

func hostileCases() iter.Seq[malformedtest.Case] {
	return func(yield func(malformedtest.Case) bool) {
		for _, h := range hostile {
			g := &wire.GraphProto{Name: "g", Node: []*wire.NodeProto{h.node}, Input: []*wire.ValueInfoProto{
				wire.TensorValue("x", wire.DataTypeOf(weir.F32), wire.Size(2), wire.Size(3)),
				wire.TensorValue("image", wire.DataTypeOf(weir.F32), wire.Size(1), wire.Size(1), wire.Size(2), wire.Size(2))},
				Output: []*wire.ValueInfoProto{{Name: "y"}}}
			if h.ints != nil {
				g.Initializer = []*wire.TensorProto{wire.FromTensor("ints", tensor.Of(h.ints...))}
			}
			m := &wire.ModelProto{IRVersion: 10, OpsetImport: []*wire.OperatorSetIDProto{{Version: 21}}, Graph: g}
			path, attack, _ := strings.Cut(h.name, ": ")
			if !yield(malformedtest.Case{Path: path, Attack: attack, Data: m.Marshal()}) {
				return
			}
		}
		for _, dims := range [][]int64{{-1, 2}, {1 << 40, 1 << 40}, {math.MaxInt64}, {1 << 20, 1 << 20, 4}} {
			var shape []*wire.Dimension
			for _, d := range dims {
				shape = append(shape, wire.Size(d))
			}
			g := &wire.GraphProto{Name: "g", Node: []*wire.NodeProto{node("Relu", "x").with()},
				Input:  []*wire.ValueInfoProto{wire.TensorValue("x", 1, shape...)},
				Output: []*wire.ValueInfoProto{{Name: "y"}}}
			m := &wire.ModelProto{IRVersion: 10, OpsetImport: []*wire.OperatorSetIDProto{{Version: 21}}, Graph: g}
			if !yield(malformedtest.Case{Path: "input", Attack: fmt.Sprint("of shape ", dims), Data: m.Marshal()}) {
				return
			}
		}
	}
}

// outcome loads, compiles and runs a broken file, and returns the outcome in one line.
func outcome(t *testing.T, files fstest.MapFS) (line string) {
	defer func() {
		if p := recover(); p != nil {
			line = fmt.Sprintf("PANIC %v", p)
		}
	}()
	err := func() error {
		m, err := weir.LoadFS(files, "model.onnx")
		if err != nil {
			return err
		}
		defer m.Close()
		p, err := weir.Compile(t.Context(), m, weir.Options{Threads: 1})
		if err != nil {
			return err
		}
		defer p.Close()
		return runOnZeros(t, p)
	}()
	if err == nil {
		return "runs"
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return "context: " + err.Error()
	}
	var e *weir.Error
	if !errors.As(err, &e) {
		return fmt.Sprintf("UNTYPED %v", err)
	}
	kind := diag.KindName(err)
	if kind == "internal" || kind == "closed" {
		kind = strings.ToUpper(kind)
	}
	if lack := unnamed(e); lack != "" {
		return "UNNAMED " + lack + " in the JSON of " + err.Error()
	}
	return kind + ": " + strings.TrimPrefix(err.Error(), "model.onnx: ")
}

// runOnZeros runs p on zeros, and returns the error.
func runOnZeros(t *testing.T, p *weir.Program) error {
	in := weir.Inputs{}
	for _, info := range p.Inputs() {
		var shape []int
		bytes := 16.0
		for _, e := range info.Shape {
			shape = append(shape, int(cmp.Or(max(e.Size, 0), 2)))
			bytes *= float64(shape[len(shape)-1])
		}
		if bytes > mostBytes {
			return diag.New(weir.ErrBudget, "an input takes %.3g bytes, and is not made", bytes)
		}
		x, err := weir.New(info.DType, shape...)
		if err != nil {
			return err
		}
		defer x.Close()
		in[info.Name] = x
	}
	dims, err := p.Bind(in)
	if err != nil {
		return err
	}
	if peak, err := p.Memory().Peak(1, dims); err != nil || peak > mostBytes {
		return cmp.Or(err, error(diag.New(weir.ErrBudget, "a run takes more memory than is tried")))
	}
	ctx, cancel := context.WithTimeout(t.Context(), mostTime/2)
	defer cancel()
	r, err := p.Run(ctx, in)
	if err == nil {
		err = r.Close()
	}
	return err
}

// TestMalformed breaks valid models in every field, and adds impossible ones. Each file must end in one line that is
// the user's fault or not supported, or run, within a second and 64 MiB; testdata/malformed.txt holds the lines.
func TestMalformed(t *testing.T) {
	var golden strings.Builder
	total, ran := 0, 0
	seen := map[[3]string]bool{} // rows of earlier models, and their attacks
	for _, name := range []string{"hostile", "qlinear_conv", "if_in_loop", "external_data", "local_function"} {
		files := fstest.MapFS{}
		cases := hostileCases()
		if name != "hostile" {
			var data []byte
			files, data = folder(t, name)
			cases = func(yield func(malformedtest.Case) bool) {
				for c := range malformedtest.Fields(wire.Model(), data, malformedtest.Options{}) {
					if !yield(c) {
						return
					}
				}
				malformedtest.Names(data)(yield)
			}
		}
		fmt.Fprintf(&golden, "== %s\n", name)
		rows := newTable()
		for c := range cases {
			files["model.onnx"] = &fstest.MapFile{Data: c.Data}
			line := checked(t, name, c, files)
			if row := [3]string{unindexed(c.Path), c.Attack, line}; !seen[row] &&
				!(slices.Contains(wireLevel, c.Attack) && seen[[3]string{c.Attack}]) {
				seen[row], seen[[3]string{c.Attack}] = true, true
				rows.add(unindexed(c.Path), c.Attack, line)
			}
			total++
			if line == "runs" {
				ran++
			}
		}
		rows.print(&golden)
	}
	t.Logf("%d broken files, %d of which run all the same", total, ran)
	compareGolden(t, filepath.Join("testdata", "malformed.txt"), golden.String())
}

// checked returns a case's outcome, and fails if its cost or form is wrong.
func checked(t *testing.T, model string, c malformedtest.Case, files fstest.MapFS) string {
	var before, after runtime.MemStats
	held := weir.Usage().Current
	runtime.ReadMemStats(&before)
	start := time.Now()
	line := outcome(t, files)
	took := time.Since(start)
	runtime.ReadMemStats(&after)
	place := fmt.Sprintf("%s: %s: %s", model, c.Path, c.Attack)
	for range 4 { // another process may have had the processor
		if took > mostTime {
			start = time.Now()
			outcome(t, files)
			took = min(took, time.Since(start))
		}
	}
	if took > mostTime {
		t.Errorf("%s: takes %v", place, took)
	}
	if bytes := after.TotalAlloc - before.TotalAlloc; bytes > mostBytes {
		t.Errorf("%s: allocated %d bytes", place, bytes)
	}
	if now := weir.Usage().Current; now != held {
		t.Errorf("%s: %d bytes are held after it", place, now-held)
	}
	kind, _, _ := strings.Cut(line, ":")
	if !slices.Contains([]string{"runs", "input", "unsupported", "budget"}, kind) ||
		strings.ContainsAny(line, "\n\r\x1b") {
		t.Errorf("%s: %.600s", place, line)
	}
	return line
}

// folder returns the files of a case of testdata/onnx, and its model.
func folder(t *testing.T, name string) (fstest.MapFS, []byte) {
	dir := os.DirFS(filepath.Join("..", "..", "testdata", "onnx", name))
	files := fstest.MapFS{}
	entries, err := fs.ReadDir(dir, ".")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.IsDir() {
			continue
		}
		data, err := fs.ReadFile(dir, e.Name())
		if err != nil {
			t.Fatal(err)
		}
		files[e.Name()] = &fstest.MapFile{Data: data}
	}
	return files, files["model.onnx"].Data
}

// unindexed returns a path without its indices.
func unindexed(path string) string {
	var b strings.Builder
	inside := false
	for _, r := range path {
		if r == '[' {
			inside = true
		}
		if !inside {
			b.WriteRune(r)
		}
		if r == ']' {
			inside = false
		}
	}
	return b.String()
}

// table groups the attacks on a field that have the same outcome.
type table struct {
	fields []string
	lines  map[string][]string
	kinds  map[[2]string][]string
}

func newTable() *table {
	return &table{lines: map[string][]string{}, kinds: map[[2]string][]string{}}
}

// add adds the outcome of an attack on a field.
func (r *table) add(field, attack, line string) {
	if len(line) > 160 {
		line = strings.ToValidUTF8(line[:160], "") + "…"
	}
	if !slices.Contains(r.fields, field) {
		r.fields = append(r.fields, field)
	}
	if !slices.Contains(r.lines[field], line) {
		r.lines[field] = append(r.lines[field], line)
	}
	key := [2]string{field, line}
	r.kinds[key] = append(r.kinds[key], attack)
}

// print writes the rows, in the order of their fields.
func (r *table) print(b *strings.Builder) {
	for _, f := range r.fields {
		fmt.Fprintln(b, f)
		for _, line := range r.lines[f] {
			fmt.Fprintf(b, "\t%s → %s\n", strings.Join(r.kinds[[2]string{f, line}], ", "), line)
		}
	}
}
