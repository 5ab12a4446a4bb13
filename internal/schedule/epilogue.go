package schedule

import (
	"slices"

	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// epilogue joins a map, the launch at a place in the list, to the kernel whose result it reads, each element once: at its own
// index, or with the axes in another order. There the map is computed where the result is stored, and the store goes where
// nothing else reads the result.
func (s *scheduler) epilogue(list *[]loop.Step, at int) bool {
	launch, ok := (*list)[at].(*loop.Launch)
	if !ok || !s.soleLaunch(launch) {
		return false
	}
	m := s.asMap(launch.Kernel)
	if m == nil {
		return false
	}
	// The latest producer first: what the others give is ready by then.
	var places []int
	for i, b := range launch.Args {
		if i != m.out && s.uses[b] != nil && s.private(b) {
			if place := slices.Index(*list, s.uses[b].writers[0]); place >= 0 && place < at {
				places = append(places, place)
			}
		}
	}
	slices.Sort(places)
	for _, place := range slices.Backward(slices.Compact(places)) {
		producer, ok := (*list)[place].(*loop.Launch)
		if !ok || !s.soleLaunch(producer) {
			continue
		}
		to, ok := s.meeting(*list, place, at)
		if !ok {
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
		other := place + at - to
		*list = slices.Delete(*list, other, other+1)
		return true
	}
	return false
}

// meeting is where a step at one place and a later one can be one step: at the later place where nothing between them needs the
// first one's results or changes what it reads, or else at the earlier one.
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

// joined is the producer's kernel with the map at its end; nil where that cannot be.
func (s *scheduler) joined(producer, launch *loop.Launch, m *mapping) (*loop.Kernel, []*loop.Buffer) {
	for i, b := range producer.Args {
		if producer.Kernel.Params[i].Access != loop.Write || !s.private(b) {
			continue
		}
		source := slices.Index(launch.Args, b)
		if source < 0 || !sameForm(producer.Kernel.Params[i], launch.Kernel.Params[source]) {
			continue
		}
		_, written := touched(producer, false)
		place := s.readsOnce(m, launch.Kernel.Params[source])
		if place == nil || othersShare(launch, source, written) {
			continue
		}
		k := producer.Kernel.Clone()
		p := k.Params[i]
		stores := s.stores(k, p, m)
		if stores == nil {
			continue
		}
		// What the producer reads must not be what the map writes.
		producerReads, _ := touched(producer, false)
		if share(producerReads, []*loop.Buffer{launch.Args[m.out]}) {
			continue
		}
		args := slices.Clone(producer.Args)
		names := s.newNamer(k)
		params := adopt(k, &args, launch.Kernel, launch.Args, source, names)
		keep := len(s.uses[b].readers) > 1
		k.Body = m.append(k.Body, stores, launch.Kernel.Params[source].Name, place, names, params, keep)
		if !keep {
			dropParam(k, &args, i)
		}
		k.Name, k.Source = s.nameAfter(producer.Kernel, launch.Kernel), joinSource(producer.Kernel.Source, launch.Kernel.Source)
		k.Work = loop.JoinWork(producer.Kernel, launch.Kernel)
		k.Dims = dimsOf(k, producer.Kernel)
		if s.commits(k, producer.Kernel) {
			return k, args
		}
	}
	return nil, nil
}

// othersShare reports whether an argument but one lies in the same storage as any of the buffers.
func othersShare(launch *loop.Launch, but int, buffers []*loop.Buffer) bool {
	for i, b := range launch.Args {
		if i != but && share([]*loop.Buffer{b}, buffers) {
			return true
		}
	}
	return false
}

// readsOnce is the index at which a map reads a parameter, where it reads each of its elements exactly once: at one index,
// unmasked, that names each of its loops on one axis, over the axis's whole extent. It is nil elsewhere.
func (s *scheduler) readsOnce(m *mapping, p *loop.Param) []sym.Expr {
	var place []sym.Expr
	for _, a := range loop.Accesses(m.kernel.Body) {
		if a.Buffer != p.Name {
			continue
		}
		if a.Mask != nil || place != nil && !slices.EqualFunc(a.Index, place, sym.Expr.Equal) {
			return nil
		}
		place = a.Index
	}
	used := map[sym.Name]bool{}
	for axis, index := range place {
		if isZero(index) && isOne(p.Shape[axis]) {
			continue
		}
		f := s.loopOver(m.loops, index, p.Shape[axis], false)
		if f == nil || used[f.Var] {
			return nil
		}
		used[f.Var] = true
	}
	if len(used) != len(m.loops) || len(p.Shape) == 0 && place == nil {
		return nil
	}
	return place
}

// stores are a kernel's stores to a parameter behind which a map may be computed: the only one, one in either branch of a
// condition, or all of them where the map only moves what is stored. Nil where there are none such.
func (s *scheduler) stores(k *loop.Kernel, p *loop.Param, m *mapping) []*loop.Store {
	if list := s.onlyStores(k, p); list != nil {
		return list
	}
	if m.move() == nil {
		return nil
	}
	var list []*loop.Store
	for _, a := range loop.Accesses(k.Body) {
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

// onlyStores are a kernel's single store to a parameter, or its two if they lie in the two branches of one condition: each
// element is stored exactly once, and the kernel does not touch the parameter otherwise. There are independent loops
// around a store, as many iterations as the parameter has elements. Nil if it is otherwise.
func (s *scheduler) onlyStores(k *loop.Kernel, p *loop.Param) []*loop.Store {
	var list []*loop.Store
	for _, a := range loop.Accesses(k.Body) {
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

// iterations is how often loops around a store at an index of a parameter of some shape run in all. Two of them that
// walk along an axis in blocks, the last of which may be smaller, run as often as the axis has elements.
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
				if !counted[outer] && !counted[inner] && isVar(within, inner.Var) && mentions(inner.Extent, outer.Var) &&
					s.equal(outer.Extent, extent.CeilDiv(block)) && s.equal(inner.Extent, ragged) {
					counted[outer], counted[inner] = true, true
					count = count.Mul(extent)
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

// alternatives reports whether two statements lie in the two branches of one condition.
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

// reads counts the loads of a parameter in the map's text.
func (m *mapping) reads(param string) int {
	count := 0
	for _, a := range loop.Accesses(m.kernel.Body) {
		if a.Buffer == param {
			count++
		}
	}
	return count
}

// append computes the map after each of the stores, which go unless they are kept; place is how the map indexes what is stored.
func (m *mapping) append(body []loop.Stmt, stores []*loop.Store, param string, place []sym.Expr, names *namer, params map[string]string, keep bool) []loop.Stmt {
	result := make([]loop.Stmt, 0, len(body))
	for _, stmt := range body {
		for _, inner := range loop.Bodies(stmt) {
			*inner = m.append(*inner, stores, param, place, names, params, keep)
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
		before, x, integers := m.at(place, store.Index, names, params)
		r := &loop.Rewrite{Expr: func(e loop.Expr) loop.Expr {
			if l, ok := e.(*loop.Load); ok && l.From == params[param] {
				return copied(value)
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
