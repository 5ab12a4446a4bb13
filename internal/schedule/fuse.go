package schedule

import (
	"maps"
	"slices"
	"strings"

	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// fuse joins kernels within each list of steps; the bodies of If and Loop are lists of their own, and nothing crosses
// their borders. First, maps that another map reads element for element are joined to it, so that chains become one
// map. Then each map is joined to the kernel whose result it reads. Last, remaining maps are computed where they are
// read, if that is cheap.
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

// eachList calls visit for each list of steps, the lists in a step's bodies first.
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

// usage is the uses of one buffer's storage.
type usage struct {
	readers, writers []loop.Step
	viewed           bool // the storage holds a view
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

// learn records a step's uses.
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

// forget removes a step's uses.
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

// usesOf returns the usage of the storage that b lies in.
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

// touched returns the buffers that a step reads and writes; with deep, also those of its bodies.
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

// conflict reports whether a step writes the storage of any of reads, or touches the storage of any of writes.
func conflict(step loop.Step, reads, writes []*loop.Buffer) bool {
	r, w := touched(step, true)
	return share(w, reads) || share(w, writes) || share(r, writes)
}

// share reports whether a buffer of a and a buffer of b lie in the same storage.
func share(a, b []*loop.Buffer) bool {
	return slices.ContainsFunc(a, func(x *loop.Buffer) bool {
		return slices.ContainsFunc(b, func(y *loop.Buffer) bool { return x.Root() == y.Root() })
	})
}

// binds reports whether a step may bind a dimension.
func binds(step loop.Step) bool {
	_, launch := step.(*loop.Launch)
	_, copies := step.(*loop.Copy)
	return !launch && !copies
}

// private reports whether a buffer is a temporary without views that one launch writes.
func (s *scheduler) private(b *loop.Buffer) bool {
	u := s.uses[b]
	return b.Kind == loop.Temp && b.View == nil && u != nil && !u.viewed && len(u.writers) == 1
}

// mapping is a kernel of the form of a map: see asMap.
type mapping struct {
	kernel *loop.Kernel
	loops  []*loop.For
	before []loop.Stmt // Lets and Checks
	store  *loop.Store
	out    int // the index of the parameter that is stored to
}

// asMap returns the mapping of a kernel that is one nest of each-loops around Lets, Checks and one store at the loops'
// variables, over all elements of its only result; nil for other kernels.
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

// checks reports whether a map contains Checks.
func (m *mapping) checks() bool {
	return slices.ContainsFunc(m.before, func(s loop.Stmt) bool { _, ok := s.(*loop.Check); return ok })
}

// weight returns the number of functions that a map computes per element, in which expensive ones count several times,
// and the number of its loads.
func (m *mapping) weight() (functions, loads int) {
	visit := func(e loop.Expr) {
		switch e := e.(type) {
		case *loop.Unary:
			functions++
			if expensive[e.Op] {
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

// at returns copies of the map's statements and value, and the values of its loop variables, for the element at which
// pattern, an index over those variables, equals index. pattern is the map's index into its result, or into an operand
// that it indexes by all of its loops. Declarations get new names.
func (m *mapping) at(pattern, index []sym.Expr, names *namer, params map[string]string) (before []loop.Stmt,
	value loop.Expr, integers map[sym.Name]sym.Expr) {
	integers = map[sym.Name]sym.Expr{}
	for axis, e := range pattern {
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

// adopt adds the parameters of another kernel, without the one at index without, to a kernel under construction. It
// returns their names there. A buffer that the kernel already reads in the same form is shared.
func adopt(k *loop.Kernel, args *[]*loop.Buffer, from *loop.Kernel, fromArgs []*loop.Buffer, without int,
	names *namer) map[string]string {
	params := map[string]string{}
	for i, p := range from.Params {
		if i == without {
			params[p.Name] = names.name(p.Name) // no parameter: the name must not mean another one
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

// sameForm reports whether two parameters have the same type, shape and strides.
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

// nameAfter returns a name for a kernel that does the work of two, of at most about 60 bytes.
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

// joinSource returns the nodes of both kernels, separated by a comma.
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
