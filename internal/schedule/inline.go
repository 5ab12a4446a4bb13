package schedule

import (
	"slices"

	"github.com/weirml/weir/internal/loop"
)

// Limits for a map whose result is read more than once: functions computed per element in all, reads per element, and
// the ratio of the bytes of two operands to those of the result.
const (
	mostRecomputed = 8
	mostReads      = 4.5
	mostOperands   = 0.5
)

// inline computes the map of the launch at index at where its result is read, and drops the launch. With chains, it
// does so only if one other map reads the result, each element once.
func (s *scheduler) inline(list *[]loop.Step, at int, chains bool) bool {
	launch, ok := (*list)[at].(*loop.Launch)
	if !ok || !s.soleLaunch(launch) {
		return false
	}
	m := s.asMap(launch.Kernel)
	if m == nil {
		return false
	}
	result := launch.Args[m.out]
	if !s.private(result) {
		return false
	}
	readers := slices.Clone(s.uses[result].readers)
	if len(readers) == 0 || len(readers) > 1 && (chains || !s.cheap(m)) || slices.Contains(launch.Args[:m.out], result) ||
		slices.Contains(launch.Args[m.out+1:], result) {
		return false
	}
	reads, _ := touched(launch, false)
	type change struct {
		at     int
		kernel *loop.Kernel
		args   []*loop.Buffer
	}
	var changes []change
	for _, reader := range readers {
		index := slices.Index(*list, reader)
		consumer, ok := reader.(*loop.Launch)
		if !ok || index <= at || !s.soleLaunch(consumer) || slices.ContainsFunc(changes, func(c change) bool {
			return c.at == index
		}) {
			return false
		}
		if chains && s.asMap(consumer.Kernel) == nil {
			return false
		}
		for _, between := range (*list)[at+1 : index+1] {
			if _, writes := touched(between, true); share(writes, reads) {
				return false
			}
		}
		kernel, args := s.inlined(m, launch, consumer, result, chains)
		if kernel == nil {
			return false
		}
		changes = append(changes, change{index, kernel, args})
	}
	for _, c := range changes {
		consumer := (*list)[c.at].(*loop.Launch)
		s.replace(consumer.Kernel, c.kernel)
		s.forget(consumer)
		(*list)[c.at] = &loop.Launch{Kernel: c.kernel, Args: c.args, Source: joinSource(launch.Source, consumer.Source)}
		s.learn((*list)[c.at])
	}
	s.forget(launch)
	s.module.Kernels = slices.DeleteFunc(s.module.Kernels, func(k *loop.Kernel) bool { return k == launch.Kernel })
	*list = slices.Delete(*list, at, at+1)
	return true
}

// cheap reports whether computing a map at each of its readers costs less than keeping its result: it computes at most
// two functions of one element, or of two whose buffers are much smaller than the result, as a row's and a column's.
func (s *scheduler) cheap(m *mapping) bool {
	functions, loads := m.weight()
	if functions > 2 || loads > 2 {
		return false
	}
	operands := 0.0
	for i, p := range m.kernel.Params {
		if i != m.out {
			operands += s.bytes(p)
		}
	}
	return loads <= 1 || operands <= mostOperands*s.bytes(m.kernel.Params[m.out])
}

// bytes estimates the bytes of a parameter.
func (s *scheduler) bytes(p *loop.Param) float64 {
	n := float64(p.DType.Size())
	for _, e := range p.Shape {
		n *= max(s.guess(e), 0)
	}
	return n
}

// inlined returns the consumer's kernel with the map inside, and its arguments; nil if that is impossible or too slow.
func (s *scheduler) inlined(m *mapping, launch, consumer *loop.Launch, result *loop.Buffer, chains bool) (*loop.Kernel,
	[]*loop.Buffer) {
	param := slices.Index(consumer.Args, result)
	k := consumer.Kernel.Clone()
	p := k.Params[param]
	if p.Access != loop.Read || !sameForm(p, launch.Kernel.Params[m.out]) ||
		slices.Contains(consumer.Args[param+1:], result) {
		return nil, nil
	}
	count, masked := 0.0, false
	for _, a := range loop.Accesses(k.Body) {
		if a.Buffer != p.Name {
			continue
		}
		if a.Tile != nil {
			if _, ok := s.retiled(m, a.Tile, p); !ok || chains {
				return nil, nil
			}
			continue
		}
		times := 1.0
		for _, f := range a.Loops {
			times *= max(s.trips(k, f), 0)
		}
		count += times
		masked = masked || a.Mask != nil
	}
	elements := 1.0
	for _, e := range p.Shape {
		elements *= max(s.guess(e), 1)
	}
	reads := count / elements
	functions, loads := m.weight()
	tiled := !chains && s.computedInTiles(k, functions, loads)
	if !tiled && reads > 1.01 && (chains || reads > mostReads || reads*float64(functions) > mostRecomputed) {
		return nil, nil
	}
	if m.checks() && (masked || s.asMap(k) == nil || !s.readsAll(k, p)) {
		return nil, nil
	}
	names := s.newNamer(k)
	args := slices.Clone(consumer.Args)
	params := adopt(k, &args, launch.Kernel, launch.Args, m.out, names)
	k.Body = m.replaceLoads(k.Body, p.Name, names, params)
	s.replaceTiles(m, k, p, params)
	dropParam(k, &args, param)
	k.Name, k.Source = s.nameAfter(launch.Kernel, consumer.Kernel),
		joinSource(launch.Kernel.Source, consumer.Kernel.Source)
	k.Work = loop.JoinWork(launch.Kernel, consumer.Kernel)
	k.Dims = dimsOf(k, consumer.Kernel)
	if !s.commits(k, consumer.Kernel) {
		return nil, nil
	}
	return k, args
}

// readsAll reports whether a map reads every element of a parameter: at its own loop variables, over the parameter's
// shape.
func (s *scheduler) readsAll(k *loop.Kernel, p *loop.Param) bool {
	for a := range loop.EachAccess(k.Body) {
		if a.Buffer != p.Name {
			continue
		}
		all := true
		for axis, index := range a.Index {
			all = all && (isZero(index) && isOne(p.Shape[axis]) || s.loopOver(a.Loops, index, p.Shape[axis], false) != nil)
			for other := range axis {
				all = all && (isZero(index) || !index.Equal(a.Index[other]))
			}
		}
		if all {
			return true
		}
	}
	return false
}

// replaceLoads returns a body with the map's value in the place of each load of buffer. Within one statement, loads of
// the same element share the value.
func (m *mapping) replaceLoads(body []loop.Stmt, buffer string, names *namer, params map[string]string) []loop.Stmt {
	result := make([]loop.Stmt, 0, len(body))
	for _, stmt := range body {
		for _, inner := range loop.Bodies(stmt) {
			*inner = m.replaceLoads(*inner, buffer, names, params)
		}
		before, after := m.replaceIn(stmt, buffer, names, params)
		result = append(append(result, before...), after)
	}
	return result
}

// site is a load that is replaced by the map's value.
type site struct {
	load *loop.Load
	uses int
	name string
}

// replaceIn returns the statement with its own loads of buffer replaced, and the statements that must precede it.
func (m *mapping) replaceIn(stmt loop.Stmt, buffer string, names *namer, params map[string]string) ([]loop.Stmt,
	loop.Stmt) {
	sites := map[string]*site{}
	for _, e := range loop.Values(stmt) {
		loop.WalkExpr(e, func(e loop.Expr) {
			if l, ok := e.(*loop.Load); ok && l.From == buffer {
				key := siteKey(l)
				if sites[key] == nil {
					sites[key] = &site{load: l}
				}
				sites[key].uses++
			}
		})
	}
	if len(sites) == 0 {
		return nil, stmt
	}
	var before []loop.Stmt
	r := &loop.Rewrite{Expr: func(e loop.Expr) loop.Expr {
		l, ok := e.(*loop.Load)
		if !ok || l.From != buffer {
			return e
		}
		at := sites[siteKey(l)]
		if at == nil || at.load.Mask != nil {
			// Its mask may contain replaced loads, so it is computed separately.
			at = &site{load: l, uses: 1}
		}
		if at.name != "" {
			return &loop.Ref{Name: at.name, Type: l.Type}
		}
		lets, value, _ := m.at(m.store.Index, l.Index, names, params)
		if l.Mask != nil {
			lets, value = guard(lets, value, l)
		}
		before = append(before, lets...)
		if at.uses == 1 {
			return value
		}
		at.name = names.name("v")
		before = append(before, &loop.Let{Name: at.name, X: value})
		return &loop.Ref{Name: at.name, Type: l.Type}
	}}
	// The inner bodies are already done, and do not change.
	after := rewriteValues(r, stmt)
	return before, after
}

// siteKey returns a key that is equal for loads of the same element.
func siteKey(l *loop.Load) string {
	key := ""
	for _, e := range l.Index {
		key += e.Key() + ";"
	}
	if l.Mask != nil {
		key += "masked"
	}
	return key
}

// rewriteValues rewrites a statement's own expressions.
func rewriteValues(r *loop.Rewrite, stmt loop.Stmt) loop.Stmt {
	switch s := stmt.(type) {
	case *loop.Let:
		s.X = r.Value(s.X)
	case *loop.Var:
		s.X = r.Value(s.X)
	case *loop.Set:
		s.X = r.Value(s.X)
	case *loop.Reduce:
		s.X = r.Value(s.X)
	case *loop.Check:
		s.X = r.Value(s.X)
	case *loop.Store:
		s.X = r.Value(s.X)
		if s.Mask != nil {
			s.Mask = r.Value(s.Mask)
		}
	case *loop.When:
		s.Cond = r.Value(s.Cond)
	}
	return stmt
}

// guard returns a map's statements and value under a load's mask: nothing is read if the mask does not hold.
func guard(lets []loop.Stmt, value loop.Expr, l *loop.Load) ([]loop.Stmt, loop.Expr) {
	r := &loop.Rewrite{Expr: func(e loop.Expr) loop.Expr {
		inner, ok := e.(*loop.Load)
		if !ok {
			return e
		}
		if inner.Mask == nil {
			inner.Mask, inner.Else = copied(l.Mask), zeroOf(inner.Type)
		} else {
			inner.Mask = loop.Apply2(loop.And, copied(l.Mask), inner.Mask)
		}
		return inner
	}}
	return r.Body(lets), loop.Choose(copied(l.Mask), r.Value(value), l.Else)
}

// copied returns a copy of an expression.
func copied(e loop.Expr) loop.Expr { return (&loop.Rewrite{}).Value(e) }
