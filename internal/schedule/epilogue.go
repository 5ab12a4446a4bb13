package schedule

import (
	"maps"
	"slices"

	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// epilogue joins the map that the launch at index at computes to the kernel whose result it reads, if it reads each
// element once: at its own index, or with the axes permuted. That kernel then computes the map where it stores the
// result; the store is dropped if no other step reads the result.
func (s *scheduler) epilogue(list *[]loop.Step, at int) bool {
	launch, ok := (*list)[at].(*loop.Launch)
	if !ok || !s.soleLaunch(launch) {
		return false
	}
	m := s.asMap(launch.Kernel)
	if m == nil {
		return false
	}
	// The latest producer first: the results of the others are ready by then.
	var producers []int
	for i, b := range launch.Args {
		if i != m.out && s.uses[b] != nil && (s.private(b) || s.given(b)) {
			if index := slices.Index(*list, s.uses[b].writers[0]); index >= 0 && index < at {
				producers = append(producers, index)
			}
		}
	}
	slices.Sort(producers)
	for _, index := range slices.Backward(slices.Compact(producers)) {
		producer, ok := (*list)[index].(*loop.Launch)
		if !ok || !s.soleLaunch(producer) {
			continue
		}
		to, ok := s.meeting(*list, index, at)
		if !ok || to == index && at-index > farEpilogue && s.keptFor(producer, launch) {
			continue
		}
		kernel, args := s.joined(producer, launch, m)
		if kernel == nil {
			continue
		}
		s.replace(producer.Kernel, kernel)
		s.module.Kernels = slices.DeleteFunc(s.module.Kernels, func(k *loop.Kernel) bool { return k == launch.Kernel })
		(*list)[to] = &loop.Launch{Kernel: kernel, Args: args, Source: joinSource(producer.Source, launch.Source)}
		s.forget(producer)
		s.forget(launch)
		s.learn((*list)[to])
		other := index + at - to
		*list = slices.Delete(*list, other, other+1)
		return true
	}
	return false
}

// farEpilogue is the largest number of steps by which a map moves forward if its operand stays in memory in any case.
const farEpilogue = 24

// keptFor reports whether a step other than the map reads the producer's result too, so that both results would be in
// memory.
func (s *scheduler) keptFor(producer, launch *loop.Launch) bool {
	_, writes := touched(producer, false)
	return slices.ContainsFunc(launch.Args, func(b *loop.Buffer) bool {
		return slices.Contains(writes, b) && s.uses[b] != nil && len(s.uses[b].readers) > 1
	})
}

// updatesLast reports whether all readers of a state, except the update that writes its new value, certainly run before
// first. Then the new value may be written together with first's results, in any order of steps. state may be nil.
func (s *scheduler) updatesLast(first, update *loop.Launch, state *loop.Buffer) bool {
	if state == nil || s.uses[state] == nil {
		return true
	}
	before := map[loop.Step]bool{first: true}
	for todo := []loop.Step{first}; len(todo) > 0; {
		reads, _ := touched(todo[0], false)
		todo = todo[1:]
		for _, b := range reads {
			if u := s.uses[b]; u != nil {
				for _, w := range u.writers {
					if !before[w] {
						before[w] = true
						todo = append(todo, w)
					}
				}
			}
		}
	}
	return !slices.ContainsFunc(s.uses[state].readers, func(r loop.Step) bool {
		return r != loop.Step(update) && !before[r]
	})
}

// meeting returns the index at which two steps can become one: the later index if no step between conflicts with the
// first, else the earlier index if none conflicts with the second.
func (s *scheduler) meeting(list []loop.Step, first, second int) (int, bool) {
	between := list[first+1 : second]
	reads, writes := touched(list[first], true)
	if !slices.ContainsFunc(between, func(step loop.Step) bool { return conflict(step, reads, writes) }) {
		return second, true
	}
	late, early := list[second].(*loop.Launch), list[first].(*loop.Launch)
	lateReads, lateWrites := touched(late, true)
	if slices.ContainsFunc(between, func(step loop.Step) bool { return conflict(step, lateReads, lateWrites) }) {
		return 0, false
	}
	if slices.ContainsFunc(between, binds) {
		for _, name := range late.Kernel.Dims {
			if !slices.Contains(early.Kernel.Dims, name) {
				return 0, false
			}
		}
	}
	return first, true
}

// joined returns the producer's kernel with the map at its end, and its arguments; nil if they cannot be joined.
func (s *scheduler) joined(producer, launch *loop.Launch, m *mapping) (*loop.Kernel, []*loop.Buffer) {
	for i, b := range producer.Args {
		if producer.Kernel.Params[i].Access != loop.Write || !s.private(b) && !s.given(b) {
			continue
		}
		if s.given(b) && !s.updatesLast(producer, launch, launch.Args[m.out].State) {
			continue
		}
		source := slices.Index(launch.Args, b)
		if source < 0 || !sameForm(producer.Kernel.Params[i], launch.Kernel.Params[source]) {
			continue
		}
		_, written := touched(producer, false)
		pattern := s.readsOnce(m, launch.Kernel.Params[source])
		if pattern == nil {
			continue
		}
		k := producer.Kernel.Clone()
		p := k.Params[i]
		stores := s.stores(k, p, m)
		if stores == nil {
			continue
		}
		earlier := s.earlierStores(k, producer, launch, m, stores[0], source)
		if othersShare(launch, append(slices.Collect(maps.Keys(earlier)), source), written) || len(earlier) > 0 &&
			len(stores) > 1 {
			continue
		}
		// The producer must not read the buffer that the map writes.
		producerReads, _ := touched(producer, false)
		if share(producerReads, []*loop.Buffer{launch.Args[m.out]}) {
			continue
		}
		args := slices.Clone(producer.Args)
		names := s.newNamer(k)
		params := adopt(k, &args, launch.Kernel, launch.Args, source, names)
		values := map[string]loop.Expr{}
		for _, other := range slices.Sorted(maps.Keys(earlier)) {
			name := params[launch.Kernel.Params[other].Name]
			values[name] = valueOf(&k.Body, earlier[other], names)
			extra := slices.IndexFunc(k.Params, func(p *loop.Param) bool { return p.Name == name })
			dropParam(k, &args, extra)
		}
		keep := len(s.uses[b].readers) > 1 || s.given(b)
		k.Body = m.append(k.Body, stores, launch.Kernel.Params[source].Name, pattern, names, params, values, keep)
		if !keep {
			dropParam(k, &args, i)
		}
		k.Name, k.Source = s.nameAfter(producer.Kernel, launch.Kernel),
			joinSource(producer.Kernel.Source, launch.Kernel.Source)
		k.Work = loop.JoinWork(producer.Kernel, launch.Kernel)
		k.Dims = dimsOf(k, producer.Kernel)
		if s.commits(k, producer.Kernel) {
			return k, args
		}
	}
	return nil, nil
}

// given reports whether a buffer is an output without views that one launch writes.
func (s *scheduler) given(b *loop.Buffer) bool {
	u := s.uses[b]
	return b.Kind == loop.Output && b.View == nil && u != nil && !u.viewed && len(u.writers) == 1
}

// earlierStores returns, by argument index, the stores of the producer to other arguments of the map that precede the
// store to the source in the same body, at the same index.
func (s *scheduler) earlierStores(k *loop.Kernel, producer, launch *loop.Launch, m *mapping, at *loop.Store,
	source int) map[int]*loop.Store {
	list := map[int]*loop.Store{}
	pattern := s.readsOnce(m, launch.Kernel.Params[source])
	for i, b := range launch.Args {
		j := slices.Index(producer.Args, b)
		if i == source || i == m.out || j < 0 || k.Params[j].Access != loop.Write ||
			!sameForm(k.Params[j], launch.Kernel.Params[i]) {
			continue
		}
		same := s.readsOnce(m, launch.Kernel.Params[i])
		stores := s.onlyStores(k, k.Params[j])
		if len(stores) != 1 || !slices.EqualFunc(same, pattern, sym.Expr.Equal) ||
			!slices.EqualFunc(stores[0].Index, at.Index, sym.Expr.Equal) || !precedes(k.Body, stores[0], at) {
			continue
		}
		list[i] = stores[0]
	}
	return list
}

// precedes reports whether two statements are in the same body, the first before the second.
func precedes(body []loop.Stmt, first, second loop.Stmt) bool {
	if i, j := slices.Index(body, first), slices.Index(body, second); i >= 0 && j >= 0 {
		return i < j
	}
	return slices.ContainsFunc(body, func(s loop.Stmt) bool {
		return slices.ContainsFunc(loop.Bodies(s), func(inner *[]loop.Stmt) bool { return precedes(*inner, first, second) })
	})
}

// valueOf names the value of a store, by a Let before it, and returns the reference.
func valueOf(body *[]loop.Stmt, store *loop.Store, names *namer) loop.Expr {
	if i := slices.Index(*body, loop.Stmt(store)); i >= 0 {
		ref := &loop.Ref{Name: names.name("r"), Type: store.X.DType()}
		*body = slices.Insert(*body, i, loop.Stmt(&loop.Let{Name: ref.Name, X: store.X}))
		store.X = copied(ref)
		return ref
	}
	for _, s := range *body {
		for _, inner := range loop.Bodies(s) {
			if ref := valueOf(inner, store, names); ref != nil {
				return ref
			}
		}
	}
	return nil
}

// othersShare reports whether an argument whose index is not in but lies in the storage of one of the buffers.
func othersShare(launch *loop.Launch, but []int, buffers []*loop.Buffer) bool {
	for i, b := range launch.Args {
		if !slices.Contains(but, i) && share([]*loop.Buffer{b}, buffers) {
			return true
		}
	}
	return false
}

// readsOnce returns the index at which a map reads a parameter if it reads each of its elements exactly once: at one
// index, without a mask, that names each of its loops on one axis, over the axis's entire extent. It returns nil
// otherwise.
func (s *scheduler) readsOnce(m *mapping, p *loop.Param) []sym.Expr {
	var pattern []sym.Expr
	for a := range loop.EachAccess(m.kernel.Body) {
		if a.Buffer != p.Name {
			continue
		}
		if a.Mask != nil || pattern != nil && !slices.EqualFunc(a.Index, pattern, sym.Expr.Equal) {
			return nil
		}
		pattern = a.Index
	}
	used := map[sym.Name]bool{}
	for axis, index := range pattern {
		if isZero(index) && isOne(p.Shape[axis]) {
			continue
		}
		f := s.loopOver(m.loops, index, p.Shape[axis], false)
		if f == nil || used[f.Var] {
			return nil
		}
		used[f.Var] = true
	}
	if len(used) != len(m.loops) || len(p.Shape) == 0 && pattern == nil {
		return nil
	}
	return pattern
}

// stores returns the kernel's stores to a parameter after which a map may be computed: the only one, one in each branch
// of a condition, or all of them if the map only copies. It returns nil if there are none.
func (s *scheduler) stores(k *loop.Kernel, p *loop.Param, m *mapping) []*loop.Store {
	if list := s.onlyStores(k, p); list != nil {
		return list
	}
	if m.move() == nil {
		return nil
	}
	var list []*loop.Store
	for a := range loop.EachAccess(k.Body) {
		if a.Buffer != p.Name {
			continue
		}
		store, ok := a.Stmt.(*loop.Store)
		if !ok || !a.Write || a.Mask != nil {
			return nil
		}
		list = append(list, store)
	}
	return list
}

// onlyStores returns the kernel's single store to a parameter, or its two if they are in the two branches of one
// condition, if each element is stored exactly once and the kernel does not touch the parameter otherwise: the loops
// around a store are independent, and have as many iterations as the parameter has elements. It returns nil otherwise.
func (s *scheduler) onlyStores(k *loop.Kernel, p *loop.Param) []*loop.Store {
	var list []*loop.Store
	for a := range loop.EachAccess(k.Body) {
		if a.Buffer != p.Name {
			continue
		}
		found, ok := a.Stmt.(*loop.Store)
		if !ok || !a.Write || len(list) == 2 || a.Mask != nil {
			return nil
		}
		count, elements := s.iterations(a.Loops, found.Index, p.Shape), one
		for _, e := range p.Shape {
			elements = elements.Mul(e)
		}
		if slices.ContainsFunc(a.Loops, func(f *loop.For) bool { return f.Kind != loop.Each }) || !s.equal(count, elements) {
			return nil
		}
		list = append(list, found)
	}
	if len(list) == 2 && !alternatives(k.Body, list[0], list[1]) {
		return nil
	}
	return list
}

// iterations returns how often the loops around a store run in all. A pair of loops that walks along an axis in blocks,
// of which the last may be smaller, runs as often as the axis has elements; one whose blocks are rows of the next axis,
// as often as both have elements.
func (s *scheduler) iterations(loops []*loop.For, index, shape []sym.Expr) sym.Expr {
	count, counted := one, map[*loop.For]bool{}
	for axis, e := range index {
		for _, outer := range loops {
			block, within, ok := e.Linear(outer.Var)
			if !ok || isZero(block) || s.equal(block, one) || mentions(block, outer.Var) {
				continue
			}
			extent := shape[axis]
			ragged := block.Min(extent.Sub(block.Mul(sym.Var(outer.Var))))
			for _, inner := range loops {
				each := one
				if axis+1 < len(shape) && within.Equal(sym.Var(inner.Var).FloorDiv(shape[axis+1])) {
					each = shape[axis+1]
				} else if !isVar(within, inner.Var) {
					continue
				}
				if !counted[outer] && !counted[inner] && mentions(inner.Extent, outer.Var) &&
					s.equal(outer.Extent, extent.CeilDiv(block)) && s.equal(inner.Extent, ragged.Mul(each)) {
					counted[outer], counted[inner] = true, true
					count = count.Mul(extent).Mul(each)
				}
			}
		}
	}
	for _, f := range loops {
		if !counted[f] {
			count = count.Mul(f.Extent)
		}
	}
	return count
}

// alternatives reports whether two statements are in the two branches of one condition.
func alternatives(body []loop.Stmt, first, second loop.Stmt) bool {
	within := func(body []loop.Stmt, wanted loop.Stmt) (found bool) {
		loop.Walk(body, func(s loop.Stmt) bool {
			found = found || s == wanted
			return !found
		})
		return found
	}
	found := false
	loop.Walk(body, func(s loop.Stmt) bool {
		if w, ok := s.(*loop.When); ok {
			found = found || within(w.Then, first) && within(w.Else, second)
		}
		return !found
	})
	return found
}

// reads counts the loads of a parameter in the map.
func (m *mapping) reads(param string) int {
	count := 0
	for _, a := range loop.Accesses(m.kernel.Body) {
		if a.Buffer == param {
			count++
		}
	}
	return count
}

// append returns body with the map computed after each of the stores, which are dropped unless keep is set. pattern is
// the map's index into the stored parameter; values replace loads of other parameters.
func (m *mapping) append(body []loop.Stmt, stores []*loop.Store, param string, pattern []sym.Expr, names *namer,
	params map[string]string, values map[string]loop.Expr, keep bool) []loop.Stmt {
	result := make([]loop.Stmt, 0, len(body))
	for _, stmt := range body {
		for _, inner := range loop.Bodies(stmt) {
			*inner = m.append(*inner, stores, param, pattern, names, params, values, keep)
		}
		store, ok := stmt.(*loop.Store)
		if !ok || !slices.Contains(stores, store) {
			result = append(result, stmt)
			continue
		}
		value, named := store.X, keep || m.reads(param) > 1
		if named {
			ref := &loop.Ref{Name: names.name("r"), Type: store.X.DType()}
			result = append(result, &loop.Let{Name: ref.Name, X: store.X})
			value = ref
		}
		if keep {
			result = append(result, &loop.Store{To: store.To, Index: store.Index, X: copied(value)})
		}
		before, x, integers := m.at(pattern, store.Index, names, params)
		r := &loop.Rewrite{Expr: func(e loop.Expr) loop.Expr {
			l, ok := e.(*loop.Load)
			switch {
			case ok && l.From == params[param]:
				return copied(value)
			case ok && values[l.From] != nil:
				return copied(values[l.From])
			}
			return e
		}}
		index := make([]sym.Expr, len(m.store.Index))
		for i, e := range m.store.Index {
			index[i] = e.Subst(func(name sym.Name) (sym.Expr, bool) { v, ok := integers[name]; return v, ok })
		}
		result = append(result, r.Body(before)...)
		result = append(result, &loop.Store{To: params[m.store.To], Index: index, X: r.Value(x)})
	}
	return result
}
