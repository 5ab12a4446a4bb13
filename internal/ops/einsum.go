package ops

import (
	"slices"
	"strings"

	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// term is a tensor of an einsum equation, with a label for each axis. A letter is its own label; an axis of an ellipsis
// has the label ellipsis + the number of its axes to the right.
type term struct {
	v      *ir.Value
	labels []rune
}

const ellipsis = 1 << 24

// Einsum is Einstein's summation, as in NumPy: axes of one label share an index, and labels that the result lacks are
// summed over. Without "->", the result has the axes of the ellipsis, then the labels that occur once, in alphabetical
// order. Einsum builds diagonals, sums, matrix products and transposes, from the first operand to the last.
func Einsum(b *ir.Builder, equation string, xs ...*ir.Value) *ir.Value {
	terms, result := einsumTerms(b, equation, xs)
	for i := range terms {
		terms[i] = terms[i].diagonal(b)
	}
	for len(terms) > 1 {
		needed := slices.Clone(result)
		for _, t := range terms[2:] {
			needed = append(needed, t.labels...)
		}
		pair := einsumPair(b, terms[0], terms[1], needed)
		terms = append([]term{pair}, terms[2:]...)
	}
	last := terms[0].reduced(b, result)
	for _, label := range result {
		if !slices.Contains(last.labels, label) {
			b.Failf("the result of einsum %q names %s, which no operand has", equation, labelText(label))
		}
	}
	return last.ordered(b, result).v
}

// labelText names a label in error messages.
func labelText(label rune) string {
	if label >= ellipsis {
		return "an axis of an ellipsis"
	}
	return string(label)
}

// einsumTerms parses an equation: the terms of xs and the labels of the result.
func einsumTerms(b *ir.Builder, equation string, xs []*ir.Value) ([]term, []rune) {
	text := strings.ReplaceAll(equation, " ", "")
	left, right, explicit := strings.Cut(text, "->")
	operands := strings.Split(left, ",")
	if len(operands) != len(xs) {
		b.Failf("einsum %q has %d operands, %d are given", equation, len(operands), len(xs))
	}
	widest, counts := 0, map[rune]int{}
	var terms []term
	for i, operand := range operands {
		letters, dots := strings.CutPrefix(operand, "...")
		before := ""
		if !dots {
			before, letters, dots = strings.Cut(operand, "...")
			if !dots {
				before, letters = operand, ""
			}
		}
		rank := len(xs[i].Type.Shape)
		hidden := rank - len(before) - len(letters)
		if hidden < 0 || hidden > 0 && !dots {
			b.Failf("operand %d of einsum %q has rank %d", i, equation, rank)
		}
		t := term{v: xs[i], labels: []rune(before)}
		for h := hidden - 1; h >= 0; h-- {
			t.labels = append(t.labels, rune(ellipsis+h))
		}
		t.labels = append(t.labels, []rune(letters)...)
		for _, label := range before + letters {
			if label < 'A' || label > 'z' || label > 'Z' && label < 'a' {
				b.Failf("einsum %q has the label %q", equation, label)
			}
			counts[label]++
		}
		widest = max(widest, hidden)
		terms = append(terms, t)
	}
	var dots []rune
	for h := widest - 1; h >= 0; h-- {
		dots = append(dots, rune(ellipsis+h))
	}
	if !explicit {
		result := dots
		var letters []rune
		for label, count := range counts {
			if count == 1 {
				letters = append(letters, label)
			}
		}
		slices.Sort(letters)
		return terms, append(result, letters...)
	}
	before, after, has := strings.Cut(right, "...")
	result := []rune(before)
	if has {
		result = append(result, dots...)
	}
	result = append(result, []rune(after)...)
	for i, label := range result {
		if slices.Contains(result[:i], label) {
			b.Failf("the result of einsum %q names %s twice", equation, labelText(label))
		}
	}
	return terms, result
}

// diagonal takes the diagonal of axes that share a label.
func (t term) diagonal(b *ir.Builder) term {
	for i := 0; i < len(t.labels); i++ {
		if j := slices.Index(t.labels[i+1:], t.labels[i]); j >= 0 {
			j += i + 1
			t.v = Diagonal(b, t.v, i, j)
			t.labels = slices.Delete(slices.Clone(t.labels), j, j+1)
			i--
		}
	}
	return t
}

// reduced sums over the axes whose labels are not needed.
func (t term) reduced(b *ir.Builder, needed []rune) term {
	var axes []int64
	var kept []rune
	for i, label := range t.labels {
		if slices.Contains(needed, label) {
			kept = append(kept, label)
		} else {
			axes = append(axes, int64(i))
		}
	}
	if axes == nil {
		return t
	}
	return term{ReduceSum(b, t.v, false, axes...), kept}
}

// ordered returns the term with axes in the order of the given labels, and an axis of 1 for each label that it lacks.
func (t term) ordered(b *ir.Builder, labels []rune) term {
	var perm []int64
	var shape []sym.Expr
	for _, label := range labels {
		if i := slices.Index(t.labels, label); i >= 0 {
			perm = append(perm, int64(i))
			shape = append(shape, t.v.Type.Shape[i])
		} else {
			shape = append(shape, one)
		}
	}
	v := t.v
	if !slices.IsSorted(perm) {
		v = Transpose(b, v, perm...)
	}
	if len(shape) != len(perm) {
		v = Reshape(b, v, shape...)
	}
	return term{v, labels}
}

// einsumPair multiplies two terms and sums over the labels that are not needed afterwards.
func einsumPair(b *ir.Builder, x, y term, needed []rune) term {
	x, y = x.reduced(b, append(slices.Clone(needed), y.labels...)), y.reduced(b, append(slices.Clone(needed), x.labels...))
	var batch, rows, columns, shared []rune
	for i, label := range x.labels {
		j := slices.Index(y.labels, label)
		switch {
		case j < 0:
			rows = append(rows, label)
		case slices.Contains(needed, label):
			batch = append(batch, label)
		case isOne(x.v.Type.Shape[i]) != isOne(y.v.Type.Shape[j]):
			// One of them is broadcast along this label: its axis of 1 is dropped.
			if isOne(x.v.Type.Shape[i]) {
				y = y.reduced(b, without(y.labels, label))
				x = x.reduced(b, without(x.labels, label))
			} else {
				x = x.reduced(b, without(x.labels, label))
				y = y.reduced(b, without(y.labels, label))
			}
			return einsumPair(b, x, y, needed)
		default:
			shared = append(shared, label)
		}
	}
	for _, label := range y.labels {
		if !slices.Contains(x.labels, label) {
			columns = append(columns, label)
		}
	}
	labels := slices.Concat(batch, rows, columns)
	if shared == nil {
		return term{Binary(b, loop.Mul, x.ordered(b, labels).v, y.ordered(b, labels).v), labels}
	}
	x, y = x.ordered(b, slices.Concat(batch, rows, shared)), y.ordered(b, slices.Concat(batch, shared, columns))
	nb, nr, ns := len(batch), len(rows), len(shared)
	sx, sy := x.v.Type.Shape, y.v.Type.Shape
	left := Reshape(b, x.v, append(slices.Clone(sx[:nb]), product(sx[nb:nb+nr]), product(sx[nb+nr:]))...)
	right := Reshape(b, y.v, append(slices.Clone(sy[:nb]), product(sy[nb:nb+ns]), product(sy[nb+ns:]))...)
	z := MatMul(b, left, right, false, false)
	shape := slices.Concat(z.Type.Shape[:nb], sx[nb:nb+nr], sy[nb+ns:])
	return term{Reshape(b, z, shape...), labels}
}

// without returns labels without one label.
func without(labels []rune, label rune) []rune {
	return slices.DeleteFunc(slices.Clone(labels), func(l rune) bool { return l == label })
}
