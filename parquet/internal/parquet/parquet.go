// Package parquet reads the rows of Parquet files for run --each.
//
// The numbers in a file may be lies: a size is compared with the bytes that are there, or with a limit, before memory
// is allocated for it. github.com/parquet-go/parquet-go allocates what a page's header promises, and what a run of a
// few bytes stands for, so this package has only its tables and decoder of metadata, which skim guards, and reads pages
// itself. The memory is that of a page of each column that is read, and of its dictionary.
package parquet

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/offline"
	"github.com/weirml/weir/internal/tensor"
)

// source is the rows of files.
type source struct {
	tables []*table
	rows   int64
	digest string
}

// Open opens files whose rows are elements, in the order of the files.
func Open(names []string) (offline.Source, error) {
	s := &source{}
	h := sha256.New()
	for _, name := range names {
		t, err := open(name)
		if err != nil {
			return nil, err
		}
		digest, err := offline.Digest(name)
		if err != nil {
			return nil, err
		}
		fmt.Fprintln(h, digest)
		s.tables = append(s.tables, t)
		s.rows += t.rows
	}
	s.digest = hex.EncodeToString(h.Sum(nil))
	return s, nil
}

func (s *source) Len() int64     { return s.rows }
func (s *source) Digest() string { return s.digest }

func (s *source) Elements(inputs []string, wanted func(int64) bool) iter.Seq2[offline.Element, error] {
	return func(yield func(offline.Element, error) bool) {
		index := int64(0)
		for _, t := range s.tables {
			more, err := t.elements(inputs, &index, wanted, yield)
			if err != nil {
				yield(offline.Element{}, diag.As(err, diag.ErrInput).AtFile(t.name))
				return
			}
			if !more {
				return
			}
		}
	}
}

// elements yields the rows of a file that are wanted, and counts all in index. more is false if yield wants no more.
func (t *table) elements(inputs []string, index *int64, wanted func(int64) bool,
	yield func(offline.Element, error) bool) (more bool, err error) {
	columns, err := t.pick(inputs)
	if err != nil {
		return false, err
	}
	file, err := mem.Open(t.name)
	if err != nil {
		return false, err
	}
	defer file.Close()
	for g := range t.groups {
		var cursors []*cursor
		passed := int64(0) // rows that are not wanted, before the current one
		for i := range t.groups[g].NumRows {
			if !wanted(*index) {
				passed++
				*index++
				continue
			}
			for _, c := range columns[len(cursors):] {
				opened, err := newCursor(c, file, &t.groups[g].Columns[c.leaf])
				if err != nil {
					return false, diag.As(err, diag.ErrInput).AtTensor(c.name)
				}
				cursors = append(cursors, opened)
			}
			e, err := row(cursors, passed)
			if err != nil {
				if errors.Is(err, io.EOF) {
					err = fmt.Errorf("row group %d promises %d rows, and ends before row %d", g, t.groups[g].NumRows, i+1)
				}
				return false, err
			}
			e.Index = *index
			passed = 0
			*index++
			if !yield(e, nil) {
				return false, nil
			}
		}
	}
	return true, nil
}

// row reads a row of each column, after those that are passed.
func row(cursors []*cursor, passed int64) (e offline.Element, err error) {
	e.Arrays = map[string]*tensor.Tensor{}
	for _, c := range cursors {
		err := c.pass(passed)
		if err == nil {
			var array *tensor.Tensor
			var lacks error
			if array, lacks, err = c.next(false); lacks != nil && e.Err == nil {
				e.Err = lacks
			}
			e.Arrays[c.column.name] = array
		}
		if err != nil {
			return e, diag.As(err, diag.ErrInput).AtTensor(c.column.name)
		}
	}
	return e, nil
}
