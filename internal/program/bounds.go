package program

import "github.com/weirml/weir/internal/sym"

// Bounded reports whether data decide a tensor's size, within the bound for which its storage is planned.
func (p *Program) Bounded(t *Tensor) bool {
	return t.Class == Carved && !p.Storages[t.Of].Late && t.depends(p)
}

// Chosen returns the choices that the program's conditions state: data dimensions whose values are bounded together.
func (p *Program) Chosen() (out []sym.Choice) {
	data := map[sym.Name]bool{}
	for _, d := range p.Dims {
		data[d.Name] = d.Data && !d.Late()
	}
	for _, r := range p.Requires {
		if c, ok := sym.ChoiceOf(r.Cond, func(name sym.Name) bool { return data[name] }); ok {
			out = append(out, c)
		}
	}
	return out
}

// Most returns the bytes that are planned for a tensor, for values of the inputs' dimensions: those at the bounds of
// the dimensions that data decide.
func (p *Program) Most(t *Tensor, at func(name sym.Name) (int64, bool)) (int64, error) {
	dims, decided := sym.NewDims(), sym.Decided{Limits: map[sym.Name]sym.Expr{}, Choices: p.Chosen()}
	for _, d := range p.Dims {
		if dims.Set(d.Name, d.Range); d.Data {
			decided.Limits[d.Name] = d.Limit
		}
	}
	most, ok := decided.Largest(t.Bytes(), dims)
	if !ok {
		most = sym.AtLimits(most, decided.Limits)
	}
	return most.Eval(at)
}
