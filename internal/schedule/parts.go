package schedule

import (
	"maps"
	"slices"
	"strings"

	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// Reasons why a piece is not written directly into the buffer that holds it.
const (
	whyGiven   = "it is given, not computed by a kernel of the model"
	whyResult  = "it is also a result, with storage of its own"
	whyMade    = "its producer cannot write it there"
	whyRead    = "a reader cannot read it there"
	whyLaid    = "it already lies in another buffer"
	whyStrided = "contiguous elements would be strided there, or in runs too short for vectors"
	whyDecided = "its size depends on data"
	whyArena   = "there it would enlarge the arena"
)

// partsPass is the state for one list of steps.
type partsPass struct {
	*scheduler
	list *[]loop.Step
	top  bool
	at   map[loop.Step]int // index in the list of a step, or of the step around it
}

// putParts lets kernels write their results directly into the slice of the buffer to which a later kernel would only
// copy them, as for a concatenation. That buffer is then live from its first piece on, which may enlarge the arena: the
// pieces that enlarge it are left as they were.
func (s *scheduler) putParts() error {
	if s.kept = s.options.Kept; s.kept == nil {
		s.kept = map[string]string{}
	}
	s.laid = map[*loop.Buffer]bool{}
	s.findShared()
	var before []int64
	arena := func() ([]int64, error) {
		if s.options.Arena == nil {
			return nil, nil
		}
		return s.options.Arena()
	}
	saved := s.save()
	done := s.putAll(nil)
	if len(done) == 0 {
		return nil
	}
	after, err := arena()
	if err != nil {
		return err
	}
	now := s.save()
	s.restore(saved)
	if before, err = arena(); err != nil {
		return err
	}
	if !more(before, after) {
		s.restore(now)
		return nil
	}
	// By halves, until the pieces that enlarge the arena are left out.
	var try func(names []string) error
	try = func(names []string) error {
		saved := s.save()
		allowed := map[string]bool{}
		for _, name := range names {
			allowed[name] = true
		}
		if len(s.putAll(allowed)) == 0 {
			return nil
		}
		after, err := arena()
		if err != nil {
			return err
		}
		if !more(before, after) {
			before = after
			return nil
		}
		s.restore(saved)
		if len(names) == 1 {
			s.tooLarge[names[0]] = true
			return nil
		}
		if err := try(names[:len(names)/2]); err != nil {
			return err
		}
		return try(names[len(names)/2:])
	}
	s.tooLarge = map[string]bool{}
	if len(done) == 1 {
		s.tooLarge[done[0]] = true
	} else if err := try(done[:len(done)/2]); err != nil {
		return err
	} else if err := try(done[len(done)/2:]); err != nil {
		return err
	}
	s.putAll(map[string]bool{}) // records the reasons
	return nil
}

// more reports whether any size grew.
func more(before, after []int64) bool {
	for i := range before {
		if after[i] > before[i] {
			return true
		}
	}
	return false
}

// saved is the state that putParts changes.
type saved struct {
	kernels []*loop.Kernel
	buffers []*loop.Buffer
	views   []*loop.View
	laid    map[*loop.Buffer]bool
	lists   map[*[]loop.Step][]loop.Step
}

// save returns a copy of that state.
func (s *scheduler) save() *saved {
	m := s.module
	v := &saved{laid: maps.Clone(s.laid), kernels: slices.Clone(m.Kernels), buffers: slices.Clone(m.Buffers),
		lists: map[*[]loop.Step][]loop.Step{}}
	for _, b := range m.Buffers {
		v.views = append(v.views, b.View)
	}
	s.eachList(&m.Body, func(list *[]loop.Step) { v.lists[list] = slices.Clone(*list) })
	return v
}

// restore sets the state back to a saved copy.
func (s *scheduler) restore(v *saved) {
	s.module.Kernels, s.module.Buffers = slices.Clone(v.kernels), slices.Clone(v.buffers)
	s.laid = maps.Clone(v.laid)
	for i, b := range v.buffers {
		b.View = v.views[i]
	}
	for list, steps := range v.lists {
		*list = slices.Clone(steps)
	}
	s.findShared()
}

// putAll visits all lists, from the last step to the first, so that nested concatenations work. It returns the names of
// the kernels of which at least one piece is now written directly; allowed, if not nil, restricts them.
func (s *scheduler) putAll(allowed map[string]bool) (done []string) {
	s.eachList(&s.module.Body, func(list *[]loop.Step) {
		p := &partsPass{scheduler: s, list: list, top: list == &s.module.Body}
		p.index()
		for i := len(*list) - 1; i >= 0; i-- {
			l, ok := (*list)[i].(*loop.Launch)
			if !ok || !s.soleLaunch(l) {
				continue
			}
			if p.put(i, l, allowed) {
				done = append(done, l.Kernel.Name)
				p.index()
			}
		}
	})
	return done
}

// index records the positions of steps.
func (p *partsPass) index() {
	p.countUses()
	p.at = map[loop.Step]int{}
	for i, step := range *p.list {
		inner := []loop.Step{step}
		p.eachList(&inner, func(list *[]loop.Step) {
			for _, step := range *list {
				p.at[step] = i
			}
		})
	}
}

// put handles the kernel at one index of the list.
func (p *partsPass) put(i int, l *loop.Launch, allowed map[string]bool) bool {
	out, list := p.pieces(l.Kernel)
	if list == nil {
		return false
	}
	result := l.Args[out]
	reason := func(piece *piece, why string) {
		if piece.source >= 0 && why != "" {
			p.kept[keptKey(l.Args[piece.source], result)] = why
		}
	}
	if allowed != nil && !allowed[l.Kernel.Name] {
		for _, piece := range list {
			if p.tooLarge[l.Kernel.Name] {
				reason(piece, whyArena)
			}
		}
		return false
	}
	if p.alreadyLaid(i, l, out, list) {
		p.drop(i, l)
		return true
	}
	if why := p.mayBegin(i, result); why != "" {
		for _, piece := range list {
			reason(piece, why)
		}
		return false
	}
	at, ok := p.under(layoutOf(result), result.Shape, l.Kernel.Params[out].Shape)
	if !ok {
		return false
	}
	var rest []*piece
	for _, piece := range list {
		if piece.source < 0 {
			rest = append(rest, piece)
			continue
		}
		l := (*p.list)[i].(*loop.Launch) // moving a source changes the launch that reads it
		from := l.Args[piece.source]
		shape := l.Kernel.Params[piece.source].Shape
		to := at.box(piece).along(piece, shape)
		if here, ok := p.under(layoutOf(from), from.Shape, shape); ok && p.sameLayout(here, to, shape) {
			continue
		}
		if why := p.moveTo(i, from, to, shape); why != "" {
			reason(piece, why)
			rest = append(rest, piece)
		}
	}
	if len(rest) == len(list) {
		return false
	}
	p.laid[at.root] = true
	p.keep(i, out, at, rest)
	return true
}

// keptKey returns the key in Options.Kept of a piece and the result into which it is copied.
func keptKey(from, result *loop.Buffer) string { return from.Name + " " + result.Root().Name }

// alreadyLaid reports whether all pieces of a result already lie in another buffer in the same arrangement. The result
// then becomes a view of that buffer.
func (p *partsPass) alreadyLaid(i int, l *loop.Launch, out int, list []*piece) bool {
	result, shape := l.Args[out], l.Kernel.Params[out].Shape
	to := layout{}
	for n, piece := range list {
		if piece.source < 0 {
			return false
		}
		from := l.Args[piece.source]
		fromShape := l.Kernel.Params[piece.source].Shape
		here, ok := p.under(layoutOf(from), from.Shape, fromShape)
		if !ok || !p.laid[here.root] || here.root == result.Root() {
			return false
		}
		if n == 0 {
			to = layout{root: here.root, offset: here.offset, strides: make([]sym.Expr, len(shape))}
			next := one
			for axis := len(shape) - 1; axis >= 0; axis-- {
				if j := slices.Index(piece.axes, axis); j >= 0 {
					next = here.strides[j]
				} else if !isOne(shape[axis]) {
					return false
				}
				to.strides[axis], next = next, next.Mul(shape[axis])
			}
			for axis, begin := range piece.begin {
				to.offset = to.offset.Sub(begin.Mul(to.strides[axis]))
			}
		}
		if !p.sameLayout(here, to.box(piece).along(piece, fromShape), fromShape) {
			return false
		}
	}
	return p.moveTo(i, result, to, shape) == ""
}

// mayBegin returns "" if the result of step i may be written earlier, piece by piece: nothing else writes it, and
// nothing reads it before. Otherwise it returns the reason.
func (p *partsPass) mayBegin(i int, result *loop.Buffer) (why string) {
	root := result.Root()
	if p.laid[result] {
		return "" // an earlier call found that it may
	}
	u := p.usesOf(result)
	switch {
	case root.Kind != loop.Temp && root.Kind != loop.Output || len(u.writers) != 1:
		return whyLaid
	case p.decided(root.Shape):
		return whyDecided
	}
	for _, reader := range u.readers {
		if at, here := p.at[reader]; here && at <= i || !here && !p.top {
			return whyLaid
		}
	}
	if root.Kind == loop.Output && !p.top {
		return whyLaid
	}
	return ""
}

// decided reports whether extents depend on data.
func (p *partsPass) decided(shape []sym.Expr) bool {
	return slices.ContainsFunc(shape, func(e sym.Expr) bool {
		return slices.ContainsFunc(e.Vars(), func(name sym.Name) bool { _, data := p.module.Limits[name]; return data })
	})
}

// moveTo gives a buffer, with its entire storage, the layout to which step i of the list would copy it; shape is its
// shape there. It returns "", or the reason why that is impossible.
func (p *partsPass) moveTo(i int, b *loop.Buffer, to layout, shape []sym.Expr) (why string) {
	root := b.Root()
	switch {
	case root.Kind == loop.Output:
		return whyResult
	case root.Kind != loop.Temp:
		return whyGiven
	case p.laid[root] || root == to.root:
		return whyLaid
	case p.decided(root.Shape) || p.decided(to.root.Shape):
		return whyDecided
	case !p.closeTogether(to, shape):
		return whyStrided
	}
	// Every buffer in the storage must cover all of it, in some shape.
	layouts := map[*loop.Buffer]layout{}
	for _, other := range p.module.Buffers {
		if other.Root() != root {
			continue
		}
		own := layoutOf(other)
		if !isZero(own.offset) || other.View != nil && other.View.Strides != nil ||
			!p.equal(sym.Product(other.Shape...), sym.Product(shape...)) {
			return whyRead
		}
		at, ok := p.under(to, shape, other.Shape)
		if !ok {
			return whyRead
		}
		layouts[other] = at
	}
	u := p.usesOf(root)
	if len(u.writers) != 1 {
		return whyMade
	}
	first, here := p.at[u.writers[0]]
	if !here || first > i || (*p.list)[first] != u.writers[0] {
		return whyMade
	}
	changed := map[int]*loop.Launch{}
	for _, step := range slices.Concat(u.writers, u.readers) {
		at, here := p.at[step]
		if !here || (*p.list)[at] != step || at < first || at == first && step != u.writers[0] {
			return whyRead
		}
		l, launch := p.moved(step, layouts)
		switch {
		case l == nil && at == first:
			return whyMade
		case l == nil:
			return whyRead
		case launch:
			changed[at] = l
		}
	}
	for at, l := range changed {
		old := (*p.list)[at].(*loop.Launch)
		p.replace(old.Kernel, l.Kernel)
		p.shared[l.Kernel] = p.shared[old.Kernel]
		(*p.list)[at] = l
		p.at[l] = at
	}
	for other, at := range layouts {
		other.View = &loop.View{Of: at.root, Offset: at.offset, Strides: at.strides}
		if p.rowMajor(at.strides, other.Shape) {
			other.View.Strides = nil
		}
		p.laid[other] = true
	}
	// A view must come after its buffer.
	p.module.Buffers = slices.DeleteFunc(p.module.Buffers, func(other *loop.Buffer) bool {
		_, is := layouts[other]
		return is
	})
	var order []*loop.Buffer
	for other := range layouts {
		order = append(order, other)
	}
	slices.SortFunc(order, func(a, b *loop.Buffer) int { return strings.Compare(a.Name, b.Name) })
	p.module.Buffers = append(p.module.Buffers, order...)
	p.index()
	return ""
}

// rowMajor reports whether strides are row-major for a shape.
func (p *partsPass) rowMajor(strides, shape []sym.Expr) bool {
	for i, step := range loop.RowMajor(shape) {
		if !isOne(shape[i]) && !p.equal(strides[i], step) {
			return false
		}
	}
	return true
}

// closeTogether reports whether contiguous elements stay contiguous in runs that fill a vector, or entirely.
func (p *partsPass) closeTogether(to layout, shape []sym.Expr) bool {
	length := one
	for axis := len(shape) - 1; axis >= 0; axis-- {
		if isOne(shape[axis]) {
			continue
		}
		if !p.equal(to.strides[axis], length) {
			return p.guess(length) >= leastTogether
		}
		length = length.Mul(shape[axis])
	}
	return true
}

// leastTogether is the number of contiguous elements with which kernels write a slice of each row as fast as all rows.
const leastTogether = 8

// moved returns a launch whose buffers have new layouts; nil if that is impossible. launch is false if it does not
// change.
func (p *partsPass) moved(step loop.Step, layouts map[*loop.Buffer]layout) (changed *loop.Launch, launch bool) {
	rowMajor := func(b *loop.Buffer) bool {
		at, is := layouts[b]
		return !is || p.rowMajor(at.strides, b.Shape)
	}
	l, ok := step.(*loop.Launch)
	if !ok {
		reads, writes := touched(step, true)
		for _, b := range append(reads, writes...) {
			if !rowMajor(b) {
				return nil, false
			}
		}
		return &loop.Launch{}, false
	}
	k := *l.Kernel
	k.Params = slices.Clone(k.Params)
	for i, b := range l.Args {
		if rowMajor(b) {
			continue
		}
		param := *k.Params[i]
		at, ok := p.under(layouts[b], b.Shape, param.Shape)
		if !ok || param.Strides != nil || param.Access == loop.Update || forBlocks(&k) || p.shared[l.Kernel] {
			return nil, false
		}
		if !p.rowMajor(at.strides, param.Shape) {
			param.Strides = at.strides
		}
		k.Params[i] = &param
	}
	k.Dims = dimsOf(&k, l.Kernel)
	return &loop.Launch{Kernel: &k, Args: l.Args, Source: l.Source}, true
}

// drop removes a launch and its kernel.
func (p *partsPass) drop(i int, l *loop.Launch) {
	l = (*p.list)[i].(*loop.Launch)
	p.module.Kernels = slices.DeleteFunc(p.module.Kernels, func(k *loop.Kernel) bool { return k == l.Kernel })
	*p.list = slices.Delete(*p.list, i, i+1)
}

// keep leaves in a kernel the pieces that are still copied. It makes several kernels if one would need too many
// operands.
func (p *partsPass) keep(i, out int, result layout, rest []*piece) {
	l := (*p.list)[i].(*loop.Launch)
	if len(rest) == 0 {
		p.drop(i, l)
		return
	}
	var steps []loop.Step
	for len(rest) > 0 {
		count := len(rest)
		next := p.moving(l, out, result, rest)
		for ; count > 1 && !p.commits(next.Kernel, l.Kernel); next = p.moving(l, out, result, rest[:count]) {
			count = (count + 1) / 2
		}
		rest = rest[count:]
		if len(steps) == 0 {
			p.replace(l.Kernel, next.Kernel)
		} else {
			next.Kernel.Name = p.nameAfter(next.Kernel, &loop.Kernel{Name: "rest"})
			p.module.Kernels = append(p.module.Kernels, next.Kernel)
		}
		for j, b := range next.Args {
			if next.Kernel.Params[j].Access == loop.Write {
				b.Name = p.bufferName(b.Name)
				p.module.Buffers = append(p.module.Buffers, b)
			}
		}
		p.shared[next.Kernel] = false
		steps = append(steps, next)
	}
	*p.list = slices.Replace(*p.list, i, i+1, steps...)
}

// moving returns a launch that copies pieces into the result, each through a view of its own.
func (p *partsPass) moving(l *loop.Launch, out int, result layout, pieces []*piece) *loop.Launch {
	k := &loop.Kernel{Name: l.Kernel.Name, Source: l.Kernel.Source}
	var args []*loop.Buffer
	to := l.Kernel.Params[out]
	names := p.newNamer(l.Kernel)
	for _, piece := range pieces {
		at := result.box(piece)
		view := &loop.Buffer{Name: l.Args[out].Name + ".part", Kind: loop.Temp, DType: to.DType, Shape: piece.extents,
			View: &loop.View{Of: result.root, Offset: at.offset, Strides: at.strides}, Source: l.Args[out].Source}
		param := &loop.Param{Name: names.name(to.Name), Access: loop.Write, DType: to.DType, Shape: piece.extents,
			Strides: at.strides}
		if p.rowMajor(at.strides, piece.extents) {
			view.View.Strides, param.Strides = nil, nil
		}
		r := &loop.Rewrite{Stmt: func(stmt loop.Stmt) []loop.Stmt {
			if store, ok := stmt.(*loop.Store); ok && store.To == to.Name {
				index := make([]sym.Expr, len(store.Index))
				for axis, e := range store.Index {
					index[axis] = e.Sub(piece.begin[axis])
				}
				store.To, store.Index = param.Name, index
			}
			return []loop.Stmt{stmt}
		}}
		k.Body = append(k.Body, r.Body([]loop.Stmt{piece.nest})...)
		k.Params, args = append(k.Params, param), append(args, view)
	}
	read := map[string]bool{}
	for _, a := range loop.Accesses(k.Body) {
		read[a.Buffer] = true
	}
	for j, q := range l.Kernel.Params {
		if j != out && read[q.Name] {
			k.Params, args = append(k.Params, q), append(args, l.Args[j])
		}
	}
	k.Dims = dimsOf(k, l.Kernel)
	return &loop.Launch{Kernel: k, Args: args, Source: l.Source}
}
