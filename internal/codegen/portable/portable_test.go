package portable

import (
	"errors"
	"testing"
	"unsafe"

	"github.com/weirml/weir/internal/codegen/kerneltest"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/target"
)

var (
	n0 = sym.Const(0)
	n1 = sym.Const(1)
)

// harness compiles with this package.
var harness = kerneltest.Harness{Compile: Compile}

func TestFunctions(t *testing.T)     { harness.Functions(t) }
func TestConversions(t *testing.T)   { harness.Conversions(t) }
func TestSpecials(t *testing.T)      { harness.Specials(t) }
func TestPowers(t *testing.T)        { harness.Powers(t) }
func TestQuantisations(t *testing.T) { harness.Quantisations(t) }
func TestFewBits(t *testing.T)       { harness.FewBits(t) }
func TestCheck(t *testing.T)         { harness.Checks(t) }
func TestOutside(t *testing.T)       { harness.Outside(t) }
func TestEarly(t *testing.T)         { harness.Early(t) }
func TestWide(t *testing.T)          { harness.Wide(t); harness.Chosen(t) }
func TestContractions(t *testing.T)  { harness.Contractions(t) }
func TestTilesAtOnce(t *testing.T)   { harness.TilesAtOnce(t) }
func TestCourses(t *testing.T)       { harness.Courses(t) }
func TestDivisions(t *testing.T)     { harness.Divisions(t) }

// TestStop: kernels whose only tile would take years end when they are stopped.
func TestStop(t *testing.T) { harness.Stops(t) }

func TestEmptyContractions(t *testing.T) { harness.EmptyContractions(t) }

// TestNoAllocation: runs of a kernel with lanes, scalars, checks, conversions and a contraction allocate nothing.
func TestNoAllocation(t *testing.T) {
	b := loop.NewBuilder("steady")
	n := sym.Const(70)
	at, x := b.Param("at", loop.Read, dtype.I64, []sym.Expr{n}), b.Param("x", loop.Read, dtype.F16, []sym.Expr{n, n})
	y, z := b.Param("y", loop.Update, dtype.I8, []sym.Expr{n, n}), b.Param("z", loop.Update, dtype.F32, []sym.Expr{n, n})
	row, col := []sym.Expr{n1, n0}, []sym.Expr{n0, n1}
	b.For(loop.Parallel, "i", n, func(i sym.Expr) {
		r := b.Check("r", at.Load(i), n0, n.Sub(n1), "a row")
		total := b.Var("total", loop.Number(dtype.F32, 0))
		b.For(loop.Vector, "j", n, func(j sym.Expr) {
			v := b.Let("v", loop.Convert(dtype.F32, x.LoadIf(loop.Inside(j, n1, n), loop.Number(dtype.F16, 1), r, j.Sub(n1))))
			b.Reduce(total, loop.Add, loop.Apply(loop.Exp, v))
			s := b.Check("s", at.Load(j), n0, n.Sub(n1), "a column")
			b.Store(y, []sym.Expr{i, j}, loop.Convert(dtype.I8, loop.Choose(loop.Apply2(loop.Lt, v, x32(x, i, s)), v,
				loop.Number(dtype.F32, 3))))
		})
		b.Store(z, []sym.Expr{i, n0}, loop.Apply2(loop.Div, total, loop.Convert(dtype.F32, at.Load(i))))
		b.Contract(sym.Const(8), n, n, z.Tile([]sym.Expr{n0, n0}, row, col), x.Tile([]sym.Expr{n0, n0}, row, col),
			z.Tile([]sym.Expr{n0, n0}, row, col))
	})
	k := kerneltest.Finish(b)
	code, _ := Compile(&loop.Module{Kernels: []*loop.Kernel{k}}, target.Machine{})
	compiled := code.Kernels[0]
	a := &target.Args{}
	for _, p := range k.Params {
		o := kerneltest.Operand(t, p, nil)
		a.Operands = append(a.Operands, target.Operand{Base: unsafe.Pointer(&o.Bytes()[0]), Bytes: int64(len(o.Bytes()))})
	}
	bytes, _ := compiled.Scratch(nil)
	scratch, _ := kerneltest.ScratchOf(int(bytes))
	if n := testing.AllocsPerRun(20, func() {
		if err := compiled.Run(a, 0, 70, scratch); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations in a run, want none", n)
	}
}

func x32(x *loop.Memory, index ...sym.Expr) loop.Expr {
	return loop.Convert(dtype.F32, x.Load(index...))
}

// TestBlocks: a kernel with shared memory of a block is ErrUnsupported.
func TestBlocks(t *testing.T) {
	b := loop.NewBuilder("block")
	b.Kernel.Body = []loop.Stmt{&loop.Local{Name: "s", DType: dtype.F32, Shape: kerneltest.Fixed(4), Space: loop.Shared}}
	_, err := Compile(&loop.Module{Kernels: []*loop.Kernel{b.Kernel}}, target.Machine{})
	if !errors.Is(err, diag.ErrUnsupported) {
		t.Errorf("error %v", err)
	}
}
