package loop

import (
	"fmt"
	"math"
	"sort"
	"strings"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/sym"
)

// Verify proves facts about integers of any size, but code computes in 64 bits, where overflow would give other
// numbers. Width closes the gap: for given values of a kernel's dimensions, it bounds all numbers that code may compute
// for an index, an address, an extent, the bounds of a Check, the corners of a tile or the value of an Index, in
// whatever order a generator adds and multiplies. If none exceeds widest, code computes exactly the numbers of the
// proof.

// widest is the largest magnitude of a number in a kernel. Sums and differences of up to three such numbers still fit
// 64 bits.
const widest = 1 << 60

// Width decides for which values of its dimensions a kernel's integers fit 64 bits. It is safe for concurrent use.
type Width struct {
	kernel  *Kernel
	numbers []number
	most    int64 // all integers fit if every dimension lies in [0, most]
	params  []extent64
}

// number is an integer that code computes, or the declaration of a name that other numbers use.
type number struct {
	loop, check sym.Name // the declared name: a loop variable from 0 to x−1, or a checked value from x to y
	x, y        sym.Expr
	scale       int64   // bytes of an element, if x is an offset in elements
	steps       [2]step // of a tile: rows, columns
	what        words
}

// words name a number in errors.
type words struct {
	text string
	of   string // the name of a buffer or a local, if text ends with %
	name sym.Name
}

// String returns the words as one text.
func (w words) String() string {
	if w.name.None() {
		return w.text + w.of
	}
	return w.text + w.name.String()
}

// step is the distance between neighbours, in elements, and their number.
type step struct{ by, count sym.Expr }

// extent64 is the layout of a parameter, from which the bytes of its operand are computed.
type extent64 struct {
	bits           int64
	shape, strides []*sym.Code
}

// WidthOf collects all integers of a kernel.
func WidthOf(k *Kernel) *Width {
	w := numbersOf(k)
	names := sym.NewNames(k.Dims)
	for _, p := range k.Params {
		w.params = append(w.params, extentOf(k, p, names))
	}
	return w
}

// FitLeast returns an error of kind ErrInput if a kernel's integers do not fit for the smallest dimensions in their
// ranges: then they fit for none.
func FitLeast(k *Kernel, dims *sym.Dims) error {
	least := make([]int64, len(k.Dims))
	for i, name := range k.Dims {
		if r, ok := dims.Get(name); ok && r.Min > 0 {
			least[i] = r.Min
		}
	}
	return numbersOf(k).Check(least)
}

// numbersOf is WidthOf without the layouts of the parameters.
func numbersOf(k *Kernel) *Width {
	c := widthCollector{w: &Width{kernel: k}, buffers: map[string]layoutOf{}, seen: map[scaledKey]bool{}}
	for _, p := range k.Params {
		c.buffer(p.Name, p.DType, p.Shape, p.Strides)
	}
	for _, l := range Locals(k) {
		c.buffer(l.Local.Name, l.Local.DType, l.Local.Shape, nil)
		c.integer(l.Offset, words{text: "the offset of local %", of: l.Local.Name})
	}
	c.integer(Scratch(k), words{text: "the scratch"})
	c.body(k.Body)
	w := c.w
	upTo := func(most int64) bool {
		return w.fits(func(int) sym.Range { return sym.Range{Max: most} }) == nil
	}
	if len(k.Dims) == 0 {
		if upTo(1) {
			w.most = 1
		}
		return w
	}
	powers := sort.Search(16, func(n int) bool { return !upTo(1 << (4 * n)) })
	if powers > 0 {
		w.most = 1 << (4 * (powers - 1))
	}
	return w
}

// Check returns an error of kind ErrInput if the kernel's integers do not fit for these values of its dimensions.
func (w *Width) Check(dims []int64) error {
	for _, v := range dims {
		if v < 0 || v > w.most {
			return w.check(dims)
		}
	}
	if w.most == 0 {
		return w.check(dims)
	}
	return nil
}

// check is Check without the shortcut for small dimensions.
func (w *Width) check(dims []int64) error {
	wide := w.fits(func(i int) sym.Range { return sym.Range{Min: dims[i], Max: dims[i]} })
	if wide == nil {
		return nil
	}
	var values []string
	for i, name := range w.kernel.Dims {
		values = append(values, fmt.Sprintf("%s = %d", name, dims[i]))
	}
	where := ""
	if values != nil {
		where = " with " + strings.Join(values, ", ")
	}
	return diag.Inputf("kernel @%s computes %s%s, which is not known to fit 64 bits", w.kernel.Name, wide.what, where).
		AtNode(w.kernel.Source, "")
}

// fits returns the first number that is too large, or nil. of returns the range of the i-th dimension.
func (w *Width) fits(of func(i int) sym.Range) *number {
	m := sym.NewMeasure()
	for i, name := range w.kernel.Dims {
		m.Set(name, of(i))
	}
	for i := range w.numbers {
		n := &w.numbers[i]
		value, size := m.Of(n.x)
		switch {
		case !n.loop.None():
			r := sym.Range{Max: max(value.Max, 1) - 1}
			m.Set(n.loop, r)
		case !n.check.None():
			high, other := m.Of(n.y)
			size = max(size, other)
			m.Set(n.check, sym.Range{Min: min(value.Min, high.Min), Max: max(value.Max, high.Max)})
		default:
			for _, s := range n.steps {
				_, by := m.Of(s.by)
				_, count := m.Of(s.count)
				size = saturated(size, 1, saturated(0, by, count))
			}
			size = saturated(0, size, n.scale)
		}
		if size > widest {
			return n
		}
	}
	return nil
}

// saturated returns a + b×c, or math.MaxInt64 if an argument or the sum is too large. The arguments are not negative.
func saturated(a, b, c int64) int64 {
	if a > widest || b > widest || c > widest || c > 0 && b > (math.MaxInt64-a)/c {
		return math.MaxInt64
	}
	return a + b*c
}

// Needs sets bytes[i] to the size in bytes that operand i must have for these values of the dimensions. The error is of
// kind ErrInput.
func (w *Width) Needs(dims, bytes []int64) error {
	for i := range w.params {
		n, err := w.params[i].bytes(dims)
		if err != nil {
			return diag.Inputf("kernel @%s: the size of %%%s cannot be computed for dimensions %v: %v", w.kernel.Name,
				w.kernel.Params[i].Name, dims, err)
		}
		bytes[i] = n
	}
	return nil
}

// extentOf compiles the layout of a parameter over the names of the kernel's dimensions.
func extentOf(k *Kernel, p *Param, names *sym.Names) extent64 {
	s := extent64{bits: int64(p.DType.Bits())}
	strides := p.Strides
	if strides == nil {
		strides = RowMajor(p.Shape)
	}
	for i := range p.Shape {
		for _, e := range []struct {
			of sym.Expr
			to *[]*sym.Code
		}{{p.Shape[i], &s.shape}, {strides[i], &s.strides}} {
			code, err := names.Compile(e.of)
			if err != nil {
				kernelBug(k, "%s: %v", e.of, err)
			}
			*e.to = append(*e.to, code)
		}
	}
	return s
}

// bytes returns the size from the first element to the end of the last; no element lies before the first.
func (s *extent64) bytes(dims []int64) (int64, error) {
	last, empty := int64(0), false
	for i, code := range s.shape {
		extent, err := code.Eval(dims)
		if err != nil {
			return 0, err
		}
		stride, err := s.strides[i].Eval(dims)
		if err != nil {
			return 0, err
		}
		if extent <= 0 {
			empty = true
		}
		if extent <= 1 || stride == 0 {
			continue
		}
		if stride < 0 {
			return 0, fmt.Errorf("a stride is %d", stride)
		}
		if last = saturated(last, extent-1, stride); last > widest {
			return 0, sym.ErrOverflow
		}
	}
	if empty {
		return 0, nil
	}
	bits := saturated(0, last+1, s.bits)
	if bits > widest {
		return 0, sym.ErrOverflow
	}
	return (bits + 7) / 8, nil
}

// widthCollector collects a kernel's integers in their printed order.
type widthCollector struct {
	w       *Width
	buffers map[string]layoutOf
	seen    map[scaledKey]bool
}

// scaledKey identifies an integer with its scale.
type scaledKey struct {
	scale  int64
	digest sym.Digest
}

// layoutOf is the layout of a buffer.
type layoutOf struct {
	bytes          int64 // of an element, at least 1
	shape, strides []sym.Expr
}

// buffer records a buffer's layout and collects its integers.
func (c *widthCollector) buffer(name string, dt dtype.DType, shape, strides []sym.Expr) {
	if strides == nil {
		strides = RowMajor(shape)
	}
	c.buffers[name] = layoutOf{max(int64(dt.Bits()/8), 1), shape, strides}
	for i, extent := range shape {
		c.integer(extent, words{text: "the shape of %", of: name})
		c.integer(strides[i], words{text: "the strides of %", of: name})
	}
	c.integer(Bytes(dt, shape), words{text: "the size of %", of: name})
}

// add appends a number; scale 0 means 1.
func (c *widthCollector) add(n number) {
	if n.scale == 0 {
		n.scale = 1
	}
	c.w.numbers = append(c.w.numbers, n)
}

// integer collects a symbolic integer; what names it in errors.
func (c *widthCollector) integer(x sym.Expr, what words) { c.scaled(x, 1, what) }

// scaled collects a symbolic integer that code multiplies by scale. It skips small constants and repetitions.
func (c *widthCollector) scaled(x sym.Expr, scale int64, what words) {
	if v, ok := x.Const(); ok && v >= -1<<32 && v <= 1<<32 {
		return
	}
	key := scaledKey{scale, x.Digest()}
	if !c.seen[key] {
		c.seen[key] = true
		c.add(number{x: x, scale: scale, what: what})
	}
}

// access collects the index of an access, axis by axis, and its offset.
func (c *widthCollector) access(buffer string, index []sym.Expr) {
	b := c.buffers[buffer]
	what := words{text: "an index of %", of: buffer}
	for _, x := range index {
		c.integer(x, what)
	}
	c.scaled(Offset(index, b.shape, b.strides), b.bytes, what)
}

// tile collects the corners of a tile, axis by axis, and their offsets.
func (c *widthCollector) tile(t *Tile, rows, cols sym.Expr) {
	b := c.buffers[t.Buffer]
	what := words{text: "a tile of %", of: t.Buffer}
	for i, x := range t.Origin {
		c.add(number{x: x, steps: [2]step{{t.Row[i], rows}, {t.Col[i], cols}}, what: what})
	}
	offset := func(index []sym.Expr) sym.Expr { return Offset(index, b.shape, b.strides) }
	c.add(number{x: offset(t.Origin), scale: b.bytes, steps: [2]step{{offset(t.Row), rows}, {offset(t.Col), cols}},
		what: what})
}

// value collects the integers in an expression.
func (c *widthCollector) value(e Expr) {
	WalkExpr(e, func(e Expr) {
		switch e := e.(type) {
		case *Index:
			if _, alone := e.X.Name(); !alone { // a dimension is any number of 64 bits
				c.integer(e.X, words{text: "an integer"})
			}
		case *Load:
			c.access(e.From, e.Index)
		}
	})
}

// body collects the integers in a list of statements.
func (c *widthCollector) body(list []Stmt) {
	for _, s := range list {
		exprs, n := values(s)
		for _, e := range exprs[:n] {
			c.value(e)
		}
		switch s := s.(type) {
		case *For:
			c.add(number{loop: s.Var, x: s.Extent, what: words{text: "the extent of loop ", name: s.Var}})
		case *Check:
			c.add(number{check: s.Name, x: s.Min, y: s.Max, what: words{text: "the bounds of ", name: s.Name}})
		case *Store:
			c.access(s.To, s.Index)
		case *Contract:
			c.tile(&s.C, s.M, s.N)
			c.tile(&s.A, s.M, s.K)
			c.tile(&s.B, s.K, s.N)
		}
		for _, inner := range Bodies(s) {
			c.body(*inner)
		}
	}
}
