package loop

import (
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// writer makes random, well-typed modules, which together have every construct of the language. Verify refuses most of
// them, but printing and parsing must preserve them all.
type writer struct {
	*rand.Rand
	integers []sym.Name
	scalars  []*Ref
	buffers  []*Memory
	count    int
}

// pick returns a random integer from 0 to n − 1.
func (w *writer) pick(n int) int { return w.IntN(n) }

// name returns a new name that begins with hint; some names contain a space, a quotation mark or another odd character.
func (w *writer) name(hint string) string {
	w.count++
	odd := []string{"", "", "", " b", ".5", "é", "\"", "%"}
	return hint + string(rune('a'+w.count%26)) + odd[w.pick(len(odd))] + strings.Repeat("_", w.count/26)
}

// text returns a random string for sources and messages; some contain quotation marks, line ends or a zero byte.
func (w *writer) text() string {
	return []string{"", "a", "node \"1\"", "line\nline", "{", "é\x00"}[w.pick(6)]
}

// integer returns a random integer expression over the names in w.integers.
func (w *writer) integer() sym.Expr {
	switch w.pick(9) {
	case 0:
		return w.integer().Add(w.integer())
	case 1:
		return w.integer().Mul(sym.Const(w.Int64N(9) - 4))
	case 2:
		return w.integer().FloorDiv(sym.Const(w.Int64N(7) + 1))
	case 3:
		return w.integer().Mod(sym.Var(w.integers[w.pick(len(w.integers))]))
	case 4:
		return w.integer().Min(w.integer())
	case 5:
		return sym.Const(w.Int64N(100) - 50)
	case 6:
		return w.integer().CeilDiv(sym.Const(4)).Max(sym.Const(3))
	}
	return sym.Var(w.integers[w.pick(len(w.integers))])
}

// integersOf returns n random integer expressions.
func (w *writer) integersOf(n int) []sym.Expr {
	list := make([]sym.Expr, n)
	for i := range list {
		list[i] = w.integer()
	}
	return list
}

// scalarType returns a random element type that scalars can have.
func (w *writer) scalarType() dtype.DType {
	for {
		if dt := dtype.DType(w.pick(int(dtype.String))); Scalar(dt) {
			return dt
		}
	}
}

// constant returns a constant of a type with random bits.
func (w *writer) constant(dt dtype.DType) Expr {
	bits := w.Uint64() >> w.pick(64) << (64 - dt.Bits()) >> (64 - dt.Bits())
	if dt == dtype.Bool {
		bits &= 1
	}
	return &Const{Type: dt, Bits: bits}
}

// expr returns a random expression of a type, with operations nested at most depth levels.
func (w *writer) expr(dt dtype.DType, depth int) Expr {
	if depth == 0 {
		return w.constant(dt)
	}
	depth--
	switch w.pick(8) {
	case 0:
		op := UnaryOp(w.pick(int(unaryOps)))
		if op.Accepts(dt) && !op.Test() {
			return Apply(op, w.expr(dt, depth))
		}
		if dt == dtype.Bool {
			return Apply(IsNaN, w.expr(dtype.F32, depth))
		}
	case 1:
		op := BinaryOp(w.pick(int(binaryOps)))
		if op.Accepts(dt) && !op.Test() {
			return Apply2(op, w.expr(dt, depth), w.expr(dt, depth))
		}
		if dt == dtype.Bool {
			of := []dtype.DType{dtype.I4, dtype.F16, dtype.C64, dtype.U64}[w.pick(4)]
			return Apply2(Ne, w.expr(of, depth), w.expr(of, depth))
		}
	case 2:
		return Choose(w.expr(dtype.Bool, depth), w.expr(dt, depth), w.expr(dt, depth))
	case 3:
		if dt != dtype.C64 {
			return &Cast{Type: dt, X: w.expr(dtype.BF16, depth), Wrap: w.pick(2) == 0}
		}
	case 4:
		for _, m := range w.buffers {
			if m.DType == dt && w.pick(2) == 0 {
				return m.Load(w.integersOf(len(m.Shape))...)
			}
			if m.DType == dt {
				return m.LoadIf(w.expr(dtype.Bool, depth), w.expr(dt, depth), w.integersOf(len(m.Shape))...)
			}
		}
	case 5:
		for _, r := range w.scalars {
			if r.Type == dt {
				return &Ref{r.Name, r.Type}
			}
		}
	case 6:
		if dt == dtype.I64 {
			return At(w.integer())
		}
	}
	return w.constant(dt)
}

// memory returns memory of a random type and shape, and adds it to w.buffers.
func (w *writer) memory() *Memory {
	m := &Memory{Name: w.name("m"), DType: w.scalarType()}
	m.Shape = w.integersOf(w.pick(4))
	w.buffers = append(w.buffers, m)
	return m
}

// tile returns a tile of one of w.buffers, with a random origin and random steps.
func (w *writer) tile() Tile {
	for {
		m := w.buffers[w.pick(len(w.buffers))]
		n := len(m.Shape)
		step := func() []sym.Expr {
			list := make([]sym.Expr, n)
			for i := range list {
				list[i] = sym.Const(w.Int64N(3))
			}
			return list
		}
		return Tile{Buffer: m.Name, Origin: w.integersOf(n), Row: step(), Col: step()}
	}
}

// body returns 0 to 3 random statements.
func (w *writer) body(depth int) []Stmt {
	var body []Stmt
	for range w.pick(4) {
		body = append(body, w.statement(depth))
	}
	return body
}

// statement returns a random statement, with bodies nested at most depth levels. It records the names that the
// statement defines.
func (w *writer) statement(depth int) Stmt {
	kind := w.pick(12)
	if depth == 0 && kind < 3 {
		kind = 3
	}
	m := w.buffers[w.pick(len(w.buffers))]
	dt := w.scalarType()
	switch kind {
	case 0, 1:
		f := &For{Kind: LoopKind(w.pick(int(Thread) + 1)), Var: sym.Bound(w.name("i")), Extent: w.integer()}
		w.integers = append(w.integers, f.Var)
		f.Body = w.body(depth - 1)
		return f
	case 2:
		s := &When{Cond: w.expr(dtype.Bool, 2), Then: w.body(depth - 1)}
		if w.pick(2) == 0 {
			s.Else = append([]Stmt{}, w.body(depth-1)...)
		}
		return s
	case 3:
		s := &Store{To: m.Name, Index: w.integersOf(len(m.Shape)), X: w.expr(m.DType, 3)}
		if w.pick(2) == 0 {
			s.Mask = w.expr(dtype.Bool, 2)
		}
		return s
	case 4:
		s := &Let{Name: w.name("l"), X: w.expr(dt, 3)}
		w.scalars = append(w.scalars, &Ref{s.Name, dt})
		return s
	case 5:
		s := &Var{Name: w.name("v"), X: w.expr(dt, 2)}
		w.scalars = append(w.scalars, &Ref{s.Name, dt})
		return s
	case 6, 7:
		if len(w.scalars) == 0 {
			break
		}
		r := w.scalars[w.pick(len(w.scalars))]
		if kind == 6 {
			return &Set{Name: r.Name, X: w.expr(r.Type, 3)}
		}
		return &Reduce{Name: r.Name, Op: BinaryOp(w.pick(int(binaryOps))), X: w.expr(r.Type, 3)}
	case 8:
		s := &Check{Name: sym.Bound(w.name("c")), X: w.expr(dtype.I32, 2), Min: w.integer(), Max: w.integer(), What: w.text()}
		w.integers = append(w.integers, s.Name)
		return s
	case 9:
		m := w.memory()
		return &Local{Name: m.Name, DType: m.DType, Shape: m.Shape, Space: Space(w.pick(2))}
	case 10:
		return &Contract{M: w.integer(), N: w.integer(), K: w.integer(), C: w.tile(), A: w.tile(), B: w.tile()}
	}
	return &Store{To: m.Name, Index: w.integersOf(len(m.Shape)), X: w.constant(m.DType)}
}

// kernel returns a random kernel over some of dims.
func (w *writer) kernel(name string, dims []sym.Name) *Kernel {
	k := &Kernel{Name: name, Source: w.text()}
	w.integers, w.scalars, w.buffers = append([]sym.Name(nil), dims...), nil, nil
	for _, d := range dims {
		if w.pick(2) == 0 {
			k.Dims = append(k.Dims, d)
		}
	}
	for range w.pick(3) + 1 {
		m := w.memory()
		p := &Param{Name: m.Name, Access: Access(w.pick(3)), DType: m.DType, Shape: m.Shape}
		if w.pick(3) == 0 {
			p.Strides = w.integersOf(len(m.Shape))
		}
		k.Params = append(k.Params, p)
	}
	if w.pick(3) == 0 {
		k.Meaning = &Meaning{Op: w.text(), Attrs: map[string]any{"axis": w.attribute(), "odd name": w.attribute()}}
	}
	k.Body = w.body(3)
	return k
}

// contents returns a tensor. Its elements are random if they are strings or of a type that scalars can have, and zeros
// otherwise.
func (w *writer) contents(dt dtype.DType, shape ...int64) *tensor.Tensor {
	t := tensor.Must(tensor.New(dt, shape...))
	for i := range t.Strings() {
		t.Strings()[i] = w.text()
	}
	for i := range t.Len() {
		if Scalar(dt) {
			storeBits(dt.Bits(), t.Bytes(), i, w.constant(dt).(*Const).Bits)
		}
	}
	return t
}

// attribute returns a random attribute of a host operator, of any type that an attribute can have.
func (w *writer) attribute() any {
	return []any{
		w.Int64() - w.Int64(), []int64{1, -2}, []int64{}, w.NormFloat64(), []float64{0, 1e300, -0.5}, true, false, "text\n",
		[]string{"a", ""},
		w.integer(), w.integersOf(2), dtype.F8E8M0, w.contents(dtype.F16, 2, 2), w.contents(dtype.I8, 40),
		w.contents(dtype.String, 2), w.contents(dtype.C128, 1),
	}[w.pick(16)]
}

// module returns a random module, and the contents of its weights by name.
func (w *writer) module() (*Module, map[string]*tensor.Tensor) {
	m := &Module{Name: w.name("module"), Dims: sym.NewDims()}
	data := map[string]*tensor.Tensor{}
	dims := []sym.Name{sym.User("n"), sym.User("m"), sym.Made("odd dim"), sym.User("max"), sym.Made("n")}
	for _, d := range dims {
		r := sym.Range{Min: w.Int64N(4), Max: sym.NoMax}
		if w.pick(2) == 0 {
			r.Max = 100 + w.Int64N(100)
		}
		m.Dims.Set(d, r)
	}
	w.integers = dims
	if w.pick(2) == 0 {
		m.Limits = map[sym.Name]sym.Expr{sym.User("m"): w.integer()}
	}
	for range w.pick(3) {
		m.Requires = append(m.Requires, Require{Cond: sym.Cond{A: w.integer(), Rel: sym.Rel(w.pick(4)), B: w.integer()},
			From: w.text()})
	}
	for range w.pick(5) + 1 {
		b := &Buffer{Name: w.name("b"), Kind: BufferKind(w.pick(4)), DType: dtype.DType(1 + w.pick(int(dtype.String))),
			Shape: w.integersOf(w.pick(3)), Source: w.text()}
		switch {
		case b.Kind == Weight:
			shape := []int64{w.Int64N(5), w.Int64N(8)}
			b.Shape = []sym.Expr{sym.Const(shape[0]), sym.Const(shape[1])}
			b.Data = w.contents(b.DType, shape...)
			data[b.Name] = b.Data
		case w.pick(3) == 0 && len(m.Buffers) > 0:
			b.View = &View{Of: m.Buffers[w.pick(len(m.Buffers))], Offset: w.integer()}
			if w.pick(2) == 0 {
				b.View.Strides = w.integersOf(len(b.Shape))
			}
		}
		m.Buffers = append(m.Buffers, b)
	}
	for _, name := range []string{"one", "two \"q\"", "kernel"}[:w.pick(4)] {
		m.Kernels = append(m.Kernels, w.kernel(name, dims))
	}
	w.integers = dims
	m.Body = w.steps(m, 2)
	return m, data
}

// steps returns 0 to 4 random steps of a module, with bodies nested at most depth levels.
func (w *writer) steps(m *Module, depth int) []Step {
	var list []Step
	buffer := func() *Buffer { return m.Buffers[w.pick(len(m.Buffers))] }
	for range w.pick(5) {
		switch kind := w.pick(7); {
		case kind == 0 && len(m.Kernels) > 0:
			list = append(list, &Launch{Kernel: m.Kernels[w.pick(len(m.Kernels))], Args: []*Buffer{buffer(), buffer()},
				Source: w.text()})
		case kind == 1:
			h := &Host{Op: "Non Zero", In: []*Buffer{buffer(), nil}, Out: []*Buffer{buffer()}, Source: w.text()}
			if w.pick(2) == 0 {
				h.Attrs = map[string]any{"axis": w.attribute(), "odd name": w.attribute()}
			}
			list = append(list, h)
		case kind == 2:
			list = append(list, &Bind{Dim: sym.User("m"), From: buffer(), At: w.Int64N(9), Source: w.text()})
		case kind == 3:
			list = append(list, &Bind{Dim: sym.User("m"), Value: w.integer()})
		case kind == 4:
			list = append(list, &Copy{To: buffer(), From: buffer()})
		case kind == 5 && depth > 0:
			s := &If{Cond: buffer(), Then: w.steps(m, depth-1), Source: w.text()}
			s.Else = w.steps(m, depth-1)
			list = append(list, s)
		case kind == 6 && depth > 0:
			s := &Loop{Body: w.steps(m, depth-1), Source: w.text()}
			if w.pick(2) == 0 {
				s.Trip, s.Cond, s.Count = buffer(), buffer(), sym.Made("odd dim")
			} else {
				s.Index = buffer()
			}
			list = append(list, s)
		}
	}
	return list
}

// randomModule returns a random module and the contents of its weights by name.
func randomModule(seed uint64) (*Module, map[string]*tensor.Tensor) {
	w := &writer{Rand: rand.New(rand.NewPCG(seed, 1))}
	return w.module()
}

// parseWith parses a text whose weights' contents are in data, by name.
func parseWith(text string, data map[string]*tensor.Tensor) (*Module, error) {
	return Parse(text, ParseOptions{Data: func(name string, _ dtype.DType, _ []int64, _ int64) (*tensor.Tensor, error) {
		return data[name], nil
	}})
}

// TestParsePrint: each of 400 random modules, printed and parsed, gives the same text, kernels and buffers.
func TestParsePrint(t *testing.T) {
	for seed := range uint64(400) {
		m, data := randomModule(seed)
		text := m.String()
		back, err := parseWith(text, data)
		if err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, text)
		}
		if again := back.String(); again != text {
			t.Fatalf("seed %d:\n%s\nbecomes\n%s", seed, text, again)
		}
		// All fields of the kernels come back, not only the printed ones.
		for i, k := range m.Kernels {
			if !reflect.DeepEqual(normal(reflect.ValueOf(k)), normal(reflect.ValueOf(back.Kernels[i]))) {
				t.Fatalf("seed %d: kernel\n%s\nchanges", seed, k)
			}
		}
		for i, b := range m.Buffers {
			if c := back.Buffers[i]; c.Kind != b.Kind || c.DType != b.DType || c.Source != b.Source ||
				(b.Data == nil) != (c.Data == nil) || b.Data != nil && !b.Data.Equal(c.Data) {
				t.Fatalf("seed %d: buffer %s changes: %v %v, %q %q", seed, b.Name, b.Data, c.Data, b.Source, c.Source)
			}
		}
	}
}

// normal returns a value with symbolic integers as strings, and empty lists for nil, for comparison.
func normal(v reflect.Value) any {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return nil
		}
		return normal(v.Elem())
	case reflect.Slice:
		list := []any{}
		for i := range v.Len() {
			list = append(list, normal(v.Index(i)))
		}
		return list
	case reflect.Map: // attributes
		texts := map[string]any{}
		for _, name := range v.MapKeys() {
			texts[name.String()] = formatAttribute(v.MapIndex(name).Interface())
		}
		return texts
	case reflect.Struct:
		if e, ok := v.Interface().(sym.Expr); ok {
			return e.String()
		}
		if name, ok := v.Interface().(sym.Name); ok {
			return name.String()
		}
		fields := map[string]any{"": v.Type().Name()}
		for i := range v.NumField() {
			fields[v.Type().Field(i).Name] = normal(v.Field(i))
		}
		return fields
	}
	return v.Interface()
}

// TestClone: the clone of a random kernel has the same text, and changes of the clone do not reach the original.
func TestClone(t *testing.T) {
	for seed := range uint64(100) {
		m, _ := randomModule(seed)
		for _, k := range m.Kernels {
			text := k.String()
			c := k.Clone()
			if c.String() != text {
				t.Fatalf("seed %d:\n%s\nis cloned as\n%s", seed, text, c)
			}
			scribble(c.Body)
			if k.String() != text {
				t.Fatalf("seed %d: changing the clone changes the kernel", seed)
			}
		}
	}
}

// scribble changes every constant, name and list that it reaches from body.
func scribble(body []Stmt) {
	Walk(body, func(s Stmt) bool {
		for _, e := range Values(s) {
			WalkExpr(e, func(e Expr) {
				switch e := e.(type) {
				case *Const:
					e.Bits ^= 1
				case *Ref:
					e.Name += "x"
				case *Load:
					e.From += "x"
					clear(e.Index)
				}
			})
		}
		if l, ok := s.(*Local); ok {
			clear(l.Shape)
		}
		return true
	})
	clear(body)
}

// FuzzParse gives the parser damaged texts: it must return, and a module that it accepts must print and parse to the
// same text.
func FuzzParse(f *testing.F) {
	for seed := range uint64(8) {
		m, _ := randomModule(seed)
		f.Add(m.String())
	}
	f.Add("weir 1\nloop @a { body { } }")
	f.Fuzz(func(t *testing.T, text string) { parseAny(t, text) })
}

// parseAny parses a text that may be damaged; a module that it accepts must print and parse to the same text.
func parseAny(t *testing.T, text string) {
	m, err := Parse(text, ParseOptions{})
	if err != nil {
		return
	}
	VerifyModule(m)
	printed := m.String()
	if strings.Contains(printed, " data ") {
		return // the contents are elsewhere
	}
	back, err := Parse(printed, ParseOptions{})
	if err != nil {
		t.Fatalf("%v\n%s", err, printed)
	}
	if again := back.String(); again != printed {
		t.Fatalf("\n%s\nbecomes\n%s", printed, again)
	}
}

// TestParseDamaged: the parser neither panics nor hangs on 1,500 damaged texts of random modules, and refuses texts
// that are nested without end.
func TestParseDamaged(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	pieces := []string{"", "(", ")", "[", "}", "{", "%", "@", "\"", "-", "//", "kernel", "each", "f32",
		"9223372036854775808", "1e999", "nan", "load", "max(", "// ", "where", "none", "weir 1", "\x00", "é"}
	for seed := range uint64(1500) {
		m, _ := randomModule(seed % 40)
		text := m.String()
		for range 1 + r.IntN(3) {
			at := r.IntN(len(text) + 1)
			end := min(len(text), at+r.IntN(12))
			text = text[:at] + pieces[r.IntN(len(pieces))] + text[end:]
		}
		parseAny(t, text)
	}
	deep := strings.Repeat("(", 1e6)
	for _, text := range []string{"weir 1 loop @a { dim n in [0, inf] limit " + deep,
		"weir 1 loop @a { kernel @k() dims() " + strings.Repeat("{ each i < 2 ", 1e5),
		"weir 1 loop @a { kernel @k() dims() { let %x = " + strings.Repeat("neg(", 1e6)} {
		if _, err := Parse(text, ParseOptions{}); err == nil || !strings.Contains(err.Error(), "nested") {
			t.Errorf("a text nested without end gives %v", err)
		}
	}
}
