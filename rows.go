package weir

import (
	"cmp"

	"github.com/weirml/weir/internal/artefact"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/report"
	"github.com/weirml/weir/internal/signature"
)

// Rows returns nil if it is proved that the rows of a dimension are independent: dim is the first axis of each output
// and of some inputs, and row i of each output is computed from row i of these inputs, and from inputs without the
// dimension. Requests can then be joined into one run, as package batch does. Otherwise Rows returns ErrUnsupported,
// which names the first node that joins rows, depends on their number, or whose operator declares nothing about rows. A
// program with states, and one with inputs or outputs that are not tensors of numbers, is never proved.
//
// The proof is about what the model says, and an artefact repeats what it said. Kernels may add the same numbers in
// another order for another number of rows.
func (p *Program) Rows(dim string) error {
	j, known := p.joined[dim]
	refuse := func(format string, args ...any) *Error { return diag.Unsupportedf(format, args...).AtDim(dim) }
	for _, edges := range [][]signature.Edge{p.session.Inputs, p.session.Outputs} {
		for _, e := range edges {
			if !e.Info.Simple() || e.Info.State != "" || e.Info.Initial || e.Info.Shape == nil {
				return refuse("its rows are not proved to be independent: of tensors of numbers alone this is proved").
					AtTensor(e.Info.Name)
			}
		}
	}
	switch {
	case p.joined == nil:
		return refuse("the artefact does not say whether its rows are independent").
			WithFix("compile the model again with this weir")
	case !known:
		return refuse("it is not the first axis of an input")
	case j != (artefact.Joining{}):
		return refuse("its rows are not proved to be independent: %s", j.Detail).AtNode(j.Node, j.Op).AtTensor(j.Tensor)
	}
	return nil
}

// setJoined takes the reasons from the compiled program.
func (p *Program) setJoined() {
	labels := report.LabelsOf(p.compiled.Program)
	p.joined = map[string]artefact.Joining{}
	for name, j := range p.compiled.Apart {
		reason := artefact.Joining{}
		if j != nil {
			reason = artefact.Joining{Node: j.Node, Op: j.Op, Tensor: j.Tensor,
				Detail: cmp.Or(j.Detail, "it is not known why")}
		}
		if label, ok := labels.Of[name]; ok {
			p.joined[label] = reason
		}
	}
}
