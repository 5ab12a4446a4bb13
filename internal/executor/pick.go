package executor

import (
	"unsafe"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/program"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// picker is a prepared copy of rows, or of a strided view of a weight in its file.
type picker struct {
	steps []*sym.Code // nil if From is row-major
	at    []int64     // their values
	row   []int64     // the index in a row
}

// newPicker compiles the strides of a copy's source.
func (c *Call) newPicker(s *program.Copy) (*picker, error) {
	from := &c.x.program.Tensors[s.From]
	p := &picker{at: make([]int64, len(from.Shape)), row: make([]int64, len(from.Shape))}
	for _, e := range from.Strides {
		code, err := e.Compile(c.x.layout.names)
		if err != nil {
			return nil, err
		}
		p.steps = append(p.steps, code)
	}
	return p, nil
}

// pick copies the rows that the indices select, and reads no other rows. It checks all indices first.
func (c *Call) pick(s *program.Copy) error {
	if err := c.ctx.Err(); err != nil {
		return err
	}
	of, err := c.operand(s.Pick.Index)
	if err != nil {
		return err
	}
	to, err := c.operand(s.To)
	if err != nil {
		return err
	}
	from, err := c.operand(s.From)
	if err != nil {
		return err
	}
	c.watch.touch(c, s.Pick.Index)
	c.watch.touch(c, s.To)
	if !c.away(s.From) {
		c.watch.touch(c, s.From)
	}
	index, dt := bytesOf(of), c.x.program.Tensors[s.Pick.Index].DType
	count := of.Bytes / int64(dt.Bits()/8)
	for i := range count {
		if p := numbered(s.Pick, dt, index, i); p < 0 || p >= s.Pick.Rows {
			return diag.Inputf("an index is %d, outside [0, %d]", p, s.Pick.Rows-1).AtNode(s.Pick.Source, "")
		}
	}
	if to.Bytes == 0 {
		return nil
	}
	p, shape := c.picks[s], c.shapes[s.From]
	if err := p.settle(c, shape); err != nil {
		return err
	}
	leading := len(shape) - len(c.shapes[s.To]) + len(c.shapes[s.Pick.Index])
	width := int64(c.x.program.Tensors[s.From].DType.Bits() / 8)
	bytes, data := to.Bytes/count, bytesOf(to)
	return mem.Read(bytesOf(from), func() error {
		touched, moved := int64(0), int64(0)
		for i := range count {
			if moved += 64 + bytes; moved >= bytesAtOnce {
				if moved = 0; c.ctx.Err() != nil {
					return c.ctx.Err()
				}
			}
			begin, number := int64(0), numbered(s.Pick, dt, index, i)
			for axis := leading - 1; axis >= 0; axis-- {
				begin += number % shape[axis] * p.at[axis]
				number /= shape[axis]
			}
			reach := p.copyRow(data[i*bytes:(i+1)*bytes], from.Base, begin, leading, shape, width)
			if touched += reach; touched >= forgetAfter { // so that the file's pages do not stay in memory
				mem.Forget(bytesOf(from))
				touched = 0
			}
		}
		mem.Forget(bytesOf(from))
		return nil
	})
}

// view copies a view of a weight that is not contiguous in its file.
func (p *picker) view(c *Call, s *program.Copy, to []byte) error {
	shape, from := c.shapes[s.From], c.operands[s.From]
	if err := p.settle(c, shape); err != nil || len(to) == 0 {
		return err
	}
	return mem.Read(bytesOf(from), func() error {
		p.copyRow(to, from.Base, 0, 0, shape, int64(c.x.program.Tensors[s.From].DType.Bits()/8))
		mem.Forget(bytesOf(from))
		return nil
	})
}

// settle computes the source's strides in elements.
func (p *picker) settle(c *Call, shape []int64) (err error) {
	stride := int64(1)
	for axis := len(shape) - 1; axis >= 0; axis-- {
		p.at[axis] = stride
		stride *= shape[axis]
	}
	for axis, code := range p.steps {
		if p.at[axis], err = code.Eval(c.values); err != nil {
			return err
		}
	}
	return nil
}

// forgetAfter is about the number of file bytes that rows touch before the file's pages are unmapped.
const forgetAfter = 4 << 20

// numbered returns index i as a row number: negative indices count from the end.
func numbered(p *program.Pick, dt dtype.DType, indices []byte, i int64) int64 {
	index := dtype.LoadInt(dt, indices, i)
	if index < 0 && dt.IsSigned() {
		index += p.Rows
	}
	return index
}

// copyRow copies the row that starts begin elements after base, and returns about the number of bytes touched.
func (p *picker) copyRow(to []byte, base unsafe.Pointer, begin int64, leading int, shape []int64,
	width int64) (reach int64) {
	last := len(shape) // the axes from last on are contiguous
	run := int64(1)
	for last > leading && (p.at[last-1] == run || shape[last-1] == 1) {
		last--
		run *= shape[last]
	}
	row := p.row[leading:last]
	clear(row)
	for done := int64(0); done < int64(len(to)); done += run * width {
		at := begin + tensor.Offset(p.at[leading:last], row)
		_ = mem.Copy(to[done:done+run*width], unsafe.Slice((*byte)(unsafe.Add(base, at*width)), run*width), nil)
		for axis := len(row) - 1; axis >= 0; axis-- {
			if row[axis]++; row[axis] < shape[leading+axis] {
				break
			}
			row[axis] = 0
		}
	}
	span := run
	for axis := leading; axis < last; axis++ {
		span = max(span, shape[axis]*p.at[axis])
	}
	return span * width
}
