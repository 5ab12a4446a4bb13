package weir

import (
	"context"
	"fmt"
	"slices"

	"github.com/weirml/weir/internal/compare"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/sources"
	"github.com/weirml/weir/internal/tensor"
)

// Difference is the first tensor, in the order of the model's nodes, that a program computes otherwise than the
// reference does.
type Difference struct {
	Tensor, Node, Op, Detail string
	// Hidden are tensors, in the order of the model's nodes, that the program does not compute by themselves: it computes
	// their nodes together with Tensor's, and Tensor is right if they are kept.
	Hidden []string `json:",omitempty"`
	// Exact says that nothing differs with Options.Exact: Tensor is computed by an algorithm that Exact leaves out, and
	// is further off than the tolerances.
	Exact bool `json:",omitempty"`

	model *Model
	found *compare.Difference
}

// String is one line.
func (d *Difference) String() string {
	text := fmt.Sprintf("%s, computed by %s (%s), differs from the reference: %s", d.Tensor, d.Node, d.Op, d.Detail)
	if d.Exact {
		text += "; nothing does with Options.Exact (--exact), and docs/accuracy.md has the bounds of what that leaves out"
	}
	if len(d.Hidden) == 1 {
		return text + fmt.Sprintf("; it does not if %s is kept", d.Hidden[0])
	} else if d.Hidden != nil {
		return text + fmt.Sprintf("; it does not if what is between %s and %s is kept", d.Hidden[0],
			d.Hidden[len(d.Hidden)-1])
	}
	return text
}

// Compare compiles the model as the zero Options do, and compares the program with the reference: see Program.Compare.
func (m *Model) Compare(ctx context.Context, in Inputs, rtol, atol float64) (d *Difference, err error) {
	p, err := Compile(ctx, m, Options{})
	if err != nil {
		return nil, err
	}
	defer p.Close()
	return p.Compare(ctx, in, rtol, atol)
}

// Compare runs the program, and interprets its model as it was imported, before any pass: node by node, each by its
// operator's plain meaning. It returns the first tensor that differs by more than the tolerances; nil if none does. The
// relative tolerance of an element is of its own magnitude, or of the mean magnitude of its neighbours along an axis,
// if that is more. It compares the program's own outputs first, then every tensor of the main graph, with the model
// compiled anew so that all of them are kept. If only what is not kept goes wrong, it keeps some tensors and not others
// until it has found which. A program of an artefact, which has no nodes, and one with states are ErrUnsupported.
func (p *Program) Compare(ctx context.Context, in Inputs, rtol, atol float64) (d *Difference, err error) {
	defer diag.Recover(&err, "comparing with the reference")
	if _, err := p.enter(); err != nil {
		return nil, err
	}
	defer p.engine.Leave()
	switch m := p.model; {
	case m.source.module() == nil:
		return nil, diag.Unsupportedf("an artefact has no nodes to compare with the reference").AtFile(m.file).
			WithFix("compare the model that it was compiled from")
	case slices.ContainsFunc(p.becomes, func(output int) bool { return output >= 0 }):
		return nil, diag.Unsupportedf("comparing a program with states, which a run changes").AtFile(m.file).
			WithFix("run it with --target reference, and compare the outputs")
	}
	lent := Inputs{}
	for name, a := range in {
		if t, tensor := a.(*Tensor); a == nil || tensor && t == nil {
			continue // bindInputs says what is missing
		}
		g := a.given()
		g.owner = lending // the runs are several
		lent[name] = g
	}
	done, err := p.model.read()
	if err != nil {
		return nil, err
	}
	defer done()
	c := &compare.Comparison{Context: ctx, Model: p.model.source.module(), Asked: p.options.asked(), RTol: rtol,
		ATol: atol}
	for _, e := range p.takes {
		c.Takes = append(c.Takes, e.port())
	}
	for _, o := range p.outputs {
		c.Outputs = append(c.Outputs, o.Name)
	}
	c.Run = func(outputs []string, exact bool) ([]sources.Value, error) {
		o := p.options
		o.Outputs, o.Exact, o.Calls, o.Budget, o.Tune, o.Stage, o.Logger = outputs, exact, 1, 0, false, nil, nil
		q, err := Compile(ctx, p.model, o)
		if err != nil {
			return nil, err
		}
		defer q.Close()
		return q.values(ctx, lent)
	}
	if err := p.interpret(c, lent); err != nil {
		return nil, inFile(err, p.model.file)
	}
	own, err := p.values(ctx, lent)
	if err != nil {
		return nil, err
	}
	found, err := c.Find(own, p.options.Exact)
	if found == nil || err != nil {
		return nil, err
	}
	return &Difference{found.Tensor, found.Node, found.Op, found.Detail, found.Hidden, found.Exact, p.model, found}, nil
}

// interpret has the reference evaluate the model on arguments.
func (p *Program) interpret(c *compare.Comparison, in Inputs) error {
	args, _, err := p.bindInputs(in)
	defer args.release()
	if err != nil {
		return err
	}
	if err := args.copyAll(p); err != nil {
		return err
	}
	inputs, err := p.unlaid(args, in)
	if err != nil {
		return err
	}
	return c.Interpret(inputs)
}

// values runs the program, and gives its results apart from its memory.
func (p *Program) values(ctx context.Context, in Inputs) (list []sources.Value, err error) {
	r, err := p.Run(ctx, in)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	ports := make([]*tensor.Tensor, len(r.ports))
	for i, t := range r.ports {
		var ok bool
		if ports[i], ok = t.enter(); !ok {
			return nil, diag.New(ErrClosed, "an argument was closed meanwhile")
		}
		defer t.leave()
	}
	for _, e := range p.gives {
		v, err := e.port().ValueOf(ports)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	return list, nil
}

// Save writes the differing node, and those of Hidden, with their inputs as a folder in ONNX's test layout, and what
// the reference gives as its expected output; dir "" makes a folder of its own among the temporary files. It returns
// the folder. Only nodes of an ONNX model can be saved.
func (d *Difference) Save(dir string) (string, error) { return d.found.Save(dir, d.model.read) }
