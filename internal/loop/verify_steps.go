package loop

import (
	"fmt"
	"maps"
	"slices"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/sym"
)

// steps checks a list of steps.
func (v *moduleVerifier) steps(body []Step) {
	for _, s := range body {
		v.step(s)
		v.onDevices(s)
	}
}

// step checks a step and the steps inside it.
func (v *moduleVerifier) step(s Step) {
	switch s := s.(type) {
	case *Launch:
		v.launch(s)
	case *Host:
		for _, b := range s.In {
			if b != nil {
				v.read(b, "host operator "+s.Op)
			}
		}
		for _, b := range s.Out {
			if b != nil {
				for _, extent := range b.Shape {
					if name, ok := extent.Name(); ok {
						v.bound[name] = true
					}
				}
				v.write(b, "host operator "+s.Op)
			}
		}
	case *Bind:
		v.dims("a bind", []sym.Expr{sym.Var(s.Dim), s.Value})
		if s.From != nil {
			v.read(s.From, "the bind of "+s.Dim.String())
		} else {
			v.uses("the bind of "+s.Dim.String(), []sym.Expr{s.Value})
		}
		v.bound[s.Dim] = true
		v.turns[s.Dim] = v.turns[s.Dim] || v.depth > 0
	case *Copy:
		v.readAway(s.From, "a copy")
		v.writeAway(s.To, "a copy")
		if s.From.Away() && s.To.Away() {
			v.fail("a copy from %%%s to %%%s, both in files", s.From.Name, s.To.Name)
		}
		if s.From.DType != s.To.DType {
			v.fail("a copy from %%%s of %s to %%%s of %s", s.From.Name, s.From.DType, s.To.Name, s.To.DType)
		}
		if s.Pick != nil {
			v.pick(s)
			return
		}
		v.sameCount("a copy of %"+s.From.Name, s.From.Shape, s.To.Shape)
	case *If:
		v.read(s.Cond, "an if")
		before, bound, partly := maps.Clone(v.written), maps.Clone(v.bound), maps.Clone(v.partly)
		v.steps(s.Then)
		then, thenBound := v.written, v.bound
		v.written, v.bound, v.partly = before, bound, maps.Clone(partly)
		v.steps(s.Else)
		v.partly = partly
		maps.DeleteFunc(v.written, func(b *Buffer, _ bool) bool { return !then[b] })
		maps.DeleteFunc(v.bound, func(name sym.Name, _ bool) bool { return !thenBound[name] })
	case *Loop:
		v.loop(s)
	default:
		v.fail("a step of type %T is not known", s)
	}
}

// pick checks a copy of rows.
func (v *moduleVerifier) pick(s *Copy) {
	of := s.Pick.Index
	v.read(of, "a copy")
	if of.DType != dtype.I32 && of.DType != dtype.I64 || s.To.Away() {
		v.fail("a copy of rows of %%%s, to %%%s by %%%s of %s", s.From.Name, s.To.Name, of.Name, of.DType)
	}
	leading := len(s.From.Shape) - len(s.To.Shape) + len(of.Shape)
	if leading < 1 || leading > len(s.From.Shape) || s.Pick.Rows < 0 ||
		v.module.Dims.LE(sym.Const(s.Pick.Rows), sym.Product(s.From.Shape[:leading]...)) != sym.Yes {
		v.fail("a copy to %%%s of %d rows of %%%s%s by %%%s%s", s.To.Name, s.Pick.Rows, s.From.Name,
			formatIndex(s.From.Shape), of.Name, formatIndex(of.Shape))
	}
	want := slices.Concat(of.Shape, s.From.Shape[leading:])
	for axis, extent := range s.To.Shape {
		if verdict := v.module.Dims.EQ(extent, want[axis]); verdict != sym.Yes {
			v.differ("a copy of rows of %"+s.From.Name, "shape", verdict, s.To.Shape, want)
			return
		}
	}
}

// loop checks a Loop. It takes the buffers that the body writes as written: if the body never runs, its results are
// empty or were written before.
func (v *moduleVerifier) loop(s *Loop) {
	if s.Trip != nil {
		v.read(s.Trip, "a loop")
	}
	if !s.Count.None() {
		v.dims("a loop", []sym.Expr{sym.Var(s.Count)})
		v.bound[s.Count] = true
		v.turns[s.Count] = true
	}
	if s.Cond != nil {
		v.read(s.Cond, "a loop")
	}
	if s.Index != nil {
		v.write(s.Index, "a loop")
	}
	v.depth++
	v.steps(s.Body)
	v.depth--
}

// in checks that a step's buffer is in the module and that its dimensions are bound.
func (v *moduleVerifier) in(b *Buffer, where string) {
	if b == nil || !v.known[b] {
		v.fail("%s uses a buffer that is not in the module", where)
	}
	v.uses(where, b.Shape)
	if b.View != nil {
		v.uses(where, append(slices.Clone(b.View.Strides), b.View.Offset))
	}
}

// uses checks that the dimensions in symbolic integers are bound.
func (v *moduleVerifier) uses(where string, list []sym.Expr) {
	for _, e := range list {
		for _, name := range e.Vars() {
			if !v.bound[name] {
				v.fail("%s uses dimension %s before it is bound", where, name)
			}
		}
	}
}

// Away reports whether a buffer lies in a file, so that only copies read and write it.
func (b *Buffer) Away() bool { return b.Root().Kind == Spill || b.Root().Paged }

// here fails if a buffer lies in a file.
func (v *moduleVerifier) here(b *Buffer, where string) {
	if b.Away() {
		v.fail("%s uses %%%s, which lies in a file: only copies may", where, b.Name)
	}
}

// read checks that a step may read a buffer.
func (v *moduleVerifier) read(b *Buffer, where string) {
	v.here(b, where)
	v.readAway(b, where)
}

// readAway is read for a copy, which may read a file.
func (v *moduleVerifier) readAway(b *Buffer, where string) {
	v.in(b, where)
	v.complete(b, func() { v.fail("%s reads %%%s before it is written", where, b.Name) })
}

// complete checks that all elements of a buffer are written. If no element of its storage is, it calls missing.
func (v *moduleVerifier) complete(b *Buffer, missing func()) {
	r := root(b)
	switch {
	case v.written[r] || v.empty(b):
		return
	case len(v.partly[r]) == 0:
		missing()
	}
	have := regionOf(v.module.Dims, b)
	if !slices.ContainsFunc(v.partly[r], func(p region) bool { return have.within(v.module.Dims, p) }) {
		v.unproved = append(v.unproved,
			fmt.Sprintf("%%%s is written: it is a view of %%%s, which is written in several steps",
				b.Name, r.Name))
	}
}

// wrote records that a buffer is written: its entire storage, or a region of it. A buffer that a loop writes at another
// offset in each iteration counts as entirely written.
func (v *moduleVerifier) wrote(b *Buffer) {
	r, dims := root(b), v.module.Dims
	if v.written[r] {
		return
	}
	have := regionOf(dims, b)
	turns := slices.ContainsFunc(have.offset.Vars(), func(name sym.Name) bool { return v.turns[name] })
	leading := dims.EQ(have.offset, sym.Const(0)) == sym.Yes && (b.View == nil || b.View.Strides == nil)
	if turns || leading && dims.EQ(sym.Product(b.Shape...), sym.Product(r.Shape...)) != sym.No {
		v.written[r] = true
		return
	}
	v.partly[r] = v.partly[r].with(dims, have)
	full := regionOf(dims, r)
	v.written[r] = slices.ContainsFunc(v.partly[r], func(p region) bool { return full.within(dims, p) })
}

// empty reports whether a buffer never has an element, so that it needs no write.
func (v *moduleVerifier) empty(b *Buffer) bool {
	return slices.ContainsFunc(b.Shape, func(extent sym.Expr) bool {
		return v.module.Dims.EQ(extent, sym.Const(0)) == sym.Yes
	})
}

// write checks that a step may write a buffer, and records the write.
func (v *moduleVerifier) write(b *Buffer, where string) {
	v.here(b, where)
	v.writeAway(b, where)
}

// writeAway is write for a copy, which may write a file.
func (v *moduleVerifier) writeAway(b *Buffer, where string) {
	v.in(b, where)
	if kind := root(b).Kind; kind == Input || kind == Weight {
		v.fail("%s writes %%%s, which is an %s", where, b.Name, kind)
	}
	v.wrote(b)
}

// launch checks a Launch.
func (v *moduleVerifier) launch(s *Launch) {
	k := s.Kernel
	if k == nil || !v.kernels[k] {
		v.fail("a launch of a kernel that is not in the module")
	}
	where := "the launch of @" + k.Name
	if len(s.Args) != len(k.Params) {
		v.fail("%s passes %d buffers, want %d", where, len(s.Args), len(k.Params))
	}
	for _, name := range k.Dims {
		v.uses(where, []sym.Expr{sym.Var(name)})
	}
	for i, p := range k.Params {
		if p.Access == Read || p.Access == Update {
			v.read(s.Args[i], where)
		}
	}
	for i, p := range k.Params {
		b := s.Args[i]
		if p.Access != Read {
			v.write(b, where)
		}
		what := fmt.Sprintf("%s, %%%s for %%%s", where, b.Name, p.Name)
		if b.DType != p.DType {
			v.fail("%s: %s, want %s", what, b.DType, p.DType)
		}
		v.layout(what, b, p)
	}
}

// layout checks that a buffer has its parameter's shape and strides, or the same number of elements at the same offsets
// in the same order.
func (v *moduleVerifier) layout(what string, b *Buffer, p *Param) {
	have, want := stridesOf(b), p.Strides
	if want == nil {
		want = RowMajor(p.Shape)
	}
	if len(b.Shape) == len(p.Shape) && v.equal(b.Shape, p.Shape) {
		if v.module.Dims.EQ(sym.Product(p.Shape...), sym.Const(0)) == sym.Yes {
			return // no element has an offset
		}
		for i := range want {
			if v.module.Dims.LE(p.Shape[i], sym.Const(1)) != sym.Yes && v.module.Dims.EQ(have[i], want[i]) != sym.Yes {
				v.differ(what, "strides", v.module.Dims.EQ(have[i], want[i]), have, want)
				return
			}
		}
		return
	}
	if same := Regrouped(v.module.Dims, b.Shape, have, p.Shape); same != nil && v.stepsAlike(p.Shape, same, want) {
		return
	}
	if !v.equal(have, RowMajor(b.Shape)) || !v.equal(want, RowMajor(p.Shape)) {
		v.differ(what, "shape", sym.Unknown, b.Shape, p.Shape)
		return
	}
	v.sameCount(what, b.Shape, p.Shape)
}
