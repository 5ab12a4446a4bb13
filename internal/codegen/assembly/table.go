package assembly

import (
	"strconv"
	"strings"
	"sync/atomic"
)

// Table is the forms F of a machine's operations, one a line of a text, whose columns are apart by spaces. The first
// column names the operation; a line that begins with # is a comment. Operations are numbered in the table's order
// after First, and their lines lie together.
type Table[F any] struct {
	text    string
	offsets []uint32
	row     func(forms []F, op int, fields []string) []F
	cache   []atomic.Pointer[[]F]
}

// First are the operations that no table has: none, the binding of a label, and alignment.
var First = [...]string{"NoOp", "LABEL", "ALIGN"}

// NewTable returns a table. offsets are where each operation's lines begin, those of First included; row appends the
// forms that the columns of a line have.
func NewTable[F any](text string, offsets []uint32, row func(forms []F, op int, fields []string) []F) *Table[F] {
	return &Table[F]{text, offsets, row, make([]atomic.Pointer[[]F], len(offsets))}
}

// Forms returns the forms of an operation, which are read at the first use of it.
func (t *Table[F]) Forms(op int) []F {
	if op >= len(t.cache) {
		return nil
	}
	if forms := t.cache[op].Load(); forms != nil {
		return *forms
	}
	var forms []F
	for line := range strings.Lines(t.lines(op)) {
		if fields := strings.Fields(line); len(fields) > 0 && fields[0] != "#" {
			forms = t.row(forms, op, fields)
		}
	}
	t.cache[op].Store(&forms)
	return forms
}

// lines returns the lines of an operation; "" for those of First.
func (t *Table[F]) lines(op int) string {
	if op < len(First) {
		return ""
	}
	end := len(t.text)
	if op+1 < len(t.offsets) {
		end = int(t.offsets[op+1])
	}
	return t.text[t.offsets[op]:end]
}

// Name returns the name of an operation; Op and the number if there is no such operation.
func (t *Table[F]) Name(op int) string {
	switch {
	case op < len(First):
		return First[op]
	case op >= len(t.offsets):
		return "Op(" + strconv.Itoa(op) + ")"
	}
	name, _, _ := strings.Cut(t.lines(op), " ")
	return name
}
