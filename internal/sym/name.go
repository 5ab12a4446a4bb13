package sym

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Name is the name of an integer. Every kind of maker has its own name space, so that names of different makers differ
// even if their strings are equal: a user's dimension can never be a loop, an offset or a count of the compiler's. The
// zero value is no name.
type Name struct {
	text  string
	space space
}

type space uint8

const (
	_       space = iota
	user          // a dimension as the model or the caller names it
	made          // a dimension that the compiler made, such as one that data decide
	bound         // declared in a kernel: a loop's variable or a checked value
	planned       // an offset or a size of a memory plan
	hidden        // used by one step of the compiler; in no text
	shown         // for people to read; in no text
)

// marks has the characters before names in texts, by space.
var marks = [...]string{user: "", made: "?", bound: "$", planned: "&", hidden: "!", shown: ""}

// nameMarks has the marks that texts may have, one byte each.
const nameMarks = "?$&"

// User returns the name of a dimension that the model or the caller named. It may be any string.
func User(text string) Name { return Name{text, user} }

// Made returns the name of a dimension that the compiler made, such as one that data decide: ?name in texts.
func Made(text string) Name { return Name{text, made} }

// Bound returns a name that a kernel declares, for a loop's variable or a checked value: $name in texts.
func Bound(text string) Name { return Name{text, bound} }

// Planned returns the name of an offset or a size of a memory plan: &name in texts.
func Planned(text string) Name { return Name{text, planned} }

// Hidden returns a name that a single step of the compiler uses. Texts cannot have it.
func Hidden(text string) Name { return Name{text, hidden} }

// Shown returns a name for people to read: it is printed as it is, without a mark or quotes. Texts cannot have it.
func Shown(text string) Name { return Name{text, shown} }

// With returns another name of the same space.
func (n Name) With(text string) Name { return Name{text, n.space} }

// Text returns the name without its space, as its maker gave it.
func (n Name) Text() string { return n.text }

// None reports whether n is the zero value.
func (n Name) None() bool { return n == Name{} }

// User reports whether n is a dimension that the model or the caller named.
func (n Name) User() bool { return n.space == user }

// Made reports whether n is a dimension that the compiler made.
func (n Name) Made() bool { return n.space == made }

// Dimension reports whether n is a dimension: the user's or the compiler's.
func (n Name) Dimension() bool { return n.space == user || n.space == made }

// Bound reports whether n is a name that a kernel declares.
func (n Name) Bound() bool { return n.space == bound }

// Planned reports whether n is a name of a memory plan.
func (n Name) Planned() bool { return n.space == planned }

// String returns the name as in texts: the mark of its space, and the name, quoted if necessary.
func (n Name) String() string {
	if n.space == shown {
		return n.text
	}
	return marks[n.space] + QuoteName(n.text)
}

// Compare orders names: by their strings, then by space.
func (n Name) Compare(o Name) int {
	if c := strings.Compare(n.text, o.text); c != 0 {
		return c
	}
	return cmp.Compare(n.space, o.space)
}

// Sorted returns the names of a set in order.
func Sorted(names map[Name]bool) []Name {
	list := make([]Name, 0, len(names))
	for n := range names {
		list = append(list, n)
	}
	slices.SortFunc(list, Name.Compare)
	return list
}

// Join returns the names as in texts, with a separator between them.
func Join(names []Name, separator string) string {
	list := make([]string, len(names))
	for i, n := range names {
		list[i] = n.String()
	}
	return strings.Join(list, separator)
}

// NamePrefix parses the name at the beginning of a text, as String prints it, and returns its length in bytes, 0 if
// there is none.
func NamePrefix(text string) (n Name, length int, err error) {
	n.space = user
	rest := text
	for s := made; s <= planned; s++ {
		if strings.HasPrefix(text, marks[s]) {
			n.space, rest = s, text[len(marks[s]):]
			break
		}
	}
	start := len(text) - len(rest)
	if strings.HasPrefix(rest, `"`) {
		quoted, err := strconv.QuotedPrefix(rest)
		if err != nil {
			return Name{}, 0, fmt.Errorf("a quoted name that does not end")
		}
		if n.text, err = strconv.Unquote(quoted); err != nil {
			return Name{}, 0, fmt.Errorf("a quoted name that cannot be read")
		}
		return n, start + len(quoted), nil
	}
	length = nameLength(rest)
	if length == 0 {
		return Name{}, 0, nil
	}
	n.text = rest[:length]
	return n, start + length, nil
}

// ParseName parses a text that consists of a name.
func ParseName(text string) (Name, bool) {
	n, length, err := NamePrefix(text)
	return n, err == nil && length == len(text) && length > 0
}

// Dim returns the dimension that the model or the caller named.
func Dim(text string) Expr { return Var(User(text)) }

// Labels returns the names of dimensions for people: the model's dimensions have the model's names, and those that the
// compiler made have names that no other dimension has.
func Labels(dims []Name) map[Name]string {
	of, taken := map[Name]string{}, map[string]bool{}
	for _, made := range []bool{false, true} {
		for _, name := range dims {
			if name.Made() != made {
				continue
			}
			label := name.Text()
			for taken[label] {
				label += "'"
			}
			of[name], taken[label] = label, true
		}
	}
	return of
}

// mostBound is the most names that Bindings lists.
const mostBound = 8

// Bindings describes the values of names, such as "n = 3, k.count = 2 (the count that k (NonZero) finds)", for the
// first eight names that have one. origins describes how names that the compiler made get their values; it is omitted
// if the name tells, as that of a tensor's element does.
func Bindings(names []Name, labels, origins map[Name]string, value func(name Name) (said string, ok bool)) string {
	var list []string
	for _, name := range names {
		said, ok := value(name)
		if !ok || len(list) == mostBound {
			continue
		}
		if origin := origins[name]; origin != "" && !strings.HasSuffix(name.Text(), "]") {
			said += " (" + origin + ")"
		}
		list = append(list, Var(name).Shown(labels).String()+" = "+said)
	}
	return strings.Join(list, ", ")
}

// Numbers returns values as Bindings takes them.
func Numbers(value func(name Name) (int64, bool)) func(name Name) (said string, ok bool) {
	return func(name Name) (string, bool) {
		v, ok := value(name)
		return strconv.FormatInt(v, 10), ok
	}
}

// Ranges returns the ranges of dimensions as Bindings takes values.
func (d *Dims) Ranges(name Name) (said string, ok bool) {
	r, ok := d.Get(name)
	return r.String(), ok
}
