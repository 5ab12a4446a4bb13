package command

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/planpage"
)

// attacks are names that would attack a page that does not escape names.
var attacks = []string{"</script><script>alert(1)</script>", "<img src=x onerror=alert(2)>",
	"\"'><svg onload=alert(3)>", "\u2028{{alert(4)}}", "javascript:alert(5)", "-->", "]]>"}

// hostilePage returns a page of the digits' plan with attacks as names.
func hostilePage(t *testing.T) []byte {
	t.Helper()
	m, err := weir.Load(digits)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	p, err := weir.Compile(context.Background(), m, weir.Options{Threads: 2, Calls: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	plan, err := p.Plan(weir.Dims{"batch": 4})
	if err != nil {
		t.Fatal(err)
	}
	for i := range plan.Buffers {
		b := &plan.Buffers[i]
		b.Tensor, b.Name, b.DType, b.Parts = attacks[i%len(attacks)], attacks[(i+1)%len(attacks)],
			attacks[(i+2)%len(attacks)], attacks
	}
	for i := range plan.Steps {
		plan.Steps[i].Nodes, plan.Steps[i].Name = attacks[i%len(attacks)], attacks[(i+3)%len(attacks)]
	}
	for i := range plan.Storages {
		plan.Storages[i].Name = attacks[i]
	}
	plan.Dims = weir.Dims{attacks[0]: 4}
	page := planpage.NewPlan(attacks[1], p, plan, attacks)
	page.Savings = []planpage.Saving{{Kind: attacks[0], Tensor: attacks[0], Text: attacks[1]}}
	var b bytes.Buffer
	if err := planpage.Write(&b, "</title>"+attacks[0], planpage.Data{Plans: []planpage.Plan{page, page},
		Diff: diffPlans(plan, plan)}); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// dataOf returns the data that a page's script reads.
func dataOf(t *testing.T, page []byte) (data planpage.Data) {
	t.Helper()
	_, rest, ok := bytes.Cut(page, []byte(`id="data">`))
	text, _, ok2 := bytes.Cut(rest, []byte("</script>"))
	if !ok || !ok2 {
		t.Fatal("the page has no data")
	}
	if err := json.Unmarshal(text, &data); err != nil {
		t.Fatalf("%v in %.200s", err, text)
	}
	return data
}

// TestPageFiles writes pages with the command: each is complete, needs no other file, and has the numbers of the
// certificate.
func TestPageFiles(t *testing.T) {
	file := filepath.Join(t.TempDir(), "plan.html")
	r := weirRun(t, "plan", digits, "--dim", "batch=64", "--calls", "2", "--html", file, "--actual", "--json")
	if r.code != 0 {
		t.Fatalf("%d %s", r.code, r.err)
	}
	var certificate struct {
		Arena  int64            `json:"arena_bytes"`
		Peak   int64            `json:"peak_bytes"`
		Bound  int64            `json:"lower_bound_bytes"`
		Actual *weir.PlanActual `json:"actual"`
	}
	if err := json.Unmarshal([]byte(r.out), &certificate); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	p := dataOf(t, page).Plans[0]
	if p.Name != "digits" || p.Plan.Arena != certificate.Arena || p.Plan.Peak != certificate.Peak ||
		p.Plan.LowerBound != certificate.Bound || len(p.Plan.Buffers) < 3 {
		t.Errorf("the page draws %+v, the certificate says %+v", p.Plan, certificate)
	}
	if !certificate.Actual.Equal || !p.Plan.Actual.Equal || p.Plan.Actual.Ranges == 0 {
		t.Errorf("actual: %+v", certificate.Actual)
	}
	if found := regexp.MustCompile(`(?i)(src|href|url|import|fetch|xmlhttp)\s*[=(]`).Find(page); found != nil ||
		bytes.Contains(page, []byte("://")) {
		t.Errorf("the page reaches outside itself: %s", found)
	}
}

// TestPageConditions: the page has the conditions of weir check.
func TestPageConditions(t *testing.T) {
	file := filepath.Join(t.TempDir(), "plan.html")
	if r := weirRun(t, "plan", "../../testdata/memory/checked/two_dims.weir", "--html", file); r.code != 0 {
		t.Fatalf("%d %s", r.code, r.err)
	}
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	want := []planpage.Condition{{Condition: "m*n ≤ 64", From: "carve %t of %s, line 8"}}
	if got := dataOf(t, page).Plans[0].Requires; !slices.Equal(got, want) {
		t.Errorf("the page has %v, want %v", got, want)
	}
}

// TestPageOfTable: a table of buffers has a page with the table's steps or, if there are many, with the steps at which
// a buffer begins or ends.
func TestPageOfTable(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]struct {
		rows  string
		steps []string
		spans [][2]int
		live  []int64
		peak  int
	}{
		"small": {"a,0,2,4\nb,1,3,8\nc,4,5,2", []string{"step 0", "step 1", "step 2", "step 3", "step 4"},
			[][2]int{{0, 1}, {1, 2}, {4, 4}}, []int64{4, 12, 8, 0, 2}, 1},
		"large": {"a,0,20000,4\nb,10000,30000,8\nc,30000,30001,2",
			[]string{"steps 0 to 9999", "steps 10000 to 19999", "steps 20000 to 29999", "step 30000"},
			[][2]int{{0, 1}, {1, 2}, {3, 3}}, []int64{4, 12, 8, 2}, 1},
		"empty": {"", nil, nil, nil, -1},
	} {
		table, file := filepath.Join(dir, name+".csv"), filepath.Join(dir, name+".html")
		if err := os.WriteFile(table, []byte("id,lower,upper,size\n"+c.rows), 0o600); err != nil {
			t.Fatal(err)
		}
		if r := weirRun(t, "plan", table, "--html", file); r.code != 0 {
			t.Fatalf("%s: %d %s", name, r.code, r.err)
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		page := dataOf(t, text).Plans[0]
		p := page.Plan
		var steps []string
		var live []int64
		for _, s := range p.Steps {
			steps, live = append(steps, s.Name), append(live, s.Live)
		}
		var spans [][2]int
		for i, b := range p.Buffers {
			spans = append(spans, [2]int{b.First, b.Last})
			for _, other := range p.Buffers[:i] {
				if b.First <= other.Last && other.First <= b.Last && b.Offset < other.Offset+other.Bytes && other.Offset < b.Offset+
					b.Bytes {
					t.Errorf("%s: %s and %s overlap", name, b.Name, other.Name)
				}
			}
			if b.Offset+b.Bytes > p.Arena {
				t.Errorf("%s: %s leaves the arena", name, b.Name)
			}
		}
		if !page.Table || !slices.Equal(steps, c.steps) || !slices.Equal(spans, c.spans) || !slices.Equal(live, c.live) ||
			p.PeakStep != c.peak || p.Arena != p.LowerBound {
			t.Errorf("%s: steps %q, buffers in %v, alive %v, peak in %d; %+v", name, steps, spans, live, p.PeakStep, p)
		}
	}
}

// TestDiff compares two models in the printed output, in JSON and on a page.
func TestDiff(t *testing.T) {
	file := filepath.Join(t.TempDir(), "diff.html")
	other := models + "two_dims/model.onnx"
	if r := weirRun(t, "plan", digits, "--diff", other, "--dim", "batch=8"); r.code != 0 ||
		!strings.Contains(r.out, "only in first") || !strings.Contains(r.out, "lower bound") {
		t.Errorf("%d\n%s%s", r.code, r.out, r.err)
	}
	if r := weirRun(t, "plan", digits, "--diff", other, "--dim", "nothing=8"); r.code != 1 ||
		!strings.Contains(r.err, "nothing") {
		t.Errorf("%d\n%s%s", r.code, r.out, r.err)
	}
	r := weirRun(t, "plan", digits, "--diff", artefact(t, digits), "--dim", "batch=8", "--html", file, "--json")
	var d struct {
		Terms   []termDiff   `json:"terms"`
		Tensors []tensorDiff `json:"tensors"`
		Same    int          `json:"same"`
	}
	if err := json.Unmarshal([]byte(r.out), &d); err != nil || len(d.Tensors) != 0 || d.Same < 3 || len(d.Terms) != 7 {
		t.Errorf("a model against its artefact: %v %s", err, r.out)
	}
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if data := dataOf(t, page); len(data.Plans) != 2 || data.Diff == nil || data.Plans[0].Name == data.Plans[1].Name {
		t.Errorf("the page has %d plans", len(data.Plans))
	}
}

// TestDiffPlans compares two plans made by hand.
func TestDiffPlans(t *testing.T) {
	storages := []weir.PlanStorage{{Name: "arena", Kind: "arena"}}
	a := &weir.Plan{Peak: 100, Storages: storages, Buffers: []weir.PlanBuffer{
		{Name: "same", Bytes: 4, Last: 3}, {Tensor: "wide", Name: "x1", Bytes: 8, Last: 1}, {Name: "twice", Bytes: 1},
		{Name: "twice", Bytes: 2}, {Name: "old", Bytes: 1}}}
	b := &weir.Plan{Peak: 90, Storages: storages, Buffers: []weir.PlanBuffer{
		{Name: "same", Bytes: 4, First: 5, Last: 8}, {Tensor: "wide", Name: "y7", Bytes: 16, Offset: 64, Last: 4},
		{Name: "twice", Bytes: 1}, {Name: "new", Bytes: 1}}}
	d := diffPlans(a, b)
	got := map[string]string{}
	for _, row := range d.Tensors {
		got[row.Tensor] = strings.Join(row.What, ", ")
	}
	want := map[string]string{"wide": "grown, moved, longer alive", "twice (2)": "only in first", "old": "only in first",
		"new": "only in second"}
	if d.Same != 2 || len(got) != len(want) || d.Tensors[0].Tensor != "wide" {
		t.Errorf("%d the same, %v", d.Same, got)
	}
	for name, what := range want {
		if got[name] != what {
			t.Errorf("%s: %q, want %q", name, got[name], what)
		}
	}
}

// TestHostileNames: a model's names are data on the page, in every position.
func TestHostileNames(t *testing.T) {
	page := hostilePage(t)
	if n := bytes.Count(page, []byte("<script")); n != 2 {
		t.Errorf("the page has %d scripts, two are its own", n)
	}
	if bytes.Contains(page, []byte("<img")) || bytes.Contains(page, []byte("<svg")) {
		t.Error("a name became an element")
	}
	if p := dataOf(t, page).Plans[0].Plan; p.Buffers[0].Tensor != attacks[0] {
		t.Errorf("the name is %q", p.Buffers[0].Tensor)
	}
}
