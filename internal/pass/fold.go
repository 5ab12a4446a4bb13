package pass

import (
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// foldable is the size up to which a result is folded whatever its inputs' sizes are.
const foldable = 64 << 10

// integersMost is the number of elements up to which a tensor known symbolically is written element by element.
const integersMost = 256

// Fold computes what depends on constants alone, and what is known from shapes alone. A constant never becomes larger than the
// inputs it is made of, beyond a small size: a file of a kilobyte must not unfold into a gigabyte.
func Fold(m *ir.Module) error {
	for _, f := range m.Funcs {
		if err := fold(m, f.Body); err != nil {
			return err
		}
	}
	return nil
}

func fold(m *ir.Module, b *ir.Block) error {
	kept := b.Nodes[:0]
	for _, n := range b.Nodes {
		if err := m.Ask(); err != nil {
			return err
		}
		for _, region := range n.Regions {
			if err := fold(m, region); err != nil {
				return err
			}
		}
		if folded(b, n) {
			continue
		}
		kept = append(kept, n)
	}
	b.Nodes = kept
	return nil
}

// folded makes the node's results constants, where that can be done.
func folded(b *ir.Block, n *ir.Node) bool {
	if len(n.Regions) > 0 || len(n.Outputs) == 0 {
		return false
	}
	if len(n.Outputs) == 1 && knownConstant(n.Outputs[0]) {
		b.Consts = append(b.Consts, n.Outputs[0])
		return true
	}
	if asIntegers(n) {
		return false
	}
	in := make([]*tensor.Tensor, len(n.Inputs))
	bytes := int64(foldable)
	for i, v := range n.Inputs {
		if v == nil {
			continue
		}
		if v.Const == nil {
			return false
		}
		in[i] = v.Const
		bytes += int64(len(v.Const.Bytes()))
	}
	for _, v := range n.Outputs {
		count := int64(1)
		for _, e := range v.Type.Shape {
			size, ok := e.Const()
			if !ok || size < 0 || size > 0 && count > bytes/size {
				return false
			}
			count *= size
		}
		if size, err := v.Type.DType.Bytes(count); v.Bound || err != nil || size > bytes || v.Type.DType == dtype.String {
			return false
		}
	}
	out, err := n.Op.Eval(&ir.Evaluation{Dims: map[string]int64{}}, n, in)
	if err != nil {
		return false // it is left to the run to say so
	}
	for i, v := range n.Outputs {
		v.Const, v.Node = out[i], nil
		b.Consts = append(b.Consts, v)
	}
	for _, t := range in {
		if t != nil {
			mem.Forget(t.Bytes()) // what was read of a mapped file need not stay in memory
		}
	}
	return true
}

// asIntegers makes a node whose result is known symbolically depend on nothing: what it computed it from may then be dead.
func asIntegers(n *ir.Node) bool {
	if len(n.Outputs) != 1 {
		return false
	}
	v := n.Outputs[0]
	if len(v.Known) == 0 || v.Bound || len(v.Known) > integersMost || n.Op.Name() == "integers" {
		return false
	}
	if count, ok := sym.Product(v.Type.Shape...).Const(); !ok || count != int64(len(v.Known)) {
		return false // the run decides its form
	}
	n.Op, _ = ir.Lookup("integers")
	n.Inputs, n.Attrs = nil, ir.Attrs{"dtype": v.Type.DType, "shape": v.Type.Shape, "elements": v.Known}
	return true
}

// knownConstant turns a value all of whose elements are numbers into a constant.
func knownConstant(v *ir.Value) bool {
	if v.Known == nil || v.Bound {
		return false
	}
	shape := make([]int64, len(v.Type.Shape))
	for i, e := range v.Type.Shape {
		size, ok := e.Const()
		if !ok {
			return false
		}
		shape[i] = size
	}
	t, err := tensor.New(v.Type.DType, shape...)
	if err != nil || t.Len() != int64(len(v.Known)) {
		return false
	}
	for i, e := range v.Known {
		value, ok := e.Const()
		if !ok {
			return false
		}
		t.SetInt(int64(i), value)
	}
	v.Const, v.Node = t, nil
	return true
}
