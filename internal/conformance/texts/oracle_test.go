package texts

import (
	"fmt"
	"math/big"
	"regexp"
	"strings"
)

// oracle interprets the memory of a text for given values of the dimensions: storages are arrays of bytes, each of
// which belongs to one tensor or to none. It shares no code with the compiler, and knows only the statements that the
// texts of these tests use, one a line.
type oracle struct {
	dims     map[string]*big.Int
	names    []string
	ranges   map[string][2]int64
	requires []string
	body     []string
}

var (
	oracleDim     = regexp.MustCompile(`^dim (\w+) in \[(\d+), (\w+)\]`)
	oracleRequire = regexp.MustCompile(`^require (.*) from "`)
	oracleStorage = regexp.MustCompile(`^storage (%\w+): (.*) bytes(?: align (\d+))?$`)
	oracleNode    = regexp.MustCompile(
		`^(%\w+): (\w+)\[(.*?)\] = (\w+)\(([^)]*)\)(?: \{.*?\})?(?: carve (%\w+)(?: at (.*?))?)?( region \(\) \{)?$`)
	oracleRelease = regexp.MustCompile(`^release (%\w+)$`)
	oracleAssert  = regexp.MustCompile(`^assert (.*) "`)
	oracleReturn  = regexp.MustCompile(`^return ?(.*)$`)
)

// newOracle parses a text.
func newOracle(source string) *oracle {
	o := &oracle{dims: map[string]*big.Int{}, ranges: map[string][2]int64{}}
	inside := false
	for _, line := range strings.Split(source, "\n") {
		line = strings.TrimSpace(line)
		if m := oracleDim.FindStringSubmatch(line); m != nil {
			lo, hi := int64(0), int64(64)
			fmt.Sscan(m[2], &lo)
			if m[3] != "inf" {
				fmt.Sscan(m[3], &hi)
			}
			o.names, o.ranges[m[1]] = append(o.names, m[1]), [2]int64{lo, min(hi, 64)}
		} else if m := oracleRequire.FindStringSubmatch(line); m != nil {
			o.requires = append(o.requires, m[1])
		} else if strings.HasPrefix(line, "main ") {
			inside = true
		} else if inside && line != "" && line[0] != '#' {
			o.body = append(o.body, line)
		}
	}
	return o
}

// each calls f for every value of the dimensions up to 64 that the text's own requirements admit.
func (o *oracle) each(f func()) {
	var bind func(i int)
	bind = func(i int) {
		if i == len(o.names) {
			for _, r := range o.requires {
				if !o.holds(r) {
					return
				}
			}
			f()
			return
		}
		for v := o.ranges[o.names[i]][0]; v <= o.ranges[o.names[i]][1]; v++ {
			o.dims[o.names[i]] = big.NewInt(v)
			bind(i + 1)
		}
	}
	bind(0)
}

// holds reports whether a condition holds.
func (o *oracle) holds(cond string) bool {
	if a, b, ok := strings.Cut(cond, " or "); ok {
		return o.holds(a) || o.holds(b)
	}
	if a, b, ok := strings.Cut(cond, " and "); ok {
		return o.holds(a) && o.holds(b)
	}
	for _, rel := range []string{"<=", ">=", "==", "!="} {
		if a, b, ok := strings.Cut(cond, rel); ok {
			c := o.value(a).Cmp(o.value(b))
			return map[string]bool{"<=": c <= 0, ">=": c >= 0, "==": c == 0, "!=": c != 0}[rel]
		}
	}
	panic("no relation in " + cond)
}

// value evaluates an expression.
func (o *oracle) value(text string) *big.Int {
	p := &oracleParser{o: o, text: strings.TrimSpace(text)}
	v := p.sum()
	if p.text != "" {
		panic("left of " + text + ": " + p.text)
	}
	return v
}

type oracleParser struct {
	o    *oracle
	text string
}

// accept skips mark, if it comes next, and reports whether it did.
func (p *oracleParser) accept(mark string) bool {
	p.text = strings.TrimSpace(p.text)
	if strings.HasPrefix(p.text, mark) {
		p.text = strings.TrimSpace(p.text[len(mark):])
		return true
	}
	return false
}

// sum parses terms joined by + and -.
func (p *oracleParser) sum() *big.Int {
	v := p.product()
	for {
		if p.accept("+") {
			v = new(big.Int).Add(v, p.product())
		} else if p.accept("-") {
			v = new(big.Int).Sub(v, p.product())
		} else {
			return v
		}
	}
}

// product parses factors from left to right. Division and remainder round down; the divisor is positive.
func (p *oracleParser) product() *big.Int {
	v := p.atom()
	for {
		switch {
		case p.accept("//"):
			d := p.atom()
			q, m := new(big.Int).DivMod(v, d, new(big.Int))
			_ = m
			v = q
		case p.accept("*"):
			v = new(big.Int).Mul(v, p.atom())
		case p.accept("%"):
			v = new(big.Int).Mod(v, p.atom())
		default:
			return v
		}
	}
}

// atom parses a number, a dimension, a function or an expression in parentheses.
func (p *oracleParser) atom() *big.Int {
	switch {
	case p.accept("-"):
		return new(big.Int).Neg(p.atom())
	case p.accept("("):
		v := p.sum()
		p.accept(")")
		return v
	}
	word := regexp.MustCompile(`^\w+`).FindString(p.text)
	p.text = strings.TrimSpace(p.text[len(word):])
	if word == "max" || word == "min" {
		p.accept("(")
		v := p.sum()
		for p.accept(",") {
			if w := p.sum(); (w.Cmp(v) > 0) == (word == "max") {
				v = w
			}
		}
		p.accept(")")
		return v
	}
	if v, ok := p.o.dims[word]; ok {
		return v
	}
	v, ok := new(big.Int).SetString(word, 10)
	if !ok {
		panic("what is " + word + "?")
	}
	return v
}

// space is a storage, with the tensor that each byte belongs to.
type space struct {
	bytes []string
	align int64
	ended bool
}

// world is the state of memory at one line of the text.
type world struct {
	spaces map[string]*space
	carved map[string]string // the storage of a carved tensor
	in     map[string]string // the tensor in whose memory a tensor lies; itself if it is carved
	gone   map[string]bool   // released
}

// clone returns a deep copy.
func (w *world) clone() *world {
	c := &world{map[string]*space{}, map[string]string{}, map[string]string{}, map[string]bool{}}
	for k, v := range w.spaces {
		c.spaces[k] = &space{append([]string(nil), v.bytes...), v.align, v.ended}
	}
	for k, v := range w.carved {
		c.carved[k] = v
	}
	for k, v := range w.in {
		c.in[k] = v
	}
	for k, v := range w.gone {
		c.gone[k] = v
	}
	return c
}

// legal reports whether the text is valid for the present dimensions, whichever branch of an if is taken.
func (o *oracle) legal() bool {
	rest, ok := o.block(o.body, &world{map[string]*space{}, map[string]string{}, map[string]string{}, map[string]bool{}},
		0)
	return ok && len(rest) <= 2
}

var oracleBits = map[string]int64{"f32": 32, "f64": 64, "i32": 32, "i64": 64, "u8": 8, "u4": 4, "bool": 8, "f16": 16}

// block interprets statements up to the closing bracket, and returns the lines after it.
func (o *oracle) block(lines []string, w *world, depth int) (rest []string, ok bool) {
	for len(lines) > 0 {
		line := lines[0]
		lines = lines[1:]
		if m := oracleStorage.FindStringSubmatch(line); m != nil {
			size := o.value(m[2])
			if size.Sign() < 0 || !size.IsInt64() || size.Int64() > 1<<24 {
				return nil, false
			}
			align := int64(64)
			if m[3] != "" {
				fmt.Sscan(m[3], &align)
			}
			w.spaces[m[1]] = &space{bytes: make([]string, size.Int64()), align: align}
		} else if m := oracleRelease.FindStringSubmatch(line); m != nil {
			if !w.release(m[1]) {
				return nil, false
			}
		} else if m := oracleAssert.FindStringSubmatch(line); m != nil {
			if !o.holds(m[1]) {
				return nil, false
			}
		} else if m := oracleReturn.FindStringSubmatch(line); m != nil {
			for _, v := range strings.Split(m[1], ", ") {
				if !w.usable(v) {
					return nil, false
				}
			}
		} else if strings.HasPrefix(line, "}") {
			return append([]string{line}, lines...), true
		} else if m := oracleNode.FindStringSubmatch(line); m != nil {
			for _, v := range strings.Split(m[5], ", ") {
				if !w.usable(v) {
					return nil, false
				}
			}
			if m[6] != "" && !o.carve(w, m[1], m[2], m[3], m[6], m[7]) {
				return nil, false
			}
			if m[8] != "" {
				if lines, ok = o.branches(lines, w, depth); !ok {
					return nil, false
				}
			} else if x := strings.Split(m[5], ", ")[0]; m[6] == "" && (m[4] == "reshape" || m[4] == "slice") && w.in[x] != "" {
				w.in[m[1]] = w.in[x]
			}
		} else {
			panic("the oracle does not know: " + line)
		}
	}
	return nil, true
}

// branches interprets both bodies of an if, each from the world before it.
func (o *oracle) branches(lines []string, w *world, depth int) (rest []string, ok bool) {
	first, second := w.clone(), w.clone()
	lines, ok = o.block(lines, first, depth+1)
	if !ok || !strings.HasPrefix(lines[0], "} region") {
		return nil, false
	}
	lines, ok = o.block(lines[1:], second, depth+1)
	if !ok {
		return nil, false
	}
	for v := range w.carved {
		if first.gone[v] != second.gone[v] {
			return nil, false
		}
		if first.gone[v] && !w.gone[v] && !w.release(v) {
			return nil, false
		}
	}
	for s := range w.spaces {
		if first.spaces[s].ended != second.spaces[s].ended {
			return nil, false
		}
		w.spaces[s].ended = first.spaces[s].ended
	}
	return lines[1:], true
}

// usable reports whether the bytes of a value are still its own.
func (w *world) usable(v string) bool {
	root := w.in[v]
	return root == "" || !w.gone[root]
}

// release ends a storage or a carved tensor. It reports false if it is not live.
func (w *world) release(name string) bool {
	if s := w.spaces[name]; s != nil {
		if s.ended {
			return false
		}
		for v, of := range w.carved {
			if of == name {
				w.gone[v] = true
			}
		}
		s.ended = true
		return true
	}
	if w.carved[name] == "" || w.gone[name] {
		return false
	}
	w.gone[name] = true
	s := w.spaces[w.carved[name]]
	for i, owner := range s.bytes {
		if owner == name {
			s.bytes[i] = ""
		}
	}
	return true
}

// carve places a tensor in a storage. It reports false if it does not fit or overlaps another tensor.
func (o *oracle) carve(w *world, name, dt, shape, storage, at string) bool {
	s := w.spaces[storage]
	if s == nil || s.ended {
		return false
	}
	bits := oracleBits[dt]
	total := big.NewInt(bits)
	for depth, start, i := 0, 0, 0; i <= len(shape) && shape != ""; i++ {
		if i == len(shape) || shape[i] == ',' && depth == 0 {
			e := o.value(shape[start:i])
			if e.Sign() < 0 {
				return false
			}
			total.Mul(total, e)
			start = i + 1
		} else if shape[i] == '(' {
			depth++
		} else if shape[i] == ')' {
			depth--
		}
	}
	size := new(big.Int).Div(new(big.Int).Add(total, big.NewInt(7)), big.NewInt(8))
	begin := big.NewInt(0)
	if at != "" {
		begin = o.value(at)
	}
	unit := max(bits/8, 1)
	end := new(big.Int).Add(begin, size)
	if begin.Sign() < 0 || s.align < unit || new(big.Int).Mod(begin, big.NewInt(unit)).Sign() != 0 ||
		end.Cmp(big.NewInt(int64(len(s.bytes)))) > 0 {
		return false
	}
	for i := begin.Int64(); i < end.Int64(); i++ {
		if s.bytes[i] != "" {
			return false
		}
		s.bytes[i] = name
	}
	w.carved[name], w.in[name] = storage, name
	delete(w.gone, name)
	return true
}
