package weir

import (
	"cmp"
	"slices"

	"github.com/weirml/weir/internal/certificate"
	"github.com/weirml/weir/internal/sym"
)

// Unbounded is the Max of a dimension without an upper bound.
const Unbounded = sym.NoMax

// Dimension is a named dimension of a program, with the range of its sizes.
type Dimension struct {
	Name     string
	Min, Max int64 // Max is Unbounded if there is no upper bound
	// From is the origin of the condition of the model that leaves the dimension one value; "" if there is none.
	From string
}

// Dims lists the dimensions that the inputs determine, by their shapes or by elements that are sizes. The conditions of
// Requires narrow the ranges. See Decided for dimensions that other data determine.
func (p *Program) Dims() []Dimension {
	var out []Dimension
	ranges := certificate.Ranges(p.compiled, p.labels)
	for i, d := range p.compiled.Program.Dims {
		if !d.Data {
			r, _ := ranges.Get(sym.User(p.label(i)))
			dim := Dimension{Name: p.label(i), Min: r.Min, Max: r.Max}
			if r.Min == r.Max {
				dim.From = p.fixedBy(d.Name)
			}
			out = append(out, dim)
		}
	}
	return out
}

// fixedBy returns the origin of the condition that leaves a dimension one value; "" if there is none.
func (p *Program) fixedBy(name sym.Name) (from string) {
	for _, c := range p.compiled.Program.Requires {
		if names := c.Cond.Vars(); c.Cond.Rel == sym.EQ && len(names) == 1 && names[0] == name {
			from = c.From
		}
	}
	return from
}

// Check returns the error with which a run with these dimensions would be refused before any kernel runs, or nil. The
// error names the condition, the values and the origin of the condition. Conditions on dimensions that are not in d are
// not checked.
func (p *Program) Check(d Dims) error {
	return p.compiled.Program.Admits(p.labels.Values(d))
}

// Decided lists the dimensions in the certificate's formulas whose sizes depend on the data, by name.
// Measurement.Decided has the sizes that a run found.
func (p *Program) Decided() []Dimension {
	names := p.decidedDims()
	var out []Dimension
	for i, d := range p.compiled.Program.Dims {
		if names[p.label(i)] {
			out = append(out, Dimension{Name: p.label(i), Min: d.Range.Min, Max: d.Range.Max})
		}
	}
	return out
}

// decidedDims returns the names of the dimensions that Decided lists.
func (p *Program) decidedDims() map[string]bool {
	return certificate.Decided(p.compiled.Program, p.labels, p.memory.Formula(1).x)
}

// Proved lists the conditions that the compiler proved for all values of the dimensions.
func (p *Program) Proved() []Condition {
	return slices.Clone(p.proved)
}

// Operations returns the number of arithmetic operations of one run, as a formula over the dimensions. The body of a
// loop counts once, and a branch counts as its first body.
func (p *Program) Operations() Size {
	return Size{p.labels.Show(p.compiled.Operations()), p.labels.Dims(p.compiled.Loop.Dims)}
}

// CPU returns the level of instructions that the program's code uses, as named by Options.CPU and Probe.
func (p *Program) CPU() string { return cmp.Or(p.compiled.Code.Machine.CPU, "portable") }

// Description is the content of a model file.
type Description struct {
	Format     string          `json:"format"`
	Producer   string          `json:"producer"`
	Opsets     []string        `json:"opsets"`
	Inputs     []string        `json:"inputs"`
	Outputs    []string        `json:"outputs"`
	Parameters []ParameterInfo `json:"parameters"`
	// Operations is a formula if the model has free dimensions, and "" if the model does not compile.
	Operations  string         `json:"operations"`
	Ops         map[string]int `json:"ops"`
	Nodes       []NodeInfo     `json:"nodes"`
	Unsupported []string       `json:"unsupported"`
	Tuned       []Tuning       `json:"tuned,omitempty"` // of an artefact: see Program.Tuned
}

// ParameterInfo counts the parameters of one element type.
type ParameterInfo struct {
	DType string `json:"dtype"`
	Count int64  `json:"count"`
	Bytes int64  `json:"bytes"`
}

// NodeInfo is a node of the main graph, or, with a path in its name, of a subgraph or a function.
type NodeInfo struct {
	Name    string   `json:"name"`
	Op      string   `json:"op"`
	Inputs  []string `json:"inputs"`
	Outputs []string `json:"outputs"`
}

// Describe returns a description of the model's file.
func (m *Model) Describe() Description { return m.source.describe(m.read) }

// ValueRange returns the range of values that an integer input, such as token ids, may contain: use it to check
// requests, or to draw values for a test. The range follows from the checks of indices in the program: it starts at 0,
// although an index may also count from the end. ok is false if the program does not check the input's values.
func (p *Program) ValueRange(input string, d Dims) (lo, hi int64, ok bool) {
	return p.compiled.Legal(input, p.labels.Values(d))
}

// label returns the public name of a dimension of the program.
func (p *Program) label(dim int) string { return p.labels.Of[p.compiled.Program.Dims[dim].Name] }
