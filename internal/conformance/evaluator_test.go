package conformance

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/weirml/weir/internal/conformance/conformancetest"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/tensor"
	"github.com/weirml/weir/internal/tensor/npy"
	"github.com/weirml/weir/internal/weirtest"
)

// TestReferenceEvaluator compares Weir with the evaluator of the onnx package, which shares no code with it: on pairs
// of edges, on random models and on near misses, each in a random configuration. One Python process evaluates them all.
// By default it takes half of the pairs of edges and 400 models, in a short run an eighth and 100; WEIR_EVALUATOR=20000
// takes all pairs and that number of models.
func TestReferenceEvaluator(t *testing.T) {
	python := os.Getenv("WEIR_PYTHON")
	if python == "" {
		t.Skip("WEIR_PYTHON names no Python with the onnx package")
	}
	var models []*conformancetest.RandomModel
	for _, first := range conformancetest.Edges {
		for _, second := range conformancetest.Edges {
			if os.Getenv("WEIR_EVALUATOR") == "" && choice(first.Name+second.Name+"drawn", 8) < weirtest.Trials(4, 7) {
				continue
			}
			models = append(models, conformancetest.PairOfEdges(first, second))
		}
	}
	more := weirtest.Trials(400, 100)
	if n, err := strconv.Atoi(os.Getenv("WEIR_EVALUATOR")); err == nil {
		more = n
	}
	for seed := range uint64(more) {
		if m := conformancetest.Random(90000 + seed); seed%2 == 0 {
			models = append(models, m)
		} else {
			models = append(models, missed(90000+seed))
		}
	}
	counts, shown, mends := map[string]int{}, map[string]int{}, map[string]int{}
	const batch = 4000
	for begin := 0; begin < len(models); begin += batch {
		some := models[begin:min(begin+batch, len(models))]
		folder := evaluated(t, python, some)
		for i, m := range some {
			how := configurations[choice(fmt.Sprint(m.Model.Graph.Name, m.Seed), len(configurations))]
			b := &evaluatedModel{model: m, path: filepath.Join(folder, fmt.Sprintf("%06d", i)), how: how}
			verdict, err := b.compare(t)
			if err != nil {
				counts["differ"]++
				kind := regexp.MustCompile(`[0-9.\-]+`).ReplaceAllString(err.Error(), "#")
				if shown[kind]++; shown[kind] <= 2 && len(shown) <= 40 {
					t.Errorf("%s, %s: %v\n%s", m.Model.Graph.Name, how.name, err, m.Text())
				}
				continue
			}
			counts[verdict]++
			for _, name := range b.mends() {
				if mends[name]++; mends[name] <= 3 && verdict == "equal" {
					b.finds(t, name)
				}
			}
		}
		witnesses(t, folder)
		idle, err := os.ReadFile(filepath.Join(folder, "idle.txt"))
		if err != nil || len(idle) > 0 && more >= 400 && begin == 0 {
			t.Errorf("mends that the evaluator does not need: %s, %v", idle, err)
		}
	}
	t.Logf("%d models: %v; mended: %v", len(models), counts, mends)
	if counts["equal"] < len(models)*4/5 {
		t.Errorf("only %d of %d models were compared", counts["equal"], len(models))
	}
}

// lenient begins the names of mends that accept models which ONNX's text forbids and Weir need not refuse.
const lenient = "lenient: "

// witnessed is onnxruntime's answer to a mend, if it does not agree, with the reason.
var witnessed = map[string]struct{ says, why string }{
	lenient + "Gather by an index that nothing is read by": {"refuses",
		"Weir finds an index outside of its axis as it reads by it"},
	lenient + "Reshape to an extent that comes out as 0": {"refuses",
		"an extent that only the run knows is taken as it is"},
	"MaxPool of NaN": {"differs",
		"a maximum with NaN is NaN, as of Max; onnxruntime leaves NaN out along one axis, and not along two"},
}

// rules are requirements of ONNX's text that its evaluator does not check, by the message of Weir's refusal.
var rules = []struct{ says, text string }{
	{`\(triangle\): a tensor of rank 1, it must be at least 2`, "Trilu: input of rank at least 2"},
	{`: (elements of type|input \d is of|a condition of type)`, "an operator's type constraints"},
	{`the pieces of a split are the whole: .* can never hold`, "Split: the sum of the values must be equal to the extent"},
	{`\(Reshape\): axis \d of the new shape is -[2-9]`, "Reshape: extents, 0, and -1 once"},
}

// ruled reports whether a model is refused by one of rules.
func ruled(err error) bool {
	for _, r := range rules {
		if regexp.MustCompile(r.says).MatchString(err.Error()) {
			return true
		}
	}
	return false
}

// witnesses fails if onnxruntime does not agree with the mended result of a node, unless it is known to differ.
func witnesses(t *testing.T, folder string) {
	data, err := os.ReadFile(filepath.Join(folder, "witness.txt"))
	if err != nil {
		t.Fatal(err)
	}
	says := map[string]int{}
	for line := range strings.Lines(string(data)) {
		name, said, _ := strings.Cut(strings.TrimSpace(line), ": ")
		if name == "lenient" {
			name, said, _ = strings.Cut(said, ": ")
			name = lenient + name
		}
		verdict, _, _ := strings.Cut(said, " ")
		says[verdict]++
		want := "agrees"
		if w, known := witnessed[name]; known {
			want = w.says
		}
		switch {
		case name == "" || verdict == "absent":
		case verdict != want:
			t.Errorf("onnxruntime on %s: %s, not %s", name, said, want)
		}
	}
	t.Logf("onnxruntime on nodes that were mended: %v", says)
}

// evaluated writes models and their arguments into a folder, and lets Python evaluate them.
func evaluated(t *testing.T, python string, models []*conformancetest.RandomModel) string {
	folder := t.TempDir()
	write := func(name string, data []byte) {
		if err := os.WriteFile(filepath.Join(folder, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for i, m := range models {
		write(fmt.Sprintf("%06d.onnx", i), m.Model.Marshal())
		for k, x := range m.Inputs {
			var file bytes.Buffer
			if err := npy.Write(&file, x); err != nil {
				t.Fatal(err)
			}
			write(fmt.Sprintf("%06d.in%d.npy", i, k), file.Bytes())
		}
	}
	run := exec.CommandContext(t.Context(), python, filepath.Join("testdata", "evaluate.py"), folder)
	if out, err := run.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return folder
}

// evaluatedModel is a model that Weir runs, and the path of the files with the evaluator's results.
type evaluatedModel struct {
	model *conformancetest.RandomModel
	path  string
	how   configuration
	// plant, if not nil, changes Weir's results.
	plant func([]*tensor.Tensor)
}

// mends returns the names of the evaluator's mends that applied to the model.
func (b *evaluatedModel) mends() []string {
	data, err := os.ReadFile(b.path + ".mended")
	if err != nil {
		return nil
	}
	return strings.Split(string(data), "\n")
}

// leniently reports whether the evaluator gives results only because of a lenient mend.
func (b *evaluatedModel) leniently() bool {
	return slices.ContainsFunc(b.mends(), func(name string) bool { return strings.HasPrefix(name, lenient) })
}

// finds fails unless compare detects wrong results in a model for which the evaluator was mended: a mend must not hide
// a difference. Each result in turn has one element changed or, if it is empty, an additional axis.
func (b *evaluatedModel) finds(t *testing.T, mend string) {
	t.Helper()
	for i := range b.model.Model.Graph.Output {
		c := *b
		c.plant = func(got []*tensor.Tensor) {
			x := got[i].Clone()
			switch k := x.Len() - 1; {
			case k < 0:
				x = tensor.Must(tensor.New(x.DType(), append([]int64{1}, x.Shape()...)...))
			case !x.DType().IsFloat():
				x.SetInt(k, x.Int(k)^1)
			case math.IsNaN(x.Float(k)):
				x.SetFloat(k, 1)
			default:
				x.SetFloat(k, math.NaN())
			}
			got[i] = x
		}
		if verdict, err := c.compare(t); err == nil {
			t.Errorf("%s, mended by %q: %s, with result %d wrong\n%s",
				b.model.Model.Graph.Name, mend, verdict, i, b.model.Text())
		}
	}
}

// compare compares Weir's results with the evaluator's.
func (b *evaluatedModel) compare(t *testing.T) (verdict string, err error) {
	defer diag.Recover(&err, "trying")
	x := trialOf(b.model)
	module, err := x.build()
	if err != nil {
		if errors.Is(err, diag.ErrInternal) {
			return "", err
		}
		if _, refused := os.ReadFile(b.path + ".error"); refused != nil && !b.leniently() && !ruled(err) {
			return "", fmt.Errorf("no model, and the evaluator takes it: %w", err)
		}
		return "not a model", nil
	}
	_, scale, reject := x.reference(module, 0)
	said, refused := os.ReadFile(b.path + ".error")
	got, err := x.compiled(t.Context(), b.how)
	switch {
	case err != nil && (errors.Is(err, diag.ErrUnsupported) || errors.Is(err, diag.ErrBudget)):
		return "not supported", nil
	case err != nil && refused == nil:
		if errors.Is(err, diag.ErrInput) {
			return "both refuse", nil
		}
		return "", err
	case errors.Is(err, diag.ErrInput) && b.leniently():
		return "both refuse", nil
	case err != nil:
		return "", fmt.Errorf("refused, and not by the evaluator: %w", err)
	case reject != nil:
		return "unread", nil // a node that nothing reads may be refused there
	case refused == nil:
		text := strings.SplitN(string(said), "\n", 2)[0]
		return "", fmt.Errorf("the evaluator refuses: %s", text)
	}
	if b.plant != nil {
		b.plant(got)
	}
	var want []*tensor.Tensor
	for i := range got {
		data, err := os.ReadFile(fmt.Sprintf("%s.out%d.npy", b.path, i))
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
			if slices.Equal(got[i].Shape(), want[i].Shape()) && x.excused(want, scale) && x.excused(got, scale) {
				return "equal", nil // rounding decides
			}
			return "", fmt.Errorf("result %d: %w", i, err)
		}
	}
	return "equal", nil
}
