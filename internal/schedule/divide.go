package schedule

import (
	"fmt"
	"slices"

	"github.com/weirml/weir/internal/loop"
)

// way is the form in which the contractions of a kernel read a weight.
type way struct {
	// the axis of the weight along which its columns lie, as a right operand; −1 if it is read in another form
	columns int
	shape   string
	strided bool // the columns are not contiguous
}

// waysOf returns the forms in which a kernel's contractions read a parameter; none if all its reads are of single
// elements, which any layout serves.
func waysOf(k *loop.Kernel, param *loop.Param) (list []way) {
	for _, a := range loop.Accesses(k.Body) {
		if a.Buffer != param.Name || a.Tile == nil {
			continue
		}
		w := way{columns: -1, shape: fmt.Sprint(param.Shape)}
		if c, ok := a.Stmt.(*loop.Contract); ok && a.Tile == &c.B && stepOf(c.B.Col) >= 0 {
			w.columns = stepOf(c.B.Col)
			w.strided = !isOne(c.N) && !isOne(loop.Offset(c.B.Col, param.Shape, param.Strides))
		}
		if !slices.Contains(list, w) {
			list = append(list, w)
		}
	}
	return list
}

// agreed reports whether all contractions that read a weight need the same packing.
func (p *Pack) agreed() bool {
	var all []way
	for _, r := range p.readers {
		all = append(all, waysOf(r.kernel, r.param)...)
	}
	return !slices.ContainsFunc(all, func(w way) bool {
		return w.columns < 0 || w.columns != all[0].columns || w.shape != all[0].shape
	})
}

// divide gives a weight a separate buffer for each form in which launches read it, if one of them is a right operand
// whose columns are not contiguous: that operand must be packed, and its packing suits no other form. Each buffer is
// then packed, or keeps the model's layout, by itself.
func (s *scheduler) divide(packable func(*loop.Buffer) bool) {
	found := map[*loop.Buffer][]way{}
	s.eachWeight(packable, func(l *loop.Launch, i int, w way) {
		if b := l.Args[i]; !slices.Contains(found[b], w) {
			found[b] = append(found[b], w)
		}
	})
	made := map[*loop.Buffer]map[way]*loop.Buffer{}
	s.eachWeight(packable, func(l *loop.Launch, i int, w way) {
		b := l.Args[i]
		ways := found[b]
		if len(ways) < 2 || w == ways[0] || !slices.ContainsFunc(ways, func(w way) bool { return w.strided }) {
			return
		}
		if made[b] == nil {
			made[b] = map[way]*loop.Buffer{}
		}
		if made[b][w] == nil {
			made[b][w] = s.likeWeight(b)
		}
		l.Args[i] = made[b][w]
	})
}

// eachWeight visits the arguments that are packable weights and that a kernel's contractions read in one form.
func (s *scheduler) eachWeight(packable func(*loop.Buffer) bool, visit func(l *loop.Launch, i int, w way)) {
	s.eachList(&s.module.Body, func(steps *[]loop.Step) {
		for _, step := range *steps {
			l, ok := step.(*loop.Launch)
			if !ok {
				continue
			}
			for i, b := range l.Args {
				if !packable(b) {
					continue
				}
				if ways := waysOf(l.Kernel, l.Kernel.Params[i]); len(ways) == 1 {
					visit(l, i, ways[0])
				}
			}
		}
	})
}

// likeWeight returns another buffer with a weight's elements.
func (s *scheduler) likeWeight(b *loop.Buffer) *loop.Buffer {
	other := *b
	other.Shape = slices.Clone(b.Shape)
	for n := 1; ; n++ {
		other.Name = fmt.Sprintf("%s.%d", b.Name, n)
		if !slices.ContainsFunc(s.module.Buffers, func(b *loop.Buffer) bool { return b.Name == other.Name }) {
			break
		}
	}
	s.module.Buffers = append(s.module.Buffers, &other)
	return &other
}
