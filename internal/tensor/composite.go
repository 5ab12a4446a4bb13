package tensor

import (
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
)

// Texts can be held by two tensors of numbers: spans, an i64 for each element, its offset in bytes << 32 | its length,
// and the pool of bytes that the spans lie in. Spans may overlap, and what a byte means is nobody's business here.
//
// A sequence of tensors of one element type can be held by two as well: their elements end to end, and their extents, a
// row of 1 + SequenceRank for each: its rank, its extents, zeros. One of texts has spans for elements, and a pool.

// MaxPool is the most bytes that a pool may hold: an offset stays positive in its span.
const MaxPool = 1<<31 - 1

// SequenceRank is the most axes that a tensor in a packed sequence may have.
const SequenceRank = 7

// Allocate makes a tensor; New is one.
type Allocate func(dt dtype.DType, shape ...int64) (*Tensor, error)

// Span is where a text lies in its pool.
func Span(offset, length int64) int64 { return offset<<32 | length }

// TextAt is element i of texts, a part of their pool. A span that leaves the pool is an ErrInput.
func TextAt(spans *Tensor, pool []byte, i int64) ([]byte, error) {
	span := uint64(spans.Int(i))
	from, size, total := span>>32, span&(1<<32-1), uint64(len(pool))
	if from > total || size > total-from {
		return nil, diag.Inputf("text %d lies at byte %d with %d bytes, and there are %d bytes of text", i, from, size, total)
	}
	return pool[from : from+size], nil
}

// PackTexts makes spans and a pool of tensors of strings: the spans of each, over one pool.
func PackTexts(allocate Allocate, list ...*Tensor) (spans []*Tensor, pool *Tensor, err error) {
	total := int64(0)
	for _, t := range list {
		for _, s := range t.text {
			if total += int64(len(s)); total > MaxPool {
				return nil, nil, diag.Inputf("texts of more than %d bytes", int64(MaxPool))
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
		for i, text := range t.text {
			s.SetInt(int64(i), Span(at, int64(len(text))))
			at += int64(copy(pool.data[at:], text))
		}
		spans = append(spans, s)
	}
	return spans, pool, nil
}

// UnpackTexts makes a tensor of Go's own strings.
func UnpackTexts(spans *Tensor, pool []byte) (*Tensor, error) {
	out := make([]string, spans.count)
	for i := range out {
		text, err := TextAt(spans, pool, int64(i))
		if err != nil {
			return nil, err
		}
		out[i] = string(text)
	}
	return OverStrings(spans.shape, out)
}

// PackSequence makes the elements and the extents of a sequence of numbers of type dt.
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

// SetSequenceShape writes row i of a sequence's extents.
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

// SequencePart is tensor i of a sequence: its shape, and where it begins among the elements. The rows before it are
// read. Extents that mean nothing, or that leave the elements, are an ErrInput.
func SequencePart(extents *Tensor, total, i int64) (shape []int64, begin int64, err error) {
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

// UnpackSequence is the tensors of a sequence, as views of the elements.
func UnpackSequence(elements, extents *Tensor) ([]*Tensor, error) {
	if len(extents.shape) != 2 || extents.shape[1] != 1+SequenceRank || len(elements.shape) != 1 {
		return nil, diag.Inputf("a sequence of extents %s and elements %s", ShapeString(extents.shape),
			ShapeString(elements.shape))
	}
	list := make([]*Tensor, extents.shape[0])
	width, at := int64(elements.dt.Bits()/8), int64(0)
	for i := range list {
		// Row by row from where the one before has ended: each row is read once.
		row, err := extents.Part(int64(i), int64(i)+1)
		if err != nil {
			return nil, err
		}
		shape, _, err := SequencePart(row, elements.count-at, 0)
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
