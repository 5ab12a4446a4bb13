package compiler

import (
	"errors"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/sym"
)

// countable returns an error if a tensor whose dimensions each have one value has a size in bytes that does not fit in
// 64 bits.
func countable(m *ir.Module) error {
	value := func(name sym.Name) (int64, bool) {
		r, ok := m.Dims.Get(name)
		return r.Min, ok && r.Min == r.Max
	}
	for _, n := range m.Main.Body.Nodes {
		for _, v := range n.Outputs {
			bytes := sym.Product(v.Type.Shape...).Mul(sym.Const(int64(v.Type.DType.Bits()))).CeilDiv(sym.Const(8))
			if _, err := bytes.Eval(value); !errors.Is(err, sym.ErrOverflow) || len(bytes.Vars()) == 0 {
				continue
			}
			labels := sym.Labels(m.Dims.Names())
			with := sym.Bindings(bytes.Vars(), labels, m.Origins, sym.Numbers(value))
			e := diag.Inputf("%s bytes are more than 64 bits count, with %s", bytes.Shown(labels), with)
			return e.AtTensor(v.Name).AtNode(n.Source, n.Op.Name()).WithFix("give the dimensions smaller values")
		}
	}
	return nil
}

// possible returns an error if a condition of the module holds for no value in its dimensions' ranges, which may be
// narrower than when it was built.
func possible(m *ir.Module) error {
	for _, r := range m.Requires {
		if m.Dims.Prove(r.Cond) == sym.No {
			labels, names := sym.Labels(m.Dims.Names()), r.Cond.Vars()
			e := diag.Inputf("%s can never hold with %s", r.Cond.Shown(labels).Words(),
				sym.Bindings(names, labels, nil, m.Dims.Ranges)).From(r.From)
			if len(names) == 1 {
				e = e.AtDim(labels[names[0]])
			}
			return e.AtTensor(r.Tensor).WithFix("give the dimensions other ranges")
		}
	}
	return nil
}
