package schedule

import (
	"maps"
	"slices"
	"strings"

	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// fuse joins kernels, within each list of steps: bodies of If and Loop are lists of their own, and nothing crosses
// their borders. Maps that are read element for element by other maps go first, so that chains become one map; that is
// joined to the kernel whose result it reads; what is left of maps is computed where it is read, if that is cheap.
func (s *scheduler) fuse() {
	if s.off("inline") && s.off("epilogue") {
		s.pruneBuffers()
		return
	}
	for _, k := range s.module.Kernels {
		dropSingle(k) // so that index 0 and the variable of such a loop are the same index
	}
	s.findShared()
	s.eachList(&s.module.Body, func(list *[]loop.Step) {
		rounds := []struct {
			off  bool
			join func(list *[]loop.Step, at int) bool
		}{
			{s.off("inline"), func(list *[]loop.Step, at int) bool { return s.inline(list, at, true) }},
			{s.off("epilogue"), s.epilogue},
			{s.off("inline"), func(list *[]loop.Step, at int) bool { return s.inline(list, at, false) }},
		}
		for _, round := range rounds {
			if round.off {
				continue
			}
			s.countUses()
			for at := 0; at < len(*list); {
				if round.join(list, at) {
					at = max(at-1, 0)
				} else {
					at++
				}
			}
		}
	})
	s.pruneKernels()
	s.pruneBuffers()
}

func (s *scheduler) eachList(list *[]loop.Step, visit func(list *[]loop.Step)) {
	for _, step := range *list {
		for _, body := range loop.StepBodies(step) {
			if body != nil {
				s.eachList(body, visit)
			}
		}
	}
	visit(list)
}

// usage is what a module does to the storage of one buffer.
type usage struct {
	readers, writers []loop.Step
	viewed           bool // another buffer lies in it
}

// countUses finds the uses of every buffer's storage, by the buffer that owns it.
func (s *scheduler) countUses() {
	s.uses = map[*loop.Buffer]*usage{}
	s.eachList(&s.module.Body, func(list *[]loop.Step) {
		for _, step := range *list {
			s.learn(step)
		}
	})
}

// learn counts a step's uses; forget takes them back.
func (s *scheduler) learn(step loop.Step) {
	reads, writes := touched(step, false)
	for _, b := range reads {
		u := s.usesOf(b)
		u.readers = append(u.readers, step)
	}
	for _, b := range writes {
		u := s.usesOf(b)
		u.writers = append(u.writers, step)
	}
}

func (s *scheduler) forget(step loop.Step) {
	reads, writes := touched(step, false)
	is := func(other loop.Step) bool { return other == step }
	for _, b := range reads {
		u := s.usesOf(b)
		u.readers = slices.DeleteFunc(u.readers, is)
	}
	for _, b := range writes {
		u := s.usesOf(b)
		u.writers = slices.DeleteFunc(u.writers, is)
	}
}

func (s *scheduler) usesOf(b *loop.Buffer) *usage {
	root := b.Root()
	u := s.uses[root]
	if u == nil {
		u = &usage{}
		s.uses[root] = u
	}
	u.viewed = u.viewed || b != root
	return u
}

// touched lists the buffers that a step reads and writes; with deep, those of its bodies too.
func touched(step loop.Step, deep bool) (reads, writes []*loop.Buffer) {
	add := func(list *[]*loop.Buffer, buffers ...*loop.Buffer) {
		for _, b := range buffers {
			if b != nil {
				*list = append(*list, b)
			}
		}
	}
	inside := func(body []loop.Step) {
		for _, step := range body {
			if deep {
				r, w := touched(step, true)
				add(&reads, r...)
				add(&writes, w...)
			}
		}
	}
	switch step := step.(type) {
	case *loop.Launch:
		for i, p := range step.Kernel.Params {
			if p.Access == loop.Read || p.Access == loop.Update {
				add(&reads, step.Args[i])
			}
			if p.Access != loop.Read {
				add(&writes, step.Args[i])
			}
		}
	case *loop.Host:
		add(&reads, step.In...)
		add(&writes, step.Out...)
	case *loop.Bind:
		add(&reads, step.From)
	case *loop.If:
		add(&reads, step.Cond)
		inside(step.Then)
		inside(step.Else)
	case *loop.Loop:
		add(&reads, step.Trip, step.Cond, step.Index)
		add(&writes, step.Index)
		inside(step.Body)
	case *loop.Copy:
		add(&reads, step.From, step.Pick.Of())
		add(&writes, step.To)
	}
	return reads, writes
}

// conflict reports whether a step writes the storage of any of reads, or touches that of any of writes.
func conflict(step loop.Step, reads, writes []*loop.Buffer) bool {
	r, w := touched(step, true)
	return share(w, reads) || share(w, writes) || share(r, writes)
}

func share(a, b []*loop.Buffer) bool {
	return slices.ContainsFunc(a, func(x *loop.Buffer) bool {
		return slices.ContainsFunc(b, func(y *loop.Buffer) bool { return x.Root() == y.Root() })
	})
}

// binds reports whether a step gives a dimension its value.
func binds(step loop.Step) bool {
	_, launch := step.(*loop.Launch)
	_, copies := step.(*loop.Copy)
	return !launch && !copies
}

// private reports whether a buffer is a temporary that one launch writes whole, with no view into it.
func (s *scheduler) private(b *loop.Buffer) bool {
	u := s.uses[b]
	return b.Kind == loop.Temp && b.View == nil && u != nil && !u.viewed && len(u.writers) == 1
}

// mapping is a kernel that is a map.
type mapping struct {
	kernel *loop.Kernel
	loops  []*loop.For
	before []loop.Stmt // Lets and Checks
	store  *loop.Store
	out    int // the parameter that is stored to
}

// asMap takes a kernel apart that is one nest of each-loops around Lets, Checks and one store at the loops' variables,
// over all elements of its only result.
func (s *scheduler) asMap(k *loop.Kernel) *mapping {
	if neverRuns(k) {
		return nil
	}
	m := &mapping{kernel: k, out: -1}
	for i, p := range k.Params {
		if p.Access == loop.Read {
			continue
		}
		if m.out >= 0 || p.Access != loop.Write {
			return nil
		}
		m.out = i
	}
	body := k.Body
	for {
		f, ok := loop.Only(body)
		if !ok {
			break
		}
		if f.Kind != loop.Each {
			return nil
		}
		m.loops = append(m.loops, f)
		body = f.Body
	}
	for i, stmt := range body {
		switch stmt := stmt.(type) {
		case *loop.Let, *loop.Check:
			m.before = append(m.before, stmt)
		case *loop.Store:
			if i != len(body)-1 || stmt.Mask != nil {
				return nil
			}
			m.store = stmt
		default:
			return nil
		}
	}
	if m.store == nil || m.out < 0 || m.store.To != k.Params[m.out].Name {
		return nil
	}
	shape, used := k.Params[m.out].Shape, 0
	for axis, index := range m.store.Index {
		if isZero(index) && isOne(shape[axis]) {
			continue
		}
		if s.loopOver(m.loops, index, shape[axis], false) == nil {
			return nil
		}
		used++
		for other := range axis {
			if m.store.Index[other].Equal(index) {
				return nil
			}
		}
	}
	if used != len(m.loops) {
		return nil
	}
	return m
}

// checks reports whether a map has values to check.
func (m *mapping) checks() bool {
	return slices.ContainsFunc(m.before, func(s loop.Stmt) bool { _, ok := s.(*loop.Check); return ok })
}

// weight is the functions that a map computes per element, transcendental ones counted several times, and its loads.
func (m *mapping) weight() (functions, loads int) {
	visit := func(e loop.Expr) {
		switch e := e.(type) {
		case *loop.Unary:
			functions++
			if dear[e.Op] {
				functions += 9
			}
		case *loop.Binary:
			functions++
			if e.Op == loop.Pow || e.Op == loop.Div || e.Op == loop.FloorMod {
				functions += 3
			}
		case *loop.Select, *loop.Cast:
			functions++
		case *loop.Load:
			loads++
		}
	}
	loop.WalkValues(m.before, visit)
	loop.WalkExpr(m.store.X, visit)
	return functions, loads
}

// at is the map's statements and value where its indices in place have the values of index: place is how the map
// indexes its result, or an operand by all of its loops. Declared names become new ones.
func (m *mapping) at(place, index []sym.Expr, names *namer, params map[string]string) (before []loop.Stmt,
	value loop.Expr, integers map[sym.Name]sym.Expr) {
	integers = map[sym.Name]sym.Expr{}
	for axis, e := range place {
		if name, ok := e.Name(); ok {
			integers[name] = index[axis]
		}
	}
	renamed, bounds := maps.Clone(params), map[sym.Name]sym.Name{}
	if renamed == nil {
		renamed = map[string]string{}
	}
	for _, name := range declared(m.before) {
		renamed[name] = names.name(name)
	}
	for _, name := range bound(m.before) {
		bounds[name] = names.bound(name.Text())
		integers[name] = sym.Var(bounds[name])
	}
	r := loop.Renaming(bounds)
	r.Name = func(name string) string {
		if to, ok := renamed[name]; ok {
			return to
		}
		return name
	}
	r.Integer = func(e sym.Expr) sym.Expr {
		return e.Subst(func(name sym.Name) (sym.Expr, bool) { v, ok := integers[name]; return v, ok })
	}
	return r.Body(m.before), r.Value(m.store.X), integers
}

// adopt gives a kernel under construction the parameters of another but the one left out, and returns the names of all
// there. A buffer that the kernel reads already, in the same form, is shared.
func adopt(k *loop.Kernel, args *[]*loop.Buffer, from *loop.Kernel, fromArgs []*loop.Buffer, without int,
	names *namer) map[string]string {
	params := map[string]string{}
	for i, p := range from.Params {
		if i == without {
			params[p.Name] = names.name(p.Name) // no parameter: so that the name means nothing else
			continue
		}
		for j, q := range k.Params {
			if (*args)[j] == fromArgs[i] && p.Access == loop.Read && q.Access == loop.Read && sameForm(p, q) {
				params[p.Name] = q.Name
			}
		}
		if params[p.Name] != "" {
			continue
		}
		c := *p
		c.Name = names.name(p.Name)
		params[p.Name] = c.Name
		k.Params = append(k.Params, &c)
		*args = append(*args, fromArgs[i])
	}
	return params
}

func sameForm(p, q *loop.Param) bool {
	same := func(a, b []sym.Expr) bool {
		return len(a) == len(b) && (a == nil) == (b == nil) && slices.EqualFunc(a, b, sym.Expr.Equal)
	}
	return p.DType == q.DType && same(p.Shape, q.Shape) && same(p.Strides, q.Strides)
}

// dropParam removes a parameter and its argument.
func dropParam(k *loop.Kernel, args *[]*loop.Buffer, i int) {
	k.Params = slices.Delete(k.Params, i, i+1)
	*args = slices.Delete(*args, i, i+1)
}

// nameAfter names a kernel that does the work of two. Names stay readable: the first four parts, and how many more.
func (s *scheduler) nameAfter(first, second *loop.Kernel) string {
	name := strings.SplitN(first.Name, "..", 2)[0] + "+" + second.Name
	name = strings.Map(func(r rune) rune {
		if r == '+' {
			return '_'
		}
		return r
	}, name)
	if len(name) > 60 {
		name = strings.TrimRight(name[:60], "_.")
	}
	taken := func(n string) bool {
		return slices.ContainsFunc(s.module.Kernels, func(k *loop.Kernel) bool {
			return k.Name == n && k != first && k != second
		})
	}
	result := name
	for i := 1; taken(result); i++ {
		result = name + "_" + decimal(i)
	}
	return result
}

func joinSource(a, b string) string {
	switch {
	case a == "" || a == b:
		return b
	case b == "":
		return a
	}
	return a + ", " + b
}

// soleLaunch reports whether no other step launches the kernel.
func (s *scheduler) soleLaunch(step *loop.Launch) bool {
	return len(step.Kernel.Params) > 0 && !s.shared[step.Kernel]
}

// findShared finds the kernels that several steps launch.
func (s *scheduler) findShared() {
	seen := map[*loop.Kernel]bool{}
	s.shared = map[*loop.Kernel]bool{}
	s.eachList(&s.module.Body, func(list *[]loop.Step) {
		for _, step := range *list {
			if l, ok := step.(*loop.Launch); ok {
				s.shared[l.Kernel] = seen[l.Kernel]
				seen[l.Kernel] = true
			}
		}
	})
}

// replace puts a fused kernel in the place of another in the module.
func (s *scheduler) replace(old, fused *loop.Kernel) {
	if i := slices.Index(s.module.Kernels, old); i >= 0 {
		s.module.Kernels[i] = fused
	}
}

// pruneKernels drops the kernels that nothing launches.
func (s *scheduler) pruneKernels() {
	kernels := map[*loop.Kernel]bool{}
	s.eachList(&s.module.Body, func(list *[]loop.Step) {
		for _, step := range *list {
			if l, ok := step.(*loop.Launch); ok {
				kernels[l.Kernel] = true
			}
		}
	})
	s.module.Kernels = slices.DeleteFunc(s.module.Kernels, func(k *loop.Kernel) bool { return !kernels[k] })
}

// pruneBuffers drops the temporaries and weights that nothing mentions.
func (s *scheduler) pruneBuffers() {
	buffers := map[*loop.Buffer]bool{}
	loop.EachBuffer(s.module.Body, func(b *loop.Buffer) {
		for buffers[b] = true; b.View != nil; {
			b = b.View.Of
			buffers[b] = true
		}
	})
	s.module.Buffers = slices.DeleteFunc(s.module.Buffers, func(b *loop.Buffer) bool {
		return !buffers[b] && (b.Kind == loop.Temp || b.Kind == loop.Weight)
	})
}
