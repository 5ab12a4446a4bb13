package schedule

import (
	"slices"

	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// divideColumns gives each part of a weight's columns that products of one kernel read, as those of gates, a buffer of
// its own, if a part does not begin at a multiple of a vector's lanes: a panel of the entire weight would have columns
// of two parts. Only one launch may read the weight, so that no element is stored twice.
func (s *scheduler) divideColumns(packable func(*loop.Buffer) bool) {
	readers := map[*loop.Buffer]int{}
	var launches []*loop.Launch
	s.eachList(&s.module.Body, func(steps *[]loop.Step) {
		for _, step := range *steps {
			if l, ok := step.(*loop.Launch); ok {
				launches = append(launches, l)
				for _, b := range l.Args {
					readers[b]++
				}
			}
		}
	})
	for _, l := range launches {
		for i := 0; i < len(l.Args); i++ {
			if b := l.Args[i]; packable(b) && readers[b] == 1 {
				i += s.divideArgument(l, i)
			}
		}
	}
}

// columns are those of a weight that a product reads.
type columns struct{ first, count int64 }

// divideArgument divides the columns of a launch's argument, and returns the number of arguments that it adds.
func (s *scheduler) divideArgument(l *loop.Launch, i int) int {
	k, b, param := l.Kernel, l.Args[i], l.Kernel.Params[i]
	axis, parts := s.partsOf(k, param)
	shape, ok := numbers(param.Shape)
	lanes := int64(s.machine.VectorBytes) / 4
	if !ok || len(parts) < 2 || !slices.ContainsFunc(parts, func(p columns) bool { return p.first%lanes != 0 }) {
		return 0
	}
	whole, err := b.Data.Reshape(shape...)
	if err != nil {
		return 0
	}
	var contents []*tensor.Tensor
	for _, part := range parts {
		begin, step, extent := make([]int64, len(shape)), make([]int64, len(shape)), slices.Clone(shape)
		for axis := range step {
			step[axis] = 1
		}
		begin[axis], extent[axis] = part.first, part.count
		data, ok := tensor.Sliced(whole, begin, extent, step)
		if !ok {
			return 0
		}
		contents = append(contents, data)
	}
	names := s.newNamer(k)
	var params []*loop.Param
	buffers := []*loop.Buffer{b} // the first part takes the place of the entire weight
	for at, data := range contents {
		if at > 0 {
			buffers = append(buffers, s.likeWeight(b))
		}
		p := *param
		p.Name, p.Shape = names.name(param.Name), constants(data.Shape())
		buffers[at].Data, buffers[at].Shape = data, constants(data.Shape())
		params = append(params, &p)
	}
	loop.Walk(k.Body, func(stmt loop.Stmt) bool {
		if c, ok := stmt.(*loop.Contract); ok && c.B.Buffer == param.Name {
			first, _ := c.B.Origin[axis].Const()
			at := slices.IndexFunc(parts, func(p columns) bool { return p.first == first })
			c.B.Buffer, c.B.Origin = params[at].Name, slices.Clone(c.B.Origin)
			c.B.Origin[axis] = sym.Const(0)
		}
		return true
	})
	k.Params = slices.Replace(slices.Clone(k.Params), i, i+1, params...)
	l.Args = slices.Replace(slices.Clone(l.Args), i, i+1, buffers...)
	return len(parts) - 1
}

// partsOf returns the axis of a weight's columns, and the parts of them that a kernel's products read; no parts if it
// reads the weight in another way, or if parts overlap.
func (s *scheduler) partsOf(k *loop.Kernel, param *loop.Param) (axis int, parts []columns) {
	axis = -1
	if param.Access != loop.Read || param.Strides != nil || s.shared[k] {
		return -1, nil
	}
	for _, a := range loop.Accesses(k.Body) {
		if a.Buffer != param.Name {
			continue
		}
		c, ok := a.Stmt.(*loop.Contract)
		if !ok || a.Tile != &c.B || stepOf(c.B.Col) < 0 || axis >= 0 && axis != stepOf(c.B.Col) {
			return -1, nil
		}
		axis = stepOf(c.B.Col)
		first, known := c.B.Origin[axis].Const()
		count, fixed := c.N.Const()
		if !known || !fixed || !isZero(c.B.Row[axis]) {
			return -1, nil
		}
		if p := (columns{first, count}); !slices.Contains(parts, p) {
			parts = append(parts, p)
		}
	}
	slices.SortFunc(parts, func(a, b columns) int { return int(a.first - b.first) })
	for i := range parts[:max(len(parts)-1, 0)] {
		if parts[i].first+parts[i].count > parts[i+1].first {
			return -1, nil
		}
	}
	return axis, parts
}
