package schedule

import (
	"math/rand"
	"strings"
	"testing"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// concat adds the concatenation of buffers along an axis. Equal buffers are one parameter.
func (w *writer) concat(kind loop.BufferKind, axis int, xs ...*loop.Buffer) *loop.Buffer {
	var distinct []*loop.Buffer
	at := map[*loop.Buffer]int{}
	for _, x := range xs {
		if _, ok := at[x]; !ok {
			at[x] = len(distinct)
			distinct = append(distinct, x)
		}
	}
	extents := append([]sym.Expr(nil), xs[0].Shape...)
	extents[axis] = zero
	for _, x := range xs {
		extents[axis] = extents[axis].Add(x.Shape[axis])
	}
	return w.launch("concat", kind, xs[0].DType, extents, distinct,
		func(b *loop.Builder, in []*loop.Memory, out *loop.Memory) {
			begin := zero
			for _, x := range xs {
				from := in[at[x]]
				b.Nest(loop.Each, "i", from.Shape, func(i []sym.Expr) {
					to := append([]sym.Expr(nil), i...)
					to[axis] = to[axis].Add(begin)
					b.Store(out, to, from.Load(i...))
				})
				begin = begin.Add(from.Shape[axis])
			}
		})
}

// window adds a kernel that sums each row for each of its elements: no map can be inlined into it, since it reads each
// element too often.
func (w *writer) window(kind loop.BufferKind, x *loop.Buffer) *loop.Buffer {
	return w.launch("window", kind, x.DType, x.Shape, []*loop.Buffer{x},
		func(b *loop.Builder, in []*loop.Memory, out *loop.Memory) {
			b.Nest(loop.Each, "i", x.Shape, func(i []sym.Expr) {
				total := b.Var("t", f32(0))
				b.Serial("k", x.Shape[len(i)-1], func(k sym.Expr) {
					j := append([]sym.Expr(nil), i...)
					j[len(i)-1] = k
					b.Reduce(total, loop.Add, in[0].Load(j...))
				})
				b.Store(out, i, loop.Apply2(loop.Add, total, in[0].Load(i...)))
			})
		})
}

// checkParts schedules a module, compares its outputs with those of the original, and returns the schedule.
func checkParts(t *testing.T, w *writer, n int64, o Options) *loop.Module {
	t.Helper()
	in := inputs(rand.New(rand.NewSource(7)), w.module, n)
	want, err := (&loop.Runner{}).Run(w.module, in)
	if err != nil {
		t.Fatal(err)
	}
	scheduled := detach(w.module)
	if err := RunWith(scheduled, registers, o); err != nil {
		t.Fatal(err)
	}
	unproved, err := loop.VerifyModule(scheduled)
	if err != nil {
		t.Fatalf("%v\n%s", err, scheduled)
	}
	for _, u := range unproved {
		if strings.Contains(u, "is written") || strings.Contains(u, "want") {
			t.Errorf("not proved: %s\n%s", u, scheduled)
		}
	}
	got, err := (&loop.Runner{}).Run(scheduled, in)
	if err != nil {
		t.Fatalf("%v\n%s", err, scheduled)
	}
	for name, x := range want {
		if err := tensor.Compare(got[name], x, 1e-4, 1e-4); err != nil {
			t.Fatalf("%s: %v\n%s", name, err, scheduled)
		}
	}
	return scheduled
}

// TestParts: kernels write their results directly into the buffer that concatenates them; copies that remain are listed
// with their reasons.
func TestParts(t *testing.T) {
	input := func(w *writer, extents ...int64) *loop.Buffer {
		var list []sym.Expr
		for _, n := range extents {
			list = append(list, number(n))
		}
		return w.buffer(loop.Input, dtype.F32, list)
	}
	for _, c := range []struct {
		title    string
		launches int
		copies   string
		build    func(w *writer)
	}{
		{"columns of two products", 3, "0 copies", func(w *writer) {
			x := input(w, 20, 16)
			w.window(loop.Output, w.concat(loop.Temp, 1, w.product(loop.Temp, x, input(w, 16, 24), 0, 1),
				w.product(loop.Temp, x, input(w, 16, 40), 0, 1)))
		}},
		{"directly into a result", 2, "0 copies", func(w *writer) {
			w.concat(loop.Output, 0, w.window(loop.Temp, input(w, 3, 16)), w.window(loop.Temp, input(w, 5, 16)))
		}},
		{"a chain in which each concatenation is the first piece of the next", 5, "0 copies", func(w *writer) {
			x := w.window(loop.Temp, input(w, 9, 16))
			for range 3 {
				x = w.concat(loop.Temp, 1, x, w.window(loop.Temp, x))
			}
			w.window(loop.Output, x)
		}},
		{"concatenations of all earlier pieces", 5, "0 copies", func(w *writer) {
			list := []*loop.Buffer{w.window(loop.Temp, input(w, 9, 16))}
			for range 3 {
				list = append(list, w.window(loop.Temp, w.concat(loop.Temp, 1, list...)))
			}
			w.window(loop.Output, w.concat(loop.Temp, 1, list...))
		}},
		{"not: an input, and one twice", 3, "it already lies in another buffer\n2 copies, 1152 bytes", func(w *writer) {
			x := input(w, 9, 16)
			y := w.window(loop.Temp, x)
			w.window(loop.Output, w.concat(loop.Temp, 1, y, x, y))
		}},
		{"not: a result", 4, "it is also a result", func(w *writer) {
			w.window(loop.Output, w.concat(loop.Temp, 1, w.window(loop.Output, input(w, 9, 16)),
				w.window(loop.Temp, input(w, 9, 16))))
		}},
		{"not: columns of one element", 4, "in runs too short for vectors", func(w *writer) {
			w.window(loop.Output, w.concat(loop.Temp, 1, w.window(loop.Temp, input(w, 9, 1)),
				w.window(loop.Temp, input(w, 9, 1))))
		}},
	} {
		t.Run(c.title, func(t *testing.T) {
			w := newWriter()
			c.build(w)
			kept := map[string]string{}
			scheduled := checkParts(t, w, 20, Options{Kept: kept})
			if len(scheduled.Body) != c.launches {
				t.Errorf("%d launches, want %d\n%s", len(scheduled.Body), c.launches, scheduled)
			}
			if copies := Copies(scheduled, kept); !strings.Contains(copies, c.copies) {
				t.Errorf("the copies are\n%swant %q", copies, c.copies)
			}
		})
	}
}

// TestPartsAndTheArena: pieces stay copies if they would enlarge the arena, and only those.
func TestPartsAndTheArena(t *testing.T) {
	for largest := range int64(4) {
		w := newWriter()
		x := w.buffer(loop.Input, dtype.F32, shape(number(9), number(16)))
		for range 3 {
			w.window(loop.Output, w.concat(loop.Temp, 1, w.window(loop.Temp, x), w.window(loop.Temp, x)))
		}
		m := detach(w.module)
		kept := map[string]string{}
		direct := func() (n int64) { // concatenations whose two pieces are written directly
			for _, b := range m.Buffers {
				if b.View != nil {
					n++
				}
			}
			return n / 2
		}
		// The arena grows if there are more than largest of them.
		o := Options{Kept: kept, Arena: func() ([]int64, error) { return []int64{100, 100 + max(0, direct()-largest)}, nil }}
		if err := RunWith(m, registers, o); err != nil {
			t.Fatal(err)
		}
		if direct() != largest {
			t.Errorf("%d concatenations are written directly, want %d", direct(), largest)
		}
		if got := strings.Count(Copies(m, kept), whyArena); got != int(3-largest) {
			t.Errorf("%d copies have the arena as their reason, want %d\n%s", got, 3-largest, Copies(m, kept))
		}
	}
}

// TestRandomParts schedules random modules of concatenations along random axes: of unequal and empty pieces, with
// several readers, and with dynamic sizes.
func TestRandomParts(t *testing.T) {
	r := rand.New(rand.NewSource(11))
	placed := 0
	for range 150 {
		w := newWriter()
		n, m := int64(r.Intn(4)), int64(r.Intn(20))
		extents := shape(number(n), number(3), number(m))
		if r.Intn(2) == 0 {
			extents[0] = sym.Dim("n")
			w.module.Dims.Set(sym.User("n"), sym.Range{Min: 0, Max: 64})
			if r.Intn(2) == 0 {
				extents[2], m = sym.Dim("n").Mul(number(8)), 8*n
			}
		}
		values := []*loop.Buffer{w.buffer(loop.Input, dtype.F32, extents)}
		kind := func() loop.BufferKind {
			if r.Intn(6) == 0 {
				return loop.Output
			}
			return loop.Temp
		}
		for range 4 + r.Intn(10) {
			x := values[r.Intn(len(values))]
			var y *loop.Buffer
			if r.Intn(2) == 0 {
				y = w.window(kind(), x)
			} else {
				axis, list := r.Intn(3), []*loop.Buffer{x}
				for range r.Intn(4) {
					z := values[r.Intn(len(values))]
					same := true
					for i := range z.Shape {
						same = same && (i == axis || z.Shape[i].Equal(x.Shape[i]))
					}
					if same {
						list = append(list, z)
					}
				}
				if len(list) > 2 && list[1] == list[2] || len(list) < 2 {
					y = w.unary(kind(), loop.Neg, x)
				} else {
					y = w.concat(kind(), axis, list...)
				}
			}
			values = append(values, y)
		}
		w.window(loop.Output, values[len(values)-1])
		scheduled := checkParts(t, w, n, Options{Without: map[bool][]string{true: {"constants", "inline"}}[r.Intn(3) == 0]})
		for _, b := range scheduled.Buffers {
			if b.View != nil {
				placed++
			}
		}
	}
	if placed < 50 {
		t.Errorf("only %d pieces are written directly", placed)
	}
}

// TestManyParts: after one piece of a concatenation of eight is written directly, the kernels that copy the others keep
// within the limit of operands, and the results are the same.
func TestManyParts(t *testing.T) {
	w := newWriter()
	list := []*loop.Buffer{w.window(loop.Temp, w.buffer(loop.Input, dtype.F32, shape(number(9), number(16))))}
	for range 7 {
		list = append(list, w.buffer(loop.Input, dtype.F32, shape(number(9), number(16))))
	}
	w.window(loop.Output, w.concat(loop.Temp, 1, list...))
	few := registers
	few.Limits.Operands = 5
	m := detach(w.module)
	if err := RunWith(m, few, Options{}); err != nil {
		t.Fatal(err)
	}
	want := detach(w.module)
	in := inputs(rand.New(rand.NewSource(7)), want, 9)
	for _, k := range m.Kernels {
		if len(k.Params) > 9 {
			t.Errorf("%d operands\n%s", len(k.Params), k)
		}
	}
	a, err := (&loop.Runner{}).Run(want, in)
	if err != nil {
		t.Fatal(err)
	}
	b, err := (&loop.Runner{}).Run(m, in)
	if err != nil {
		t.Fatal(err)
	}
	for name, x := range a {
		if err := tensor.Compare(b[name], x, 1e-4, 1e-4); err != nil {
			t.Errorf("%s: %v\n%s", name, err, m)
		}
	}
}
