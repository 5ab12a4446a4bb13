package arm64

import (
	"github.com/weirml/weir/internal/codegen/arm64/asm"
	"github.com/weirml/weir/internal/codegen/regalloc"
)

// uses counts the instructions that read, and that write, a virtual register.
type uses struct{ reads, writes int32 }

// Fuse removes copies of results that nothing else reads: the instruction before the copy writes the copy's register.
// A sum of a loop is computed in this way, since an instruction has an operand for its result.
func (i *isa) Fuse(b *regalloc.Routine[asm.Inst]) {
	var count [regalloc.Classes][]uses
	for c := range count {
		count[c] = make([]uses, b.Registers(asm.Class(c)))
	}
	of := func(r asm.Reg) *uses { return &count[r.Class()][r.Number()] }
	for n := range b.Insts {
		i.Visit(&b.Insts[n], func(r *asm.Reg, role asm.Role) {
			if !r.Virtual() {
				return
			}
			if role&asm.Read != 0 {
				of(*r).reads++
			}
			if role&asm.Write != 0 {
				of(*r).writes++
			}
		})
	}
	kept := b.Insts[:0]
	for _, in := range b.Insts {
		to, from, ok := i.Move(&in)
		if ok && len(kept) > 0 && to.Virtual() && from.Virtual() && *of(from) == (uses{1, 1}) {
			if before := &kept[len(kept)-1]; i.writes(before, from) {
				i.Visit(before, func(r *asm.Reg, role asm.Role) {
					if *r == from {
						*r = to
					}
				})
				continue
			}
		}
		kept = append(kept, in)
	}
	b.Insts = kept
}

// writes reports whether an instruction writes a register.
func (i *isa) writes(in *asm.Inst, r asm.Reg) (ok bool) {
	i.Visit(in, func(x *asm.Reg, role asm.Role) { ok = ok || *x == r && role == asm.Write })
	return ok
}
