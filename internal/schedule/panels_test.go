package schedule

import (
	"fmt"
	"math/rand"
	"strings"
	"testing"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/target"
	"github.com/weirml/weir/internal/tensor"
)

// registers is a machine with a register tile. Its caches are small, so that small products have several tiles.
var registers = target.Machine{Name: "registers", VectorBytes: 32, Tile: target.Tile{Rows: 6, Columns: 16},
	Limits: target.Limits{Scratch: 4 << 20, Registers: 16, L1: 1 << 10, L2: 4 << 10}}

// TestPanels cuts each sample's contractions into panels, and interprets the results.
func TestPanels(t *testing.T) {
	for _, sample := range samples {
		for _, static := range []bool{false, true} {
			for _, dims := range []map[sym.Name]int64{{sym.User("n"): 1, sym.User("m"): 130, sym.User("k"): 5},
				{sym.User("n"): 66, sym.User("m"): 1, sym.User("k"): 5}, {sym.User("n"): 2, sym.User("m"): 3, sym.User("k"): 0},
				{sym.User("n"): 2, sym.User("m"): 20, sym.User("k"): 18}} {
				t.Run(fmt.Sprintf("%s/%v/%v", sample.name, static, dims), func(t *testing.T) {
					ranges := sym.NewDims()
					extent := func(name string) sym.Expr {
						if static {
							return number(dims[sym.User(name)])
						}
						ranges.Set(sym.User(name), sym.Range{Min: 0, Max: 1 << 20})
						return dim(name)
					}
					b := loop.NewBuilder(sample.name)
					sample.build(b, extent("n"), extent("m"), extent("k"))
					k := b.Kernel
					k.Dims = loop.FreeDims(k)
					want, got := operands(t, k, dims, 1), operands(t, k, dims, 1)
					if err := interpret(k, want, dims); err != nil {
						t.Fatal(err)
					}
					scheduled := k.Clone()
					s := &scheduler{module: &loop.Module{Kernels: []*loop.Kernel{scheduled}}, machine: registers, dims: ranges}
					if err := s.contractions(); err != nil {
						t.Fatal(err)
					}
					scheduled = s.kernel(scheduled)
					if _, err := loop.Verify(scheduled, ranges); err != nil {
						t.Fatalf("%v\n%s", err, scheduled)
					}
					if err := interpret(scheduled, got, dims); err != nil {
						t.Fatalf("%v\n%s", err, scheduled)
					}
					for i := range want {
						if err := tensor.Compare(got[i], want[i], 1e-5, 1e-5); err != nil {
							t.Fatalf("%s: %v\n%s", k.Params[i].Name, err, scheduled)
						}
					}
				})
			}
		}
	}
}

// weight adds a constant of f32 with random elements.
func (w *writer) weight(r *rand.Rand, extents ...int64) *loop.Buffer {
	return w.weightOf(dtype.F32, r, extents...)
}

// weightOf adds a constant of a type with random elements.
func (w *writer) weightOf(dt dtype.DType, r *rand.Rand, extents ...int64) *loop.Buffer {
	b := w.buffer(loop.Weight, dt, constants(extents))
	b.Data = tensor.Must(tensor.New(dt, extents...))
	for i := range b.Data.Len() {
		if dt.IsInt() {
			b.Data.SetInt(i, r.Int63())
			continue
		}
		b.Data.SetFloat(i, r.NormFloat64())
	}
	return b
}

// product multiplies x [m, K] by a weight: depth and columns are the weight's axes along which sums run and columns
// lie. Serial loops sum over its other axes.
func (w *writer) product(kind loop.BufferKind, x, weight *loop.Buffer, depth, columns int) *loop.Buffer {
	m, n := x.Shape[0], weight.Shape[columns]
	return w.launch("product", kind, dtype.F32, shape(m, n), []*loop.Buffer{x, weight},
		func(b *loop.Builder, in []*loop.Memory, out *loop.Memory) {
			acc := b.Local("acc", dtype.F32, m, n)
			b.Nest(loop.Each, "z", acc.Shape, func(i []sym.Expr) { b.Store(acc, i, f32(0)) })
			rank := len(weight.Shape)
			origin, first := zeros(rank), zero
			var descend func(axis int)
			descend = func(axis int) {
				switch {
				case axis == rank:
					b.Contract(m, n, weight.Shape[depth], acc.Tile(zeros(2), unit(2, 0), unit(2, 1)),
						in[0].Tile(shape(zero, first.Mul(weight.Shape[depth])), unit(2, 0), unit(2, 1)),
						in[1].Tile(append([]sym.Expr(nil), origin...), unit(rank, depth), unit(rank, columns)))
				case axis == depth || axis == columns:
					descend(axis + 1)
				default:
					b.Serial("h", weight.Shape[axis], func(h sym.Expr) {
						before := first
						origin[axis], first = h, first.Mul(weight.Shape[axis]).Add(h)
						descend(axis + 1)
						origin[axis], first = zero, before
					})
				}
			}
			descend(0)
			b.Nest(loop.Each, "o", acc.Shape, func(i []sym.Expr) { b.Store(out, i, acc.Load(i...)) })
		})
}

// detach returns a clone of a module with its own weights.
func detach(m *loop.Module) *loop.Module {
	c := clone(m)
	own := map[*loop.Buffer]*loop.Buffer{}
	for i, b := range c.Buffers {
		copied := *b
		own[b] = &copied
		c.Buffers[i] = &copied
	}
	for _, step := range c.Body {
		for i, b := range step.(*loop.Launch).Args {
			step.(*loop.Launch).Args[i] = own[b]
		}
	}
	return c
}

// deferWeights replaces the contents of weights by deferred tensors of the same elements: permuted, at odd addresses,
// or computed.
func deferWeights(r *rand.Rand, m *loop.Module) {
	for _, b := range m.Buffers {
		if b.Kind != loop.Weight {
			continue
		}
		shape := b.Data.Shape()
		perm, back := make([]int64, len(shape)), make([]int64, len(shape))
		permuted := make([]int64, len(shape))
		for i, p := range r.Perm(len(shape)) {
			perm[i], back[p], permuted[i] = int64(p), int64(i), shape[p]
		}
		data := make([]byte, b.Data.Size()+1)
		copy(data[1:], tensor.Must(tensor.Permuted(b.Data, shape, perm)).Bytes())
		t := tensor.Must(tensor.Over(b.DType, permuted, data[1:]))
		if r.Intn(2) == 0 {
			from := t
			t = tensor.Must(tensor.Deferred(b.DType, permuted, from, from.Major(), from.Fill))
		}
		if t = tensor.Must(tensor.Permuted(t, permuted, back)); r.Intn(2) == 0 {
			from := t
			t = tensor.Must(tensor.Deferred(b.DType, shape, from, from.Major(), from.Fill))
		}
		b.Data = t
	}
}

// packCases are modules with products of weights.
var packCases = []struct {
	name   string
	packed string // the wanted shapes of the packed weight, and of other buffers with its elements
	build  func(r *rand.Rand, w *writer)
}{
	{"rows by columns", "[3, 40, 16]", func(r *rand.Rand, w *writer) {
		w.product(loop.Output, w.buffer(loop.Input, dtype.F32, shape(number(20), number(40))), w.weight(r, 40, 35), 0, 1)
	}},
	{"transposed", "[3, 40, 16]", func(r *rand.Rand, w *writer) {
		w.product(loop.Output, w.buffer(loop.Input, dtype.F32, shape(number(20), number(40))), w.weight(r, 35, 40), 1, 0)
	}},
	{"window", "[2, 2, 3, 5, 16]", func(r *rand.Rand, w *writer) {
		w.product(loop.Output, w.buffer(loop.Input, dtype.F32, shape(number(7), number(30))), w.weight(r, 2, 3, 5, 32), 2, 3)
	}},
	{"window last", "[2, 2, 3, 5, 16]", func(r *rand.Rand, w *writer) {
		w.product(loop.Output, w.buffer(loop.Input, dtype.F32, shape(number(7), number(30))), w.weight(r, 32, 5, 2, 3), 1, 0)
	}},
	{"one row", "[2, 9, 64]", func(r *rand.Rand, w *writer) {
		w.product(loop.Output, w.buffer(loop.Input, dtype.F32, shape(one, number(9))), w.weight(r, 9, 100), 0, 1)
	}},
	{"few columns", "[1, 9, 8]", func(r *rand.Rand, w *writer) {
		w.product(loop.Output, w.buffer(loop.Input, dtype.F32, shape(number(3), number(9))), w.weight(r, 9, 5), 0, 1)
	}},
	{"dynamic rows", "[3, 40, 16]", func(r *rand.Rand, w *writer) {
		w.module.Dims.Set(sym.User("n"), sym.Range{Min: 0, Max: 4096})
		w.product(loop.Output, w.buffer(loop.Input, dtype.F32, shape(dim("n"), number(40))), w.weight(r, 40, 35), 0, 1)
	}},
	{"embedding and logits", "[3, 9, 16]", func(r *rand.Rand, w *writer) {
		table := w.weight(r, 40, 9)
		at := w.buffer(loop.Input, dtype.I64, shape(number(20)))
		w.product(loop.Output, w.unary(loop.Temp, loop.Tanh, w.rows(loop.Temp, table, at)), table, 1, 0)
	}},
	{"two products", "[3, 9, 16]", func(r *rand.Rand, w *writer) {
		weight := w.weight(r, 9, 35)
		x, y := w.buffer(loop.Input, dtype.F32, shape(number(20), number(9))),
			w.buffer(loop.Input, dtype.F32, shape(one, number(9)))
		w.product(loop.Output, y, weight, 0, 1)
		w.product(loop.Output, x, weight, 0, 1)
	}},
	{"both ways", "[3, 9, 16] [1, 35, 16]", func(r *rand.Rand, w *writer) {
		weight := w.weight(r, 9, 35)
		x, y := w.buffer(loop.Input, dtype.F32, shape(number(20), number(9))),
			w.buffer(loop.Input, dtype.F32, shape(number(20), number(35)))
		w.product(loop.Output, x, weight, 0, 1)
		w.product(loop.Output, y, weight, 1, 0)
	}},
	{"one row and many, both ways", "[1, 35, 16] [1, 9, 40]", func(r *rand.Rand, w *writer) {
		weight := w.weight(r, 9, 35)
		x, y := w.buffer(loop.Input, dtype.F32, shape(one, number(9))),
			w.buffer(loop.Input, dtype.F32, shape(number(20), number(35)))
		w.product(loop.Output, y, weight, 1, 0)
		w.product(loop.Output, x, weight, 0, 1)
	}},
}

// TestPack packs weights in all layouts, some with readers that are no products, and compares outputs with those of the
// unscheduled module.
func TestPack(t *testing.T) {
	for _, c := range packCases {
		t.Run(c.name, func(t *testing.T) {
			r := rand.New(rand.NewSource(5))
			w := newWriter()
			c.build(r, w)
			in := inputs(r, w.module, 20)
			want, err := (&loop.Runner{}).Run(w.module, in)
			if err != nil {
				t.Fatal(err)
			}
			scheduled := detach(w.module)
			if err := RunWith(scheduled, registers, Options{}); err != nil {
				t.Fatal(err)
			}
			if _, err := loop.VerifyModule(scheduled); err != nil {
				t.Fatalf("%v\n%s", err, scheduled)
			}
			for seed := range int64(8) {
				later := detach(w.module)
				deferWeights(rand.New(rand.NewSource(seed)), later)
				if err := RunWith(later, registers, Options{}); err != nil {
					t.Fatal(err)
				}
				for i, b := range later.Buffers {
					if b.Kind == loop.Weight && !b.Data.Equal(scheduled.Buffers[i].Data) {
						t.Errorf("seed %d: weight %s is packed differently if its contents are deferred", seed, b.Name)
					}
				}
			}
			var shapes []string
			for _, b := range scheduled.Buffers {
				if b.Kind == loop.Weight {
					shapes = append(shapes, fmt.Sprint(b.Shape))
				}
			}
			if is := strings.Join(shapes, " "); is != strings.ReplaceAll(c.packed, ",", "") {
				t.Errorf("the weight's shape is %s, want %s", is, c.packed)
			}
			got, err := (&loop.Runner{}).Run(scheduled, in)
			if err != nil {
				t.Fatal(err)
			}
			for name, x := range want {
				if err := tensor.Compare(got[name], x, 1e-4, 1e-4); err != nil {
					t.Fatalf("%s: %v\n%s", name, err, scheduled)
				}
			}
		})
	}
}

// TestPieces packs weights piece by piece, in random order, and looks for every element at its index in the packed
// weight.
func TestPieces(t *testing.T) {
	r := rand.New(rand.NewSource(9))
	for range 100 {
		rank := 2 + r.Intn(3)
		old := make([]int64, rank)
		for i := range old {
			old[i] = 1 + r.Int63n(20)
		}
		axes := r.Perm(rank)
		w := newWriter()
		dt := []dtype.DType{dtype.F32, dtype.BF16, dtype.I8}[r.Intn(3)]
		b := w.weightOf(dt, r, old...)
		unpacked := b.Data
		deferWeights(r, w.module)
		group := int64(1)
		if dt != dtype.F32 {
			group = []int64{1, 2, 4}[r.Intn(3)]
		}
		p := &Pack{Buffer: b, Width: []int64{4, 8, 16, 24, 64}[r.Intn(5)], Group: group, from: b.Data, old: old,
			columns: axes[0], depth: axes[1]}
		if !p.lay() {
			t.Fatal("a weight cannot be packed")
		}
		p.piece = 1 + r.Int63n(p.from.Size())
		packed := tensor.Must(tensor.New(dt, p.Shape()...))
		read := 0
		for _, piece := range r.Perm(int(p.Pieces())) {
			p.Fill(packed.Bytes(), int64(piece), int64(piece)+1)
			read += len(p.Memory(int64(piece), int64(piece)+1))
		}
		if origins := p.Origins(); len(origins) != 1 || read != int(origins[0].Size()) {
			t.Errorf("pieces read %d bytes of %v", read, origins)
		}
		want := tensor.Must(tensor.New(dt, p.Shape()...))
		flat := int64(0)
		tensor.Each(old, func(at []int64) {
			index := []int64{at[p.columns] / p.Width}
			for _, axis := range p.order {
				index = append(index, at[axis])
			}
			if index = append(index, at[p.columns]%p.Width); group > 1 {
				index[len(index)-2] /= group
				index = append(index, at[p.depth]%group)
			}
			want.SetFloat(tensor.Offset(tensor.Strides(p.Shape()), index), unpacked.Float(flat))
			flat++
		})
		if !packed.Equal(want) {
			t.Fatalf("%v with columns along %d and sums along %d, in panels of %d and pieces of %d bytes, is packed wrong",
				old, p.columns, p.depth, p.Width, p.piece)
		}
	}
}

// TestProductsHaveTilesForWorkers: a product with few columns is cut into several tiles, and a small one is not.
func TestProductsHaveTilesForWorkers(t *testing.T) {
	amd, intel := target.Tile{Rows: 8, Columns: 48}, target.Tile{Rows: 14, Columns: 32}
	for _, c := range []struct {
		m, n, k, least, most int64
		tile                 target.Tile
	}{
		{196, 64, 384, 4, 8, amd}, {49, 320, 960, 7, 14, amd}, {30, 64, 64, 1, 1, amd}, {3136, 24, 144, 9, 32, amd},
		{64, 512, 2048, 4, 4, intel}, {64, 512, 2047, 11, 11, intel}, {256, 256, 1024, 8, 8, intel},
		{49, 320, 960, 7, 14, intel},
	} {
		b := loop.NewBuilder("product")
		x, w, y := b.Param("x", loop.Read, dtype.F32, constants([]int64{c.m, c.k})),
			b.Param("w", loop.Read, dtype.F32, constants([]int64{c.k, c.n})),
			b.Param("y", loop.Write, dtype.F32, constants([]int64{c.m, c.n}))
		acc := b.Local("acc", dtype.F32, number(c.m), number(c.n))
		b.Nest(loop.Each, "z", acc.Shape, func(i []sym.Expr) { b.Store(acc, i, f32(0)) })
		b.Contract(number(c.m), number(c.n), number(c.k), acc.Tile(zeros(2), unit(2, 0), unit(2, 1)),
			x.Tile(zeros(2), unit(2, 0), unit(2, 1)), w.Tile(zeros(2), unit(2, 0), unit(2, 1)))
		b.Nest(loop.Each, "o", acc.Shape, func(i []sym.Expr) { b.Store(y, i, acc.Load(i...)) })
		machine, err := target.For("avx512", 2)
		if err != nil {
			t.Fatal(err)
		}
		machine.Tile, machine.Limits.L2 = c.tile, 1<<20+1<<18 // on every host
		s := &scheduler{module: &loop.Module{Kernels: []*loop.Kernel{b.Kernel}}, machine: machine, dims: sym.NewDims()}
		if err := s.contractions(); err != nil {
			t.Fatal(err)
		}
		k := s.kernel(b.Kernel)
		tiles := int64(1)
		for body := k.Body; len(body) == 1; {
			f, ok := body[0].(*loop.For)
			if !ok || f.Kind != loop.Parallel {
				break
			}
			n, _ := f.Extent.Const()
			tiles, body = tiles*n, f.Body
		}
		if tiles < c.least || tiles > c.most {
			t.Errorf("%d × %d × %d: %d tiles\n%s", c.m, c.n, c.k, tiles, k)
		}
	}
}

// TestWiderPanels: panels are four or three vectors wide if all panels are then full or nearly full, a panel stays in
// the cache, and there are rows for several tiles. If all rows fit one tile of three vectors, but not of four, panels
// of three may have padding, unless it is much of them.
func TestWiderPanels(t *testing.T) {
	for _, c := range []struct{ m, k, n, want int64 }{
		{98, 512, 256, 64}, {98, 1024, 256, 64}, {98, 1 << 20, 256, 64}, {20, 512, 256, 32}, {98, 512, 250, 64},
		{98, 1024, 240, 48}, {98, 1024, 192, 48}, {98, 512, 192, 64}, {98, 2048, 256, 64}, {98, 4096, 240, 32},
		{130, 4096, 240, 48},
		{98, 512, 224, 32}, {130, 4096, 1024, 64}, {98, 2047, 1024, 48}, {40, 1024, 1024, 48}, {98, 512, 592, 48},
		{98, 512, 112, 32}, {30, 512, 592, 32}, {98, 512, 64, 64}, {98, 512, 48, 48}, {20, 512, 48, 48},
		{8, 256, 1024, 48}, {7, 256, 256, 48}, {9, 256, 1024, 48}, {8, 256, 192, 48}, {8, 256, 128, 64},
		{6, 256, 1024, 64}, {16, 256, 1024, 32},
	} {
		b := loop.NewBuilder("product")
		x := b.Param("x", loop.Read, dtype.F32, constants([]int64{c.m, c.k}))
		w := b.Param("w", loop.Read, dtype.F32, constants([]int64{c.k, c.n}))
		y := b.Param("y", loop.Write, dtype.F32, constants([]int64{c.m, c.n}))
		acc := b.Local("acc", dtype.F32, number(c.m), number(c.n))
		b.Nest(loop.Each, "z", acc.Shape, func(i []sym.Expr) { b.Store(acc, i, f32(0)) })
		b.Contract(number(c.m), number(c.n), number(c.k), acc.Tile(zeros(2), unit(2, 0), unit(2, 1)),
			x.Tile(zeros(2), unit(2, 0), unit(2, 1)), w.Tile(zeros(2), unit(2, 0), unit(2, 1)))
		b.Nest(loop.Each, "o", acc.Shape, func(i []sym.Expr) { b.Store(y, i, acc.Load(i...)) })
		machine, err := target.For("avx512", 1)
		if err != nil {
			t.Fatal(err)
		}
		machine.Tile, machine.Limits.L2 = target.Tile{Rows: 14, Columns: 32}, 1<<20+1<<18 // on every host
		s := &scheduler{module: &loop.Module{Kernels: []*loop.Kernel{b.Kernel}}, machine: machine, dims: sym.NewDims()}
		if err := s.contractions(); err != nil {
			t.Fatal(err)
		}
		for _, a := range loop.Accesses(s.kernel(b.Kernel).Body) {
			if p, ok := a.Stmt.(*loop.Contract); ok && a.Tile == &p.C {
				if _, most := s.dims.Bounds(p.N); most != c.want {
					t.Errorf("%d × %d × %d: panels of %d columns, not of %d", c.m, c.k, c.n, most, c.want)
				}
			}
		}
	}
}

// TestPanelsOnce: for every number of columns, a transposed right operand is copied into panels, so that no product
// reads strided columns.
func TestPanelsOnce(t *testing.T) {
	for _, columns := range []int64{48, 64} { // three vectors, four
		machine := target.Machine{Name: "wide", VectorBytes: 64, Tile: target.Tile{Rows: 8, Columns: columns},
			Limits: target.Limits{Scratch: 8 << 20, Registers: 32, L1: 32 << 10, L2: 1 << 20}}
		for m := int64(2); m <= 530; m++ {
			b := loop.NewBuilder("product")
			rows, depth := sym.Var(sym.User("n")), number(70)
			x := b.Param("x", loop.Read, dtype.F32, shape(rows, depth))
			w := b.Param("w", loop.Read, dtype.F32, shape(number(m), depth))
			y := b.Param("y", loop.Write, dtype.F32, shape(rows, number(m)))
			acc := b.Local("acc", dtype.F32, rows, number(m))
			b.Nest(loop.Each, "z", acc.Shape, func(i []sym.Expr) { b.Store(acc, i, f32(0)) })
			down, right := shape(one, zero), shape(zero, one)
			b.Contract(rows, number(m), depth, acc.Tile(shape(zero, zero), down, right), x.Tile(shape(zero, zero), down, right),
				w.Tile(shape(zero, zero), right, down))
			b.Nest(loop.Each, "o", y.Shape, func(i []sym.Expr) { b.Store(y, i, acc.Load(i...)) })
			k := b.Kernel
			k.Dims = loop.FreeDims(k)
			ranges := sym.NewDims()
			ranges.Set(sym.User("n"), sym.Range{Min: 0, Max: 1 << 20})
			s := &scheduler{module: &loop.Module{Kernels: []*loop.Kernel{k}}, machine: machine, dims: ranges}
			if err := s.contractions(); err != nil {
				t.Fatal(err)
			}
			for _, a := range loop.Accesses(k.Body) {
				if c, ok := a.Stmt.(*loop.Contract); ok && c.B.Buffer == "w" {
					t.Fatalf("%d columns, tiles of %d: the product reads strided columns\n%s", m, columns, k)
				}
			}
		}
	}
}

// TestUncountableProduct: a product whose sums take more bytes at the dimensions' bounds than 64 bits count is cut into
// register tiles like any other.
func TestUncountableProduct(t *testing.T) {
	d := sym.Var(sym.User("d"))
	rows := d.Mul(d).Mul(d).Mul(number(36))
	b := loop.NewBuilder("product")
	x := b.Param("x", loop.Read, dtype.F32, shape(rows, number(70)))
	w := b.Param("w", loop.Read, dtype.F32, shape(number(70), d))
	y := b.Param("y", loop.Write, dtype.F32, shape(rows, d))
	acc := b.Local("acc", dtype.F32, rows, d)
	b.Nest(loop.Each, "z", acc.Shape, func(i []sym.Expr) { b.Store(acc, i, f32(0)) })
	down, right := shape(one, zero), shape(zero, one)
	b.Contract(rows, d, number(70), acc.Tile(shape(zero, zero), down, right), x.Tile(shape(zero, zero), down, right),
		w.Tile(shape(zero, zero), down, right))
	b.Nest(loop.Each, "o", y.Shape, func(i []sym.Expr) { b.Store(y, i, acc.Load(i...)) })
	k := b.Kernel
	k.Dims = loop.FreeDims(k)
	ranges := sym.NewDims()
	ranges.Set(sym.User("d"), sym.Range{Min: 0, Max: 1 << 20})
	on := registers
	on.Limits.Registers = 16
	m := &loop.Module{Kernels: []*loop.Kernel{k}, Dims: ranges}
	s := &scheduler{module: m, machine: on, dims: ranges}
	if err := s.contractions(); err != nil {
		t.Fatal(err)
	}
	if err := Verify(m, on); err != nil {
		t.Errorf("%v\n%s", err, k)
	}
}

// TestStepsOfSums: a serial loop inside the local of the sums multiplies their products; one around it, as that over
// the steps of a recurrence, does not.
func TestStepsOfSums(t *testing.T) {
	for _, inside := range []bool{false, true} {
		b := loop.NewBuilder("sums")
		x := b.Param("x", loop.Read, dtype.F32, shape(number(8), number(256)))
		w := b.Param("w", loop.Read, dtype.F32, shape(number(256), number(32)))
		y := b.Param("y", loop.Write, dtype.F32, shape(number(8), number(32)))
		var sums *loop.Memory
		local := func() { sums = b.Local("sums", dtype.F32, number(8), number(32)) }
		if inside {
			local()
		}
		b.Serial("s", number(100), func(sym.Expr) {
			if !inside {
				local()
			}
			at, down, across := shape(zero, zero), shape(one, zero), shape(zero, one)
			b.Contract(number(8), number(32), number(256), sums.Tile(at, down, across), x.Tile(at, down, across),
				w.Tile(at, down, across))
			b.Store(y, shape(zero, zero), sums.Load(zero, zero))
		})
		k := b.Kernel
		var c *loop.Contract
		loop.Walk(k.Body, func(s loop.Stmt) bool {
			if is, ok := s.(*loop.Contract); ok {
				c = is
			}
			return true
		})
		s, want := &scheduler{machine: registers, dims: sym.NewDims()}, 256.0
		if inside {
			want *= 100
		}
		if got := s.steps(k, c); got != want {
			t.Errorf("inside %v: %v products of a sum, want %v", inside, got, want)
		}
	}
}
