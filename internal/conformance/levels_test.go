package conformance

import (
	"errors"
	"fmt"
	"testing"

	"github.com/weirml/weir/internal/codegen/amd64/call"
	"github.com/weirml/weir/internal/compiler"
	"github.com/weirml/weir/internal/conformance/conformancetest"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/target"
)

// TestLevels generates code for constructed models at every level and precision, whatever the processor. A kernel that
// a generator fails at is a panic in tests, and none may be left to portable code.
func TestLevels(t *testing.T) {
	if !call.Supported {
		t.Skip("no machine code is generated for this processor's architecture")
	}
	for name, text := range conformancetest.LevelModels {
		for _, level := range compiler.Levels() {
			if level == target.PortableName {
				continue
			}
			for _, precision := range []dtype.DType{dtype.F32, dtype.BF16, dtype.I8} {
				for _, size := range []int64{0, 19} { // 0: sizes are not known
					t.Run(fmt.Sprintf("%s/%s/%s/%d", name, level, precision, size), func(t *testing.T) {
						generated(t, text, level, precision, size)
					})
				}
			}
		}
	}
}

// generated generates code for a text at a level and precision.
func generated(t *testing.T, text, level string, precision dtype.DType, size int64) {
	machine, err := target.For(level, 2)
	if err != nil {
		t.Fatal(err)
	}
	m, err := conformancetest.LevelModule(text, size)
	if err != nil {
		t.Fatal(err)
	}
	seen := errors.New("the code is seen")
	_, err = compiler.Compile(m, compiler.Options{Machine: machine, Precision: precision, Foreign: true,
		Planned: func(c *compiler.Compiled) error {
			for _, left := range c.Code.Left {
				t.Errorf("%s: %s", left.Kernel, left.Reason)
			}
			for _, fault := range c.Faults {
				t.Error(fault)
			}
			if c.Code.Machine.CPU != level {
				t.Errorf("the code is for %s", c.Code.Machine.CPU)
			}
			return seen
		}})
	if !errors.Is(err, seen) {
		t.Fatal(err)
	}
}
