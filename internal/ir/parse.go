package ir

import (
	"slices"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
	"github.com/weirml/weir/internal/tensor/literal"
	"github.com/weirml/weir/internal/text"
)

// ParseOptions gives Parse the data that a text leaves out.
type ParseOptions struct {
	// Data gives a constant's contents, by its name, where the text has only their size in bytes; the size is the type's.
	// Nil: such a constant is left without contents, which Verify refuses.
	Data func(name string, dt dtype.DType, shape []int64, bytes int64) (*tensor.Tensor, error)
}

// Parse reads a module from the text that Module.String writes. An operator that is not registered is an error. Errors
// are of kind ErrInput and give line and column. Parse does not verify the module.
func Parse(source string, o ParseOptions) (*Module, error) {
	p := &parser{Scanner: text.NewScanner(source), source: source, options: o}
	p.Expect("weir")
	if version := p.Int(); version != 1 {
		p.Failf("version %d of the text is not known, want 1", version)
	}
	m := p.module()
	p.Done()
	if err := p.Err(); err != nil {
		return nil, err
	}
	return m, nil
}

type parser struct {
	*text.Scanner
	source         string
	counted, lines int // the number of lines that end before byte counted
	options        ParseOptions
	defined        map[string]bool     // in the function, visible or not
	visible        map[string]*Value   // here
	storages       map[string]*Storage // of the function; CheckMemory checks that they are visible where they are used
}

// module reads a module after its header.
func (p *parser) module() *Module {
	p.Expect("ir")
	m := &Module{Name: p.Must(text.Global), Dims: sym.NewDims()}
	functions := map[string]bool{}
	p.Expect("{")
	for p.Err() == nil && !p.Accept("}") {
		switch p.Choice("meta", "dim", "require", "proved", "func", "main", "choice") {
		case 0:
			p.meta(m)
		case 1:
			p.dim(m)
		case 2:
			m.Requires = append(m.Requires, p.require())
		case 3:
			m.Proved = append(m.Proved, p.require())
		case 4:
			m.Funcs = append(m.Funcs, p.function(functions))
		case 5:
			if m.Main != nil {
				p.Failf("a second main function")
			}
			m.Main = p.function(functions)
			m.Funcs = append(m.Funcs, m.Main)
		case 6:
			m.Choices = append(m.Choices, p.Decided())
		}
	}
	if m.Main == nil {
		p.Failf("no main function")
	}
	return m
}

// meta reads metadata: "key" = "value".
func (p *parser) meta(m *Module) {
	key := p.Must(text.Quoted)
	p.Expect("=")
	if _, twice := m.Meta[key]; twice {
		p.Failf("meta %q is given twice", key)
	}
	if m.Meta == nil {
		m.Meta = map[string]string{}
	}
	m.Meta[key] = p.Must(text.Quoted)
}

// dim reads a dimension: n in [1, 512] limit 4*m from "the operator that gives its value".
func (p *parser) dim(m *Module) {
	name := p.Symbol()
	if _, twice := m.Dims.Get(name); twice {
		p.Failf("dimension %s is declared twice", name)
	}
	p.Expect("in")
	p.Expect("[")
	r := sym.Range{Min: p.Int(), Max: sym.NoMax}
	p.Expect(",")
	if !p.Accept("inf") {
		r.Max = p.Int()
	}
	p.Expect("]")
	m.Dims.Set(name, r)
	if p.Accept("limit") {
		if m.Limits == nil {
			m.Limits = map[sym.Name]sym.Expr{}
		}
		if m.Limits[name] = sym.Unlimited; !p.Accept("inf") {
			m.Limits[name] = p.Expr()
		}
	}
	if p.Accept("from") {
		if m.Origins == nil {
			m.Origins = map[sym.Name]string{}
		}
		m.Origins[name] = p.Must(text.Quoted)
	}
}

// require reads a condition: n <= 4 from "node" about %x.
func (p *parser) require() Require {
	r := Require{Cond: p.Cond()}
	p.Expect("from")
	r.From = p.Must(text.Quoted)
	if p.Accept("about") {
		r.Tensor = p.Must(text.Local)
	}
	return r
}

// function reads a function; functions holds the names read so far.
func (p *parser) function(functions map[string]bool) *Func {
	f := &Func{Name: p.Must(text.Global), Body: &Block{}}
	if functions[f.Name] {
		p.Failf("function %s is defined twice", text.GlobalName(f.Name))
	}
	functions[f.Name] = true
	p.defined, p.visible, p.storages = map[string]bool{}, map[string]*Value{}, map[string]*Storage{}
	p.params(f.Body)
	p.Expect("{")
	var states [2][]mention
	for p.Accept("state") {
		states[0] = append(states[0], p.mention())
		p.Expect("->")
		states[1] = append(states[1], p.mention())
	}
	p.block(f.Body)
	for i, in := range states[0] {
		f.States = append(f.States, p.state(f, in, states[1][i]))
	}
	return f
}

// mention is a value's name, with its offset in the text.
type mention struct {
	name string
	at   int
}

// mention reads the name of a value that the text defines later.
func (p *parser) mention() mention {
	at := p.Peek().Start
	return mention{p.Must(text.Local), at}
}

// state pairs an input with the first result of value out that belongs to no other state. Its errors are at the names.
func (p *parser) state(f *Func, in, out mention) State {
	for _, m := range []mention{in, out} {
		if p.visible[m.name] == nil {
			p.FailAt(m.at, "%s is not defined in %s", text.LocalName(m.name), text.GlobalName(f.Name))
		}
	}
	from, to := p.visible[in.name], p.visible[out.name]
	for i, v := range f.Body.Results {
		if v == to && !slices.ContainsFunc(f.States, func(s State) bool { return s.Out == i }) {
			return State{from, i}
		}
	}
	p.FailAt(in.at, "state %s becomes %s, which is no result, or another state's", text.LocalName(in.name),
		text.LocalName(out.name))
	return State{from, 0}
}

// params reads and defines a block's parameters.
func (p *parser) params(b *Block) {
	p.List("(", ")", func() { b.Params = append(b.Params, p.definition()) })
	for _, v := range b.Params {
		p.define(v)
	}
}

// definition reads a value's name, type and known elements. The value is not visible yet.
func (p *parser) definition() *Value {
	v := &Value{Name: p.Must(text.Local)}
	p.Expect(":")
	v.Type.DType, v.Type.Shape = literal.ReadType(p.Scanner)
	switch {
	case p.Accept("known"):
		v.Known = literal.ReadIndex(p.Scanner)
	case p.Accept("bound"):
		v.Known, v.Bound = literal.ReadIndex(p.Scanner), true
	}
	return v
}

// define makes a value visible.
func (p *parser) define(v *Value) {
	if p.defined[v.Name] {
		p.Failf("%s is defined twice", text.LocalName(v.Name))
	}
	p.defined[v.Name], p.visible[v.Name] = true, v
}

// use returns a visible value; it fails the scan and returns a new value if there is none.
func (p *parser) use(name string) *Value {
	v := p.visible[name]
	if v == nil {
		p.Failf("%s is not defined here", text.LocalName(name))
		return &Value{Name: name} // not read: after the first error the result is dropped
	}
	return v
}

// block reads a block after its opening brace.
func (p *parser) block(b *Block) {
	if !p.Enter() {
		return
	}
	defer p.Leave()
	for p.Accept("const") {
		b.Consts = append(b.Consts, p.constant())
	}
	for p.Err() == nil && !p.Accept("return") {
		if parse := statements[p.Peek().Text]; parse != nil && p.Peek().Kind == text.Word {
			line := p.line(p.Next().Start)
			parse(p, b, line)
			continue
		}
		b.Nodes = append(b.Nodes, p.node())
	}
	for p.Err() == nil && !p.Is("}") {
		b.Results = append(b.Results, p.use(p.Must(text.Local)))
		if !p.Is("}") {
			p.Expect(",")
		}
	}
	p.Expect("}")
}

// constant reads and defines a constant, and gets its contents from the options if they are not in the text.
func (p *parser) constant() *Value {
	v := p.definition()
	if v.Known != nil {
		p.Failf("a constant's contents are what is known of it")
	}
	shape := literal.Fixed(p.Scanner, v.Type.Shape)
	switch {
	case p.Err() != nil:
	case p.Accept("="):
		v.Const = literal.ReadElements(p.Scanner, v.Type.DType, shape)
	default:
		p.Expect("data")
		start := p.Peek().Start
		size, ok := v.bytes()
		if stated := p.Int(); !ok || stated != size {
			p.FailAt(start, "%d bytes of data for %s", stated, v.Type)
		}
		if p.options.Data != nil && p.Err() == nil {
			t, err := p.options.Data(v.Name, v.Type.DType, shape, size)
			if err != nil {
				p.FailAt(start, "the contents of %s: %v", text.LocalName(v.Name), err)
			}
			v.Const = t
		}
	}
	v.know()
	p.define(v)
	return v
}

// know records a small integer constant's elements.
func (v *Value) know() {
	t := v.Const
	if t == nil {
		return
	}
	if dt := t.DType(); (dt.IsInt() && dt != dtype.U64 || dt == dtype.Bool) && t.Len() <= MaxKnown {
		v.Known = make([]sym.Expr, t.Len())
		for i := range v.Known {
			v.Known[i] = sym.Const(t.Int(int64(i)))
		}
	}
}

// node reads and defines a node with its results.
func (p *parser) node() *Node {
	n := &Node{Attrs: Attrs{}}
	if !p.Accept("none") {
		for p.Err() == nil {
			v := p.definition()
			v.Node, v.Index = n, len(n.Outputs)
			n.Outputs = append(n.Outputs, v)
			if !p.Accept(",") {
				break
			}
		}
	}
	p.Expect("=")
	start, name := p.Peek().Start, p.Name()
	n.Line = p.line(start)
	op, ok := Lookup(name)
	if !ok {
		p.FailAt(start, "no operator %s", text.Name(name))
	}
	n.Op = op
	p.List("(", ")", func() {
		if p.Accept("none") {
			n.Inputs = append(n.Inputs, nil)
		} else {
			n.Inputs = append(n.Inputs, p.use(p.Must(text.Local)))
		}
	})
	if p.Is("{") {
		n.Attrs = literal.ReadAttributes(p.Scanner)
	}
	if p.Accept("source") {
		n.Source = p.Must(text.Quoted)
	}
	if p.Accept("carve") {
		p.carves(n)
	}
	for p.Accept("region") {
		n.Regions = append(n.Regions, p.region())
	}
	for _, v := range n.Outputs {
		p.define(v)
	}
	return n
}

// region reads an inner block. Its values are not visible after it.
func (p *parser) region() *Block {
	b := &Block{}
	p.params(b)
	p.Expect("{")
	p.block(b)
	b.walk(func(v *Value) { delete(p.visible, v.Name) })
	return b
}
