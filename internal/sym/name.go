package sym

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Name is the name of an integer. Every maker of names has a space of its own, so that two names with the same text
// from different makers are different names: no text that a user writes for a dimension is ever the name of a loop, an
// offset or a count of the compiler's. The zero value is no name.
type Name struct {
	text  string
	space space
}

type space uint8

const (
	_       space = iota
	user          // a dimension as the model or the caller calls it
	made          // a dimension that the compiler made: one that data decide, a part's extent
	bound         // declared in a kernel: a loop's variable, a checked value
	planned       // an offset or a size of a memory plan
	hidden        // of one step of the compiler, in no text
	shown         // what people read, in no text
)

// marks are what texts write before a name, by its space.
var marks = [...]string{user: "", made: "?", bound: "$", planned: "&", hidden: "!", shown: ""}

// nameMarks are the marks that texts may write, one byte each.
const nameMarks = "?$&"

// User returns the name of a dimension that the model or the caller called so. The text may be any string.
func User(text string) Name { return Name{text, user} }

// Made returns the name of a dimension that the compiler made, such as one that data decide: texts write ?text.
func Made(text string) Name { return Name{text, made} }

// Bound returns a name that a kernel declares, for a loop's variable or a checked value: texts write $text.
func Bound(text string) Name { return Name{text, bound} }

// Planned returns the name of an offset or a size of a memory plan: texts write &text.
func Planned(text string) Name { return Name{text, planned} }

// Hidden returns a name that one step of the compiler uses by itself. No text can be read as one.
func Hidden(text string) Name { return Name{text, hidden} }

// Shown returns a name that stands for another in what people read: it is written as it is, without a mark or quotes.
// No text can be read as one.
func Shown(text string) Name { return Name{text, shown} }

// With returns a name of the same space with another text.
func (n Name) With(text string) Name { return Name{text, n.space} }

// Text returns the name without its space: what the maker called it.
func (n Name) Text() string { return n.text }

// None reports whether n is the zero value.
func (n Name) None() bool { return n == Name{} }

// User reports whether n is a dimension as the model or the caller calls it.
func (n Name) User() bool { return n.space == user }

// Made reports whether n is a dimension that the compiler made.
func (n Name) Made() bool { return n.space == made }

// Dimension reports whether n is a dimension: the user's or the compiler's.
func (n Name) Dimension() bool { return n.space == user || n.space == made }

// Bound reports whether n is a name that a kernel declares.
func (n Name) Bound() bool { return n.space == bound }

// Planned reports whether n is a name of a memory plan.
func (n Name) Planned() bool { return n.space == planned }

// String returns the name as texts write it: the mark of its space, and the text, quoted if it is not plain.
func (n Name) String() string {
	if n.space == shown {
		return n.text
	}
	return marks[n.space] + QuoteName(n.text)
}

// Compare orders names: by text, then by space.
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

// Join returns the names as texts write them, with a separator between them.
func Join(names []Name, separator string) string {
	list := make([]string, len(names))
	for i, n := range names {
		list[i] = n.String()
	}
	return strings.Join(list, separator)
}

// NamePrefix reads the name that a text begins with, as String writes it, and returns its length in bytes, 0 if there
// is none.
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

// ParseName reads a whole text as a name.
func ParseName(text string) (Name, bool) {
	n, length, err := NamePrefix(text)
	return n, err == nil && length == len(text) && length > 0
}

// Dim returns the dimension that the model or the caller calls so.
func Dim(text string) Expr { return Var(User(text)) }

// Labels returns what people call dimensions: those of the model by the model's names, and those that the compiler made
// by names that no other dimension has.
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

// mostBound is how many names Bindings lists.
const mostBound = 8

// Bindings says what names stand for, such as "n = 3, k.count = 2 (the count that k (NonZero) finds)": the first eight
// of those that have a value. origins says in words what gives names that the compiler made their values; it is left
// out if the name says it, as an element of a tensor does.
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

// Numbers makes values what Bindings wants.
func Numbers(value func(name Name) (int64, bool)) func(name Name) (said string, ok bool) {
	return func(name Name) (string, bool) {
		v, ok := value(name)
		return strconv.FormatInt(v, 10), ok
	}
}

// Ranges are the ranges of dimensions as Bindings wants values.
func (d *Dims) Ranges(name Name) (said string, ok bool) {
	r, ok := d.Get(name)
	return r.String(), ok
}
