package portable

import (
	"testing"

	"github.com/weirml/weir/internal/codegen/kerneltest"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/target"
)

// TestHostile runs hostile kernels: see kerneltest.Hostiles. The environment variable WEIR_HOSTILE is the number of
// executions, if it is set.
func TestHostile(t *testing.T) { kerneltest.Hostiles(t, 300, harness) }

// recorder records the failures of a test.
type recorder struct {
	testing.TB
	faults []string
}

func (r *recorder) Errorf(format string, args ...any) { r.faults = append(r.faults, format) }

// TestHostileFinds: hostile kernels find each of several faults of a generator.
func TestHostileFinds(t *testing.T) {
	one := sym.Const(1)
	for name, plant := range map[string]func(s loop.Stmt){
		"a loop with one more iteration": func(s loop.Stmt) {
			if f, ok := s.(*loop.For); ok && f.Kind == loop.Vector {
				f.Extent = f.Extent.Add(one)
			}
		},
		"a guard that always passes": func(s loop.Stmt) {
			if c, ok := s.(*loop.Check); ok && c.Guard {
				c.Max = one
			}
		},
		"a mask that is ignored": func(s loop.Stmt) {
			if f, ok := s.(*loop.Store); ok {
				f.Mask = nil
			}
		},
		"a value that is too large": func(s loop.Stmt) {
			if f, ok := s.(*loop.Store); ok && f.X.DType() == dtype.I64 {
				f.X = loop.Apply2(loop.Add, f.X, loop.Integer(dtype.I64, 1))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := &recorder{TB: t}
			faulty := func(m *loop.Module, machine target.Machine) (*target.Code, error) {
				k := m.Kernels[0].Clone()
				loop.Walk(k.Body, func(s loop.Stmt) bool { plant(s); return true })
				return Compile(&loop.Module{Kernels: []*loop.Kernel{k}}, machine)
			}
			x := kerneltest.NewHostile(r, kerneltest.Harness{Compile: faulty})
			x.Bindings = 8
			for seed := int64(1); seed < 100 && r.faults == nil; seed++ {
				x.Kernel(seed)
			}
			if r.faults == nil {
				t.Errorf("nothing is found: %s", x.Count.String())
			}
		})
	}
}
