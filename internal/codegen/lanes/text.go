package lanes

import (
	"fmt"
	"strings"

	"github.com/weirml/weir/internal/loop"
)

// Text returns the machine code of a module's kernels as text, each as TextOf gives it.
func Text[I any, C Assembler](m *loop.Module, set Instructions[I, C]) string {
	unlike, which := loop.Distinct(m.Kernels)
	texts := make([]string, len(unlike))
	for at, k := range unlike {
		texts[at] = TextOf(k, m, set)
	}
	var out strings.Builder
	for at, k := range m.Kernels {
		fmt.Fprintf(&out, "kernel @%s {\n%s}\n", k.Name, texts[which[at]])
	}
	return out.String()
}

// TextOf returns the machine code of a kernel as text: its scratch, its notes, and each routine; or the reason why
// there is no machine code for it.
func TextOf[I any, C Assembler](k *loop.Kernel, m *loop.Module, set Instructions[I, C]) string {
	var routines []string
	work := &workspace[I]{told: func(routine string) { routines = append(routines, routine) }}
	compiled, why := CompileOne(k, m, &compiler[I, C]{work, set})
	if compiled == nil {
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
