package parquet

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"unicode/utf8"

	"github.com/parquet-go/parquet-go/format"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/tensor"
)

// cursor reads a column's chunk row by row.
type cursor struct {
	column *column
	pages  *pages
	page   *page
	entry  int // the next of the page
	value  int // the next of the page

	// The row that is being read.
	repetitions []byte
	data        []byte
	texts       []string
	lacking     error // the reason why it has no value; nil if it has one
}

// newCursor begins at the first row of a chunk.
func newCursor(c *column, file io.ReaderAt, chunk *format.ColumnChunk) (*cursor, error) {
	p, err := newPages(c, file, chunk)
	return &cursor{column: c, pages: p}, err
}

// load goes to the next page that has entries; io.EOF after the last.
func (c *cursor) load() (err error) {
	for c.page == nil || c.entry == c.page.entries {
		if c.page, err = c.pages.next(); err != nil {
			return err
		}
		c.entry, c.value = 0, 0
	}
	return nil
}

// pass passes over rows.
func (c *cursor) pass(rows int64) error {
	for rows > 0 {
		if c.page == nil || c.page.repetitions == nil && c.entry == c.page.entries {
			passed, err := c.pages.pass(rows)
			if err != nil {
				return err
			}
			if rows -= passed; passed > 0 {
				continue
			}
		}
		if _, _, err := c.next(true); err != nil {
			return err
		}
		rows--
	}
	return nil
}

// next reads a row, or only passes over it. The array's first axis is 1. An error in lacks is the row's alone.
func (c *cursor) next(pass bool) (row *tensor.Tensor, lacks, err error) {
	c.repetitions, c.data, c.texts, c.lacking = c.repetitions[:0], c.data[:0], c.texts[:0], nil
	for first := true; ; first = false {
		if err := c.load(); err != nil {
			if err == io.EOF && !first {
				break
			}
			return nil, nil, err
		}
		begin, end := c.entry, c.entry+1
		if r := c.page.repetitions; r != nil {
			switch at := bytes.IndexByte(r[begin+1:], 0); {
			case first && r[begin] != 0:
				return nil, nil, fmt.Errorf("a row that begins with the level %d", r[begin])
			case !first && r[begin] == 0:
				end = begin
			case at < 0:
				end = c.page.entries
			default:
				end = begin + 1 + at
			}
		}
		if end == begin {
			break
		}
		if err := c.take(begin, end, pass); err != nil {
			return nil, nil, err
		}
		if c.entry < c.page.entries || c.page.repetitions == nil {
			break
		}
	}
	if pass {
		return nil, nil, nil
	}
	if c.lacking != nil {
		return nil, c.lacking, nil
	}
	return c.array()
}

// take adds entries of the page to the row.
func (c *cursor) take(begin, end int, pass bool) error {
	p, n := c.page, end-begin
	if p.definitions != nil {
		levels := p.definitions[begin:end]
		if n = count(levels, c.column.whole); n < len(levels) && c.lacking == nil && !pass {
			c.lacking = c.lack(levels)
		}
	}
	first := c.value
	c.entry, c.value = end, first+n
	if pass || c.lacking != nil {
		return nil
	}
	if int64(len(c.data))+int64(n)*int64(max(1, c.column.width)) > largest {
		return diag.Unsupportedf("a row of more than %d bytes", largest)
	}
	if p.repetitions != nil {
		c.repetitions = append(c.repetitions, p.repetitions[begin:end]...)
	}
	if w := c.column.width; w > 0 {
		if p.indexes == nil {
			c.data = append(c.data, p.values.data[first*w:(first+n)*w]...)
			return nil
		}
		for _, i := range p.indexes[first : first+n] {
			c.data = append(c.data, p.values.data[int(i)*w:(int(i)+1)*w]...)
		}
		return nil
	}
	for i := first; i < first+n; i++ {
		at := i
		if p.indexes != nil {
			at = int(p.indexes[i])
		}
		text := p.values.texts[at]
		if !utf8.Valid(text) {
			c.lacking = diag.Inputf("a text that is not UTF-8").AtTensor(c.column.name)
			return nil
		}
		c.texts = append(c.texts, string(text))
	}
	return nil
}

// lack returns why a row with these definition levels has no value.
func (c *cursor) lack(levels []byte) error {
	for _, l := range levels {
		if l != c.column.whole {
			if bytes.IndexByte(c.column.listLevel, l) >= 0 {
				return diag.Inputf("an empty list").AtTensor(c.column.name)
			}
			return diag.Inputf("a null").AtTensor(c.column.name).WithFix("fill or drop nulls before")
		}
	}
	return nil
}

// array returns the row as an array, in memory of its own.
func (c *cursor) array() (row *tensor.Tensor, lacks, err error) {
	shape := []int64{1}
	if c.column.lists > 0 {
		lists := extents(c.repetitions, c.column.lists)
		if lists == nil {
			return nil, diag.Inputf("lists of several lengths").AtTensor(c.column.name), nil
		}
		shape = append(shape, lists...)
	}
	if c.column.width == 0 {
		row, err = tensor.OverStrings(shape, slices.Clone(c.texts))
		return row, nil, err
	}
	if row, err = tensor.New(c.column.dtype, shape...); err != nil {
		return nil, nil, err
	}
	to, size, width := row.Bytes(), c.column.dtype.Size(), c.column.width
	if size == width {
		copy(to, c.data)
		return row, nil, nil
	}
	for i := range len(to) / size { // a small integer is the first bytes of a larger one
		copy(to[i*size:(i+1)*size], c.data[i*width:])
	}
	return row, nil, nil
}

// extents returns the shape of nested lists whose entries have these repetition levels; nil if lists of the same depth
// have several lengths.
func extents(repetitions []byte, depth int) []int64 {
	shape := make([]int64, depth)
	for k := range shape { // the first list of each depth
		shape[k] = 1
		for _, r := range repetitions[1:] {
			if int(r) <= k {
				break
			}
			if int(r) == k+1 {
				shape[k]++
			}
		}
	}
	at := make([]int64, depth) // the position of an entry
	for _, r := range repetitions[1:] {
		k := depth - 1
		for at[k]++; k > 0 && at[k] == shape[k]; at[k]++ {
			at[k] = 0
			k--
		}
		if int(r) != k+1 {
			return nil
		}
	}
	for k := range at {
		if at[k] != shape[k]-1 {
			return nil
		}
	}
	return shape
}
