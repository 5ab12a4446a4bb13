package ir

import (
	"strconv"
	"strings"

	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/text"
)

// Storage is memory that a text lays out itself. It can be used in the block that declares it and in those inside,
// after its declaration.
type Storage struct {
	Name   string   // one of the function's values' names
	Bytes  sym.Expr // how many there are
	Align  int64    // of its first byte: a power of two
	Device string   // where it is: "cpu" or "", which is the same
	Line   int      // of the text
}

// Carve says where a value's elements lie, side by side: in Storage, from byte Offset on.
type Carve struct {
	Storage *Storage
	Offset  sym.Expr
}

// Statement is what a text says of memory between two nodes. One of its fields from Storage on is set.
type Statement struct {
	At      int      // how many of the block's nodes come before it
	Line    int      // of the text
	Storage *Storage // begins
	Release *Value   // its carve ends
	End     *Storage // ends, and all that is carved from it
	Assert  *Require // must hold
}

// defaultAlign is the alignment of a storage that says none, and the most that one may ask for: what the memory of a
// run has anyway.
const defaultAlign = 64

// statements are the words that a statement begins with. What reads one is called behind the word.
var statements map[string]func(p *parser, b *Block, line int)

func init() {
	statements = map[string]func(p *parser, b *Block, line int){"storage": (*parser).storage, "release": (*parser).release,
		"assert": (*parser).assert}
}

// line is the number of the line of an offset. A text is read from its beginning to its end, so that counting takes
// time in proportion to its length.
func (p *parser) line(offset int) int {
	if offset < p.counted {
		return p.lines + 1 // behind an error
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

// carves reads %s at 0, one for each of the node's results; none is one that the compiler lays.
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
			p.Failf("%s is no storage", text.LocalName(name))
		}
		if p.Accept("at") {
			c.Offset = p.Expr()
		}
		v.Carve = c
	}
}

// String is the declaration as the text has it.
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

// formatCarves is where a node's results lie, with a space before it; "" if the compiler lays them all.
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
