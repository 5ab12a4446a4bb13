package ir

import (
	"strconv"
	"strings"

	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/text"
)

// Storage is memory that a text declares. It is visible after its declaration, in its block and in inner blocks.
type Storage struct {
	Name   string   // one of the function's values' names
	Bytes  sym.Expr // its size
	Align  int64    // of its first byte: a power of two
	Device string   // "cpu", or "" for the same
	Line   int      // of the text
}

// Carve is the location of a value's contiguous elements: Offset bytes from the beginning of Storage.
type Carve struct {
	Storage *Storage
	Offset  sym.Expr
}

// Statement is a text's statement about memory between two nodes. Exactly one of the fields from Storage on is set.
type Statement struct {
	At      int      // the number of the block's nodes before it
	Line    int      // of the text
	Storage *Storage // begins
	Release *Value   // its carve ends
	End     *Storage // ends, with all values carved from it
	Assert  *Require // must hold
}

// defaultAlign is a storage's default alignment, and the largest one supported: that of a run's memory.
const defaultAlign = 64

// statements maps the word that begins a statement to the reader of the rest.
var statements map[string]func(p *parser, b *Block, line int)

// init fills statements, whose readers refer to it.
func init() {
	statements = map[string]func(p *parser, b *Block, line int){"storage": (*parser).storage, "release": (*parser).release,
		"assert": (*parser).assert}
}

// line returns the line number of an offset. Offsets must not decrease, so that counting is linear in the text's
// length.
func (p *parser) line(offset int) int {
	if offset < p.counted {
		return p.lines + 1 // after an error
	}
	p.lines += strings.Count(p.source[p.counted:offset], "\n")
	p.counted = offset
	return p.lines + 1
}

// storage reads %s: 64 bytes align 64 device "cpu".
func (p *parser) storage(b *Block, line int) {
	s := &Storage{Name: p.Must(text.Local), Align: defaultAlign, Line: line}
	p.Expect(":")
	s.Bytes = p.Expr()
	p.Expect("bytes")
	if p.Accept("align") {
		s.Align = p.Int()
	}
	if p.Accept("device") {
		s.Device = p.Must(text.Quoted)
	}
	if p.defined[s.Name] {
		p.Failf("%s is defined twice", text.LocalName(s.Name))
	}
	p.defined[s.Name], p.storages[s.Name] = true, s
	b.Statements = append(b.Statements, Statement{At: len(b.Nodes), Line: line, Storage: s})
}

// release reads %t, %s: values that are carved, and storages.
func (p *parser) release(b *Block, line int) {
	for more := true; more && p.Err() == nil; more = p.Accept(",") {
		name := p.Must(text.Local)
		s := Statement{At: len(b.Nodes), Line: line}
		if s.End = p.storages[name]; s.End == nil {
			s.Release = p.use(name)
		}
		b.Statements = append(b.Statements, s)
	}
}

// assert reads m <= 16 "why".
func (p *parser) assert(b *Block, line int) {
	r := &Require{Cond: p.Cond()}
	r.From = p.Must(text.Quoted)
	b.Statements = append(b.Statements, Statement{At: len(b.Nodes), Line: line, Assert: r})
}

// carves reads a location for each of the node's results: %s at 0, or none if the compiler chooses it.
func (p *parser) carves(n *Node) {
	for i, v := range n.Outputs {
		if i > 0 {
			if !p.Accept(",") {
				return
			}
		}
		if p.Accept("none") {
			continue
		}
		name := p.Must(text.Local)
		c := &Carve{Storage: p.storages[name]}
		if c.Storage == nil {
			p.Failf("%s is not a storage", text.LocalName(name))
		}
		if p.Accept("at") {
			c.Offset = p.Expr()
		}
		v.Carve = c
	}
}

// String returns the declaration's text.
func (s *Storage) String() string {
	out := "storage " + text.LocalName(s.Name) + ": " + s.Bytes.String() + " bytes"
	if s.Align != defaultAlign {
		out += " align " + strconv.FormatInt(s.Align, 10)
	}
	if s.Device != "" {
		out += " device " + strconv.Quote(s.Device)
	}
	return out
}

// statement prints a statement.
func (p *printer) statement(s Statement) {
	switch {
	case s.Storage != nil:
		p.Line("%s", s.Storage)
	case s.Release != nil:
		p.Line("release %s", text.LocalName(s.Release.Name))
	case s.End != nil:
		p.Line("release %s", text.LocalName(s.End.Name))
	case s.Assert != nil:
		p.Line("assert %s %q", s.Assert.Cond, s.Assert.From)
	}
}

// formatCarves formats the locations of a node's results, with a space before; "" if the compiler chooses all of them.
func formatCarves(list []*Value) string {
	words, last := make([]string, len(list)), -1
	for i, v := range list {
		words[i] = "none"
		if c := v.Carve; c != nil {
			words[i] = text.LocalName(c.Storage.Name) + " at " + c.Offset.String()
			last = i
		}
	}
	if last < 0 {
		return ""
	}
	return " carve " + strings.Join(words[:last+1], ", ")
}
