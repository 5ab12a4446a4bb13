package signature

import (
	"maps"
	"slices"
	"strings"

	"github.com/weirml/weir/internal/compiler"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/sources"
)

// AddStates makes inputs of a module states: states maps the names of inputs to the outputs that are their new values.
// declared are the model's own outputs: a state is skipped if its output is one of them, but not one of s.Outputs.
func (s *Signature) AddStates(module *ir.Module, declared []Info, states map[string]string) error {
	for _, in := range slices.Sorted(maps.Keys(states)) {
		out := states[in]
		i, is := s.Input(in)
		if !is {
			return s.NoInput(in)
		}
		o := s.Output(out)
		if o < 0 && slices.ContainsFunc(declared, func(info Info) bool { return info.Name == out }) {
			continue // Options.Outputs leaves it out
		}
		if o < 0 {
			return diag.Inputf("no output %q, which is to be the state's new value; there are %s", out, List(s.Outputs)).
				AtTensor(in)
		}
		input, output := s.Inputs[i], s.Outputs[o]
		if !input.Info.Simple() || !output.Info.Simple() {
			return diag.Inputf("%s cannot be a state that becomes %s: only tensors of numbers can", input.Info, output.Info).
				AtTensor(in)
		}
		main := module.Main
		port, result := input.Parts[0], output.Parts[0]
		from, to := main.Body.Params[port], main.Body.Results[result]
		if slices.ContainsFunc(main.States, func(s ir.State) bool { return s.In == from || s.Out == result }) {
			return diag.Inputf("%s or %s is part of another state already", in, out).AtTensor(in)
		}
		if from.Type.String() != to.Type.String() {
			return diag.Inputf("it is %s, and %s, which is to be its new value, is %s", input.Info, out, output.Info).
				AtTensor(in).
				WithFix("name an output of the same type and shape: a cache in place has all of its length from the beginning")
		}
		if from.Bound {
			return diag.Inputf("it gives dimensions their values, and cannot be a state").AtTensor(in)
		}
		main.States = append(main.States, ir.State{In: from, Out: result})
	}
	return nil
}

// NarrowCaches stores the states that are caches as dt, and changes the element type of their inputs and outputs. If dt
// is neither BF16 nor I8, it does nothing. names are the names of the module's results. more are the names of the
// outputs that it adds, the scales of I8.
func (s *Signature) NarrowCaches(module *ir.Module, names []string, dt dtype.DType) (more []string, err error) {
	if dt != dtype.BF16 && dt != dtype.I8 {
		return nil, nil
	}
	narrowed, why := 0, "a cache's output is its input with elements replaced by a scatter"
	body := module.Main.Body
	inputs, outputs := len(body.Params), len(body.Results)
	if dt == dtype.BF16 {
		narrowed, err = compiler.NarrowCaches(module)
	} else {
		var states []ir.State
		states, err = compiler.CachesInBytes(module)
		for i := range states {
			more = append(more, freeName(names, names[states[i].Out]+".scale"))
		}
		narrowed, why = len(states),
			"a cache's output is its input with vectors, whole along the last axis, replaced by a scatter"
	}
	if err != nil {
		return nil, err
	}
	if narrowed == 0 {
		return nil, diag.Inputf("no state of f32 is a cache, which is to be stored as %s", dt).
			WithFix("name the caches in Options.States (--state INPUT=OUTPUT): %s", why)
	}
	s.declareNarrow(body, dt)
	takes, gives := addedEdges(s.Inputs, body.Params, inputs), addedEdges(s.Outputs, body.Results, outputs)
	for i, name := range more {
		gives[len(gives)-len(more)+i].Info.Name = name
	}
	for i := len(s.Inputs); i < len(takes); i++ { // scales begin as zeros
		scale := &takes[i].Info
		at, ok := s.Input(strings.TrimSuffix(scale.Name, ".scale"))
		scale.Initial = ok && s.Inputs[at].Info.Initial
	}
	s.Inputs, s.Outputs = takes, gives
	return more, nil
}

// freeName returns name, changed if necessary so that names does not contain it.
func freeName(names []string, name string) string {
	for slices.Contains(names, name) {
		name += "_"
	}
	return name
}

// addedEdges returns edges, and one more for each of values[from:].
func addedEdges(edges []Edge, values []*ir.Value, from int) []Edge {
	for i, info := range InfosOf(sources.PortsOf(values[from:])) {
		edges = append(slices.Clip(edges), Edge{info, []int{from + i}})
	}
	return edges
}

// declareNarrow sets the element type of the inputs and outputs whose values in body now have type dt instead of F32.
func (s *Signature) declareNarrow(body *ir.Block, dt dtype.DType) {
	for _, side := range []struct {
		edges  []Edge
		values []*ir.Value
	}{{s.Inputs, body.Params}, {s.Outputs, body.Results}} {
		for k, e := range side.edges {
			if e.Info.Simple() && e.Info.DType == dtype.F32 && side.values[e.Parts[0]].Type.DType == dt {
				side.edges[k].Info.DType = dt
			}
		}
	}
}
