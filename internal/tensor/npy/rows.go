package npy

import (
	"bufio"
	"errors"
	"io"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/tensor"
)

// Rows reads an array row by row, along its first axis, in the memory of one row.
type Rows struct {
	from   *bufio.Reader
	header *header
	left   int64 // rows that are not read
	whole  *tensor.Tensor
}

// NewRows reads the header of an array in r. A column-major array, whose rows lie apart, is read whole.
func NewRows(r io.Reader) (*Rows, error) {
	from := bufio.NewReaderSize(r, 1<<16)
	h, _, err := readHeader(from)
	if err != nil {
		return nil, err
	}
	if len(h.shape) == 0 {
		return nil, diag.Inputf("an array without axes has no rows")
	}
	rows := &Rows{from: from, header: h, left: h.shape[0]}
	if h.fortran && len(h.shape) > 1 {
		rows.whole, err = readArray(from, h, false)
	}
	return rows, err
}

// Len returns the number of rows that are not read.
func (r *Rows) Len() int64 { return r.left }

// Empty reports whether there are rows, and they have no elements.
func (r *Rows) Empty() bool { return r.header.shape[0] > 0 && r.header.count == 0 }

// rowBytes returns the bytes of a row in the file.
func (r *Rows) rowBytes() int64 { return r.header.bytes / max(1, r.header.shape[0]) }

// Skip passes over n rows; io.EOF if there are fewer.
func (r *Rows) Skip(n int64) error {
	if n > r.left {
		return io.EOF
	}
	if r.left -= n; r.whole != nil {
		return nil
	}
	for left := n * r.rowBytes(); left > 0; {
		step, err := r.from.Discard(int(min(left, 1<<30)))
		if left -= int64(step); err != nil {
			return r.ended(err)
		}
	}
	return nil
}

// ended returns the error for data that ends early.
func (r *Rows) ended(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return diag.Inputf("the data ends before the %d rows that its header promises", r.header.shape[0])
	}
	return diag.Inputf("reading the data of an array: %w", err)
}

// Next reads a row, as an array whose first axis has the extent 1; io.EOF after the last.
func (r *Rows) Next() (*tensor.Tensor, error) {
	if r.left == 0 {
		return nil, io.EOF
	}
	r.left--
	if r.whole != nil {
		at := r.header.shape[0] - r.left - 1
		return r.whole.Rows(at, at+1)
	}
	row := *r.header
	row.shape = append([]int64{1}, r.header.shape[1:]...)
	row.count, row.bytes, row.fortran = r.header.count/r.header.shape[0], r.rowBytes(), false
	t, err := readArray(r.from, &row, false)
	if err != nil {
		return nil, r.ended(err)
	}
	return t, nil
}

// readArray reads the data of an array that fits in memory. checked says that the data is known to be there.
func readArray(r io.Reader, h *header, checked bool) (*tensor.Tensor, error) {
	if h.bytes > tensor.MaxBytes() {
		return nil, diag.New(diag.ErrMemory, "an array of %d bytes is more than the %d that are read at once", h.bytes,
			tensor.MaxBytes())
	}
	data, err := readData(r, h, checked)
	if err != nil {
		return nil, err
	}
	if h.dt == dtype.String {
		list, err := h.decodeStrings(data)
		if err != nil {
			return nil, err
		}
		if h.fortran {
			list = transpose(list, h.shape)
		}
		return tensor.OverStrings(h.shape, list)
	}
	h.fixBytes(data)
	if h.fortran {
		data = transposeBytes(data, h)
	}
	return tensor.Over(h.dt, h.shape, data)
}
