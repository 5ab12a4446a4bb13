package weir

import (
	"slices"
	"strings"
	"testing"

	"github.com/weirml/weir/internal/report"
	"github.com/weirml/weir/internal/sym"
)

// TestObserveWrong changes one buffer of a plan in each field: Observe does not call it equal to the launches'
// operands.
func TestObserveWrong(t *testing.T) {
	m, err := Load("examples/digits/data/digits.onnx")
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	p, err := Compile(t.Context(), m, Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	x, err := New(F32, 3, 1, 8, 8)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	in := Inputs{"image": x}
	d, err := p.Bind(in)
	if err != nil {
		t.Fatal(err)
	}
	_, ranges, err := p.measure(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	equal := func(change func(b *report.Buffer)) bool {
		_, plan, err := p.layout(d, nil)
		if err != nil {
			t.Fatal(err)
		}
		at := slices.IndexFunc(plan.Buffers, func(b report.Buffer) bool { return b.Storage == 0 && b.Last > b.First })
		change(&plan.Buffers[at])
		return plan.Observe(ranges).Equal
	}
	if !equal(func(*report.Buffer) {}) {
		t.Error("the plan as it is")
	}
	for name, change := range map[string]func(b *report.Buffer){
		"elsewhere": func(b *report.Buffer) {
			b.Offset += 64
		}, "shorter": func(b *report.Buffer) { b.Bytes-- }, "longer": func(b *report.Buffer) { b.Bytes++ },
		"in another storage": func(b *report.Buffer) {
			b.Storage++
		}, "gone too early": func(b *report.Buffer) {
			b.Last = b.First
		}, "there too late": func(b *report.Buffer) { b.First = b.Last },
	} {
		if equal(change) {
			t.Errorf("a buffer that is %s is not found out", name)
		}
	}
}

// TestLeast: a bound that the search proved beyond the lower bound is in the certificate; without a proof there is
// none.
func TestLeast(t *testing.T) {
	m, err := Load("examples/digits/data/digits.onnx")
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	p, err := Compile(t.Context(), m, Options{Threads: 1, Dims: map[string]Range{"batch": {Min: 2, Max: 2}}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	const row = "proven least of the arena"
	if text := p.memory.String(); strings.Contains(text, row) || p.memory.Least.String() != p.memory.LowerBound.String() {
		t.Errorf("nothing was refuted:\n%s", text)
	}
	p.compiled.Arena.Least = p.compiled.Arena.Arena.Sub(sym.Const(64))
	if p.memory = newMemory(p, 0); !strings.Contains(p.memory.String(), row) {
		t.Errorf("no word of what was refuted:\n%s", p.memory)
	}
	plan, err := p.Plan(Dims{"batch": 2})
	if err != nil || plan.Least != plan.Arena-64 {
		t.Errorf("the plan's least is %d of %d, %v", plan.Least, plan.Arena, err)
	}
}
