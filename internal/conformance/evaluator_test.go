package conformance

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/tensor"
	"github.com/weirml/weir/internal/tensor/npy"
)

// evaluatorFaults are what ONNX's reference evaluator gets wrong, or refuses, and Weir does not: by a pattern of the
// model's text and of what is said, with the reason.
var evaluatorFaults = []struct{ model, says, why string }{
	{`.`, `Unable to find input`, "the evaluator does not put nodes in order"},
	{`v\d+, v\d+ = Loop`, `the shape is|Inconsistent permutation|Issues with types`, "the evaluator joins a loop's rows without an axis of their own"},
	{`Gather`, `out of bounds for axis \d+ with size 0`, "no element of a tensor without any is asked for: the others of its extents are 0 too"},
	{`MaxPool`, `zero-size array to reduction`, "a window along one axis"},
	{`Loop`, `need at least one array to concatenate`, "the rows of a loop without iterations have a shape all the same"},
	{`Scan`, `Scan with zero scan-input length`, "so have those of a scan over nothing"},
	{`Reshape`, `cannot reshape array of size 0 into shape`, "an extent of 0 that the model computes of no elements is taken to be copied"},
	{`Flatten`, `cannot reshape array of size 0 into shape \(0,newaxis\)`, "−1 among no elements"},
	{`Pad`, `index can't contain negative values`, "ONNX allows negative pads, numpy does not"},
	{`GatherElements`, `Except for dimension`, "ONNX allows fewer indices than elements along other axes"},
	{`Gather`, `(out of bounds for axis|non-empty take).*of no elements`, "an index beyond an axis is refused where something is read by it"},
	{`Arg(Min|Max)`, `of an empty sequence.*of no elements`, "numpy looks for an extreme of each of no rows"},
	{`Reduce`, `the shape is \[.*\b0\b.*\], not`, "what is reduced has no elements: the axes that stay keep their extents, and the evaluator drops them"},
	{`ReduceLogSumExp`, `not NaN`, "the evaluator takes infinities from one another"},
	{`LogSoftmax`, `not -Inf`, "the evaluator takes the logarithm of a quotient that vanishes"},
}

// TestReferenceEvaluator compares Weir with the evaluator of the onnx package, which shares nothing with it: on edges
// followed by edges, on random models and on near misses, each in a configuration that is drawn. One Python process
// evaluates them all. By itself it takes half of the pairs of edges and 400 models; WEIR_EVALUATOR=20000 takes all
// pairs and so many models.
func TestReferenceEvaluator(t *testing.T) {
	python := os.Getenv("WEIR_PYTHON")
	if python == "" {
		t.Skip("WEIR_PYTHON names no Python with the onnx package")
	}
	var models []*RandomModel
	for _, first := range edges {
		for _, second := range edges {
			if os.Getenv("WEIR_EVALUATOR") == "" && choice(first.name+second.name+"drawn", 2) == 0 {
				continue
			}
			models = append(models, pairOfEdges(first, second))
		}
	}
	more := 400
	if n, err := strconv.Atoi(os.Getenv("WEIR_EVALUATOR")); err == nil {
		more = n
	}
	for seed := range uint64(more) {
		if m := Random(90000 + seed); seed%2 == 0 {
			models = append(models, m)
		} else {
			models = append(models, missed(90000+seed))
		}
	}
	counts, shown := map[string]int{}, map[string]int{}
	const batch = 4000
	for begin := 0; begin < len(models); begin += batch {
		some := models[begin:min(begin+batch, len(models))]
		folder := evaluated(t, python, some)
		for i, m := range some {
			how := configurations[choice(fmt.Sprint(m.Model.Graph.Name, m.Seed), len(configurations))]
			verdict, err := besides(t, m, filepath.Join(folder, fmt.Sprintf("%06d", i)), how)
			if err == nil {
				counts[verdict]++
				continue
			}
			if why := explained(m, err); why != "" {
				counts["explained"]++
				continue
			}
			counts["differ"]++
			kind := regexp.MustCompile(`[0-9.\-]+`).ReplaceAllString(err.Error(), "#")
			if shown[kind]++; shown[kind] <= 2 && len(shown) <= 40 {
				t.Errorf("%s, %s: %v\n%s", m.Model.Graph.Name, how.name, err, m.Text())
			}
		}
	}
	t.Logf("%d models: %v", len(models), counts)
	if counts["equal"] < len(models)/2 {
		t.Errorf("only %d of %d models were compared", counts["equal"], len(models))
	}
}

// explained is the reason that a difference is the evaluator's.
func explained(m *RandomModel, err error) string {
	for _, f := range evaluatorFaults {
		if regexp.MustCompile(f.model).MatchString(m.Text()) && regexp.MustCompile(f.says).MatchString(err.Error()) {
			return f.why
		}
	}
	return ""
}

// evaluated writes models with their arguments into a folder, and has Python evaluate them.
func evaluated(t *testing.T, python string, models []*RandomModel) string {
	folder := t.TempDir()
	write := func(name string, data []byte) {
		if err := os.WriteFile(filepath.Join(folder, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for i, m := range models {
		write(fmt.Sprintf("%06d.onnx", i), conditioned(m.Model).Marshal())
		for k, x := range m.Inputs {
			var file bytes.Buffer
			if err := npy.Write(&file, x); err != nil {
				t.Fatal(err)
			}
			write(fmt.Sprintf("%06d.in%d.npy", i, k), file.Bytes())
		}
	}
	if out, err := exec.CommandContext(t.Context(), python, filepath.Join("testdata", "evaluate.py"), folder).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return folder
}

// conditioned is a model whose loops all have a condition: without one the evaluator runs none.
func conditioned(m *wire.ModelProto) *wire.ModelProto {
	yes := tensor.Must(tensor.New(dtype.Bool))
	yes.SetInt(0, 1)
	var graph func(g *wire.GraphProto) *wire.GraphProto
	graph = func(g *wire.GraphProto) *wire.GraphProto {
		c := *g
		c.Node = nil
		for _, n := range g.Node {
			n := *n
			if n.OpType == "Loop" && n.Input[1] == "" {
				n.Input = slices.Clone(n.Input)
				n.Input[1] = "always"
			}
			n.Attribute = slices.Clone(n.Attribute)
			for i, a := range n.Attribute {
				if a.G != nil {
					n.Attribute[i] = wire.GraphAttribute(a.Name, graph(a.G))
				}
			}
			c.Node = append(c.Node, &n)
		}
		return &c
	}
	c := *m
	c.Graph = graph(m.Graph)
	c.Graph.Initializer = append(slices.Clone(c.Graph.Initializer), wire.FromTensor("always", yes))
	return &c
}

// besides compares one model's results with the evaluator's.
func besides(t *testing.T, m *RandomModel, path string, how configuration) (verdict string, err error) {
	defer diag.Recover(&err, "trying")
	x := trialOf(m)
	module, err := x.build()
	if err != nil {
		if errors.Is(err, diag.ErrInternal) {
			return "", err
		}
		return "not a model", nil
	}
	_, scale, reject := x.reference(module, 0)
	said, refused := os.ReadFile(path + ".error")
	got, err := x.compiled(t.Context(), how)
	switch {
	case err != nil && (errors.Is(err, diag.ErrUnsupported) || errors.Is(err, diag.ErrBudget)):
		return "not supported", nil
	case err != nil && refused == nil:
		if errors.Is(err, diag.ErrInput) {
			return "both refuse", nil
		}
		return "", err
	case err != nil:
		return "", fmt.Errorf("refused, and not by the evaluator: %w", err)
	case reject != nil:
		return "unread", nil // what nobody reads may be refused there
	case refused == nil:
		text := strings.SplitN(string(said), "\n", 2)[0]
		if !slices.ContainsFunc(got, func(t *tensor.Tensor) bool { return t.Len() > 0 }) || got[0].Len() == 0 {
			text += ", of no elements"
		}
		return "", fmt.Errorf("the evaluator refuses: %s", text)
	}
	var want []*tensor.Tensor
	for i := range got {
		data, err := os.ReadFile(fmt.Sprintf("%s.out%d.npy", path, i))
		if err != nil {
			return "", err
		}
		w, err := npy.Read(bytes.NewReader(data))
		if err != nil {
			return "", err
		}
		want = append(want, w)
	}
	for i := range want {
		if got[i].DType() != want[i].DType() {
			return "", fmt.Errorf("result %d is %s, and the evaluator's %s", i, got[i].DType(), want[i].DType())
		}
		if err := x.tolerant(got[i], want[i], scale); err != nil {
			if got[i].Len() == want[i].Len() && x.excused(want, scale) {
				return "equal", nil // rounding decides
			}
			return "", fmt.Errorf("result %d: %w", i, err)
		}
	}
	return "equal", nil
}
