package ops

import (
	"fmt"
	"math"
	"slices"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// interpretDef is the operator of Interpreted's one node. It is not registered, so that no file can contain it.
var interpretDef = &Def{Op: "interpret", NoGrad: "it runs a module separately", Shape: interpretShape,
	Mean: interpretMean,
	Host: "interpret"}

// interpreter is a module as a host operator takes it.
type interpreter struct{ module *ir.Module }

// Interpret evaluates the module.
func (m interpreter) Interpret(in []*tensor.Tensor, ask func() error) ([]*tensor.Tensor, error) {
	e := ir.NewEvaluation(nil)
	e.Ask = ask
	return e.Main(m.module, in)
}

// Interpreted returns a module of one node, which interprets all of m. It has m's inputs and states, and the dimensions
// and conditions of m that are about inputs alone, and gives the same results. A result's extent that depends on data
// becomes a dimension that the node finds.
func Interpreted(m *ir.Module) *ir.Module {
	data := func(e sym.Expr) bool {
		return slices.ContainsFunc(e.Vars(), func(name sym.Name) bool { _, data := m.Limits[name]; return data })
	}
	to := &ir.Module{Name: m.Name, Dims: m.Dims.Empty(), Limits: map[sym.Name]sym.Expr{}, Origins: map[sym.Name]string{},
		Proved: m.Proved, Meta: m.Meta, Check: m.Check}
	for _, p := range m.Main.Body.Params {
		for _, e := range slices.Concat(p.Type.Shape, p.Known) {
			for _, name := range e.Vars() {
				r, _ := m.Dims.Get(name)
				to.Dims.Set(name, r)
				to.Origins[name] = m.Origins[name]
			}
		}
	}
	for _, r := range m.Requires {
		if !data(r.Cond.A) && !data(r.Cond.B) {
			to.Requires = append(to.Requires, r)
		}
	}
	body := &ir.Block{Params: m.Main.Body.Params}
	to.Main = &ir.Func{Name: m.Main.Name, Body: body, States: m.Main.States}
	to.Funcs = []*ir.Func{to.Main}
	n := &ir.Node{Op: interpretDef, Inputs: body.Params, Attrs: ir.Attrs{"model": interpreter{m}}}
	fresh, found := ir.NewInference(to), map[string]sym.Expr{}
	for i, v := range m.Main.Body.Results {
		t := ir.Type{DType: v.Type.DType, Shape: slices.Clone(v.Type.Shape)}
		for axis, e := range t.Shape {
			if !data(e) {
				continue
			}
			if _, again := found[e.String()]; !again {
				name, alone := e.Name()
				hint, origin := name.Text(), m.Origins[name]
				if !alone {
					hint, origin = fmt.Sprintf("%s.%d", v.Name, axis), fmt.Sprintf("extent %d of %s", axis, v.Name)
				}
				most := sym.Unlimited
				if _, hi := m.Dims.Bounds(e); hi != math.MaxInt64 {
					most = sym.Const(hi)
				}
				found[e.String()] = fresh.Fresh(hint, origin, 0, most)
			}
			t.Shape[axis] = found[e.String()]
		}
		n.Outputs = append(n.Outputs, &ir.Value{Name: v.Name, Type: t, Node: n, Index: i})
	}
	body.Nodes, body.Results = []*ir.Node{n}, n.Outputs
	return to
}

// interpretShape refuses the operator in a file.
func interpretShape(*ir.Inference, *ir.Node) error {
	return diag.Inputf("interpret is the compiler's own operator")
}

// interpretMean evaluates the module.
func interpretMean(e *ir.Evaluation, n *ir.Node, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	return n.Attrs["model"].(interpreter).Interpret(in, e.Ask)
}
