package weir

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/sym"
)

// Unbounded is the upper end of a dimension without one.
const Unbounded = sym.NoMax

// Dimension is a named dimension of a program's inputs.
type Dimension struct {
	Name     string
	Min, Max int64 // Max is Unbounded if there is no upper end
}

// Dims lists the dimensions that the inputs' shapes decide, by name, in the ranges that Requires leaves them.
func (p *Program) Dims() []Dimension {
	var out []Dimension
	ranges := p.ranges()
	for i, d := range p.compiled.Program.Dims {
		if !d.Data {
			r, _ := ranges.Get(sym.User(p.label(i)))
			out = append(out, Dimension{p.label(i), r.Min, r.Max})
		}
	}
	return out
}

// Check returns why a run with these dimensions would be refused at its entry: the error that Run would return, which
// names the condition, the values and where it is from. A dimension may be left out; conditions on it are then not
// checked.
func (p *Program) Check(d Dims) error {
	return p.compiled.Program.Admits(p.labels.Values(d))
}

// named refuses names that are no dimension's.
func (p *Program) named(d Dims) error {
	for _, name := range slices.Sorted(maps.Keys(d)) {
		if _, ok := p.labels.Find(name); ok {
			continue
		}
		known := make([]string, len(p.compiled.Program.Dims))
		for i := range known {
			known[i] = p.label(i)
		}
		slices.Sort(known)
		fix := "the program has no dimensions"
		if len(known) > 0 {
			fix = "its dimensions are " + strings.Join(known, ", ")
		}
		return diag.Inputf("the program has no dimension %q", name).AtDim(name).WithFix("%s", fix)
	}
	return nil
}

// ranges are the dimensions' ranges as callers' formulas have them, narrowed by the conditions that are checked when a
// run begins.
func (p *Program) ranges() *sym.Dims {
	data := map[sym.Name]bool{}
	for _, d := range p.compiled.Program.Dims {
		data[d.Name] = d.Data
	}
	var entry []sym.Cond
	for _, r := range p.compiled.Program.Requires {
		if !slices.ContainsFunc(slices.Concat(r.Cond.A.Vars(), r.Cond.B.Vars()), func(name sym.Name) bool {
			return data[name]
		}) {
			entry = append(entry, r.Cond)
		}
	}
	return p.labels.Dims(ir.Narrowed(p.compiled.Loop.Dims, entry...))
}

// Decided lists the dimensions that the data decide and that stand in the certificate's formulas, by name.
// Measurement.Decided has what a run found for them.
func (p *Program) Decided() []Dimension {
	names := p.decidedDims()
	var out []Dimension
	for i, d := range p.compiled.Program.Dims {
		if names[p.label(i)] {
			out = append(out, Dimension{p.label(i), d.Range.Min, d.Range.Max})
		}
	}
	return out
}

// decidedDims are the names of the dimensions that the data decide and that stand in the certificate's formulas.
func (p *Program) decidedDims() map[string]bool {
	named := map[string]bool{}
	for _, name := range p.memory.Formula(1).Dims() {
		named[name] = true
	}
	out := map[string]bool{}
	for i, d := range p.compiled.Program.Dims {
		if d.Data && named[p.label(i)] {
			out[p.label(i)] = true
		}
	}
	return out
}

// Proved lists the conditions that the compiler needed and proved for every value of the dimensions.
func (p *Program) Proved() []Condition {
	return slices.Clone(p.proved)
}

// Operations is the arithmetic of one run, each addition and multiplication counted, as a formula over the dimensions.
// The bodies of loops count once.
func (p *Program) Operations() Size {
	return Size{p.labels.Show(p.compiled.Operations()), p.labels.Dims(p.compiled.Loop.Dims)}
}

// CPU is the level of instructions that the program's code was made for, as Options.CPU and Probe name them.
func (p *Program) CPU() string { return cmp.Or(p.compiled.Code.Machine.CPU, "portable") }

// Description is what a model file says of itself.
type Description struct {
	Format     string          `json:"format"`
	Producer   string          `json:"producer"`
	Opsets     []string        `json:"opsets"`
	Inputs     []string        `json:"inputs"`
	Outputs    []string        `json:"outputs"`
	Parameters []ParameterInfo `json:"parameters"`
	// a formula where the model has free dimensions; "" where it does not compile
	Operations  string         `json:"operations"`
	Ops         map[string]int `json:"ops"`
	Nodes       []NodeInfo     `json:"nodes"`
	Unsupported []string       `json:"unsupported"`
	Tuned       []Tuning       `json:"tuned,omitempty"` // of an artefact: see Program.Tuned
}

// ParameterInfo is the parameters of one element type.
type ParameterInfo struct {
	DType string `json:"dtype"`
	Count int64  `json:"count"`
	Bytes int64  `json:"bytes"`
}

// NodeInfo is one node: of the main graph, or, with the path to it in its name, of a graph within a node or of a
// function.
type NodeInfo struct {
	Name    string   `json:"name"`
	Op      string   `json:"op"`
	Inputs  []string `json:"inputs"`
	Outputs []string `json:"outputs"`
}

// Describe tells what the file holds.
func (m *Model) Describe() Description { return m.source.describe(m.read) }

// ValueRange is the range of values that the elements of an integer input, such as token ids, may have: use it to check
// requests, or to draw values for a test. It is known as far as the program checks them when they become indices: from
// 0 up, though an index may also count from the end. ok is false if nothing is known of them.
func (p *Program) ValueRange(input string, d Dims) (lo, hi int64, ok bool) {
	return p.compiled.Legal(input, p.labels.Values(d))
}

// label is what callers call a dimension of the program.
func (p *Program) label(dim int) string { return p.labels.Of[p.compiled.Program.Dims[dim].Name] }
