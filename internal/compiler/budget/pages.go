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

// option is a weight that may be paged, and the bytes moved per byte saved.
type option struct {
	w    *loop.Buffer
	cost float64
}

// pages leaves weights in their file until the live bytes, plus margin, fit the budget. It takes the weights with the
// fewest bytes moved per byte saved first, such as tables of which a run reads some rows; of equals, the largest.
func (s *squeezer) pages(body []loop.Step, margin int64) []loop.Step {
	var options []option
	for _, b := range s.m.Buffers {
		if b.Kind != loop.Weight || b.View != nil || b.Paged || b.Data.Size() < leastPaged {
			continue
		}
		if c := s.pageOf(body, b); c != nil {
			options = append(options, option{b, math.Round(float64(c.saving.Moved) / float64(c.saving.Bytes))})
		}
	}
	slices.SortStableFunc(options, func(a, b option) int {
		return cmp.Or(cmp.Compare(a.cost, b.cost), cmp.Compare(b.w.Data.Size(), a.w.Data.Size()))
	})
	for {
		body, options = s.oneByOne(body, options, margin)
		if s.live(body) <= s.target()-margin {
			return body
		}
		next := s.inTurns(body, options)
		if next == nil {
			return body
		}
		body, options = next, slices.DeleteFunc(options, func(o option) bool { return o.w.Paged })
	}
}

// oneByOne pages weights in the order of a list until the live bytes, plus margin, fit the budget, each only if its
// page adds less to the live bytes than the weight takes. It returns the steps and the rest of the list. Pages can only
// raise the peak: if those of several weights together do not, none of them does.
func (s *squeezer) oneByOne(body []loop.Step, options []option, margin int64) ([]loop.Step, []option) {
	peak := s.live(body)
	for i, count := 0, 1; i < len(options) && peak > s.target()-margin; {
		if count = min(count, len(options)-i); count > 1 {
			next := s.together(body, options[i:i+count], func(grown, _ int64) bool {
				return grown == peak && peak > s.target()-margin
			})
			if next != nil {
				body, options, count = next, slices.Delete(options, i, i+count), 2*count
			} else {
				count /= 2
			}
			continue
		}
		o := options[i]
		var c *change
		var grown int64
		saves := false
		for _, s.inside = range []bool{false, true} { // a page for a body may be as large as what it saves
			if c = s.pageOf(body, o.w); c == nil {
				break
			}
			buffers := s.m.Buffers
			s.m.Buffers = append(slices.Clone(buffers), c.made...)
			grown = s.live(c.body)
			s.m.Buffers = buffers
			if saves = int64(s.budget.Calls)*(grown-peak) < c.saving.Bytes; saves || !s.inBodies(body, o.w) {
				break
			}
		}
		s.inside = false
		if c == nil {
			options = slices.Delete(options, i, i+1)
			continue
		}
		if !saves {
			i++
			continue
		}
		s.keep(c.made, c.saving)
		o.w.Paged = true
		if options = slices.Delete(options, i, i+1); grown > peak {
			i = 0 // weights whose page made the peak higher before may now fit beneath it
		}
		body, peak, count = c.body, grown, 2
	}
	return body, options
}

// inTurns pages some of the weights of a list that save nothing one by one, because the page of each is as large as the
// weight and adds to the peak: the pages of weights that different steps use take turns in the memory of the largest.
// It takes the smallest weights, and as few as save anything; then oneByOne pages more beneath the same peak. It
// returns nil if no number of them saves anything.
func (s *squeezer) inTurns(body []loop.Step, options []option) []loop.Step {
	list := slices.Clone(options)
	slices.SortStableFunc(list, func(a, b option) int {
		return cmp.Or(cmp.Compare(a.cost, b.cost), cmp.Compare(a.w.Data.Size(), b.w.Data.Size()))
	})
	ways := []bool{false}
	if slices.ContainsFunc(list, func(o option) bool { return s.inBodies(body, o.w) }) {
		ways = append(ways, true)
	}
	defer func() { s.inside = false }()
	peak := s.live(body)
	for count := 1; count < len(list); {
		count = min(2*count, len(list))
		most, inside := int64(0), false
		for _, s.inside = range ways {
			s.together(body, list[:count], func(grown, saved int64) bool {
				if less := saved - int64(s.budget.Calls)*(grown-peak); less > most {
					most, inside = less, s.inside
				}
				return false
			})
		}
		if s.inside = inside; most > 0 {
			return s.together(body, list[:count], func(_, _ int64) bool { return true })
		}
	}
	return nil
}

// together pages all weights of a list if worth reports that it is, given the peak to which they raise the live bytes,
// and the bytes that they save. It returns nil otherwise.
func (s *squeezer) together(body []loop.Step, list []option, worth func(peak, saved int64) bool) []loop.Step {
	buffers, done := s.m.Buffers, s.done
	saved := int64(0)
	for _, o := range list {
		c := s.pageOf(body, o.w)
		if c == nil {
			body = nil
			break
		}
		s.keep(c.made, c.saving)
		saved += c.saving.Bytes
		o.w.Paged, body = true, c.body
	}
	if body != nil && worth(s.live(body), saved) {
		return body
	}
	s.name(s.m.Buffers[len(buffers):], false)
	s.m.Buffers, s.done = buffers, done
	for _, o := range list {
		o.w.Paged = false
	}
	return nil
}

// inBodies reports whether a loop or a branch uses a weight.
func (s *squeezer) inBodies(body []loop.Step, w *loop.Buffer) bool {
	return slices.ContainsFunc(body, func(step loop.Step) bool {
		_, loops := step.(*loop.Loop)
		_, branches := step.(*loop.If)
		return (loops || branches) && live.Mentions(step, w)
	})
}

// pageOf returns the change that pages a weight; nil if a step copies the weight itself.
func (s *squeezer) pageOf(body []loop.Step, w *loop.Buffer) *change {
	c := newChange(Saving{Kind: PageIn, Tensor: live.TensorName(w), Bytes: w.Data.Size()})
	if c.body = s.paged(c, body, w, 1); c.body == nil {
		return nil
	}
	return c
}

// paged returns the steps with a weight read into memory before each step that uses it: only the selected rows if a
// kernel gathers rows; one piece at a time if the weight is larger than a page and the kernel can be cut along it; else
// all of it. A weight whose elements choose the rows that a copy reads is read before the copy. times is the number of
// times the steps run. It returns nil if a step copies the weight itself.
func (s *squeezer) paged(c *change, body []loop.Step, w *loop.Buffer, times int64) (out []loop.Step) {
	for _, step := range body {
		if !live.Mentions(step, w) {
			out = append(out, step)
			continue
		}
		if moves, is := step.(*loop.Copy); is && (moves.From.Root() == w || moves.To.Root() == w) {
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

// inPortions replaces a step that uses a weight by steps that read rows or pieces of it; nil if the step needs all of
// the weight at once.
func (s *squeezer) inPortions(c *change, step loop.Step, w *loop.Buffer, times int64) []loop.Step {
	made, saving := c.made, c.saving
	var steps []loop.Step
	switch step := step.(type) {
	case *loop.Launch:
		if steps = s.byRows(c, step, w, times); steps == nil {
			c.undo(made, saving)
			if steps = s.byPieces(c, step, w, times); steps == nil {
				c.undo(made, saving)
				steps = s.bySlices(c, step, w, times)
			}
		}
	case *loop.Loop:
		if step.Trip == nil || step.Trip.Root() == w || step.Cond != nil && step.Cond.Root() == w ||
			!s.inside && !s.portionable(step.Body, w) {
			break
		}
		within := *step
		within.Body = s.paged(c, step.Body, w, int64(min(mostTimes, float64(times)*max(1, s.iterations(step)))))
		if within.Body != nil {
			steps = []loop.Step{&within}
		}
	case *loop.If:
		if step.Cond.Root() == w || !s.inside && !(s.portionable(step.Then, w) && s.portionable(step.Else, w)) {
			break
		}
		within := *step
		within.Then, within.Else = s.paged(c, step.Then, w, times), s.paged(c, step.Else, w, times)
		if (within.Then != nil || len(step.Then) == 0) && (within.Else != nil || len(step.Else) == 0) {
			steps = []loop.Step{&within}
		}
	}
	if steps == nil {
		c.undo(made, saving)
	}
	return steps
}

// portionable reports whether every step of a loop's body can use rows or pieces of a weight. Otherwise it is cheaper
// to read the weight once, before the loop, if there is room for it.
func (s *squeezer) portionable(body []loop.Step, w *loop.Buffer) bool {
	return !slices.ContainsFunc(body, func(step loop.Step) bool {
		l, launches := step.(*loop.Launch)
		return live.Mentions(step, w) && !(launches && s.inParts(l, w))
	})
}

// inParts reports whether a launch can use rows or pieces of a weight, and remembers it.
func (s *squeezer) inParts(l *loop.Launch, w *loop.Buffer) bool {
	key := use{l, w}
	can, known := s.parted[key]
	if !known {
		can = s.byRows(newChange(Saving{}), l, w, 1) != nil || s.byPieces(newChange(Saving{}), l, w, 1) != nil
		s.parted[key] = can
	}
	return can
}

// byRows replaces a launch that gathers rows of a weight by a copy of these rows and a launch on the copy; nil if the
// kernel does not gather rows, or the rows may be larger than the weight.
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
		if !bounded || bytes >= w.Data.Size() {
			return nil
		}
		steps = append(steps, &loop.Copy{To: rows, From: s.viewOf(c, w, "table", chosen.Shape, chosen.Stride, 0),
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

// rowsOf returns the number of a table's rows in so many bytes.
func rowsOf(c *schedule.Chosen, bytes int64, w *loop.Buffer) int64 {
	row := int64(w.DType.Bits() / 8)
	for _, extent := range c.Shape[len(c.Shape)-len(c.Kernel.Params[c.Param].Shape)+len(c.Kernel.Params[c.Index].Shape):] {
		n, _ := extent.Const()
		row *= n
	}
	return bytes / max(row, 1)
}

// shaped returns b, or a view of it, in a shape with as many elements; nil if b is in a file or is not contiguous.
func (s *squeezer) shaped(c *change, b *loop.Buffer, shape []sym.Expr) *loop.Buffer {
	switch {
	case b.Away() || b.View != nil && b.View.Strides != nil:
		return nil
	case slices.EqualFunc(b.Shape, shape, sym.Expr.Equal):
		return b
	}
	return s.viewOf(c, b, "view", shape, nil, 0)
}

// viewOf returns a view of a buffer at an offset in elements; b itself if the view would cover all of it.
func (s *squeezer) viewOf(c *change, b *loop.Buffer, what string, shape, strides []sym.Expr,
	offset int64) *loop.Buffer {
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

// byPieces replaces a launch by one launch for each piece of a weight, with one piece in memory at a time; nil if the
// weight is no larger than a page, or the kernel cannot be cut along it.
func (s *squeezer) byPieces(c *change, l *loop.Launch, w *loop.Buffer, times int64) (steps []loop.Step) {
	at := slices.Index(l.Args, w)
	bytes := w.Data.Size()
	if s.page <= 0 || bytes <= s.page || at < 0 || slices.Contains(l.Args[at+1:], w) {
		return nil
	}
	cut := s.cut(operand{l.Kernel, at})
	if cut == nil {
		return nil
	}
	each, parts := s.partsOf(cut, bytes)
	for begin := int64(0); begin < cut.Extent; begin += each {
		part := s.slice(cut, slice{operand{l.Kernel, at}, begin, min(begin+each, cut.Extent)})
		now := &loop.Launch{Kernel: part.Kernel, Args: slices.Clone(l.Args), Source: l.Source}
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
				steps = append(steps, &loop.Copy{To: page, From: s.viewOf(c, w, "part", p.Shape, strides, step*part.Offset[i])})
			default:
				now.Args[i] = s.viewOf(c, b, "part", p.Shape, strides, step*part.Offset[i])
			}
		}
		steps = append(steps, now)
	}
	c.saving.Moved += bytes * times
	c.saving.Pieces = max(c.saving.Pieces, parts)
	return steps
}

// largestPage returns the bytes of the largest weight that is not paged, or part of a weight that steps read into
// memory at once.
func (s *squeezer) largestPage(body []loop.Step) int64 {
	most := largestWeight(s.m, func(b *loop.Buffer) bool { return !b.Paged })
	var parts func(body []loop.Step)
	parts = func(body []loop.Step) {
		for _, step := range body {
			switch step := step.(type) {
			case *loop.Copy:
				if step.From.Root().Kind == loop.Weight {
					bytes, _ := s.size(step.To)
					most = max(most, bytes)
				}
			case *loop.Loop:
				parts(step.Body)
			}
		}
	}
	parts(body)
	return most
}

// largestWeight returns the bytes of the largest weight for which counts is true.
func largestWeight(m *loop.Module, counts func(b *loop.Buffer) bool) (most int64) {
	for _, b := range m.Buffers {
		if b.Kind == loop.Weight && b.View == nil && counts(b) {
			most = max(most, b.Data.Size())
		}
	}
	return most
}

// partsOf returns the iterations of a cut kernel that read one part of a weight of so many bytes, and the number of
// parts.
func (s *squeezer) partsOf(cut *schedule.Cut, bytes int64) (each, parts int64) {
	each = max(1, s.page/max(1, bytes/cut.Extent), (cut.Extent+mostPieces-1)/mostPieces)
	parts = (cut.Extent + each - 1) / each
	return (cut.Extent + parts - 1) / parts, parts
}

// parts returns the bytes of the weights that a launch reads that are in memory at once at least, if they are paged.
func (s *squeezer) parts(l *loop.Launch) (least int64) {
	for at, w := range l.Args {
		if w.Kind != loop.Weight || w.View != nil || slices.Index(l.Args, w) != at {
			continue
		}
		bytes := w.Data.Size()
		if bytes >= leastPaged && schedule.Choose(l.Kernel, at) != nil {
			continue // only some rows of it
		}
		if cut := s.cut(operand{l.Kernel, at}); s.page > 0 && bytes > s.page && cut != nil {
			each, _ := s.partsOf(cut, bytes)
			bytes = bytes / cut.Extent * each
		}
		least = max(least, bytes)
	}
	return least
}

// cut returns the cut of a kernel along an operand, and remembers it.
func (s *squeezer) cut(o operand) *schedule.Cut {
	cut, known := s.cuts[o]
	if !known {
		cut = schedule.CutBy(o.kernel, o.param, s.m.Dims)
		s.cuts[o] = cut
	}
	return cut
}

// slice returns a slice of a cut kernel, and remembers it.
func (s *squeezer) slice(cut *schedule.Cut, x slice) *schedule.Slice {
	if s.slices[x] == nil {
		made := cut.Slice(x.begin, x.end)
		made.Kernel = s.kernel(made.Kernel, "part")
		s.slices[x] = made
	}
	return s.slices[x]
}

// bySlices replaces a launch that uses only slices of a weight, because it was cut along another weight, by copies of
// these slices and a launch on the copies; nil if it uses all of the weight.
func (s *squeezer) bySlices(c *change, l *loop.Launch, w *loop.Buffer, times int64) (steps []loop.Step) {
	now := &loop.Launch{Kernel: l.Kernel, Args: slices.Clone(l.Args), Source: l.Source}
	total := w.Data.Size()
	for i, v := range l.Args {
		if v.Root() != w {
			continue
		}
		x, err := live.BytesOf(v, sym.Product(v.Shape...)).Eval(s.value)
		if err != nil || x >= total || !slices.EqualFunc(v.Shape, now.Kernel.Params[i].Shape, sym.Expr.Equal) {
			return nil
		}
		if now.Kernel.Params[i].Strides != nil {
			contiguous := (&loop.Rewrite{}).Kernel(now.Kernel)
			contiguous.Params[i].Strides = nil
			now.Kernel = s.kernel(contiguous, "page")
		}
		page := s.fresh(c, w, loop.Temp, "page")
		page.Shape = v.Shape
		now.Args[i] = page
		steps = append(steps, &loop.Copy{To: page, From: v})
		c.saving.Moved += x * times
		c.saving.Pieces = max(c.saving.Pieces, (total+x-1)/x)
	}
	return append(steps, now)
}

// kernel returns a kernel of an earlier call that equals k except for its name; k under a new name if there is none.
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

// regenerate makes the kernels that the steps launch the module's, and generates their code, if any of them is new.
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
		if k, is := s.c.(*search); is {
			return k.current()
		}
		return nil
	}
	s.m.Kernels = used
	if err := s.c.Regenerate(); err != nil {
		return err
	}
	s.bounded()
	return nil
}
