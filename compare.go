package weir

import (
	"context"
	"fmt"

	"github.com/weirml/weir/internal/compare"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/sources"
)

// Difference is the first tensor, in the order of the model's nodes, whose value differs between a program and the
// reference.
type Difference struct {
	Tensor, Node, Op, Detail string
	// Hidden are tensors, in the order of the model's nodes, that the program computes only inside the kernel of Tensor.
	// Tensor is correct if the program returns them as outputs.
	Hidden []string `json:",omitempty"`
	// Exact reports that no tensor differs with Options.Exact: an algorithm that Exact excludes computes Tensor, with an
	// error above the tolerances.
	Exact bool `json:",omitempty"`

	model *Model
	found *compare.Difference
}

// String describes the difference in one line.
func (d *Difference) String() string {
	text := fmt.Sprintf("%s, computed by %s (%s), differs from the reference: %s", d.Tensor, d.Node, d.Op, d.Detail)
	if d.Exact {
		text += "; no tensor differs with Options.Exact (--exact); docs/accuracy.md has the bounds of what it excludes"
	}
	if len(d.Hidden) == 1 {
		return text + fmt.Sprintf("; it does not differ if %s is kept", d.Hidden[0])
	} else if d.Hidden != nil {
		return text + fmt.Sprintf("; it does not differ if the tensors from %s to %s are kept", d.Hidden[0],
			d.Hidden[len(d.Hidden)-1])
	}
	return text
}

// Compare compiles the model with the zero Options, and compares the program with the reference: see Program.Compare.
func (m *Model) Compare(ctx context.Context, in Inputs, rtol, atol float64) (d *Difference, err error) {
	p, err := Compile(ctx, m, Options{})
	if err != nil {
		return nil, err
	}
	defer p.Close()
	return p.Compare(ctx, in, rtol, atol)
}

// Compare runs the program and the reference (see Target) on the same inputs, and returns the first tensor that differs
// by more than the tolerances; nil if none does. The relative tolerance applies to an element's own magnitude, or to
// the mean magnitude of its neighbours along an axis, if that is more. Compare checks the program's own outputs first,
// then all tensors of the main graph, in a program that is compiled to return them all. If only the original program is
// wrong, it searches for the tensors that must be outputs for the result to be correct. A program of an artefact, which
// has no nodes, and a program with states are ErrUnsupported.
func (p *Program) Compare(ctx context.Context, in Inputs, rtol, atol float64) (d *Difference, err error) {
	defer diag.Recover(&err, "comparing with the reference")
	if _, err := p.session.Enter(); err != nil {
		return nil, err
	}
	defer p.session.Leave()
	switch m := p.model; {
	case m.source.module() == nil:
		return nil, diag.Unsupportedf("an artefact has no nodes to compare with the reference").AtFile(m.file).
			WithFix("compare the model that it was compiled from")
	case len(p.States()) > 0:
		return nil, diag.Unsupportedf("comparing a program with states, which a run changes").AtFile(m.file).
			WithFix("run it with --target reference, and compare the outputs")
	}
	lent := in.lent() // the runs are several
	done, err := p.model.read()
	if err != nil {
		return nil, err
	}
	defer done()
	c := &compare.Comparison{Context: ctx, Model: p.model.source.module(), Asked: p.options.asked(), RTol: rtol,
		ATol: atol}
	for _, e := range p.session.Inputs {
		c.Takes = append(c.Takes, e.Port())
	}
	for _, e := range p.session.Outputs {
		c.Outputs = append(c.Outputs, e.Info.Name)
	}
	c.Run = func(outputs []string, exact bool) ([]sources.Value, error) {
		o := p.options
		o.Outputs, o.Exact, o.Calls, o.Budget, o.Tune, o.Stage, o.Logger = outputs, exact, 1, 0, false, nil, nil
		q, err := Compile(ctx, p.model, o)
		if err != nil {
			return nil, err
		}
		defer q.Close()
		return q.session.Values(ctx, lent)
	}
	if err := p.session.Ports(lent, c.Interpret); err != nil {
		return nil, inFile(err, p.model.file)
	}
	own, err := p.session.Values(ctx, lent)
	if err != nil {
		return nil, err
	}
	found, err := c.Find(own, p.options.Exact)
	if found == nil || err != nil {
		return nil, err
	}
	return &Difference{found.Tensor, found.Node, found.Op, found.Detail, found.Hidden, found.Exact, p.model, found}, nil
}

// Save writes the differing node, and the nodes of Hidden, with their inputs and the reference's output, as a folder in
// the layout of ONNX's tests. If dir is "", it makes a temporary folder. It returns the folder. Only nodes of an ONNX
// model can be saved.
func (d *Difference) Save(dir string) (string, error) { return d.found.Save(dir, d.model.read) }
