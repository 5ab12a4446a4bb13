// Package recipes computes operators in ways that suit machines with vector registers: in blocks whose data stay in the
// caches, and in tiles whose sums stay in registers.
//
// Lowering writes plain loops and the kernel's Meaning. A recipe writes other loops with the same results: from the
// shapes and the machine's sizes it chooses what one iteration computes, what it copies, and which products it makes.
// The steps of package schedule treat its loops like those of any lowering. Lowering and schedule need not know a
// recipe: a new way to compute an operator is one file here and one row in the table.
package recipes

import (
	"iter"

	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/target"
)

// recipe is a way to compute an operator. write writes the loops, or returns false, before it writes any, if the recipe
// does not apply.
type recipe struct {
	op, name string
	write    func(k *nest) bool
}

// recipes are all recipes, the best first for each operator.
var recipes = []recipe{
	convolutions("pointwise", both(channelsFirst, isPointwise), convolutionPointwise),
	convolutions("planes", both(channelsFirst, convolutionIsPlanes), convolutionPlanes),
	convolutions("beside", isBeside, convolutionBeside),
	convolutions("strips", convolutionIsStrips, convolutionStrips),
	convolutions("bands", convolutionIsBands, convolutionBands),
	convolutions("depthwise", isDepthwise, convolutionDepthwise),
	convolutions("direct", channelsFirst, convolutionDirect),
	convolutions("pixels", both(both(isRows, isFull), isPointwise), convolutionPixels),
	convolutions("rows", isRows, convolutionRows),
	{op: "winograd", name: "blocks", write: winogradBlocks},
	{op: "attention", name: "blocks", write: attentionInBlocks},
	{op: "recurrent", name: "together", write: recurrentTogether},
	{op: "recurrent_back", name: "together", write: recurrentTogether},
	{op: "matmul_blocks", name: "panels", write: blocksPanels},
	{op: "matmul_blocks_bytes", name: "panels", write: blocksBytesPanels},
}

// Names returns the names of the recipes for an operator, the best first.
func Names(op string) (names []string) {
	for _, r := range recipes {
		if r.op == op {
			names = append(names, r.name)
		}
	}
	return names
}

// For returns a kernel that computes the meaning of k by the best recipe that applies; nil if there is none. It does
// not change k.
func For(k *loop.Kernel, dims *sym.Dims, m target.Machine) *loop.Kernel {
	for _, better := range Each(k, dims, m) {
		return better
	}
	return nil
}

// Each returns kernels that compute the meaning of k, by the names of the recipes that apply, the best first.
func Each(k *loop.Kernel, dims *sym.Dims, m target.Machine) iter.Seq2[string, *loop.Kernel] {
	return func(yield func(string, *loop.Kernel) bool) {
		if k.Meaning == nil {
			return
		}
		for _, r := range recipes {
			if r.op != k.Meaning.Op {
				continue
			}
			if n := newNest(k, dims, m.Sizes()); r.write(n) && !yield(r.name, n.Finish()) {
				return
			}
		}
	}
}

// nest is a kernel under construction, with the operator's operands and results as its parameters.
type nest struct {
	*loop.Builder
	In, Out []*loop.Memory
	D       *sym.Dims
	sizes   target.Sizes
	meaning *loop.Meaning
	plain   *loop.Kernel // the kernel that states the meaning
}

// newNest returns an empty kernel with the parameters of k.
func newNest(k *loop.Kernel, dims *sym.Dims, sizes target.Sizes) *nest {
	n := &nest{Builder: loop.NewBuilder(k.Name), D: dims, sizes: sizes, meaning: k.Meaning, plain: k}
	n.Kernel.Source, n.Kernel.Work = k.Source, k.Work
	for _, p := range k.Params {
		m := n.Param(p.Name, p.Access, p.DType, p.Shape)
		if p.Access == loop.Read {
			n.In = append(n.In, m)
		} else {
			n.Out = append(n.Out, m)
		}
	}
	if operands := attribute[[]int64](n, loop.MeantOperands); operands != nil {
		params := n.In
		n.In = make([]*loop.Memory, len(operands))
		for i, at := range operands {
			if at >= 0 && at < int64(len(params)) {
				n.In[i] = params[at]
			}
		}
	}
	return n
}

// attribute returns an attribute of the operator; the zero value if it is absent.
func attribute[T any](k *nest, name string) T {
	v, _ := k.meaning.Attrs[name].(T)
	return v
}

// optional returns the i-th operand; nil if it is absent.
func (k *nest) optional(i int) *loop.Memory {
	if i >= len(k.In) {
		return nil
	}
	return k.In[i]
}

// one is the constant 1.
var one = sym.Const(1)

// zeros returns an index of n zeros.
func zeros(n int) []sym.Expr { return make([]sym.Expr, n) }

// unit returns an index with step at axis and 0 elsewhere.
func unit(rank, axis int, step sym.Expr) []sym.Expr {
	out := make([]sym.Expr, rank)
	out[axis] = step
	return out
}

// isZero reports whether e is the number 0.
func isZero(e sym.Expr) bool { return e.Equal(sym.Expr{}) }

// isOne reports whether e is the number 1.
func isOne(e sym.Expr) bool { return e.Equal(one) }

// numbers returns numbers as symbolic integers.
func numbers(list []int64) []sym.Expr {
	out := make([]sym.Expr, len(list))
	for i, v := range list {
		out[i] = sym.Const(v)
	}
	return out
}

// constants returns the values of symbolic integers; ok is false if one is not a number.
func constants(list []sym.Expr) (values []int64, ok bool) {
	for _, e := range list {
		v, known := e.Const()
		if !known {
			return nil, false
		}
		values = append(values, v)
	}
	return values, true
}

// constant returns an extent's value; otherwise if the extent is not a number.
func constant(e sym.Expr, otherwise int64) int64 {
	if v, ok := e.Const(); ok {
		return v
	}
	return otherwise
}

// divisor returns the smallest divisor of n in [least, most]; if there is none, the largest one below least.
func divisor(n, least, most int64) int64 {
	best := int64(1)
	for d := int64(1); d <= min(n, most); d++ {
		if n%d == 0 {
			if best = d; d >= least {
				break
			}
		}
	}
	return best
}

// busiest returns the time of the busiest of several workers, if each of count rows consists of full blocks of time
// each and one block of time last, which may be 0.
func busiest(workers, count, full, each, last int64) int64 {
	all := full * count
	rounds, more := all/workers, all%workers
	time, left := rounds*each, count // blocks of time last that are not given out
	if last == 0 {
		left = 0
	}
	if more > 0 {
		// Workers without a full block in the last round take the short blocks meanwhile.
		time += each
		left = max(0, left-(workers-more)*(each/max(last, 1)))
	}
	return time + ceilDiv(left, workers)*last
}

// ceilDiv returns x/y rounded up; y must be positive.
func ceilDiv(x, y int64) int64 { return -((-x - mod(-x, y)) / y) }

// mod returns x modulo y, in [0, y).
func mod(x, y int64) int64 { return (x%y + y) % y }

// plus, minus and times return the sum, the difference and the product of two values.
func plus(x, y loop.Expr) loop.Expr  { return loop.Apply2(loop.Add, x, y) }
func minus(x, y loop.Expr) loop.Expr { return loop.Apply2(loop.Sub, x, y) }
func times(x, y loop.Expr) loop.Expr { return loop.Apply2(loop.Mul, x, y) }
