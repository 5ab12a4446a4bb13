package torch

import (
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// states are the buffers, parameters and inputs that a program updates.
type states struct {
	changed map[string]bool           // buffers and parameters with a new value, by their names in the model
	initial map[string]*tensor.Tensor // the first values, by the names of the inputs that the buffers become
	// The values that may be updated: buffers by their names, the user's inputs by "input " and their names.
	inputs map[string]*ir.Value
}

// mutation is an output that is the new value of a buffer, a parameter or an input.
type mutation struct {
	Buffer    string `json:"buffer_name"`
	Parameter string `json:"parameter_name"`
	Input     string `json:"user_input_name"`
}

// mutationOf returns the mutation that an output's kind and description declare; ok is false for a result of the user.
func mutationOf(spec outputSpec) (m mutation, ok bool, err error) {
	if len(spec) != 1 {
		return m, false, diag.Inputf("an output of %d kinds", len(spec))
	}
	for kind, text := range spec {
		switch kind {
		case "user_output":
			return m, false, nil
		case "buffer_mutation", "parameter_mutation", "user_input_mutation":
			err := (&argument{kind, text}).into(&m)
			return m, true, err
		default:
			err = diag.Unsupportedf("an output of the kind %s", kind).WithFix("export the model in evaluation mode")
		}
	}
	return m, false, err
}

// key returns the name of the updated tensor in states.inputs.
func (m mutation) key() string {
	if m.Input != "" {
		return "input " + m.Input
	}
	return m.Buffer + m.Parameter
}

// statesOf returns the buffers, parameters and inputs that a program updates.
func statesOf(p *exportedProgram) (s states, err error) {
	s = states{changed: map[string]bool{}, initial: map[string]*tensor.Tensor{}, inputs: map[string]*ir.Value{}}
	for _, spec := range p.GraphModule.Signature.Outputs {
		m, ok, err := mutationOf(spec)
		if err != nil {
			return s, err
		}
		if ok && m.Input == "" {
			s.changed[m.key()] = true
		}
	}
	return s, nil
}

// state adds an input for a buffer that the program updates; first is its value in the file.
func (g *graph) state(name string, first *tensor.Tensor) *ir.Value {
	v := g.Param(name, ir.Type{DType: first.DType(), Shape: ir.Constants(first.Shape())})
	g.states.inputs[name], g.states.initial[v.Name] = v, first
	return v
}

// results collects the outputs of a program and their names.
type results struct {
	*graph
	returned map[*ir.Value]bool
	called   map[string]*ir.Value // the values of the body by their names
}

// outputs adds the program's results: those of the user, then the new values of states.
func (g *graph) outputs() error {
	graph, specs, main := g.json, g.program.GraphModule.Signature.Outputs, g.module.Main
	if len(specs) != len(graph.Outputs) {
		return diag.Inputf("%d outputs, of which %d are described", len(graph.Outputs), len(specs))
	}
	r := results{g, map[*ir.Value]bool{}, map[string]*ir.Value{}}
	for _, n := range main.Body.Nodes {
		for _, v := range n.Outputs {
			r.called[v.Name] = v
		}
	}
	for _, v := range append(main.Body.Params, main.Body.Consts...) {
		r.called[v.Name] = v
	}
	for _, updates := range []bool{false, true} {
		for i, out := range graph.Outputs {
			m, is, err := mutationOf(specs[i])
			if err != nil {
				return err
			}
			if is != updates || !is && out.kind == "as_none" {
				continue
			}
			v, err := g.output(out)
			if err != nil {
				return err
			}
			if !is {
				var n named
				_ = out.into(&n) // output has read it
				r.add(v, n.Name)
			} else if err := r.update(m, v); err != nil {
				return err
			}
		}
	}
	for _, in := range g.updates() { // the new values that operators in place wrote
		if err := r.update(in.what, g.read(g.aliases[in.name])); err != nil {
			return err
		}
	}
	return nil
}

// output returns the value that an output of the graph names.
func (g *graph) output(out argument) (*ir.Value, error) {
	var n named
	if out.kind != "as_tensor" {
		return nil, diag.Unsupportedf("an output of the kind %s; outputs are tensors", out.kind)
	}
	if err := out.into(&n); err != nil {
		return nil, err
	}
	if g.imaginary[n.Name] != nil {
		return nil, diag.Unsupportedf("the output %s of complex numbers", n.Name).AtTensor(n.Name)
	}
	v := (&call{graph: g}).componentOf(n.Name)
	if v == nil {
		return nil, diag.Inputf("nothing computes output %s", n.Name).AtTensor(n.Name)
	}
	return v, nil
}

// add adds a result with the value v. If v is an input or already a result, it adds a copy.
func (r *results) add(v *ir.Value, name string) {
	if v.Node == nil || r.returned[v] { // v is an input, or already a result
		v = ops.Reshape(r.Builder, v, v.Type.Shape...)
	}
	r.returned[v] = true
	body := r.module.Main.Body
	body.Results = append(body.Results, v)
	if other := r.called[name]; other != nil && other.Node == nil && other.Const == nil { // inputs keep their names
		name = r.Name(name)
	} else if other != nil { // the owner of the name takes v's name
		other.Name, r.called[v.Name] = v.Name, other
	}
	v.Name, r.called[name] = name, v
}

// update adds a result with the new value v of a state.
func (r *results) update(m mutation, v *ir.Value) error {
	if err := r.alone(m); err != nil {
		return err
	}
	in := r.states.inputs[m.key()]
	if in == nil {
		return diag.Inputf("a new value of %s, which is no input or is updated twice", m.Buffer+m.Parameter+m.Input)
	}
	delete(r.states.inputs, m.key())
	if in.Type.DType != v.Type.DType || len(in.Type.Shape) != len(v.Type.Shape) {
		return diag.Inputf("%s is %s, and its new value is %s", in.Name, in.Type, v.Type).AtTensor(in.Name)
	}
	for axis, extent := range in.Type.Shape {
		if err := r.RequireOf("", "state", 0, sym.Cond{A: extent, Rel: sym.EQ, B: v.Type.Shape[axis]},
			"a state keeps its shape"); err != nil {
			return err
		}
	}
	if in.Bound {
		return diag.Unsupportedf("%s gives sizes their values, and is updated", in.Name).AtTensor(in.Name)
	}
	if in.Type.String() != v.Type.String() || v.Node == nil {
		v = ops.Reshape(r.Builder, v, in.Type.Shape...)
	}
	main := r.module.Main
	r.add(v, in.Name+".new")
	main.States = append(main.States, ir.State{In: in, Out: len(main.Body.Results) - 1})
	return nil
}
