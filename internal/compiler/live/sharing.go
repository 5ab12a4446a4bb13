package live

import (
	"cmp"
	"slices"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/memplan"
	"github.com/weirml/weir/internal/sym"
)

// Donations returns, for each input, the outputs that may lie in its storage if a run donates it, best first. Such an
// output has as many bytes as the input for every binding, and is first written after the input's last read, or by a
// step that may write it over the input. The timeline must be that of the steps alone.
func Donations(m *loop.Module, t *Timeline) map[*loop.Buffer][]*loop.Buffer {
	out := map[*loop.Buffer][]*loop.Buffer{}
	for _, in := range m.Buffers {
		if in.Kind != loop.Input || in.View != nil || Replaced(m, in) != nil {
			continue
		}
		type candidate struct {
			b     *loop.Buffer
			first int
		}
		var candidates []candidate
		for _, b := range m.Buffers {
			if b.Kind == loop.Output && b.View == nil && b.State == nil && SameBytes(m, in, b) && t.after(m, in, b) {
				candidates = append(candidates, candidate{b, t.enclosing(*t.Alive[b]).First})
			}
		}
		slices.SortStableFunc(candidates, func(a, b candidate) int { return cmp.Compare(a.first, b.first) })
		for _, p := range candidates {
			out[in] = append(out[in], p.b)
		}
	}
	return out
}

// Updates reports whether a step may write output out over input in.
func Updates(step loop.Step, in, out *loop.Buffer) bool {
	switch s := step.(type) {
	case *loop.Copy:
		return s.Pick == nil && Covered(s.To) == out && Covered(s.From) == in // onto itself
	case *loop.Launch:
		r, w := slices.Index(s.Args, in), slices.Index(s.Args, out)
		return r >= 0 && w >= 0 && s.Kernel.Params[r].Access == loop.Read && s.Kernel.Params[w].Access != loop.Read &&
			s.Kernel.Params[w].Access != loop.Work &&
			OnlyOperand(s, in) && OnlyOperand(s, out) && InPlace(s.Kernel, r, w)
	}
	return false
}

// Covered returns the root buffer that b covers entirely and in order. It returns nil if b views a part of the root, or
// its elements in another order.
func Covered(b *loop.Buffer) *loop.Buffer {
	for ; b.View != nil; b = b.View.Of {
		of := b.View.Of
		if offset, is := b.View.Offset.Const(); !is || offset != 0 || b.View.Strides != nil ||
			!sym.Product(b.Shape...).Equal(sym.Product(of.Shape...)) || b.DType != of.DType {
			return nil
		}
	}
	return b
}

// SameBytes reports whether an output has as many bytes as an input for every binding.
func SameBytes(m *loop.Module, in, out *loop.Buffer) bool {
	return !decided(m, out) && m.Dims.EQ(BytesOf(in, sym.Product(in.Shape...)),
		BytesOf(out, sym.Product(out.Shape...))) == sym.Yes
}

// decided reports whether a buffer's shape has a data dimension.
func decided(m *loop.Module, b *loop.Buffer) bool {
	return slices.ContainsFunc(b.Shape, func(e sym.Expr) bool {
		return slices.ContainsFunc(e.Vars(), func(name sym.Name) bool { _, data := m.Limits[name]; return data })
	})
}

// Alias lets kernels compute in place: a result takes the storage of an operand whose live range ends there, if the
// kernel reads each element before it overwrites it. The target of a copy takes the storage of a source whose live
// range ends there; the copy then moves nothing. known remembers which kernels compute in place between calls for
// modules with the same dimensions; it may be nil.
func Alias(m *loop.Module, t *Timeline, roots []*loop.Buffer, p *memplan.Problem, known map[Overwrite]bool) {
	index := map[*loop.Buffer]int{}
	for i, b := range roots {
		index[b] = i
	}
	copies(m.Body, func(s *loop.Copy) {
		out, in := Covered(s.To), Covered(s.From)
		o, planned := index[out]
		i, both := index[in]
		if at := t.At[s].First; planned && both && i != o && p.Buffers[o].Alias == nil &&
			p.Buffers[o].First == at && p.Buffers[i].Last == at && p.Buffers[i].Size.Equal(p.Buffers[o].Size) {
			p.Buffers[o].Alias = &memplan.Alias{Of: i}
		}
	})
	Each(m.Body, func(l *loop.Launch) {
		taken := map[int]bool{} // an operand's storage goes to one result
		for w, out := range l.Args {
			if access := l.Kernel.Params[w].Access; access == loop.Read || access == loop.Work || out.View != nil {
				continue
			}
			o, planned := index[out]
			if !planned || p.Buffers[o].Alias != nil || p.Buffers[o].First != t.At[l].First {
				continue
			}
			for r, in := range l.Args {
				i, planned := index[Covered(in)]
				if l.Kernel.Params[r].Access != loop.Read || !planned || i == o || p.Buffers[i].Last != t.At[l].First ||
					!p.Buffers[i].Size.Equal(p.Buffers[o].Size) || in.DType.Bits() != out.DType.Bits() || !OnlyOperand(l, in.Root()) {
					continue
				}
				if !taken[i] && overwrites(known, m.Dims, Overwrite{l.Kernel, r, w}) {
					p.Buffers[o].Alias = &memplan.Alias{Of: i}
					taken[i] = true
					break
				}
			}
		}
	})
}

// Overwrite is a parameter R of a kernel whose storage parameter W may take.
type Overwrite struct {
	Kernel *loop.Kernel
	R, W   int
}

// overwrites reports whether a kernel computes in place, and remembers it in known.
func overwrites(known map[Overwrite]bool, dims *sym.Dims, o Overwrite) bool {
	can, found := known[o]
	if !found {
		can = InPlace(o.Kernel, o.R, o.W) || InPlaceByBoxes(o.Kernel, dims, o.R, o.W)
		if known != nil {
			known[o] = can
		}
	}
	return can
}

// OnlyOperand reports whether exactly one of a launch's arguments is a buffer or a view of it.
func OnlyOperand(l *loop.Launch, b *loop.Buffer) bool {
	count := 0
	for _, arg := range l.Args {
		if arg.Root() == b {
			count++
		}
	}
	return count == 1
}

// KeepsStates returns an error if a state is read after its new value is written over it. Artefacts must be checked for
// that.
func KeepsStates(m *loop.Module, t *Timeline) error {
	for _, b := range m.Buffers {
		if b.State != nil && !t.Replaces(m, b) {
			return diag.Inputf("%s is read after %s is written over it", b.State.Name, b.Name).AtTensor(b.State.Source)
		}
	}
	return nil
}

// Replaced returns the output that replaces an input; nil if the input is no state.
func Replaced(m *loop.Module, in *loop.Buffer) *loop.Buffer {
	if i := slices.IndexFunc(m.Buffers, func(b *loop.Buffer) bool { return b.State == in }); i >= 0 {
		return m.Buffers[i]
	}
	return nil
}
