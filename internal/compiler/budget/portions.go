package budget

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/weirml/weir/internal/compiler/live"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/schedule"
	"github.com/weirml/weir/internal/sym"
)

// pages leaves weights in their file until the budget holds: those first that cost least for their bytes, such as
// tables of which a run reads some rows, of those that cost the same the largest.
func (s *squeezer) pages(body []loop.Step, margin int64) []loop.Step {
	type option struct {
		w    *loop.Buffer
		cost float64
	}
	var options []option
	for _, b := range s.m.Buffers {
		if b.Kind != loop.Weight || b.View != nil || b.Paged || len(b.Data.Bytes()) < leastPaged {
			continue
		}
		if c := s.pageOf(body, b); c != nil {
			options = append(options, option{b, math.Round(float64(c.saving.Moved) / float64(c.saving.Bytes))})
		}
	}
	slices.SortStableFunc(options, func(a, b option) int {
		return cmp.Or(cmp.Compare(a.cost, b.cost), cmp.Compare(len(b.w.Data.Bytes()), len(a.w.Data.Bytes())))
	})
	peak := s.live(body)
	for i := 0; i < len(options) && peak > s.target()-margin; {
		o := options[i]
		c := s.pageOf(body, o.w)
		buffers := s.m.Buffers
		s.m.Buffers = append(slices.Clone(buffers), c.made...)
		grown := s.live(c.body)
		s.m.Buffers = buffers
		if int64(s.budget.Calls)*(grown-peak) >= c.saving.Bytes {
			i++
			continue
		}
		s.keep(c.made, c.saving)
		o.w.Paged = true
		if options = slices.Delete(options, i, i+1); grown > peak {
			i = 0 // there is room now for others that would have made it themselves
		}
		body, peak = c.body, grown
	}
	return body
}

// pageOf is the change that leaves a weight in its file; nil if it cannot be.
func (s *squeezer) pageOf(body []loop.Step, w *loop.Buffer) *change {
	c := &change{saving: Saving{Kind: PageIn, Tensor: live.TensorName(w), Bytes: int64(len(w.Data.Bytes()))}}
	if c.body = s.paged(c, body, w, 1); c.body == nil {
		return nil
	}
	return c
}

// paged is the steps with a weight brought into memory before each that uses it: the rows that are asked for where a
// kernel reads it by rows, a part at a time where it is larger than a page may be and a kernel can be cut along it,
// else all of it, before the loop that the step is in. nil if a step copies it.
func (s *squeezer) paged(c *change, body []loop.Step, w *loop.Buffer, times int64) (out []loop.Step) {
	for _, step := range body {
		if !live.Mentions(step, w) {
			out = append(out, step)
			continue
		}
		if _, copies := step.(*loop.Copy); copies {
			return nil
		}
		if c.saving.At == "" {
			c.saving.At = live.SourceOf(step)
		}
		if steps := s.inPortions(c, step, w, times); steps != nil {
			out = append(out, steps...)
			continue
		}
		in := s.fresh(c, w, loop.Temp, "page")
		out = append(out, &loop.Copy{To: in, From: w}, s.replaced(c, step, w, in))
		c.saving.Moved += c.saving.Bytes * times
	}
	return out
}

// inPortions is a step that uses a weight with what it needs of it brought in by rows or by parts; nil if it must have
// all of it.
func (s *squeezer) inPortions(c *change, step loop.Step, w *loop.Buffer, times int64) []loop.Step {
	made, saving := c.made, c.saving
	var steps []loop.Step
	switch step := step.(type) {
	case *loop.Launch:
		if steps = s.byRows(c, step, w, times); steps == nil {
			c.made, c.saving = made, saving
			steps = s.byParts(c, step, w, times)
		}
	case *loop.Loop:
		if step.Trip == nil || step.Trip.Data == nil || step.Trip.Root() == w || !s.portionable(step.Body, w) {
			break
		}
		inside := *step
		inside.Body = s.paged(c, step.Body, w, times*max(1, step.Trip.Data.Int(0)))
		steps = []loop.Step{&inside}
	}
	if steps == nil {
		c.made, c.saving = made, saving
	}
	return steps
}

// portionable reports whether no step of a loop's body needs all of a weight, so that nothing is brought in that a page
// before the loop would bring in once.
func (s *squeezer) portionable(body []loop.Step, w *loop.Buffer) bool {
	for _, step := range body {
		if l, launches := step.(*loop.Launch); live.Mentions(step, w) &&
			(!launches || s.byRows(&change{}, l, w, 1) == nil && s.byParts(&change{}, l, w, 1) == nil) {
			return false
		}
	}
	return true
}

// byRows reads the rows of a table that a kernel's indices choose; nil if it does not choose rows, or the rows may be
// more than the table.
func (s *squeezer) byRows(c *change, l *loop.Launch, w *loop.Buffer, times int64) (steps []loop.Step) {
	now := &loop.Launch{Kernel: l.Kernel, Args: slices.Clone(l.Args), Source: l.Source}
	for at := range now.Args {
		if now.Args[at] != w {
			continue
		}
		chosen := schedule.Choose(now.Kernel, at)
		if chosen == nil {
			return nil
		}
		index := s.shaped(c, now.Args[chosen.Index], now.Kernel.Params[chosen.Index].Shape)
		if index == nil {
			return nil
		}
		rows := s.fresh(c, w, loop.Temp, "rows")
		rows.Shape = chosen.Kernel.Params[at].Shape
		bytes, bounded := s.size(rows)
		if !bounded || bytes >= int64(len(w.Data.Bytes())) {
			return nil
		}
		steps = append(steps, &loop.Copy{To: rows, From: s.part(c, w, "table", chosen.Shape, chosen.Stride, 0),
			Pick: &loop.Pick{Index: index, Rows: chosen.Rows, Source: l.Kernel.Source}})
		c.saving.Moved += bytes * times
		c.saving.Rows = max(c.saving.Rows, rowsOf(chosen, bytes, w))
		now.Kernel, now.Args[at] = s.kernel(chosen.Kernel, "rows"), rows
	}
	if steps == nil || live.Mentions(now, w) {
		return nil
	}
	return append(steps, now)
}

// rowsOf is how many rows so many bytes are.
func rowsOf(c *schedule.Chosen, bytes int64, w *loop.Buffer) int64 {
	row := int64(w.DType.Bits() / 8)
	for _, extent := range c.Shape[len(c.Shape)-len(c.Kernel.Params[c.Param].Shape)+len(c.Kernel.Params[c.Index].Shape):] {
		n, _ := extent.Const()
		row *= n
	}
	return bytes / max(row, 1)
}

// shaped is a buffer under a shape of as many elements; nil if its elements do not lie in order.
func (s *squeezer) shaped(c *change, b *loop.Buffer, shape []sym.Expr) *loop.Buffer {
	switch {
	case b.Away() || b.View != nil && b.View.Strides != nil:
		return nil
	case slices.EqualFunc(b.Shape, shape, sym.Expr.Equal):
		return b
	}
	return s.part(c, b, "view", shape, nil, 0)
}

// part is a view of a buffer.
func (s *squeezer) part(c *change, b *loop.Buffer, what string, shape, strides []sym.Expr, offset int64) *loop.Buffer {
	if slices.EqualFunc(strides, loop.RowMajor(shape), sym.Expr.Equal) {
		strides = nil
	}
	if strides == nil && offset == 0 && slices.EqualFunc(b.Shape, shape, sym.Expr.Equal) {
		return b
	}
	v := s.fresh(c, b, loop.Temp, what)
	v.Shape, v.View = shape, &loop.View{Of: b, Offset: sym.Const(offset), Strides: strides}
	return v
}

// byParts computes a kernel a stretch of a weight at a time, each of which is in memory alone; nil if the weight is no
// larger than a page may be, or the kernel cannot be cut so.
func (s *squeezer) byParts(c *change, l *loop.Launch, w *loop.Buffer, times int64) (steps []loop.Step) {
	at := slices.Index(l.Args, w)
	bytes := int64(len(w.Data.Bytes()))
	if s.page <= 0 || bytes <= s.page || at < 0 || slices.Contains(l.Args[at+1:], w) {
		return nil
	}
	cut := schedule.CutBy(l.Kernel, at, s.m.Dims)
	if cut == nil {
		return nil
	}
	each := max(1, s.page/max(1, bytes/cut.Extent), (cut.Extent+mostParts-1)/mostParts)
	parts := (cut.Extent + each - 1) / each
	each = (cut.Extent + parts - 1) / parts
	for begin := int64(0); begin < cut.Extent; begin += each {
		part := cut.Part(begin, min(begin+each, cut.Extent))
		now := &loop.Launch{Kernel: s.kernel(part.Kernel, "part"), Args: slices.Clone(l.Args), Source: l.Source}
		for i, b := range now.Args {
			p, was := part.Kernel.Params[i], l.Kernel.Params[i]
			strides := was.Strides
			if strides == nil {
				strides = loop.RowMajor(was.Shape)
			}
			step, fixed := strides[max(0, part.Axis[i])].Const()
			switch {
			case slices.EqualFunc(p.Shape, was.Shape, sym.Expr.Equal) && i != at:
			case !fixed && part.Offset[i] > 0, b.View != nil && b.View.Strides != nil &&
				(!slices.EqualFunc(b.Shape, was.Shape, sym.Expr.Equal) ||
					!slices.EqualFunc(b.View.Strides, strides, sym.Expr.Equal)):
				return nil
			case i == at:
				page := s.fresh(c, w, loop.Temp, "page")
				page.Shape = p.Shape
				now.Args[i] = page
				steps = append(steps, &loop.Copy{To: page, From: s.part(c, w, "part", p.Shape, strides, step*part.Offset[i])})
			default:
				now.Args[i] = s.part(c, b, "part", p.Shape, strides, step*part.Offset[i])
			}
		}
		steps = append(steps, now)
	}
	c.saving.Moved += bytes * times
	c.saving.Pieces = max(c.saving.Pieces, parts)
	return steps
}

// kernel is a kernel like the given one that the module has, or the given one under a name of its own.
func (s *squeezer) kernel(k *loop.Kernel, what string) *loop.Kernel {
	name := k.Name
	k.Name = ""
	text := k.String()
	if known := s.kernels[text]; known != nil {
		return known
	}
	for i := 1; ; i++ {
		k.Name = fmt.Sprintf("%s.%s%d", name, what, i)
		if !s.kernelNames[k.Name] {
			break
		}
	}
	s.kernelNames[k.Name], s.kernels[text] = true, k
	return k
}

// regenerate has the code be that of the kernels that the steps launch, where there are others than there were.
func (s *squeezer) regenerate(body []loop.Step) error {
	var used []*loop.Kernel
	seen := map[*loop.Kernel]bool{}
	live.Each(body, func(l *loop.Launch) {
		if !seen[l.Kernel] {
			seen[l.Kernel] = true
			used = append(used, l.Kernel)
		}
	})
	if !slices.ContainsFunc(used, func(k *loop.Kernel) bool { return !slices.Contains(s.m.Kernels, k) }) {
		return nil
	}
	s.m.Kernels = used
	if err := s.c.Regenerate(); err != nil {
		return err
	}
	s.bounded()
	return nil
}
