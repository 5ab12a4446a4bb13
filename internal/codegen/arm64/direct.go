package arm64

import (
	"github.com/weirml/weir/internal/codegen/arm64/asm"
	"github.com/weirml/weir/internal/codegen/regalloc"
)

// uses counts the instructions that read, and that write, a virtual register.
type uses struct{ reads, writes int32 }

// direct removes copies of results that nothing else reads: the instruction before the copy writes the copy's register.
// A sum of a loop is computed in this way, since an instruction has an operand for its result.
func (b *builder) direct() {
	var count [regalloc.Classes][]uses
	for c := range count {
		count[c] = make([]uses, b.Registers(asm.Class(c)))
	}
	of := func(r asm.Reg) *uses { return &count[r.Class()][r.Number()] }
	for i := range b.Insts {
		b.isa.Visit(&b.Insts[i], func(r *asm.Reg, role asm.Role) {
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
		to, from, ok := b.isa.Move(&in)
		if ok && len(kept) > 0 && to.Virtual() && from.Virtual() && *of(from) == (uses{1, 1}) {
			if before := &kept[len(kept)-1]; b.writes(before, from) {
				b.isa.Visit(before, func(r *asm.Reg, role asm.Role) {
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
func (b *builder) writes(in *asm.Inst, r asm.Reg) (ok bool) {
	b.isa.Visit(in, func(x *asm.Reg, role asm.Role) { ok = ok || *x == r && role == asm.Write })
	return ok
}
