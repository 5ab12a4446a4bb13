package executor

import (
	"github.com/weirml/weir/internal/device"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/program"
	"github.com/weirml/weir/internal/target"
	"github.com/weirml/weir/internal/tensor"
)

// mover copies elements in tiles, which the workers of a run share. A run of elements is contiguous in both tensors.
type mover struct {
	target.Kernel // a team calls only Run
	to, from      []byte
	bytes         int64      // of all elements
	tile          int64      // bytes of a tile: several runs, or a piece of the only run
	run           int64      // bytes of a run
	shape         []int64    // of the runs; none if there is one
	st, sf        []int64    // bytes from a run to the next, by axis, in to and in from
	job           device.Job // remembers how long a tile takes
}

// tileBytes is about the size of a tile: large enough that sharing costs little.
const tileBytes = 128 << 10

// Run copies tiles [from, to).
func (m *mover) Run(_ *target.Args, from, to int64, _ []byte) error {
	begin, end := from*m.tile, min(to*m.tile, m.bytes)
	last := len(m.shape) - 1
	if last < 0 {
		copy(m.to[begin:end], m.from[begin:end])
		return nil
	}
	var room [8]int64
	at := append(room[:0], m.shape...)
	tensor.Unravel(begin/m.run, m.shape, at)
	for runs := (end - begin) / m.run; runs > 0; {
		a, b := tensor.Offset(m.st, at), tensor.Offset(m.sf, at)
		row := min(m.shape[last]-at[last], runs)
		for range row {
			copy(m.to[a:a+m.run], m.from[b:b+m.run])
			a, b = a+m.st[last], b+m.sf[last]
		}
		runs -= row
		at[last] += row
		for i := last; i > 0 && at[i] == m.shape[i]; i-- {
			at[i] = 0
			at[i-1]++
		}
	}
	return nil
}

// move copies between two disjoint operands, on all workers if there is enough to copy. Strides are in elements of
// width bytes; nil means that both are contiguous in one order.
func (c *Call) move(to, from target.Operand, shape, st, sf []int64, width int64) error {
	if err := c.ctx.Err(); err != nil {
		return err
	}
	m := &c.mover
	defer func() { m.to, m.from = nil, nil }()
	m.to, m.from, m.bytes, m.run, m.shape, m.tile = bytesOf(to), bytesOf(from), to.Bytes, to.Bytes, m.shape[:0], tileBytes
	if st != nil {
		m.settle(shape, st, sf, width)
	}
	if m.bytes == 0 {
		return nil
	}
	if m.bytes <= tileBytes {
		return m.Run(nil, 0, 1, nil)
	}
	m.job.Kernel, m.job.Tiles = m, (m.bytes-1)/m.tile+1
	return c.team.Launch(&m.job, c.workers)
}

// settle computes the contiguous runs of strided elements.
func (m *mover) settle(shape, st, sf []int64, width int64) {
	axes := len(shape)
	m.run = width
	for axes > 0 && (shape[axes-1] == 1 || st[axes-1]*width == m.run && sf[axes-1]*width == m.run) {
		axes--
		m.run *= shape[axes]
	}
	m.st, m.sf, m.bytes = m.st[:0], m.sf[:0], m.run
	for i, n := range shape[:axes] {
		m.shape, m.st, m.sf = append(m.shape, n), append(m.st, st[i]*width), append(m.sf, sf[i]*width)
		m.bytes *= n
	}
	if axes > 0 {
		m.tile = max(1, tileBytes/max(m.run, 1)) * m.run
	}
}

// copyTensor copies all elements of a tensor to another.
func copyTensor(c *Call, s *program.Copy, to, from target.Operand) error {
	x, y := &c.x.program.Tensors[s.From], &c.x.program.Tensors[s.To]
	if x.Strides == nil && y.Strides == nil {
		if to.Bytes != from.Bytes {
			panic(diag.Internalf("copy of %d bytes of %s to %d of %s", from.Bytes, x.Name, to.Bytes, y.Name))
		}
		if to.Base == from.Base { // both have the same location in the plan, or the caller donates one for the other
			return nil
		}
		return c.move(to, from, nil, nil, nil, 1)
	}
	if y.DType.Bits()%8 != 0 {
		panic(diag.Internalf("strided copy of packed %s", y.DType))
	}
	st, err := c.strides(s.To)
	if err != nil {
		return err
	}
	sf, err := c.strides(s.From)
	if err != nil {
		return err
	}
	return c.move(to, from, c.shapes[s.From], st, sf, int64(y.DType.Bits()/8))
}

// strides returns a tensor's strides in elements.
func (c *Call) strides(t int) ([]int64, error) {
	exprs := c.x.program.Tensors[t].Strides
	if exprs == nil {
		return tensor.Strides(c.shapes[t]), nil
	}
	out := make([]int64, len(exprs))
	for i, e := range exprs {
		v, err := e.Eval(c.lookup)
		if err != nil {
			return nil, err
		}
		out[i] = v
	}
	return out, nil
}
