package memplan

import (
	"bufio"
	"encoding/csv"
	"errors"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/sym"
)

// The largest table that ReadCSV reads.
const (
	mostRows     = 1 << 15
	mostCSVBytes = 16 << 20
)

// columns of a table, in the order of a row's numbers; alignment may be missing.
var columns = []string{"lower", "upper", "size", "alignment"}

// ReadCSV reads a problem of numbers from a table in the form of MiniMalloc's benchmarks: a line with the names of the
// columns, then a line for each buffer with its id, the half-open interval of steps [lower, upper) in which it is
// alive, its size and, if there is such a column, its alignment, else 1. Errors are of kind diag.ErrInput and name the
// line.
func ReadCSV(r io.Reader) (Problem, error) {
	limited := &io.LimitedReader{R: r, N: mostCSVBytes}
	buffered := bufio.NewReader(limited)
	if mark, _ := buffered.Peek(3); string(mark) == "\uFEFF" {
		buffered.Discard(len(mark))
	}
	table := csv.NewReader(buffered)
	table.ReuseRecord, table.TrimLeadingSpace = true, true
	fail := func(line int, format string, args ...any) (Problem, error) {
		return Problem{}, diag.Inputf("line "+strconv.Itoa(line)+": "+format, args...)
	}
	broken := func(err error) (Problem, error) {
		if limited.N <= 0 {
			return Problem{}, diag.Inputf("a table of more than %d bytes", mostCSVBytes)
		}
		return Problem{}, diag.Inputf("%v", err).WithCause(err)
	}
	head, err := table.Read()
	if errors.Is(err, io.EOF) {
		return Problem{}, diag.Inputf("the table is empty").WithFix("begin with a line id,lower,upper,size")
	} else if err != nil {
		return broken(err)
	}
	id, position := -1, slices.Repeat([]int{-1}, len(columns))
	for i, name := range head {
		name = strings.ToLower(strings.TrimSpace(name))
		at := &id
		if name != "id" {
			column := slices.Index(columns, name)
			if column < 0 {
				return fail(1, "a column %q; there are id, lower, upper, size and alignment", name)
			}
			at = &position[column]
		}
		if *at >= 0 {
			return fail(1, "the column %s twice", name)
		}
		*at = i
	}
	for i, name := range columns[:3] {
		if id < 0 || position[i] < 0 {
			if id < 0 {
				name = "id"
			}
			return fail(1, "no column %s", name)
		}
	}
	p := Problem{}
	seen := map[string]int{}
	for {
		row, err := table.Read()
		if errors.Is(err, io.EOF) && limited.N > 0 {
			return p, nil
		} else if err != nil {
			return broken(err)
		}
		line, _ := table.FieldPos(0)
		if len(p.Buffers) == mostRows {
			return fail(line, "more than %d buffers, which are more than can be planned", mostRows)
		}
		name := strings.Clone(strings.TrimSpace(row[id]))
		if before, again := seen[name]; again {
			return fail(line, "buffer %q is in line %d already", name, before)
		}
		seen[name] = line
		v := [4]int64{3: 1}
		for i, at := range position {
			if at < 0 {
				continue
			}
			text := strings.TrimSpace(row[at])
			if v[i], err = strconv.ParseInt(text, 10, 64); errors.Is(err, strconv.ErrRange) {
				return fail(line, "%s %.40s is beyond 64 bits", columns[i], text)
			} else if err != nil {
				return fail(line, "%s %.40q is not an integer", columns[i], text)
			}
		}
		lower, upper, size, align := v[0], v[1], v[2], v[3]
		switch {
		case lower < 0 || upper > math.MaxInt32:
			return fail(line, "buffer %q is alive from %d to %d; steps are 0 to %d", name, lower, upper, math.MaxInt32)
		case lower >= upper:
			return fail(line, "buffer %q is never alive: lower %d, upper %d", name, lower, upper)
		case size < 0 || size > limit:
			return fail(line, "buffer %q has size %d, which is not within 0 to %d", name, size, int64(limit))
		case align < 1 || align&(align-1) != 0 || align > limit:
			return fail(line, "buffer %q has an alignment of %d, which is not a power of two", name, align)
		}
		p.Buffers = append(p.Buffers, Buffer{Name: name, Size: sym.Const(size), Align: align, First: int(lower),
			Last: int(upper) - 1})
		p.Steps = max(p.Steps, int(upper))
	}
}
