package text

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/sym"
)

// Kind is the kind of a token.
type Kind uint8

// The kinds of token.
const (
	End    Kind = iota // the end of the text; also every token after an error
	Word               // an unquoted name: letters, digits, underscores and dots, beginning with a letter or _
	Local              // %name or %"any name": a value
	Global             // @name or @"any name": a function
	Number             // a digit and the characters of a number after it; without a sign
	Quoted             // a string in double quotes, spelled as in Go
	Punct              // one of the punctuation marks, or any other character
)

var kindNames = [...]string{End: "the end", Word: "a word", Local: "a %name", Global: "an @name", Number: "a number",
	Quoted: "a string", Punct: "punctuation"}

// String names the kind in an error.
func (k Kind) String() string { return kindNames[k] }

// Token is a token of a text. Text is a name without its mark, a string without its quotes, otherwise the characters
// themselves.
type Token struct {
	Kind  Kind
	Text  string
	Start int // in bytes, from the beginning of the text
	End   int
}

// marks are the punctuation marks of more than one character; a mark is before its prefixes.
var marks = []string{"...", "..", "->", "=>", ":=", "::", "==", "!=", "<=", ">=", "<<", ">>", "+=", "-=", "*=", "//",
	"&&", "||"}

const (
	deepest   = 200     // levels that Enter allows
	basicWork = 1 << 20 // names and numbers to which the symbolic integers of a short text may multiply out
)

// Scanner cuts a text into tokens. After the first error, every token is End, results are zero, and Err returns the
// error; so a parser may check Err once, at its end, if its loops stop at End. A text costs time in proportion to its
// length. Comments run from # to the end of the line.
type Scanner struct {
	source string
	at     int // the offset after the current token
	token  Token
	ready  bool // the current token was scanned and not used
	last   int  // the end of the last used token
	begin  int  // the beginning of the last used token
	depth  int
	work   int64
	err    *diag.Error
}

// NewScanner returns a scanner at the beginning of a text.
func NewScanner(source string) *Scanner {
	return &Scanner{source: source, work: basicWork + 4*int64(len(source))}
}

// Err returns the first error, or nil. It is a *diag.Error of kind diag.ErrInput whose detail begins with line and
// column.
func (s *Scanner) Err() error {
	if s.err == nil {
		return nil
	}
	return s.err
}

// Failf records an error at the last used token, unless there is an error already.
func (s *Scanner) Failf(format string, args ...any) { s.FailAt(s.begin, format, args...) }

// Unexpected records an error at the current token or, if that is on a later line and not the end of the text, at the
// end of the last used token.
func (s *Scanner) Unexpected(format string, args ...any) {
	at := s.Peek().Start
	if s.last > 0 && s.Peek().Kind != End && s.NewLine() {
		at = s.last
	}
	s.FailAt(at, format, args...)
}

// FailAt records an error at an offset in the text, unless there is an error already. A column counts bytes from 1.
func (s *Scanner) FailAt(offset int, format string, args ...any) {
	if s.err != nil {
		return
	}
	line, column := s.Position(offset)
	s.err = diag.Inputf("%d:%d: %s", line, column, fmt.Sprintf(format, args...))
	s.token, s.ready = Token{Kind: End, Start: offset, End: offset}, true
}

// Position returns the line and the column, both from 1, of an offset. It costs time in proportion to the offset.
func (s *Scanner) Position(offset int) (line, column int) {
	before := s.source[:min(max(offset, 0), len(s.source))]
	return strings.Count(before, "\n") + 1, len(before) - strings.LastIndexByte(before, '\n')
}

// Peek returns the current token without using it.
func (s *Scanner) Peek() Token {
	if s.err == nil && !s.ready {
		s.scan()
	}
	return s.token
}

// Next returns the current token and uses it.
func (s *Scanner) Next() Token {
	t := s.Peek()
	if s.err == nil && t.Kind != End {
		s.ready, s.last, s.begin = false, t.End, t.Start
	}
	return t
}

// Rest returns the text after the last used token.
func (s *Scanner) Rest() string { return s.source[s.last:] }

// Skip skips n bytes after the last used token, which must be entire tokens.
func (s *Scanner) Skip(n int) {
	if s.err == nil {
		s.begin, s.last = s.last, s.last+n
		if at := s.begin + len(s.source[s.begin:s.last]) - len(strings.TrimLeft(s.source[s.begin:s.last], " \t\r\n")); n > 0 {
			s.begin = at
		}
		s.at, s.ready = s.last, false
	}
}

// NewLine reports whether the current token is the first on its line.
func (s *Scanner) NewLine() bool {
	return strings.IndexByte(s.source[s.last:max(s.last, s.Peek().Start)], '\n') >= 0 || s.last == 0
}

// scan reads the next token.
func (s *Scanner) scan() {
	s.skip()
	s.ready = true
	start := s.at
	rest := s.source[start:]
	set := func(kind Kind, text string, length int) {
		s.at = start + length
		s.token = Token{kind, text, start, s.at}
	}
	if rest == "" {
		set(End, "", 0)
		return
	}
	switch c := rest[0]; {
	case letter(c):
		n := wordLength(rest)
		set(Word, rest[:n], n)
	case digit(c):
		n := numberLength(rest)
		set(Number, rest[:n], n)
	case c == '"':
		if name, n, ok := s.unquote(rest); ok {
			set(Quoted, name, n)
		}
	case (c == '%' || c == '@') && len(rest) > 1 && (letter(rest[1]) || rest[1] == '"'):
		kind := Local
		if c == '@' {
			kind = Global
		}
		if n := wordLength(rest[1:]); n > 0 {
			set(kind, rest[1:1+n], 1+n)
		} else if name, n, ok := s.unquote(rest[1:]); ok {
			set(kind, name, 1+n)
		}
	default:
		for _, mark := range marks {
			if strings.HasPrefix(rest, mark) {
				set(Punct, mark, len(mark))
				return
			}
		}
		n := 1
		for n < len(rest) && rest[n]&0xc0 == 0x80 && n < 4 { // the rest of a character
			n++
		}
		set(Punct, rest[:n], n)
	}
}

// skip skips spaces and comments.
func (s *Scanner) skip() {
	for s.at < len(s.source) {
		switch s.source[s.at] {
		case ' ', '\t', '\r', '\n':
			s.at++
		case '#':
			if n := strings.IndexByte(s.source[s.at:], '\n'); n >= 0 {
				s.at += n
			} else {
				s.at = len(s.source)
			}
		default:
			return
		}
	}
}

// unquote parses the Go string at the beginning of text, and returns its length in the text; ok is false after an
// error.
func (s *Scanner) unquote(text string) (value string, length int, ok bool) {
	quoted, err := strconv.QuotedPrefix(text)
	if err == nil {
		value, err = strconv.Unquote(quoted)
	}
	if err != nil {
		s.FailAt(len(s.source)-len(text), "a string that does not end or is not well formed")
		return "", 0, false
	}
	return value, len(quoted), true
}

func letter(c byte) bool { return c == '_' || 'a' <= c|0x20 && c|0x20 <= 'z' }
func digit(c byte) bool  { return '0' <= c && c <= '9' }

// wordLength returns the length of the unquoted name at the beginning of s.
func wordLength(s string) int {
	n := 0
	for n < len(s) && (letter(s[n]) || n > 0 && (digit(s[n]) || s[n] == '.')) {
		n++
	}
	return n
}

// numberLength returns the length of the digits, letters and dots at the beginning of s, with a sign after the
// exponent's letter. Two dots are a punctuation mark.
func numberLength(s string) int {
	exponent := byte('e')
	if strings.HasPrefix(s, "0x") || strings.HasPrefix(s, "0X") {
		exponent = 'p'
	}
	n := 0
	for n < len(s) {
		c := s[n]
		switch {
		case letter(c) || digit(c):
		case c == '.' && !strings.HasPrefix(s[n:], ".."):
		case (c == '+' || c == '-') && s[n-1]|0x20 == exponent:
		default:
			return n
		}
		n++
	}
	return n
}

// Found describes the current token for an error.
func (s *Scanner) Found() string {
	t := s.Peek()
	if t.Kind == End {
		return "the end"
	}
	spelling := s.source[t.Start:t.End]
	if len(spelling) > 40 {
		spelling = spelling[:40] + "…"
	}
	return strconv.Quote(spelling)
}

// Is reports whether the current token is this word or punctuation mark.
func (s *Scanner) Is(text string) bool {
	t := s.Peek()
	return (t.Kind == Word || t.Kind == Punct) && t.Text == text
}

// Accept uses the current token and returns true if it is this word or punctuation mark.
func (s *Scanner) Accept(text string) bool {
	if s.Is(text) {
		s.Next()
		return true
	}
	return false
}

// Expect uses the current token, which must be this word or punctuation mark.
func (s *Scanner) Expect(text string) {
	if !s.Accept(text) {
		s.Unexpected("expected %q, found %s", text, s.Found())
	}
}

// Take uses the current token and returns its text if it is of the kind.
func (s *Scanner) Take(kind Kind) (text string, ok bool) {
	if s.Peek().Kind != kind || kind == End {
		return "", false
	}
	return s.Next().Text, true
}

// Must uses the current token, which must be of the kind, and returns its text.
func (s *Scanner) Must(kind Kind) string {
	text, ok := s.Take(kind)
	if !ok {
		s.Unexpected("expected %s, found %s", kind, s.Found())
	}
	return text
}

// Name uses an unquoted or quoted name, such as a dimension's.
func (s *Scanner) Name() string {
	if text, ok := s.Take(Quoted); ok {
		return text
	}
	if text, ok := s.Take(Word); ok {
		return text
	}
	s.Unexpected("expected a name, found %s", s.Found())
	return ""
}

// Done requires the end of the text.
func (s *Scanner) Done() {
	if s.Peek().Kind != End {
		s.Unexpected("unexpected %s", s.Found())
	}
}

// Choice uses one of these words and returns its index, or −1.
func (s *Scanner) Choice(words ...string) int {
	for i, word := range words {
		if s.Accept(word) {
			return i
		}
	}
	s.Unexpected("expected one of %s, found %s", strings.Join(words, ", "), s.Found())
	return -1
}

// List reads items, separated by commas, between two marks; a comma before the closing mark is allowed.
func (s *Scanner) List(open, closing string, item func()) {
	s.Expect(open)
	for s.err == nil && !s.Accept(closing) {
		item()
		if !s.Is(closing) {
			s.Expect(",")
		}
	}
}

// Enter counts a level of nesting and reports whether it is allowed: a recursive parser calls it before it calls
// itself, and Leave after.
func (s *Scanner) Enter() bool {
	if s.depth++; s.depth > deepest {
		s.Failf("nested more than %d deep", deepest)
	}
	return s.err == nil
}

// Leave ends a level that Enter began.
func (s *Scanner) Leave() { s.depth-- }

// Expr reads a symbolic integer.
func (s *Scanner) Expr() sym.Expr {
	e := sym.Expr{}
	s.symbolic(func(text string) (n int, err error) {
		e, n, err = sym.ParseWithin(text, &s.work)
		return n, err
	})
	return e
}

// Cond reads a comparison of symbolic integers.
func (s *Scanner) Cond() sym.Cond {
	c := sym.Cond{}
	s.symbolic(func(text string) (n int, err error) {
		c, n, err = sym.ParseCondWithin(text, &s.work)
		return n, err
	})
	return c
}

// symbolic reads with parse, which returns the length that it used.
func (s *Scanner) symbolic(parse func(text string) (int, error)) {
	start := s.Peek().Start
	if s.err != nil {
		return
	}
	n, err := parse(s.source[start:])
	if err != nil {
		if e, ok := err.(*sym.SyntaxError); ok {
			s.FailAt(start+e.Offset, "%s", e.Message)
		} else {
			s.FailAt(start, "%v", err)
		}
		return
	}
	s.at, s.last, s.ready = start+n, start+n, false
}

// Decided reads what sym.Choice's String writes after its first word.
func (s *Scanner) Decided() (c sym.Choice) {
	s.List("[", "]", func() { c.Names = append(c.Names, s.Symbol()) })
	s.Expect("in")
	s.List("[", "]", func() {
		var values []sym.Expr
		s.List("[", "]", func() { values = append(values, s.Expr()) })
		if len(values) != len(c.Names) {
			s.Failf("%d values of %d dimensions", len(values), len(c.Names))
		}
		c.Cases = append(c.Cases, values)
	})
	if len(c.Names) < 2 || len(c.Cases) == 0 || len(c.Cases) > sym.MostCases {
		s.Failf("a choice of %d dimensions among %d cases, want at least 2 and 1 to %d", len(c.Names), len(c.Cases),
			sym.MostCases)
	}
	s.Expect("from")
	c.From = s.Must(Quoted)
	return c
}

// Int reads an integer of 64 bits with its sign, decimal or, after 0x, hexadecimal.
func (s *Scanner) Int() int64 {
	start, sign := s.Peek().Start, s.sign()
	text := s.Must(Number)
	v, err := strconv.ParseInt(sign+text, numberBase(text), 64)
	if err != nil {
		s.FailAt(start, "%s%.40s is no integer of 64 bits", sign, text)
		return 0
	}
	return v
}

// Uint reads an unsigned integer of 64 bits, decimal or, after 0x, hexadecimal.
func (s *Scanner) Uint() uint64 {
	start := s.Peek().Start
	text := s.Must(Number)
	v, err := strconv.ParseUint(text, numberBase(text), 64)
	if err != nil {
		s.FailAt(start, "%.40s is no unsigned integer of 64 bits", text)
		return 0
	}
	return v
}

// numberBase returns the base with which strconv accepts 0x, and refuses the other prefixes and underscores.
func numberBase(text string) int {
	if strings.HasPrefix(text, "0x") && !strings.ContainsRune(text, '_') {
		return 0
	}
	return 10
}

// sign uses a minus sign, if there is one.
func (s *Scanner) sign() string {
	if s.Accept("-") {
		return "-"
	}
	return ""
}

// Float reads the output of FormatFloat for the same number of bits, 32 or 64: a decimal or hexadecimal number, inf or
// nan, with its sign, or nan(0x…) with the bits of a float64. For 32 bits the value is that of a float32.
func (s *Scanner) Float(bits int) float64 {
	start, sign := s.Peek().Start, s.sign()
	switch {
	case s.Accept("inf"):
		if sign == "-" {
			return math.Inf(-1)
		}
		return math.Inf(1)
	case sign == "" && s.Accept("nan"):
		if !s.Accept("(") {
			return math.NaN()
		}
		v := math.Float64frombits(s.Uint())
		s.Expect(")")
		if !math.IsNaN(v) {
			s.FailAt(start, "a NaN whose bits are a number's")
		}
		return v
	}
	text := s.Must(Number)
	v, err := strconv.ParseFloat(sign+text, bits)
	if err != nil || strings.ContainsRune(text, '_') {
		s.FailAt(start, "%s%.40s is no number of %d bits", sign, text, bits)
		return 0
	}
	return v
}

// Symbol uses the name of an integer, as sym.Name prints it.
func (s *Scanner) Symbol() sym.Name {
	start := s.Peek().Start
	if s.err != nil {
		return sym.Name{}
	}
	name, n, err := sym.NamePrefix(s.source[start:])
	switch {
	case err != nil:
		s.FailAt(start, "%v", err)
	case n == 0:
		s.Unexpected("expected a name, found %s", s.Found())
	default:
		s.begin, s.at, s.last, s.ready = start, start+n, start+n, false
	}
	return name
}
