package pattern

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/weirml/weir/internal/diag"
)

// Limits of a pattern: a hostile one is refused before it takes more.
const (
	maxSource = 1 << 16 // bytes of a pattern
	maxDepth  = 200     // groups within each other
	maxRepeat = 100000  // as in the reference
)

// kind is the kind of a node of the syntax tree.
type kind uint8

const (
	kindEmpty  kind = iota
	kindSet         // one character of set
	kindCat         // sub in sequence
	kindAlt         // the first of sub that leads to a match
	kindRepeat      // sub[0], min to max times; max < 0: without bound
	kindAtomic      // sub[0], whose first match stands
	kindLook        // sub[0] matches, or does not, after or before this place
	kindAssert      // a place
)

// node is a node of the syntax tree.
type node struct {
	kind     kind
	set      set
	sub      []*node
	min, max int
	lazy     bool
	behind   bool // of a look
	negative bool // of a look
	assert   byte // the letter of the place: A z Z b B, or ^ or $
	single   rune // the character of a literal that is matched without regard to case, else -1
}

// options are the options that (?imx) set.
type options struct{ fold, dotAll, extended bool }

type parser struct {
	source string
	at     int
	depth  int
}

// unsupported returns the error for syntax that the reference has and this package lacks.
func (p *parser) unsupported(what string) error {
	return &diag.Error{Kind: diag.ErrUnsupported, Op: "regular expression",
		Detail: fmt.Sprintf("%s, at byte %d of %q, is not supported", what, p.at, short(p.source))}
}

// fault returns the error for a malformed pattern.
func (p *parser) fault(what string) error {
	return &diag.Error{Kind: diag.ErrInput, Op: "regular expression",
		Detail: fmt.Sprintf("%s, at byte %d of %q", what, p.at, short(p.source))}
}

// short returns at most 200 bytes of a pattern, for an error.
func short(source string) string {
	if len(source) > 200 {
		return source[:200]
	}
	return source
}

// parse returns the syntax tree of source.
func parse(source string) (*node, error) {
	p := &parser{source: source}
	if len(source) > maxSource {
		return nil, p.fault(fmt.Sprintf("a pattern of %d bytes is longer than %d", len(source), maxSource))
	}
	if !utf8.ValidString(source) {
		return nil, p.fault("the pattern is not UTF-8")
	}
	n, err := p.alternatives(options{})
	if err != nil {
		return nil, err
	}
	if p.at < len(source) {
		return nil, p.fault("a parenthesis closes no group")
	}
	return n, nil
}

func (p *parser) more() bool { return p.at < len(p.source) }

// peek returns the next character, or -1 at the end.
func (p *parser) peek() rune {
	if !p.more() {
		return -1
	}
	r, _ := utf8.DecodeRuneInString(p.source[p.at:])
	return r
}

// next returns the next character and moves past it; -1 at the end.
func (p *parser) next() rune {
	if !p.more() {
		return -1
	}
	r, size := utf8.DecodeRuneInString(p.source[p.at:])
	p.at += size
	return r
}

// take moves past prefix if the rest begins with it.
func (p *parser) take(prefix string) bool {
	if strings.HasPrefix(p.source[p.at:], prefix) {
		p.at += len(prefix)
		return true
	}
	return false
}

// alternatives parses up to a closing parenthesis or the end.
func (p *parser) alternatives(o options) (*node, error) {
	p.depth++
	defer func() { p.depth-- }()
	if p.depth > maxDepth {
		return nil, p.fault(fmt.Sprintf("more than %d groups lie within each other", maxDepth))
	}
	var alts []*node
	for {
		n, err := p.sequence(o)
		if err != nil {
			return nil, err
		}
		alts = append(alts, n)
		if !p.take("|") {
			break
		}
	}
	if len(alts) == 1 {
		return alts[0], nil
	}
	return &node{kind: kindAlt, sub: alts}, nil
}

// sequence parses up to a bar, a closing parenthesis or the end.
func (p *parser) sequence(o options) (*node, error) {
	out := &node{kind: kindCat}
	for p.more() && p.peek() != '|' && p.peek() != ')' {
		skipped, err := p.skip(o)
		if err != nil {
			return nil, err
		}
		if skipped {
			continue
		}
		n, whole, err := p.atom(o)
		if err != nil {
			return nil, err
		}
		if whole {
			out.sub = append(out.sub, n)
			break
		}
		if n, err = p.quantified(n, o); err != nil {
			return nil, err
		}
		if k := len(out.sub); k > 0 && o.fold && n.single >= 0 && out.sub[k-1].single >= 0 &&
			n.kind == kindSet && out.sub[k-1].kind == kindSet &&
			unicodeTables().pairs[[2]rune{folded(out.sub[k-1].single), folded(n.single)}] {
			return nil, p.unsupported(fmt.Sprintf("the folding of %q", string([]rune{out.sub[k-1].single, n.single})))
		}
		out.sub = append(out.sub, n)
	}
	if len(out.sub) == 1 {
		return out.sub[0], nil
	}
	return out, nil
}

// skip moves past a comment, and past a space if the pattern is extended.
func (p *parser) skip(o options) (skipped bool, err error) {
	switch {
	case p.take("(?#"):
		for p.more() {
			switch p.next() {
			case '\\':
				p.next()
			case ')':
				return true, nil
			}
		}
		return false, p.fault("a comment does not end")
	case o.extended && p.more() && strings.IndexByte(" \t\n\v\f\r", p.source[p.at]) >= 0:
		p.at++
		return true, nil
	case o.extended && p.take("#"):
		for p.more() && p.next() != '\n' {
		}
		return true, nil
	}
	return false, nil
}

// atom parses one element. Whole says that it is the rest of the enclosing group, as after (?i).
func (p *parser) atom(o options) (n *node, whole bool, err error) {
	switch r := p.next(); r {
	case '(':
		return p.group(o)
	case '[':
		s, err := p.class(o, 0)
		return &node{kind: kindSet, set: s, single: -1}, false, err
	case '.':
		s := everything
		if !o.dotAll {
			s = set{{'\n', '\n'}}.not()
		}
		return &node{kind: kindSet, set: s, single: -1}, false, nil
	case '^', '$':
		return &node{kind: kindAssert, assert: byte(r), single: -1}, false, nil
	case '*', '+', '?':
		return nil, false, p.fault("nothing stands before a quantifier")
	case '\\':
		n, err := p.escape(o)
		return n, false, err
	case '{':
		p.at--
		if _, _, _, found, err := p.quantifier(); found || err != nil {
			return nil, false, p.fault("nothing stands before a quantifier")
		}
		p.at++
		n, err := p.literal(r, o)
		return n, false, err
	default:
		n, err := p.literal(r, o)
		return n, false, err
	}
}

// literal returns the node of one character.
func (p *parser) literal(r rune, o options) (*node, error) {
	n := &node{kind: kindSet, set: set{{r, r}}, single: -1}
	if o.fold {
		var several bool
		if n.set, several = n.set.fold(); several {
			return nil, p.unsupported(fmt.Sprintf("the folding of %q", r))
		}
		n.single = r
	}
	return n, nil
}

// group parses what follows an opening parenthesis.
func (p *parser) group(o options) (n *node, whole bool, err error) {
	wrap := func(n *node) *node { return n }
	if p.take("?") {
		look := func(behind, negative bool) func(n *node) *node {
			return func(n *node) *node {
				return &node{kind: kindLook, sub: []*node{n}, behind: behind, negative: negative, single: -1}
			}
		}
		switch {
		case p.take(":"):
		case p.take("="):
			wrap = look(false, false)
		case p.take("!"):
			wrap = look(false, true)
		case p.take("<="):
			wrap = look(true, false)
		case p.take("<!"):
			wrap = look(true, true)
		case p.take(">"):
			wrap = func(n *node) *node { return &node{kind: kindAtomic, sub: []*node{n}, single: -1} }
		case strings.HasPrefix(p.source[p.at:], "<"), strings.HasPrefix(p.source[p.at:], "'"):
			return nil, false, p.unsupported("a named group")
		default:
			if o, whole, err = p.options(o); err != nil {
				return nil, false, err
			}
			if whole {
				n, err := p.alternatives(o)
				return n, true, err
			}
		}
	} else if strings.HasPrefix(p.source[p.at:], "*") {
		return nil, false, p.fault("nothing stands before a quantifier")
	}
	if n, err = p.alternatives(o); err != nil {
		return nil, false, err
	}
	if !p.take(")") {
		return nil, false, p.fault("a group does not end")
	}
	if n = wrap(n); n.kind == kindSet {
		n = &node{kind: kindCat, sub: []*node{n}, single: -1}
	}
	return n, false, nil
}

// options parses (?imx-imx) and (?imx-imx: up to the parenthesis or the colon. Whole says that it was a parenthesis.
func (p *parser) options(o options) (out options, whole bool, err error) {
	on := true
	for p.more() {
		switch p.next() {
		case 'i':
			o.fold = on
		case 'm':
			o.dotAll = on
		case 'x':
			o.extended = on
		case '-':
			on = false
		case ':':
			return o, false, nil
		case ')':
			return o, true, nil
		case '~', '(':
			return o, false, p.unsupported("this kind of group")
		case 'W', 'D', 'S', 'P', 'y':
			return o, false, p.unsupported("this option of a group")
		default:
			return o, false, p.fault("a group has an unknown option")
		}
	}
	return o, false, p.fault("a group does not end")
}

// quantified parses the quantifiers after n.
func (p *parser) quantified(n *node, o options) (*node, error) {
	for i := 0; ; i++ {
		for {
			if skipped, err := p.skip(o); err != nil {
				return nil, err
			} else if !skipped {
				break
			}
		}
		low, high, interval, found, err := p.quantifier()
		if err != nil || !found {
			return n, err
		}
		if n.kind == kindAssert || n.kind == kindLook {
			return nil, p.unsupported("a quantifier of a place")
		}
		if i > 8 {
			return nil, p.unsupported("a quantifier of a quantifier, nine times")
		}
		r := &node{kind: kindRepeat, sub: []*node{n}, min: low, max: high, single: -1}
		n = r
		switch {
		case interval && low == high: // {n}? is (?:{n})?
		case p.take("?"):
			r.lazy = true
		case !interval && p.take("+"):
			n = &node{kind: kindAtomic, sub: []*node{r}, single: -1}
		}
	}
}

// quantifier parses * + ? or {n,m}.
func (p *parser) quantifier() (low, high int, interval, found bool, err error) {
	switch p.peek() {
	case '*':
		p.at++
		return 0, -1, false, true, nil
	case '+':
		p.at++
		return 1, -1, false, true, nil
	case '?':
		p.at++
		return 0, 1, false, true, nil
	case '{':
		start := p.at
		p.at++
		low, gotLow := p.number()
		high, gotHigh := low, gotLow
		if p.take(",") {
			if high, gotHigh = p.number(); !gotHigh {
				high = -1
			}
			if !gotLow {
				low = 0
				gotLow = gotHigh
			}
		}
		if !gotLow || !p.take("}") {
			p.at = start
			return 0, 0, false, false, nil
		}
		if low > maxRepeat || high > maxRepeat {
			return 0, 0, false, false, p.fault(fmt.Sprintf("a quantifier repeats more than %d times", maxRepeat))
		}
		if high >= 0 && low > high {
			return 0, 0, false, false, p.unsupported("a quantifier whose bounds are swapped")
		}
		return low, high, true, true, nil
	}
	return 0, 0, false, false, nil
}

// number parses digits; a great number is returned as one above maxRepeat.
func (p *parser) number() (n int, found bool) {
	for p.more() && p.source[p.at] >= '0' && p.source[p.at] <= '9' {
		n = min(n*10+int(p.source[p.at]-'0'), maxRepeat+1)
		p.at++
		found = true
	}
	return n, found
}
