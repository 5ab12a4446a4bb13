package arm64

import (
	"fmt"
	"strings"

	"github.com/weirml/weir/internal/codegen/arm64/asm"
	"github.com/weirml/weir/internal/codegen/lanes"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/target"
)

// Text returns the machine code of a module's kernels as instructions, for a processor with the machine's features. A
// kernel's text is its scratch, its notes, and each routine; or the reason why there is no machine code for it. X0 is
// the address of the kernel's frame; X1 and X2 are the first tile and the one after the last, and later are for the
// length of an instruction.
func Text(m *loop.Module, machine target.Machine) string {
	unlike, which := loop.Distinct(m.Kernels)
	texts := make([]string, len(unlike))
	c := &compiler{new(workspace), isaOf(machine)}
	for at, k := range unlike {
		texts[at] = c.text(k, m)
	}
	var out strings.Builder
	for at, k := range m.Kernels {
		fmt.Fprintf(&out, "kernel @%s {\n%s}\n", k.Name, texts[which[at]])
	}
	return out.String()
}

// text returns the code of a kernel as text, or the reason why there is none.
func (c *compiler) text(k *loop.Kernel, m *loop.Module) string {
	var routines []string
	c.work.told = func(insts []asm.Inst) {
		var s strings.Builder
		for i := range insts {
			fmt.Fprintf(&s, "\t%s\n", insts[i].String())
		}
		routines = append(routines, s.String())
	}
	compiled, why := lanes.CompileOne(k, m, c)
	if c.work.told = nil; compiled == nil {
		return fmt.Sprintf("no code: %s\n", why.Reason)
	}
	var out strings.Builder
	fmt.Fprintf(&out, "scratch %s\n", compiled.ScratchFormula())
	for _, slower := range compiled.Slower {
		fmt.Fprintf(&out, "slower: %s\n", slower)
	}
	for at, routine := range routines {
		fmt.Fprintf(&out, "routine of %s tiles\n%s", compiled.Nests[at].Formula, routine)
	}
	return out.String()
}
