package convert

import (
	"context"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/sym"
)

// Rehearse converts the model for inputs and weights of these types, and returns the facts that the conversion found.
// It calls found with the results of each valid attempt.
func (m *Source) Rehearse(dims *sym.Dims, types map[string]ir.Type, found func(results []*ir.Value)) (a *Attempt,
	err error) {
	a = newAttempt(m, nil, nil)
	a.ranked = true
	return a, a.repeated(context.Background(), func() error {
		body := &ir.Block{}
		module := &ir.Module{Name: "main", Dims: dims.Clone(), Main: &ir.Func{Name: "main", Body: body}}
		module.Funcs = []*ir.Func{module.Main}
		b, given := ir.NewBuilder(ir.NewInference(module), body), map[string]*ir.Value{}
		for name, t := range types {
			for _, e := range t.Shape {
				for _, v := range e.Vars() {
					if _, ok := module.Dims.Get(v); !ok {
						module.Dims.Set(v, sym.Range{Min: 0, Max: sym.NoMax})
					}
				}
			}
			given[name] = b.Param(name, t)
		}
		results, err := m.ConvertInto(b, given, a)
		if err == nil {
			found(results)
		}
		return err
	})
}

// ConvertInto converts the model into a block, using the facts of earlier attempts. given has the values of the model's
// inputs and of some initializers.
func (m *Source) ConvertInto(b *ir.Builder, given map[string]*ir.Value, a *Attempt) (results []*ir.Value, err error) {
	defer ir.Catch(&err)
	a.inline = mostInlined(m.Proto)
	g := NewScope(m, b, a)
	g.given = given
	for _, p := range m.Inputs {
		if !p.Form().simple() {
			return nil, diag.Unsupportedf("an input that is %s, where arrays are given", p.Form()).AtTensor(p.Name)
		}
		g.names[p.Name] = given[p.Name]
	}
	var names []string
	for _, o := range m.Outputs {
		names = append(names, o.Name)
	}
	if err := g.convert(m.Proto.Graph, names); err != nil {
		return nil, err
	}
	for _, name := range names {
		v := g.Find(name)
		if v == nil {
			return nil, diag.Inputf("nothing computes output %q", name).AtTensor(name)
		}
		if f := g.FormOf(v); !f.simple() {
			return nil, diag.Unsupportedf("an output that is %s, where arrays are given", f).AtTensor(name)
		}
		results = append(results, v)
	}
	return results, nil
}
