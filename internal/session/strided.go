package session

import (
	"slices"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/signature"
	"github.com/weirml/weir/internal/strided"
	"github.com/weirml/weir/internal/tensor"
)

// copying is an argument to copy for a run.
type copying struct {
	name  string          // the input's
	port  int             // the input port
	from  *strided.Memory // the argument
	order strided.Order   // the order of the axes in the copy
	shape []int64         // of the copy, in that order
}

// lie sets the port of input e from an argument in strided memory, or from any argument if the input has a layout. If
// the memory is not in the input's order, the port gets a copy if its elements are dimensions; otherwise it gets a
// tensor without elements, and copyAll makes the copy.
func (s *Session) lie(args *packing, e signature.Edge, g Argument) error {
	l, info := g.lent, e.Info
	if l == nil {
		l = strided.Of(g.data[0])
	}
	if l.DType != info.DType || len(l.Shape) != len(info.Shape) || !info.Simple() {
		return diag.Inputf("%s is given, %s is expected", l, info)
	}
	if g.owner != lending && g.owner != updating {
		return diag.Unsupportedf("a tensor that is %s, for an input with a layout", partWords[g.owner]).
			WithFix("lend it")
	}
	order, err := info.Order()
	if err != nil {
		return err
	}
	for _, a := range order {
		if a.Repeated && l.Shape[a.Axis] > 1 && (l.Steps == nil || l.Steps[a.Axis] != 0) && !l.Empty() {
			return diag.Inputf("%s does not repeat along axis %d, as its layout %s says", l, a.Axis, info.Layout).
				WithFix("give memory with a stride of 0")
		}
	}
	port := e.Parts[0]
	t, err := l.In(order)
	if t == nil && err == nil {
		c := copying{info.Name, port, l, order, strided.Laid(l.Shape, order, 1)}
		if s.prog.Inputs[port].Elements != nil { // bindInputs reads them
			t, err = args.copy(s, c)
		} else if t, err = tensor.Outline(l.DType, c.shape); err == nil {
			args.copies = append(args.copies, c)
		}
	}
	args.parts[port] = t
	return err
}

// repeats checks the extents of arguments along repeated axes ("*"). dimsOf cannot: the tensors of ports do not have
// these extents.
func (s *Session) repeats(list []Argument, dims []int64) error {
	for i, e := range s.Inputs {
		info := e.Info
		if info.Layout == "" {
			continue
		}
		order, err := info.Order()
		if err != nil {
			return err
		}
		for _, a := range order {
			if !a.Repeated {
				continue
			}
			want, got := info.Shape[a.Axis].Size, list[i].shape()[a.Axis]
			for d, dim := range s.prog.Dims {
				if name := info.Shape[a.Axis].Dim; name != "" && (name == dim.Name.Text() || name == s.label(d)) {
					want = dims[d]
				}
			}
			if want != got {
				return diag.Inputf("axis %d of %s is %d, not %d", a.Axis, list[i], got, want).AtTensor(info.Name)
			}
		}
	}
	return nil
}

// copyAll makes the copies that lie has left for later, when the run may begin. release frees them.
func (p *packing) copyAll(by *Session) error {
	for _, c := range p.copies {
		t, err := p.copy(by, c)
		if err != nil {
			return err
		}
		p.parts[c.port] = t
	}
	return nil
}

// copy returns a copy of an argument for a run. It reserves the bytes in the budget first.
func (p *packing) copy(by *Session, c copying) (*tensor.Tensor, error) {
	bytes, err := strided.BytesOf(c.from.DType, c.shape)
	if err != nil {
		return nil, err
	}
	const fix = "give it in the order that the input declares, or declare its order by Options.Layouts"
	if err := by.Reserve(bytes); err != nil {
		return nil, diag.As(err, diag.ErrBudget).AtTensor(c.name).WithFix(fix)
	}
	p.by, p.reserved = by, p.reserved+bytes
	take := mem.UserPool().Take
	if p.account != nil { // which grants whole pages
		take = mem.Map
	}
	block, err := mem.Granted(p.ctx, p.account, bytes, func() (*mem.Block, error) {
		return take(mem.Tensors, "copy of "+c.name, bytes)
	})
	if err != nil {
		return nil, diag.As(err, diag.ErrMemory).AtTensor(c.name)
	}
	p.blocks = append(p.blocks, block)
	c.from.Gather(block.Bytes(), c.order)
	return tensor.Over(c.from.DType, c.shape, block.Bytes())
}

// unlaid returns the tensors of a run's input ports in row-major order, as the model declares the inputs. It copies the
// arguments of inputs with layouts to Go's heap.
func (s *Session) unlaid(args *packing, in Arguments) ([]*tensor.Tensor, error) {
	parts := slices.Clone(args.parts)
	for _, e := range s.Inputs {
		info := e.Info
		if info.Layout == "" {
			continue
		}
		g, _ := in.Find(info.Name)
		l := g.lent
		if l == nil {
			inner, err := g.tensors[0].Enter()
			if err != nil {
				return nil, err
			}
			l = strided.Of(inner)
			g.tensors[0].Leave() // args has entered it too
		}
		t, err := tensor.New(l.DType, l.Shape...)
		if err != nil {
			return nil, err
		}
		l.Gather(t.Bytes(), strided.RowMajor(len(l.Shape)))
		parts[e.Parts[0]] = t
	}
	return parts, nil
}
