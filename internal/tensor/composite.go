package tensor

import (
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
)

// A tensor of strings can be represented by two tensors of numbers: spans, an i64 for each string, offset << 32 |
// length in bytes, and the pool of bytes that the spans refer to. Spans may overlap, and the bytes have no meaning
// here.
//
// A sequence of tensors of one element type can be represented by two tensors as well: the elements of all tensors, one
// after another, and the extents, a row of 1 + SequenceRank for each tensor: its rank, its extents, zeros. The elements
// of a sequence of strings are spans, and a pool follows.

// MaxPool is the most bytes that a pool of strings may hold, so that an offset in a span stays positive.
const MaxPool = 1<<31 - 1

// SequenceRank is the most axes that a tensor in a packed sequence may have.
const SequenceRank = 7

// Allocate makes a tensor; New is such a function.
type Allocate func(dt dtype.DType, shape ...int64) (*Tensor, error)

// Span packs the offset and the length of a string in its pool into one element.
func Span(offset, length int64) int64 { return offset<<32 | length }

// StringAt returns string i, as a subslice of the pool. A span outside of the pool is an ErrInput.
func StringAt(spans *Tensor, pool []byte, i int64) ([]byte, error) {
	span := uint64(spans.Int(i))
	from, size, total := span>>32, span&(1<<32-1), uint64(len(pool))
	if from > total || size > total-from {
		return nil, diag.Inputf("string %d lies at byte %d with %d bytes, and there are %d bytes of strings", i, from,
			size, total)
	}
	return pool[from : from+size], nil
}

// PackStrings returns the spans of each tensor of strings, and one pool for all of them.
func PackStrings(allocate Allocate, list ...*Tensor) (spans []*Tensor, pool *Tensor, err error) {
	total := int64(0)
	for _, t := range list {
		for _, s := range t.strings {
			if total += int64(len(s)); total > MaxPool {
				return nil, nil, diag.Inputf("strings of more than %d bytes", int64(MaxPool))
			}
		}
	}
	if pool, err = allocate(dtype.U8, total); err != nil {
		return nil, nil, err
	}
	at := int64(0)
	for _, t := range list {
		s, err := allocate(dtype.I64, t.shape...)
		if err != nil {
			return nil, nil, err
		}
		for i, element := range t.strings {
			s.SetInt(int64(i), Span(at, int64(len(element))))
			at += int64(copy(pool.data[at:], element))
		}
		spans = append(spans, s)
	}
	return spans, pool, nil
}

// UnpackStrings returns the tensor of strings that spans and a pool represent; it copies the strings.
func UnpackStrings(spans *Tensor, pool []byte) (*Tensor, error) {
	out := make([]string, spans.count)
	for i := range out {
		s, err := StringAt(spans, pool, int64(i))
		if err != nil {
			return nil, err
		}
		out[i] = string(s)
	}
	return OverStrings(spans.shape, out)
}

// PackSequence returns the elements and the extents of a sequence of tensors of type dt, which must be a type of
// numbers.
func PackSequence(allocate Allocate, dt dtype.DType, list ...*Tensor) (elements, extents *Tensor, err error) {
	total := int64(0)
	for i, t := range list {
		switch {
		case t.dt != dt:
			return nil, nil, diag.Inputf("tensor %d of the sequence is %s, it must be %s", i, t.dt, dt)
		case len(t.shape) > SequenceRank:
			return nil, nil, diag.Unsupportedf("tensor %d of the sequence has rank %d; a sequence's may have %d axes", i,
				len(t.shape), SequenceRank)
		}
		total += t.count
	}
	if dt.Bits()%8 != 0 {
		return nil, nil, diag.Unsupportedf("a sequence of tensors of %s, whose elements are smaller than a byte", dt)
	}
	if elements, err = allocate(dt, total); err != nil {
		return nil, nil, err
	}
	if extents, err = allocate(dtype.I64, int64(len(list)), 1+SequenceRank); err != nil {
		return nil, nil, err
	}
	at := 0
	for i, t := range list {
		at += copy(elements.data[at:], t.contents())
		SetSequenceShape(extents, int64(i), t.shape)
	}
	return elements, extents, nil
}

// SetSequenceShape writes the shape of tensor i into a sequence's extents.
func SetSequenceShape(extents *Tensor, i int64, shape []int64) {
	row := i * (1 + SequenceRank)
	extents.SetInt(row, int64(len(shape)))
	for axis := range SequenceRank {
		size := int64(0)
		if axis < len(shape) {
			size = shape[axis]
		}
		extents.SetInt(row+1+int64(axis), size)
	}
}

// SequenceTensor returns the shape of tensor i of a sequence, and the index at which it begins among the elements. It
// reads the rows of the tensors before it. Extents that are impossible, or exceed the total number of elements, are an
// ErrInput.
func SequenceTensor(extents *Tensor, total, i int64) (shape []int64, begin int64, err error) {
	for k := int64(0); ; k++ {
		row := k * (1 + SequenceRank)
		rank := extents.Int(row)
		if rank < 0 || rank > SequenceRank {
			return nil, 0, diag.Inputf("tensor %d of the sequence has rank %d", k, rank)
		}
		var buffer [SequenceRank]int64
		for axis := range rank {
			buffer[axis] = extents.Int(row + 1 + axis)
		}
		size, err := Count(buffer[:rank])
		if err != nil {
			return nil, 0, err
		}
		if size > total-begin {
			return nil, 0, diag.Inputf("tensor %d of the sequence has %d elements, where %d are left", k, size, total-begin)
		}
		if k == i {
			return append([]int64{}, buffer[:rank]...), begin, nil
		}
		begin += size
	}
}

// UnpackSequence returns the tensors of a sequence, as views of the elements.
func UnpackSequence(elements, extents *Tensor) ([]*Tensor, error) {
	if len(extents.shape) != 2 || extents.shape[1] != 1+SequenceRank || len(elements.shape) != 1 {
		return nil, diag.Inputf("a sequence of extents %s and elements %s", ShapeString(extents.shape),
			ShapeString(elements.shape))
	}
	list := make([]*Tensor, extents.shape[0])
	width, at := int64(elements.dt.Bits()/8), int64(0)
	for i := range list {
		// Each row is read once: the search for a tensor begins where the tensor before it ends.
		row, err := extents.Rows(int64(i), int64(i)+1)
		if err != nil {
			return nil, err
		}
		shape, _, err := SequenceTensor(row, elements.count-at, 0)
		if err != nil {
			return nil, err
		}
		size, _ := Count(shape)
		if list[i], err = Over(elements.dt, shape, elements.contents()[at*width:(at+size)*width]); err != nil {
			return nil, err
		}
		at += size
	}
	return list, nil
}
