package schedule

import (
	"cmp"
	"slices"

	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// mostOutside is the number of bytes that a local may take outside of its kernel, for all tiles that run at once; the
// number of such tiles is limited accordingly.
const mostOutside = 16 << 20

// moveOut is the last resort, which never fails: if a kernel needs more scratch than there is although its tiles cannot
// be smaller, its largest locals become buffers, planned with all others.
func (s *scheduler) moveOut() {
	most := s.machine.Limits.Scratch
	if most == 0 {
		return
	}
	var launches map[*loop.Kernel][]*loop.Launch
	for _, k := range s.module.Kernels {
		for !forBlocks(k) && NeedOf(k, s.machine, s.dims).Scratch > most {
			if launches == nil {
				launches = s.launches()
			}
			next := k.Clone()
			param := s.outside(next)
			if param == nil {
				break
			}
			next.Dims = dimsOf(next, k)
			*k = *next
			for _, l := range launches[k] {
				b := &loop.Buffer{Name: s.bufferName(k.Name + "_" + param.Name), DType: param.DType,
					Shape: slices.Clone(param.Shape)}
				s.module.Buffers = append(s.module.Buffers, b)
				l.Args = append(l.Args, b)
			}
		}
	}
}

// launches returns the launches of each kernel.
func (s *scheduler) launches() map[*loop.Kernel][]*loop.Launch {
	list := map[*loop.Kernel][]*loop.Launch{}
	s.eachList(&s.module.Body, func(steps *[]loop.Step) {
		for _, step := range *steps {
			if l, ok := step.(*loop.Launch); ok {
				list[l.Kernel] = append(list[l.Kernel], l)
			}
		}
	})
	return list
}

// bufferName returns a new name for a buffer, made from hint.
func (s *scheduler) bufferName(hint string) string {
	taken := func(name string) bool {
		return slices.ContainsFunc(s.module.Buffers, func(b *loop.Buffer) bool { return b.Name == name })
	}
	name := hint
	for i := 1; taken(name); i++ {
		name = hint + "_" + decimal(i)
	}
	return name
}

// outside turns the kernel's largest local into a parameter, with a slice for each tile that may run concurrently;
// enclosing loops that are not over tiles use it one iteration after the other. It returns the parameter; nil if there
// is no local to move.
func (s *scheduler) outside(k *loop.Kernel) *loop.Param {
	locals := loop.Locals(k)
	if len(locals) == 0 {
		return nil
	}
	bytes := func(l *loop.Local) int64 { return upper(loop.Bytes(l.DType, l.Shape), s.dims) }
	l := slices.MaxFunc(locals, func(a, b loop.LocalOffset) int {
		return cmp.Compare(bytes(a.Local), bytes(b.Local))
	}).Local
	at := int64(1)
	if l.DType.Bits() >= 8 { // concurrent tiles must not write to the same byte
		at = max(1, mostOutside/max(1, bytes(l)))
	}
	var index, shape []sym.Expr
	around := func(f *loop.For) {
		if tiles := upper(f.Extent, s.dims); f.Kind == loop.Parallel && at > 1 && s.overDims(k, f.Extent) {
			if tiles > at {
				*f = *s.inBlocks(k, f, at)
				tiles = at
			}
			extent := f.Extent
			if s.dims.LE(zero, extent) != sym.Yes {
				extent = extent.Max(zero)
			}
			index, shape = append(index, sym.Var(f.Var)), append(shape, extent)
			at /= max(1, tiles)
			return
		}
		f.Kind, at = loop.Serial, 1
	}
	drop(&k.Body, l.Name, around)
	p := &loop.Param{Name: l.Name, Access: loop.Work, DType: l.DType, Shape: append(shape, l.Shape...)}
	k.Params = append(k.Params, p)
	within := func(list, before []sym.Expr) []sym.Expr { return append(slices.Clone(before), list...) }
	still := make([]sym.Expr, len(index))
	for i := range still {
		still[i] = zero
	}
	k.Body = joinAccesses(k.Body, func(buffer string, at []sym.Expr) []sym.Expr {
		if buffer != l.Name {
			return at
		}
		return within(at, index)
	})
	loop.Walk(k.Body, func(stmt loop.Stmt) bool {
		if c, ok := stmt.(*loop.Contract); ok {
			for _, t := range []*loop.Tile{&c.A, &c.B, &c.C} {
				if t.Buffer == l.Name {
					t.Origin, t.Row, t.Col = within(t.Origin, index), within(t.Row, still), within(t.Col, still)
				}
			}
		}
		return true
	})
	return p
}

// inBlocks returns a parallel loop over at most blocks blocks of a loop's iterations, which run in order.
func (s *scheduler) inBlocks(k *loop.Kernel, f *loop.For, blocks int64) *loop.For {
	inner := &loop.For{Kind: loop.Serial, Var: f.Var, Extent: f.Extent, Body: f.Body}
	outer := s.coster(k).cutInto(inner, f.Extent.CeilDiv(sym.Const(blocks)).Max(one), s.newNamer(k))
	outer.Kind = loop.Parallel
	return outer
}

// drop removes a local's declaration, and calls around for the enclosing loops, outermost first.
func drop(body *[]loop.Stmt, local string, around func(f *loop.For)) bool {
	for i, stmt := range *body {
		if l, ok := stmt.(*loop.Local); ok && l.Name == local {
			*body = slices.Delete(*body, i, i+1)
			return true
		}
		if !slices.Contains(declared([]loop.Stmt{stmt}), local) {
			continue
		}
		if f, ok := stmt.(*loop.For); ok {
			around(f)
		}
		for _, inner := range loop.Bodies(stmt) {
			if drop(inner, local, around) {
				return true
			}
		}
	}
	return false
}
