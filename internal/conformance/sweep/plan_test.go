package sweep

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/weirtest"
)

// overlaps lists pairs of buffers that share bytes while both are live, except buffers that are computed in another's
// place.
func overlaps(p *weir.Plan) (pairs [][2]string) {
	for i, a := range p.Buffers {
		for j, b := range p.Buffers[:i] {
			together := a.First <= b.Last && b.First <= a.Last && !slices.Contains(a.Over, j) && !slices.Contains(b.Over, i)
			if together && a.Storage == b.Storage && a.Offset < b.Offset+b.Bytes && b.Offset < a.Offset+a.Bytes {
				pairs = append(pairs, [2]string{a.Name, b.Name})
			}
		}
	}
	return pairs
}

// TestPlan compares plans with the certificate: the sizes are those that it counts.
func TestPlan(t *testing.T) {
	files, err := filepath.Glob("testdata/onnx/*/model.onnx")
	if err != nil || len(files) < 50 {
		t.Fatalf("%d models: %v", len(files), err)
	}
	drawn := 0
	for i, file := range append([]string{"examples/digits/data/digits.onnx"}, files...) {
		if control := strings.Contains(file, "/if_") || strings.Contains(file, "/loop_") ||
			strings.Contains(file, "/sequences"); i%4 != 0 && !control {
			continue
		}
		m, err := weir.Load(file)
		if err != nil {
			t.Fatal(err)
		}
		p, err := weir.Compile(context.Background(), m, weir.Options{Threads: 2, Calls: 3})
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		d := weir.Dims{}
		for k, dim := range slices.Concat(p.Dims(), p.Decided()) {
			d[dim.Name] = max(dim.Min, min(dim.Max, int64(4+k)))
		}
		plan, err := p.Plan(d)
		if err != nil {
			t.Errorf("%s: %v", file, err)
		} else {
			checkPlan(t, file, p, plan)
			drawn += len(plan.Buffers)
		}
		p.Close()
		m.Close()
	}
	if drawn < 150 {
		t.Errorf("only %d buffers were laid out", drawn)
	}
}

// checkPlan compares a plan with the certificate of its program.
func checkPlan(t *testing.T, file string, p *weir.Program, plan *weir.Plan) {
	t.Helper()
	if pairs := overlaps(plan); len(pairs) > 0 {
		t.Errorf("%s: alive together in the same place: %v", file, pairs)
	}
	high := map[string]int64{}
	for i, s := range plan.Storages {
		end := int64(0)
		for _, b := range plan.Buffers {
			if b.Storage == i && b.Bytes > 0 {
				end = max(end, b.Offset+b.Bytes)
			}
			if b.First < 0 || b.Last < b.First || len(plan.Steps) > 0 && b.Last >= len(plan.Steps) {
				t.Errorf("%s: %s is alive from %d to %d of %d steps", file, b.Name, b.First, b.Last, len(plan.Steps))
			}
		}
		if end != s.Bytes {
			t.Errorf("%s: the highest buffer of %s ends at %d of %d bytes", file, s.Name, end, s.Bytes)
		}
		high[s.Kind] += s.Bytes
	}
	if high["arena"] != plan.Arena || high["outputs"] != plan.Outputs {
		t.Errorf("%s: storages of %v, the certificate has an arena of %d and outputs of %d", file, high, plan.Arena,
			plan.Outputs)
	}
	if sum := plan.Weights + plan.Code + int64(plan.Calls)*(plan.Arena+plan.Outputs+
		int64(plan.Workers)*plan.Scratch); sum != plan.Peak {
		t.Errorf("%s: the terms add up to %d, the peak is %d", file, sum, plan.Peak)
	}
	for i, s := range plan.Steps {
		if s.Live > plan.LowerBound {
			t.Errorf("%s: %d bytes alive at step %d, over the lower bound of %d", file, s.Live, i, plan.LowerBound)
		}
	}
	if plan.PeakStep < 0 {
		return
	}
	_, alive, err := p.Memory().PeakAt(plan.Dims)
	if err != nil {
		t.Fatal(err)
	}
	var sum int64
	for _, a := range alive {
		sum += a.Bytes
	}
	if live := plan.Steps[plan.PeakStep].Live; live != sum {
		t.Errorf("%s: %d bytes alive at the peak, step %d, the certificate has %d", file, live, plan.PeakStep, sum)
	}
}

// TestObserve compares plans with the operands that launches received.
func TestObserve(t *testing.T) {
	p, plan := weirtest.PlanOf(t, "examples/digits/data/digits.onnx", weir.Dims{"batch": 3}, weir.Options{})
	x, err := weir.New(weir.F32, 3, 1, 8, 8)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	seen, err := p.Observe(context.Background(), weir.Inputs{"image": x})
	if err != nil {
		t.Fatal(err)
	}
	a := seen.Actual
	if !a.Equal || a.Ranges < 5 || a.Arena != plan.Arena || a.Outputs != plan.Outputs || a.Scratch != plan.Scratch {
		t.Errorf("%+v of a plan with arena %d, outputs %d, scratch %d", a, plan.Arena, plan.Outputs, plan.Scratch)
	}
	for i, b := range seen.Buffers {
		if b.Reached != b.Bytes || plan.Buffers[i].Reached != -1 || plan.Buffers[i].Offset != b.Offset {
			t.Errorf("%+v, not watched %+v", b, plan.Buffers[i])
		}
	}
	if _, err := p.Plan(nil); err == nil {
		t.Error("a plan without a batch")
	}
	if _, err := p.Plan(weir.Dims{"batch": -1}); err == nil {
		t.Error("a plan of a negative batch")
	}
}

// TestObserveSpill: buffers that are spilled to a file and fetched back are in the plan as well.
func TestObserveSpill(t *testing.T) {
	s := sweptModels[slices.IndexFunc(sweptModels, func(w swept) bool { return w.name == "long_skips" })].prepare(t)
	plan, err := s.shared.Observe(t.Context(), s.in)
	if err != nil {
		t.Fatal(err)
	}
	spilled := 0
	for _, b := range plan.Buffers {
		if plan.Storages[b.Storage].Kind == "spill" && b.Reached == b.Bytes {
			spilled++
		}
	}
	if a := plan.Actual; !a.Equal || spilled == 0 {
		t.Errorf("%d buffers in a file, %+v", spilled, a)
	}
}
