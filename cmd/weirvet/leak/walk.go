package leak

import (
	"fmt"
	"go/types"
	"slices"

	"golang.org/x/tools/go/ssa"
)

// maxStates bounds the states of one walk. A function that has more gets no finding.
const maxStates = 20_000

// walk follows one resource through a function, along every path from its creation.
type walk struct {
	a       *analysisOf
	f       *ssa.Function
	site    *ssa.Call // the call that made it; nil for a parameter or captured variable
	given   ssa.Value // the parameter or captured variable; nil for a call's result
	at      int       // the index of the call's result
	owner   *types.Named
	ignored bool // no variable holds it

	assumable map[string]bool
	numbers   map[any]int
	seen      map[string]bool
	work      []position
	findings  []func()
	results   map[*ssa.Return]map[int]bool // the returns and results at which it is returned open
}

// position is a point of a path.
type position struct {
	block *ssa.BasicBlock
	index int
	state *state
}

// walkAll walks every resource of every function. The first rounds only find the functions that return new resources.
func (a *analysisOf) walkAll() {
	a.quiet = true
	for range 10 {
		changed := false
		for _, f := range a.functions {
			if fresh := a.walkFunction(f); fmt.Sprint(fresh) != fmt.Sprint(a.summaries[f].Fresh) {
				a.summaries[f].Fresh, changed = fresh, true
			}
		}
		if !changed {
			break
		}
	}
	a.quiet = false
	for _, f := range a.functions {
		a.walkFunction(f)
	}
}

// walkFunction walks the resources of one function, and returns the indices of its results that are new resources.
func (a *analysisOf) walkFunction(f *ssa.Function) []int {
	results := map[*ssa.Return]map[int]bool{}
	begin := func(owner *types.Named) *walk {
		return &walk{a: a, f: f, owner: owner, numbers: map[any]int{}, seen: map[string]bool{}, results: results}
	}
	for _, b := range f.Blocks {
		for i, instruction := range b.Instrs {
			call, ok := instruction.(*ssa.Call)
			if !ok || b == f.Recover {
				continue
			}
			for _, at := range a.made(call) {
				w := begin(resource(resultType(call, at)))
				w.site, w.at, w.ignored = call, at, a.ignored(call, at)
				w.run(b, i+1)
			}
		}
	}
	s := a.summaries[f]
	for i, p := range f.Params {
		if owner := resource(p.Type()); owner != nil && s.Params[i].closes() {
			w := begin(owner)
			w.given = p
			w.run(f.Blocks[0], 0)
		}
	}
	for i, v := range f.FreeVars {
		if pointer, ok := v.Type().(*types.Pointer); ok && s.Free[i].closes() && resource(pointer.Elem()) != nil {
			w := begin(resource(pointer.Elem()))
			w.given = v
			w.run(f.Blocks[0], 0)
		}
	}
	return freshOf(f, results)
}

// made returns the indices of a call's results that are new resources.
func (a *analysisOf) made(call *ssa.Call) []int {
	if f := callee(call.Common()); ofLibrary(f) {
		return made(f)
	}
	if s := a.ofCall(call.Common()); s != nil {
		return s.Fresh
	}
	return nil
}

// resultType returns the type of a call's result.
func resultType(call *ssa.Call, at int) types.Type {
	return call.Common().Signature().Results().At(at).Type()
}

// ignored reports whether no variable holds a result.
func (a *analysisOf) ignored(call *ssa.Call, at int) bool {
	if _, names := a.callAt(call.Pos()); at < len(names) && names[at] != "_" {
		return false
	}
	single := call.Common().Signature().Results().Len() == 1
	for _, r := range *call.Referrers() {
		if e, ok := r.(*ssa.Extract); single || ok && e.Index == at && len(*e.Referrers()) > 0 {
			return false
		}
	}
	return true
}

// freshOf returns the indices of the results of f that are new resources, or nil, at every return.
func freshOf(f *ssa.Function, results map[*ssa.Return]map[int]bool) (list []int) {
	for i := range f.Signature.Results().Len() {
		found, other := false, false
		for _, b := range f.Blocks {
			r, ok := last(b).(*ssa.Return)
			if !ok || b == f.Recover {
				continue
			}
			load, _ := r.Results[i].(*ssa.UnOp)
			switch {
			case results[r][i]:
				found = true
			case isNil(r.Results[i]) || load != nil && isVariable(load.X):
			default:
				other = true
			}
		}
		if found && !other {
			list = append(list, i)
		}
	}
	return list
}

// isVariable reports whether a value is the address of a variable of the function.
func isVariable(v ssa.Value) bool {
	_, ok := v.(*ssa.Alloc)
	return ok
}

// number returns a number for v, the same for equal values.
func (w *walk) number(v any) int {
	n, ok := w.numbers[v]
	if !ok {
		n = len(w.numbers) + 1
		w.numbers[v] = n
	}
	return n
}

// run walks every path from an instruction on, and reports findings.
func (w *walk) run(b *ssa.BasicBlock, index int) {
	w.assumable = assumable(w.f)
	s := &state{marks: map[location]mark{}, assumed: map[string]assumption{}, pending: map[string]keeping{}}
	switch {
	case w.given != nil:
		s.set(w.given, mark{kind: itself})
	case isTuple(w.site.Type()):
		s.set(w.site, mark{kind: pair, at: w.at})
	default:
		s.set(w.site, mark{kind: itself})
	}
	if w.site != nil {
		s.defers = w.defersBefore(b, index)
		w.assumeWayTo(b, s)
	}
	w.work = append(w.work, position{b, index, s})
	for len(w.work) > 0 {
		p := w.work[len(w.work)-1]
		w.work = w.work[:len(w.work)-1]
		w.block(p)
		if len(w.seen) > maxStates {
			return
		}
	}
	for _, report := range w.findings {
		report()
	}
}

// assumeWayTo records the outcomes of the tests that every path to a block has passed.
func (w *walk) assumeWayTo(b *ssa.BasicBlock, s *state) {
	for d := b.Idom(); d != nil; d = d.Idom() {
		branch, ok := last(d).(*ssa.If)
		if !ok {
			continue
		}
		key, negated := keyOfTest(branch.Cond)
		for i, next := range d.Succs {
			if _, known := s.assumed[key]; !known && w.assumable[key] && len(next.Preds) == 1 && next.Dominates(b) {
				s.assumed[key] = assumption{d, (i == 0) != negated}
			}
		}
	}
}

// defersBefore returns the defers of closures that every path to a position has passed.
func (w *walk) defersBefore(b *ssa.BasicBlock, index int) (list []*ssa.Defer) {
	for _, other := range w.f.Blocks {
		for i, instruction := range other.Instrs {
			if d, ok := instruction.(*ssa.Defer); ok && before(other, i, b, index) {
				list = append(list, d)
			}
		}
	}
	return list
}

// before reports whether every path to instruction k of block c has passed instruction i of block b.
func before(b *ssa.BasicBlock, i int, c *ssa.BasicBlock, k int) bool {
	return b == c && i < k || b != c && b.Dominates(c)
}

// block walks from a position to the end of its block, and queues its successors.
func (w *walk) block(p position) {
	for _, instruction := range p.block.Instrs[p.index:] {
		if !w.step(instruction, p.state) {
			return
		}
	}
	branch, ok := last(p.block).(*ssa.If)
	if !ok {
		for _, next := range p.block.Succs {
			w.enter(p.block, next, p.state.clone())
		}
		return
	}
	w.branch(p.block, branch.Cond, p.state)
}

// branch follows the outcomes of a test that are possible on this path.
func (w *walk) branch(b *ssa.BasicBlock, cond ssa.Value, s *state) {
	outcome, known := s.decide(cond)
	key, negated := keyOfTest(cond)
	if a, ok := s.assumed[key]; !known && ok && a.block != b {
		outcome, known = a.outcome != negated, true
	}
	for i, next := range b.Succs {
		taken := i == 0
		if known && taken != outcome {
			continue
		}
		c := s.clone()
		if a, ok := c.assumed[key]; w.assumable[key] && (!ok || a.block == b) {
			c.assumed[key] = assumption{b, taken != negated}
		}
		w.enter(b, next, c)
	}
}

// enter marks the phis of a block and queues the block, unless it was seen in this state.
func (w *walk) enter(from, to *ssa.BasicBlock, s *state) {
	edge := slices.Index(to.Preds, from)
	index := 0
	marks := map[ssa.Value]mark{}
	for _, instruction := range to.Instrs {
		phi, ok := instruction.(*ssa.Phi)
		if !ok {
			break
		}
		index++
		v := phi.Edges[edge]
		m := s.of(v)
		if isBool(phi.Type()) && m.kind == 0 {
			if m = constant(v); m.kind == 0 {
				if outcome, known := s.decide(v); known {
					m = mark{kind: no}
					if outcome {
						m.kind = yes
					}
				}
			}
		}
		if n, ok := s.integer(v); ok && m.kind == 0 && !to.Dominates(from) {
			m = mark{kind: number, at: n}
		}
		if m.kind == number && to.Dominates(from) { // only the first iteration is counted
			m = mark{}
		}
		marks[phi] = m
	}
	for phi, m := range marks {
		s.set(phi, m)
	}
	key := fmt.Sprint(to.Index, " ", s.key(w.number))
	if w.seen[key] {
		return
	}
	w.seen[key] = true
	w.work = append(w.work, position{to, index, s})
}
