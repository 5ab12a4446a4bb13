package memplan

import (
	"cmp"
	"fmt"
	"github.com/weirml/weir/internal/sym"
	"slices"
	"strings"
)

// The largest picture that Text draws.
const (
	pictureRows    = 40
	pictureColumns = 100
)

// marks are the letters of buffers in a picture, by number; they repeat.
const marks = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// Text draws the plan at one binding, for people and for golden tests: the formulas, a line a buffer (those at the
// lowest offset first), and a picture of addresses, growing upward, by steps. A row stands for the bytes from its
// number up to the row above; in a picture too large to draw in full, a cell shows the buffer that covers its first
// byte at its first step.
func (s *Solution) Text(value func(name sym.Name) (int64, bool)) (string, error) {
	c, err := s.Certify(value)
	if err != nil {
		return "", err
	}
	rects, err := s.rectangles(value)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "arena %d bytes = %s\nbound %d bytes = %s\n", c.Arena, s.Arena, c.Bound, s.Bound)
	fmt.Fprintf(&b, "layout %d of %d, found by %s; peak at step %d:", c.Layout+1, len(s.Layouts),
		s.Layouts[c.Layout].Found, c.Step)
	for _, a := range c.Alive {
		fmt.Fprintf(&b, " %s %d", a.Name, a.Bytes)
	}
	b.WriteString("\n\n")
	for i, r := range rects {
		buffer := &s.problem.Buffers[r.buffer]
		kind := ""
		if buffer.Alias != nil {
			kind = " in " + s.problem.Buffers[buffer.Alias.Of].Name
		}
		fmt.Fprintf(&b, "%c %10d %10d  steps %d-%d  %s%s\n", marks[i%len(marks)], r.begin, r.end, buffer.First, buffer.Last,
			buffer.Name, kind)
	}
	b.WriteString("\n")
	drawPicture(&b, rects, s.problem.Steps)
	return b.String(), nil
}

// rectangle is a buffer's steps and bytes at one binding.
type rectangle struct {
	buffer      int
	first, last int
	begin, end  int64
}

// rectangles returns every buffer's rectangle at one binding.
func (s *Solution) rectangles(value func(name sym.Name) (int64, bool)) ([]rectangle, error) {
	names := s.dims.Names()
	values := make([]int64, len(names))
	for i, name := range names {
		// A dimension that no size mentions needs no value.
		r, _ := s.dims.Get(name)
		values[i] = r.Min
		if v, known := value(name); known {
			values[i] = v
		}
	}
	e, err := s.Evaluator(names)
	if err != nil {
		return nil, err
	}
	offsets := make([]int64, len(s.Offsets))
	if _, _, err := e.Eval(values, offsets); err != nil {
		return nil, err
	}
	var list []rectangle
	for i, buffer := range s.problem.Buffers {
		size, err := buffer.Size.Eval(value)
		if err != nil {
			return nil, input(&s.problem.Buffers[i], "size %s: %v", buffer.Size, err)
		}
		list = append(list, rectangle{i, buffer.First, buffer.Last, offsets[i], offsets[i] + size})
	}
	slices.SortStableFunc(list, func(a, b rectangle) int {
		return cmp.Or(cmp.Compare(a.begin, b.begin), cmp.Compare(b.end, a.end), a.first-b.first)
	})
	return list, nil
}

// drawPicture draws the rectangles, addresses growing upward.
func drawPicture(b *strings.Builder, rects []rectangle, steps int) {
	var rows []int64
	for _, r := range rects {
		if r.begin < r.end {
			rows = append(rows, r.begin, r.end)
		}
	}
	slices.Sort(rows)
	rows = slices.Compact(rows)
	if len(rows) == 0 || steps == 0 {
		return
	}
	top := rows[len(rows)-1]
	rows = rows[:len(rows)-1]
	if len(rows) > pictureRows {
		rows = rows[:pictureRows]
		for i := range rows {
			rows[i] = top / pictureRows * int64(i)
		}
	}
	columns := min(steps, pictureColumns)
	fmt.Fprintf(b, "%10d\n", top)
	for i := len(rows) - 1; i >= 0; i-- {
		line := []byte(strings.Repeat(".", columns))
		for n, r := range rects {
			for at := range line {
				if step := at * steps / columns; r.begin <= rows[i] && rows[i] < r.end && r.first <= step && step <= r.last {
					line[at] = marks[n%len(marks)]
				}
			}
		}
		fmt.Fprintf(b, "%10d  %s\n", rows[i], line)
	}
}
