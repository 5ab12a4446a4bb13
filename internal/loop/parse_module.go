package loop

import (
	"encoding/base64"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// ParseOptions supply what a module's text omits.
type ParseOptions struct {
	// Data returns a weight's contents, by the buffer's name, if the text has only their size in bytes. shape has
	// constant extents only. If Data is nil, such a weight has no contents.
	Data func(name string, dt dtype.DType, shape []int64, bytes int64) (*tensor.Tensor, error)
	// Share lets kernels that differ only in name and source share parameters and statements, which must not be changed
	// then.
	Share bool
}

// Parse reads a module from its printed text. Errors are of kind ErrInput, with line and column. The module is not
// verified.
func Parse(source string, o ParseOptions) (m *Module, err error) {
	p := newParser(source)
	if p.options = &o; o.Share {
		p.patterns = map[string][]pattern{}
	}
	defer p.catch(&err)
	p.expect("weir")
	if version := p.count(); version != 1 {
		p.fail("version %d of the text is not known, want 1", version)
	}
	m = p.module()
	p.end()
	return m, nil
}

// module reads a module after the version.
func (p *parser) module() *Module {
	p.expect("loop")
	m := &Module{Name: p.global(), Dims: sym.NewDims()}
	p.buffers, p.kernels = map[string]*Buffer{}, map[string]*Kernel{}
	p.expect("{")
	var named []func()
	for {
		switch {
		case p.accept("dim"):
			p.dim(m)
		case p.accept("require"):
			r := Require{Cond: p.cond()}
			if p.accept("from") {
				r.From = p.quoted()
			}
			if p.accept("about") {
				r.Tensor = p.percent()
			}
			m.Requires = append(m.Requires, r)
		case p.accept("choice"):
			m.Choices = append(m.Choices, p.Decided())
			p.stop()
		case p.accept("buffer"):
			b, others := p.buffer()
			if p.buffers[b.Name] != nil {
				p.fail("buffer %%%s is declared twice", b.Name)
			}
			p.buffers[b.Name] = b
			m.Buffers = append(m.Buffers, b)
			if others != nil {
				named = append(named, others)
			}
		case p.accept("kernel"):
			k := p.kernel()
			if p.kernels[k.Name] != nil {
				p.fail("kernel @%s is declared twice", k.Name)
			}
			p.kernels[k.Name] = k
			m.Kernels = append(m.Kernels, k)
		case p.accept("body"):
			for _, resolve := range named {
				resolve()
			}
			m.Body = p.stepList()
			p.expect("}")
			return m
		default:
			p.Unexpected("expected dim, choice, require, buffer, kernel or body, found %s", p.Found())
		}
	}
}

// dim reads n in [1, 512] limit 4*m from "origin".
func (p *parser) dim(m *Module) {
	name := p.symbol()
	if _, ok := m.Dims.Get(name); ok {
		p.fail("dimension %s is declared twice", name)
	}
	p.expect("in")
	p.expect("[")
	r := sym.Range{Min: p.bound()}
	p.expect(",")
	r.Max = p.bound()
	p.expect("]")
	m.Dims.Set(name, r)
	if p.accept("limit") {
		if m.Limits == nil {
			m.Limits = map[sym.Name]sym.Expr{}
		}
		if m.Limits[name] = sym.Unlimited; !p.accept("inf") {
			m.Limits[name] = p.integer()
		}
	}
	if p.accept("from") {
		if m.Origins == nil {
			m.Origins = map[sym.Name]string{}
		}
		m.Origins[name] = p.quoted()
	}
}

// bound reads the upper end of a range: an integer or inf.
func (p *parser) bound() int64 {
	if p.accept("inf") {
		return sym.NoMax
	}
	return p.signed()
}

// buffer reads a buffer after its keyword. others, if not nil, looks up the buffers that it names: it is called after
// all buffers are read.
func (p *parser) buffer() (b *Buffer, others func()) {
	b = &Buffer{Name: p.percent()}
	p.expect(":")
	b.DType, b.Shape = p.bufferType()
	b.Kind = BufferKind(p.choice(kindNames[:]))
	b.Paged = p.accept("paged")
	b.Reserved = p.accept("reserved")
	b.Device = p.device()
	if p.accept("state") {
		of := p.percent()
		others = func() { b.State = p.bufferNamed(of) }
	}
	if p.accept("view") {
		if others != nil {
			p.fail("buffer %%%s is a view, and a view replaces no state", b.Name)
		}
		of := p.percent()
		p.expect("offset")
		b.View = &View{Offset: p.integer()}
		if p.accept("strides") {
			b.View.Strides = p.index()
		}
		others = func() { b.View.Of = p.bufferNamed(of) }
	}
	switch {
	case p.accept("="):
		b.Data = p.elements(b.DType, p.fixedShape(b.Shape))
	case p.accept("data"):
		size, shape := p.count(), p.fixedShape(b.Shape)
		if p.options.Data != nil {
			t, err := p.options.Data(b.Name, b.DType, shape, size)
			if err != nil {
				panic(syntaxError{err})
			}
			b.Data = t
		}
	}
	if p.accept("elements") {
		p.list("(", ")", func() { b.Elements = append(b.Elements, p.symbol()) })
	}
	b.Source = p.source()
	return b, others
}

// bufferNamed returns a declared buffer.
func (p *parser) bufferNamed(name string) *Buffer {
	b := p.buffers[name]
	if b == nil {
		p.fail("buffer %%%s is not declared", name)
	}
	return b
}

// fixedShape returns a shape of constants; it fails if the shape contains names.
func (p *parser) fixedShape(shape []sym.Expr) []int64 {
	fixed := make([]int64, len(shape))
	for i, e := range shape {
		v, ok := e.Const()
		if !ok {
			p.fail("the contents of a buffer whose extent %s is not fixed", e)
		}
		fixed[i] = v
	}
	if _, err := tensor.Count(fixed); err != nil {
		p.fail("%v", err)
	}
	return fixed
}

// elements reads a tensor's elements in brackets.
func (p *parser) elements(dt dtype.DType, shape []int64) *tensor.Tensor {
	count, _ := tensor.Count(shape)
	var text []string
	var bits []uint64
	p.list("[", "]", func() {
		if int64(len(text)+len(bits)) == count {
			p.fail("more than %d elements", count)
		}
		if dt == dtype.String {
			text = append(text, p.quoted())
			return
		}
		c, ok := p.typed(dt).(*Const)
		if !ok {
			p.fail("an element that is not a constant")
		}
		bits = append(bits, c.Bits)
	})
	if int64(len(text)+len(bits)) != count {
		p.fail("%d elements, want %d", len(text)+len(bits), count)
	}
	if dt == dtype.String {
		return p.tensor(tensor.OverStrings(shape, text))
	}
	t := p.tensor(tensor.New(dt, shape...))
	for i, x := range bits {
		storeBits(dt.Bits(), t.Bytes(), int64(i), x)
	}
	return t
}

// tensor returns t, and fails on an error.
func (p *parser) tensor(t *tensor.Tensor, err error) *tensor.Tensor {
	if err != nil {
		p.fail("%v", err)
	}
	return t
}

// stepWords maps the first word of a step to its parser.
var stepWords map[string]func(*parser) Step

// init fills stepWords: a literal would make an initialization cycle.
func init() {
	stepWords = map[string]func(*parser) Step{
		"launch": (*parser).launch, "host": (*parser).host, "bind": (*parser).bind, "if": (*parser).ifStep,
		"loop": (*parser).loopStep, "copy": (*parser).copyStep,
	}
}

// stepList reads a list of steps in braces.
func (p *parser) stepList() []Step {
	p.enter()
	defer p.leave()
	var list []Step
	p.expect("{")
	for !p.accept("}") {
		word := p.ident()
		read, ok := stepWords[word]
		if !ok {
			p.fail("no step begins with %s", word)
		}
		list = append(list, read(p))
	}
	return list
}

// optional reads a buffer's name, or none, for which it returns nil.
func (p *parser) optional() *Buffer {
	if p.accept("none") {
		return nil
	}
	return p.bufferNamed(p.percent())
}

// bufferList reads a list of buffers in parentheses.
func (p *parser) bufferList() []*Buffer {
	var list []*Buffer
	p.list("(", ")", func() { list = append(list, p.optional()) })
	return list
}

// launch reads @kernel(%x, …).
func (p *parser) launch() Step {
	name := p.global()
	l := &Launch{Kernel: p.kernels[name]}
	if l.Kernel == nil {
		p.fail("kernel @%s is not declared", name)
	}
	l.Args = p.bufferList()
	l.Device = p.device()
	l.Source = p.source()
	return l
}

// device reads device "vulkan", or nothing.
func (p *parser) device() string {
	if !p.accept("device") {
		return ""
	}
	return p.quoted()
}

// host reads "op"(%x, …) -> (%y, …) { attributes }.
func (p *parser) host() Step {
	h := &Host{Op: p.quoted(), In: p.bufferList()}
	p.expect("->")
	h.Out = p.bufferList()
	if p.Is("{") {
		h.Attrs = p.attributes()
	}
	h.Source = p.source()
	return h
}

// attributes reads { name = attribute, … }.
func (p *parser) attributes() map[string]any {
	attrs := map[string]any{}
	p.list("{", "}", func() {
		name := p.name()
		p.expect("=")
		attrs[name] = p.attribute()
	})
	return attrs
}

// attribute reads a type word and a value of that type.
func (p *parser) attribute() any {
	kind := p.ident()
	switch kind {
	case "int":
		return p.signed()
	case "ints":
		return listOf(p, p.signed)
	case "float":
		return p.real()
	case "floats":
		return listOf(p, p.real)
	case "bool":
		return p.accept("true") || !p.accept("false") && p.wrong("true or false")
	case "string":
		return p.quoted()
	case "strings":
		return listOf(p, p.quoted)
	case "sym":
		return p.integer()
	case "syms":
		return listOf(p, p.integer)
	case "dtype":
		return p.dtype()
	case "tensor":
		dt, shape := p.bufferType()
		if p.accept("base64") {
			data, err := base64.StdEncoding.DecodeString(p.quoted())
			if err != nil {
				p.fail("%v", err)
			}
			return p.tensor(tensor.Over(dt, p.fixedShape(shape), data))
		}
		p.expect("=")
		return p.elements(dt, p.fixedShape(shape))
	}
	p.fail("%s is not a kind of attribute", kind)
	return nil
}

// wrong fails at the present token; it returns false for use in conditions.
func (p *parser) wrong(want string) bool {
	p.Unexpected("expected %s, found %s", want, p.Found())
	return false
}

// listOf reads a list in brackets.
func listOf[T any](p *parser, item func() T) []T {
	list := []T{}
	p.list("[", "]", func() { list = append(list, item()) })
	return list
}

// real reads a float64.
func (p *parser) real() float64 {
	v := p.Float(64)
	p.stop()
	return v
}

// bind reads n = %x[0] or n = expression.
func (p *parser) bind() Step {
	b := &Bind{Dim: p.symbol()}
	p.expect("=")
	if p.isPercent() {
		b.From = p.bufferNamed(p.percent())
		p.expect("[")
		b.At = p.count()
		p.expect("]")
	} else {
		b.Value = p.integer()
	}
	b.Source = p.source()
	return b
}

// ifStep reads %cond { … } else { … }; else is optional.
func (p *parser) ifStep() Step {
	s := &If{Cond: p.bufferNamed(p.percent()), Source: p.source()}
	s.Then = p.stepList()
	if p.accept("else") {
		s.Else = p.stepList()
	}
	return s
}

// loopStep reads a loop's operands and body.
func (p *parser) loopStep() Step {
	l := &Loop{}
	if p.accept("trip") {
		l.Trip = p.bufferNamed(p.percent())
	}
	if p.accept("cond") {
		l.Cond = p.bufferNamed(p.percent())
	}
	if p.accept("index") {
		l.Index = p.bufferNamed(p.percent())
	}
	if p.accept("count") {
		l.Count = p.symbol()
	}
	l.Source = p.source()
	l.Body = p.stepList()
	return l
}

// copyStep reads %y = %x, or %y = %x[%index of rows].
func (p *parser) copyStep() Step {
	c := &Copy{To: p.bufferNamed(p.percent())}
	p.expect("=")
	c.From = p.bufferNamed(p.percent())
	if p.accept("[") {
		c.Pick = &Pick{Index: p.bufferNamed(p.percent())}
		p.expect("of")
		c.Pick.Rows = p.count()
		p.expect("]")
		c.Pick.Source = p.source()
	}
	return c
}
