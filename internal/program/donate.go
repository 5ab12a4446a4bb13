package program

import (
	"slices"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/sym"
)

// Donated returns, for each of inputs, the index of the output that lies in the donated input's storage; −1 if none
// does. It matches as many outputs as possible, and prefers each input's first. Outputs for which elsewhere returns
// true are not chosen.
func (p *Program) Donated(inputs []int, elsewhere func(output int) bool) []int {
	at := map[int]int{} // the output of a tensor
	for o, port := range p.Outputs {
		at[port.Tensor] = o
	}
	holder := map[int]int{} // by output: the index in inputs
	var assign func(i int, seen map[int]bool) bool
	assign = func(i int, seen map[int]bool) bool {
		for _, free := range []bool{true, false} {
			for _, t := range p.Inputs[inputs[i]].Gives {
				o := at[t]
				other, taken := holder[o]
				if taken == free || seen[o] || elsewhere != nil && elsewhere(o) {
					continue
				}
				if taken {
					seen[o] = true
					if !assign(other, seen) {
						continue
					}
				}
				holder[o] = i
				return true
			}
		}
		return false
	}
	out := make([]int, len(inputs))
	for i := range inputs {
		out[i] = -1
		assign(i, map[int]bool{})
	}
	for o, i := range holder {
		out[i] = o
	}
	return out
}

// gives checks that each output which may lie in an input's storage has storage of its own of the same size, and that
// no step uses it before the input's last read.
func (v *verifier) gives() error {
	first, last := map[int]int{}, map[int]int{} // by root
	for at, step := range v.p.Steps {
		Mentions([]Step{step}, func(t int) {
			t = v.p.Root(t)
			if _, seen := first[t]; !seen {
				first[t] = at
			}
			last[t] = at
		})
	}
	for _, in := range v.p.Inputs {
		for _, t := range in.Gives {
			fault := func(format string, args ...any) error { return diag.Inputf(format, args...).AtTensor(in.Name) }
			if !slices.ContainsFunc(v.p.Outputs, func(o Port) bool { return o.Tensor == t }) {
				return fault("tensor %d, which may lie in its storage, is no output", t)
			}
			x := &v.p.Tensors[t]
			if x.Class != Carved || v.p.Storages[x.Of].Kind != Results || v.p.Storages[x.Of].Late ||
				!sameBytes(v, x.Bytes(), v.p.Storages[x.Of].Size) {
				return fault("%s, which may lie in its storage, has no storage of its own", x.Name)
			}
			if !sameBytes(v, x.Bytes(), v.p.Tensors[in.Tensor].Bytes()) {
				return fault("%s, which may lie in its storage, has %s bytes, not %s", x.Name, x.Bytes(),
					v.p.Tensors[in.Tensor].Bytes())
			}
			begin, mentioned := first[t]
			if read, is := last[in.Tensor]; is && mentioned && (begin < read || begin == read && !single(v.p.Steps[begin])) {
				return fault("%s, which may lie in its storage, is written before it is read for the last time", x.Name)
			}
		}
	}
	return nil
}

// sameBytes reports whether two sizes are proved to be equal.
func sameBytes(v *verifier, a, b sym.Expr) bool { return v.dims.EQ(a, b) == sym.Yes }

// single reports whether a step is one launch or copy.
func single(s Step) bool {
	switch s.(type) {
	case *Launch, *Copy:
		return true
	}
	return false
}
