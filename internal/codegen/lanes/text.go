package lanes

import (
	"fmt"
	"strings"

	"github.com/weirml/weir/internal/loop"
)

// Text returns the machine code of a module's kernels as text, each as TextOf gives it.
func Text(m *loop.Module, c Compiler, tell func(func(routine string))) string {
	unlike, which := loop.Distinct(m.Kernels)
	texts := make([]string, len(unlike))
	for at, k := range unlike {
		texts[at] = TextOf(k, m, c, tell)
	}
	var out strings.Builder
	for at, k := range m.Kernels {
		fmt.Fprintf(&out, "kernel @%s {\n%s}\n", k.Name, texts[which[at]])
	}
	return out.String()
}

// TextOf returns the machine code of a kernel as text: its scratch, its notes, and each routine; or the reason why
// there is no machine code for it. tell has the compiler give each routine that it makes, as lines, to a function; nil
// ends that.
func TextOf(k *loop.Kernel, m *loop.Module, c Compiler, tell func(func(routine string))) string {
	var routines []string
	tell(func(routine string) { routines = append(routines, routine) })
	defer tell(nil)
	compiled, why := CompileOne(k, m, c)
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

// Lines returns instructions as text, a line each.
func Lines[I any](insts []I, text func(in *I) string) string {
	var s strings.Builder
	for i := range insts {
		fmt.Fprintf(&s, "\t%s\n", text(&insts[i]))
	}
	return s.String()
}
