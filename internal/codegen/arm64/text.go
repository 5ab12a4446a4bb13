package arm64

import (
	"github.com/weirml/weir/internal/codegen/lanes"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/target"
)

// Text returns the machine code of a module's kernels as instructions, for a processor with the machine's features, as
// lanes.TextOf describes. X0 is the address of the kernel's frame; X1 and X2 are the first tile and the one after
// the last, and later are for the length of an instruction.
func Text(m *loop.Module, machine target.Machine) string {
	c := &compiler{new(workspace), isaOf(machine)}
	return lanes.Text(m, c, c.tell)
}

// tell has each routine given to a function; nil ends that.
func (c *compiler) tell(told func(routine string)) { c.work.told = told }
