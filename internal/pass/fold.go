package pass

import (
	"math"
	"slices"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// foldable is the size up to which a result is folded whatever its inputs' sizes are.
const foldable = 64 << 10

// integersMost is the number of elements up to which a tensor known symbolically is written element by element.
const integersMost = 256

// foldWork limits the work of one application of Fold, in elements read, written or multiplied: a fraction of a second.
// Nodes beyond it are left to the run.
const foldWork = 1 << 25

// foldBytes limits the size of all folded results together, beyond the size of the module's constants.
const foldBytes = 32 << 20

// Fold computes the nodes that depend on constants alone, or whose results are known from shapes alone. A result may be
// at most foldable bytes larger than its inputs, and all results together at most foldBytes larger than the module's
// constants: a file of a kilobyte must not unfold into a gigabyte, nor keep the compiler busy.
func Fold(m *ir.Module) error { return fold(m, false) }

// FoldFirst is Fold, but leaves the dequantize of constant bytes that a product multiplies with other dequantized
// bytes: Integers computes it from the bytes.
func FoldFirst(m *ir.Module) error { return fold(m, true) }

// fold is Fold, or FoldFirst if first is true.
func fold(m *ir.Module, first bool) error {
	f := &folding{module: m, work: foldWork, bytes: foldBytes, kept: map[*ir.Node]bool{}}
	for _, each := range m.Funcs {
		f.count(each.Body)
		if first {
			f.keep(each.Body)
		}
	}
	for _, each := range m.Funcs {
		if err := f.block(each.Body); err != nil {
			return err
		}
	}
	return nil
}

// folding is the state of Fold: work and bytes are what it may still spend.
type folding struct {
	module      *ir.Module
	work, bytes int64
	kept        map[*ir.Node]bool
}

// keep finds the nodes that FoldFirst leaves.
func (f *folding) keep(b *ir.Block) {
	for _, n := range b.Nodes {
		if rewrites(integers, n) {
			if w := producer(n.Inputs[1], "dequantize"); w != nil && producer(n.Inputs[0], "dequantize") != nil &&
				w.Inputs[0].Type.DType.Bits() == 8 {
				f.kept[w] = true
			}
		}
		for _, region := range n.Regions {
			f.keep(region)
		}
	}
}

// count adds the sizes of a block's constants to the bytes that results may take.
func (f *folding) count(b *ir.Block) {
	for _, c := range b.Consts {
		if c.Const != nil {
			f.bytes += c.Const.Size()
		}
	}
	for _, n := range b.Nodes {
		for _, region := range n.Regions {
			f.count(region)
		}
	}
}

// block folds the nodes of a block and of its regions.
func (f *folding) block(b *ir.Block) error {
	kept := b.Nodes[:0]
	for _, n := range b.Nodes {
		if err := f.module.Ask(); err != nil {
			return err
		}
		for _, region := range n.Regions {
			if err := f.block(region); err != nil {
				return err
			}
		}
		if f.folded(b, n) {
			continue
		}
		kept = append(kept, n)
	}
	b.Nodes = kept
	return nil
}

// spend subtracts the cost of a node, whose operands have read and whose results written elements, from the limits;
// false if too little is left.
func (f *folding) spend(n *ir.Node, read, written, bytes int64) bool {
	work := read + written
	switch of := ops.Of(n); {
	case of.Products != nil:
		work += times(written, of.Products(n))
	case !of.Linear && !of.Elementwise:
		work = times(read+1, written+1)
	}
	if work > f.work || bytes > f.bytes {
		return false
	}
	f.work, f.bytes = f.work-work, f.bytes-bytes
	return true
}

// times returns the product of two numbers that are not negative, at most math.MaxInt64/2.
func times(x, y int64) int64 {
	if y > 0 && x > math.MaxInt64/2/y {
		return math.MaxInt64 / 2
	}
	return x * y
}

// folded makes the node's results constants; false if it must stay.
func (f *folding) folded(b *ir.Block, n *ir.Node) bool {
	if len(n.Regions) > 0 || len(n.Outputs) == 0 || f.kept[n] {
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
	bytes, read, written, size := int64(foldable), int64(0), int64(0), int64(0)
	for i, v := range n.Inputs {
		if v == nil {
			continue
		}
		if v.Const == nil {
			return false
		}
		in[i] = v.Const
		read += v.Const.Len()
		if !slices.Contains(n.Inputs[:i], v) {
			bytes += v.Const.Size()
		}
	}
	for _, v := range n.Outputs {
		count := int64(1)
		for _, e := range v.Type.Shape {
			extent, ok := e.Const()
			if !ok || extent < 0 || extent > 0 && count > 8*bytes/extent {
				return false
			}
			count *= extent
		}
		each, err := v.Type.DType.Bytes(count)
		if v.Bound || err != nil || each > bytes || v.Type.DType == dtype.String {
			return false
		}
		written, size = written+count, size+each
	}
	if !f.spend(n, read, written, size) {
		return false
	}
	if moved := movedLater(n, in); moved != nil {
		v := n.Outputs[0]
		v.Const, v.Node = moved, nil
		b.Consts = append(b.Consts, v)
		return true
	}
	out, err := n.Op.Eval(&ir.Evaluation{Dims: map[sym.Name]int64{}}, n, in)
	if err != nil {
		return false // the run reports the error
	}
	for i, v := range n.Outputs {
		v.Const, v.Node = out[i], nil
		b.Consts = append(b.Consts, v)
	}
	for _, t := range in {
		if t != nil {
			for _, origin := range t.Origins() {
				mem.Forget(origin.Bytes()) // pages of a mapped file need not stay in memory
			}
		}
	}
	return true
}

// movedLater returns the result of a node that only moves elements of large constants, deferred; nil for other nodes.
func movedLater(n *ir.Node, in []*tensor.Tensor) *tensor.Tensor {
	later := ops.Of(n).Defer
	if later == nil {
		return nil
	}
	t := later(n, in)
	if t == nil || t.Size() < deferredLeast {
		return nil
	}
	settled(t)
	return t
}

// fixed returns sizes as numbers; ok is false if one is not a number.
func fixed(list []sym.Expr) (out []int64, ok bool) {
	for _, e := range list {
		size, ok := e.Const()
		if !ok {
			return nil, false
		}
		out = append(out, size)
	}
	return out, true
}

// asIntegers turns a node whose result is known symbolically into a node without inputs, so that its inputs may be
// dead.
func asIntegers(n *ir.Node) bool {
	if len(n.Outputs) != 1 {
		return false
	}
	v := n.Outputs[0]
	if len(v.Known) == 0 || v.Bound || len(v.Known) > integersMost || n.Op.Name() == "integers" {
		return false
	}
	if count, ok := sym.Product(v.Type.Shape...).Const(); !ok || count != int64(len(v.Known)) {
		return false // its shape is known only at run time
	}
	n.Op, _ = ir.Lookup("integers")
	n.Inputs, n.Attrs = nil, ir.Attrs{"dtype": v.Type.DType, "shape": v.Type.Shape, "elements": v.Known}
	return true
}

// knownConstant turns a value whose elements are all numbers into a constant; false if an element is not a number.
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
