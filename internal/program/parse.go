package program

import (
	"bytes"

	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor/literal"
	"github.com/weirml/weir/internal/text"
)

// ParseOptions gives Parse the data that a text leaves out.
type ParseOptions struct {
	// Data is the data section: the bytes of weights that are not in the text, in the layout of Program.Data. The
	// weights borrow it. If it is nil, those weights have no contents, and Verify refuses them.
	Data []byte
}

// Parse reads a program from the text that Program.String writes. Errors are of kind ErrInput and give line and column.
// Parse does not verify the program, but every index is within its list, or −1 if the field allows it, and a View lies
// in an earlier tensor.
func Parse(source string, o ParseOptions) (*Program, error) {
	s := text.NewScanner(source)
	s.Expect("weir")
	if version := s.Int(); version != 1 {
		s.Failf("version %d of the text is not known, want 1", version)
	}
	s.Expect("program")
	p := &parser{Scanner: s, options: o}
	out := p.parse()
	s.Done()
	if err := s.Err(); err != nil {
		return nil, err
	}
	return out, nil
}

// names maps the names of one of a program's lists to indices.
type names struct {
	kind string
	at   map[string]int
}

type parser struct {
	*text.Scanner
	options                                              ParseOptions
	out                                                  *Program
	dims                                                 map[sym.Name]int
	storages, tensors, kernels, streams, events, weights names
}

// add declares a name.
func (p *parser) add(n *names, name string) {
	if _, twice := n.at[name]; twice {
		p.Failf("%s %s is declared twice", n.kind, text.Name(name))
	}
	n.at[name] = len(n.at)
}

// find returns the index of a declared name; it fails the scan and returns −1 if the name is not declared.
func (p *parser) find(n *names, name string) int {
	i, ok := n.at[name]
	if !ok {
		p.Failf("no %s %s is declared", n.kind, text.Name(name))
		return -1
	}
	return i
}

// dimension reads a dimension's name and returns its index; it fails the scan and returns −1 if it is not declared.
func (p *parser) dimension() int {
	name := p.Symbol()
	i, ok := p.dims[name]
	if !ok {
		p.Failf("no dimension %s is declared", name)
		return -1
	}
	return i
}

// declarations lists the words that begin a line before the body, and their readers.
var declarations = []struct {
	word string
	read func(p *parser)
}{
	{"dim", (*parser).dim}, {"require", (*parser).require}, {"storage", (*parser).storage}, {"plan", (*parser).plan},
	{"tensor", (*parser).tensor},
	{"weight", (*parser).weight}, {"kernel", (*parser).kernel}, {"stream", (*parser).stream}, {"event", (*parser).event},
	{"input", func(p *parser) { p.out.Inputs = append(p.out.Inputs, p.port()) }},
	{"output", func(p *parser) { p.out.Outputs = append(p.out.Outputs, p.port()) }}, {"body", nil},
}

// parse reads the rest of a program after the word program.
func (p *parser) parse() *Program {
	p.out, p.dims = &Program{Name: p.Must(text.Global)}, map[sym.Name]int{}
	for _, n := range []struct {
		to   *names
		kind string
	}{{&p.storages, "storage"}, {&p.tensors, "tensor"}, {&p.kernels, "kernel"}, {&p.streams, "stream"},
		{&p.events, "event"},
		{&p.weights, "weight"}} {
		*n.to = names{n.kind, map[string]int{}}
	}
	words := make([]string, len(declarations))
	for i, d := range declarations {
		words[i] = d.word
	}
	p.Expect("{")
	for p.Err() == nil {
		i := p.Choice(words...)
		if i < 0 {
			break
		}
		if words[i] == "body" {
			p.out.Steps = p.body()
			p.Expect("}")
			break
		}
		declarations[i].read(p)
	}
	return p.out
}

// dim reads a dimension: n in [1, 512] data limit 4*m from "the operator that gives its value".
func (p *parser) dim() {
	d := Dim{Name: p.Symbol(), Range: sym.Range{Max: sym.NoMax}}
	if _, twice := p.dims[d.Name]; twice {
		p.Failf("dimension %s is declared twice", d.Name)
	}
	p.dims[d.Name] = len(p.dims)
	p.Expect("in")
	p.Expect("[")
	d.Range.Min = p.Int()
	p.Expect(",")
	if !p.Accept("inf") {
		d.Range.Max = p.Int()
	}
	p.Expect("]")
	if p.Accept("data") {
		d.Data = true
		p.Expect("limit")
		if d.Limit = sym.Unlimited; !p.Accept("inf") {
			d.Limit = p.Expr()
		}
	}
	if p.Accept("from") {
		d.Origin = p.Must(text.Quoted)
	}
	p.out.Dims = append(p.out.Dims, d)
}

// require reads a condition: n <= 4 from "node" about %x.
func (p *parser) require() {
	r := Require{Cond: p.Cond()}
	p.Expect("from")
	r.From = p.Must(text.Quoted)
	if p.Accept("about") {
		r.Tensor = p.Must(text.Local)
	}
	p.out.Requires = append(p.out.Requires, r)
}

// storage reads a storage: %arena: arena bytes 64*n align 64.
func (p *parser) storage() {
	s := Storage{Name: p.Must(text.Local)}
	p.add(&p.storages, s.Name)
	p.Expect(":")
	s.Late = p.Accept("late")
	s.Kind = StorageKind(max(0, p.Choice(storageNames[:]...)))
	p.Expect("bytes")
	s.Size = p.Expr()
	p.Expect("align")
	s.Align = p.Int()
	s.Device = p.device()
	if s.Late && p.Is("{") {
		s.Lets = p.lets()
	}
	p.out.Storages = append(p.out.Storages, s)
}

// device reads an optional device's name: on "vulkan"; "" if there is none.
func (p *parser) device() string {
	if p.Accept("on") {
		return p.Must(text.Quoted)
	}
	return ""
}

// plan reads a plan's conditions and its lets.
func (p *parser) plan() {
	var plan Plan
	if p.Accept("when") {
		for p.Err() == nil {
			plan.When = append(plan.When, p.Cond())
			if !p.Accept(",") {
				break
			}
		}
	}
	plan.Lets = p.lets()
	p.out.Plans = append(p.out.Plans, plan)
}

// lets reads { let arena.1 = 4*n }.
func (p *parser) lets() []Let {
	var lets []Let
	p.Expect("{")
	for p.Accept("let") {
		l := Let{Name: p.Symbol()}
		p.Expect("=")
		l.X = p.Expr()
		lets = append(lets, l)
	}
	p.Expect("}")
	return lets
}

// tensor reads a tensor: %x: f32[n] in %arena at 0.
func (p *parser) tensor() {
	t := Tensor{Name: p.Must(text.Local)}
	p.Expect(":")
	t.DType, t.Shape = literal.ReadType(p.Scanner)
	if p.Accept("strides") {
		t.Strides = literal.ReadIndex(p.Scanner)
	}
	t.Reserved = p.Accept("reserved")
	t.Class = []StorageClass{Argument, Constant, Carved, View}[max(0, p.Choice("argument", "constant", "in", "part"))]
	switch t.Class {
	case Carved:
		t.Of = p.find(&p.storages, p.Must(text.Local))
	case View:
		p.Expect("of")
		t.Of = p.one()
	}
	if t.Class == Carved || t.Class == View {
		p.Expect("at")
		t.Offset = p.Expr()
	}
	t.Source = p.source()
	p.add(&p.tensors, t.Name)
	p.out.Tensors = append(p.out.Tensors, t)
}

// weight reads "name" %w = [1, 2], or "name" %w data 400 at 64.
func (p *parser) weight() {
	w := Weight{Name: p.Must(text.Quoted), Tensor: p.one()}
	p.add(&p.weights, w.Name)
	w.Paged = p.Accept("paged")
	w.Device = p.device()
	if p.Accept("=") {
		if p.Err() == nil {
			t := &p.out.Tensors[w.Tensor]
			fixed := literal.Fixed(p.Scanner, t.Shape)
			if elements := literal.ReadElements(p.Scanner, t.DType, fixed); elements != nil {
				w.Data = elements.Bytes()
			}
		}
	} else {
		p.Expect("data")
		start, size := p.Peek().Start, p.Int()
		p.Expect("at")
		at, total := p.Int(), int64(len(p.options.Data))
		switch {
		case size < 0 || at < 0:
			p.FailAt(start, "%d bytes at %d", size, at)
		case p.options.Data == nil:
		case at > total || size > total-at:
			p.FailAt(start, "%d bytes at %d of a data section of %d", size, at, total)
		default:
			w.Data = p.options.Data[at : at+size : at+size]
		}
	}
	p.out.Weights = append(p.out.Weights, w)
}

// kernel reads a kernel's name.
func (p *parser) kernel() {
	name := p.Must(text.Global)
	p.add(&p.kernels, name)
	p.out.Kernels = append(p.out.Kernels, name)
}

// stream reads a stream's name and device.
func (p *parser) stream() {
	s := Stream{Name: p.Must(text.Global)}
	p.add(&p.streams, s.Name)
	s.Device = p.device()
	p.out.Streams = append(p.out.Streams, s)
}

// event reads an event's name.
func (p *parser) event() {
	name := p.Must(text.Global)
	p.add(&p.events, name)
	p.out.Events = append(p.out.Events, name)
}

// port reads an input or output: "x" = %x borrow.
func (p *parser) port() Port {
	port := Port{Name: p.Must(text.Quoted)}
	p.Expect("=")
	port.Tensor = p.one()
	port.Ownership = Ownership(max(0, p.Choice(ownershipNames[:]...)))
	port.Device = p.device()
	if p.Accept("elements") {
		p.List("(", ")", func() { port.Elements = append(port.Elements, p.dimension()) })
	}
	if p.Accept("gives") {
		p.List("(", ")", func() { port.Gives = append(port.Gives, p.one()) })
	}
	return port
}

// source reads the optional name of the model's node: source "conv1"; "" if there is none.
func (p *parser) source() string {
	if p.Accept("source") {
		return p.Must(text.Quoted)
	}
	return ""
}

// one reads a tensor's name.
func (p *parser) one() int { return p.find(&p.tensors, p.Must(text.Local)) }

// optional reads a tensor's name, or the word none, which is −1.
func (p *parser) optional() int {
	if p.Accept("none") {
		return -1
	}
	return p.one()
}

// several reads a list of tensors between parentheses; −1 stands for none.
func (p *parser) several() []int {
	var list []int
	p.List("(", ")", func() { list = append(list, p.optional()) })
	return list
}

// listed reads one or more names of tensors.
func (p *parser) listed() []int {
	list := []int{p.one()}
	for p.Accept(",") {
		list = append(list, p.one())
	}
	return list
}

// on reads an optional stream and returns its number; 0, the program's own order, if there is none.
func (p *parser) on() int {
	if p.Accept("on") {
		return p.find(&p.streams, p.Must(text.Global)) + 1
	}
	return 0
}

var stepReaders []struct {
	word string
	read func(p *parser) Step
}

// init fills stepReaders, which refer to body and so to themselves.
func init() {
	stepReaders = []struct {
		word string
		read func(p *parser) Step
	}{
		{"carve", (*parser).carve}, {"launch", (*parser).launch}, {"host", (*parser).host}, {"bind", (*parser).bind},
		{"if", (*parser).branch}, {"loop", (*parser).loop}, {"copy", (*parser).copy},
		{"release", func(p *parser) Step { return &Release{p.listed()} }},
		{"take", func(p *parser) Step { return &Take{p.find(&p.storages, p.Must(text.Local))} }},
		{"record", func(p *parser) Step { return &Record{p.find(&p.events, p.Must(text.Global)), p.on()} }},
		{"wait", func(p *parser) Step { return &Wait{p.find(&p.events, p.Must(text.Global)), p.on()} }},
	}
}

// body reads a list of steps between braces.
func (p *parser) body() []Step {
	if !p.Enter() {
		return nil
	}
	defer p.Leave()
	words := make([]string, len(stepReaders))
	for i, r := range stepReaders {
		words[i] = r.word
	}
	var steps []Step
	p.Expect("{")
	for p.Err() == nil && !p.Accept("}") {
		if i := p.Choice(words...); i >= 0 {
			steps = append(steps, stepReaders[i].read(p))
		}
	}
	return steps
}

// carve reads a step: carve %x over %y.
func (p *parser) carve() Step {
	c := &Carve{Tensor: p.one()}
	if p.Accept("over") {
		c.Over = p.listed()
	}
	return c
}

// launch reads a step: launch @kernel(%x, write %y) dims (n).
func (p *parser) launch() Step {
	l := &Launch{Kernel: p.find(&p.kernels, p.Must(text.Global))}
	p.List("(", ")", func() {
		l.Writes = append(l.Writes, p.Accept("write"))
		l.Args = append(l.Args, p.one())
	})
	p.Expect("dims")
	p.List("(", ")", func() { l.Dims = append(l.Dims, p.dimension()) })
	l.Stream, l.Source = p.on(), p.source()
	return l
}

// host reads a step: host "Op"(%x, none) -> (%y).
func (p *parser) host() Step {
	h := &Host{Op: p.Must(text.Quoted), In: p.several()}
	p.Expect("->")
	h.Out = p.several()
	if p.Is("{") {
		h.Attrs = literal.ReadAttributes(p.Scanner)
	}
	h.Source = p.source()
	return h
}

// bind reads a step: bind n = %x[0], or bind n = m + 1.
func (p *parser) bind() Step {
	b := &Bind{Dim: p.dimension(), From: -1}
	p.Expect("=")
	if p.Peek().Kind == text.Local {
		b.From = p.one()
		p.Expect("[")
		b.At = p.Int()
		p.Expect("]")
	} else {
		b.Value = p.Expr()
	}
	b.Source = p.source()
	return b
}

// branch reads a step: if %x { … } else { … }; the word if is read already.
func (p *parser) branch() Step {
	s := &If{Cond: p.one(), Source: p.source()}
	s.Then = p.body()
	p.Expect("else")
	s.Else = p.body()
	return s
}

// loop reads a step: loop trip %n cond %c index %i count k { … }.
func (p *parser) loop() Step {
	l := &Loop{Trip: -1, Cond: -1, Index: -1, Count: -1}
	for _, operand := range []struct {
		word string
		to   *int
	}{{"trip", &l.Trip}, {"cond", &l.Cond}, {"index", &l.Index}} {
		if p.Accept(operand.word) {
			*operand.to = p.one()
		}
	}
	if p.Accept("count") {
		l.Count = p.dimension()
	}
	l.Source = p.source()
	l.Body = p.body()
	return l
}

// copy reads a step: copy %y = %x, or copy %y = %x[%index of 100].
func (p *parser) copy() Step {
	c := &Copy{To: p.one()}
	p.Expect("=")
	c.From = p.one()
	if p.Accept("[") {
		c.Pick = &Pick{Index: p.one()}
		p.Expect("of")
		c.Pick.Rows = p.Int()
		p.Expect("]")
	}
	if c.Stream = p.on(); c.Pick != nil {
		c.Pick.Source = p.source()
	}
	return c
}

// Equal reports whether two programs have the same text and the same data section.
func Equal(a, b *Program) bool {
	if a.String() != b.String() {
		return false
	}
	x, _ := a.Data()
	y, _ := b.Data()
	for i := range x {
		if !bytes.Equal(x[i].Data, y[i].Data) {
			return false
		}
	}
	return len(x) == len(y)
}
