package convert

import (
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/tensor"
)

// A sparse tensor is expanded when the model is read. To bound its size, it may have sparseFree bytes, or sparseGrowth
// times the bytes of the elements in the file.
const (
	sparseFree   = 16 << 20
	sparseGrowth = 64
)

// Dense returns a sparse tensor with its zeros. Positions that are out of range, repeated or out of order are ErrInput;
// a tensor that is much larger than the file is ErrUnsupported.
func (m *Source) Dense(s *wire.SparseTensorProto) (*tensor.Tensor, error) {
	if s.Values == nil {
		return nil, diag.Inputf("a sparse tensor without values")
	}
	name := s.Values.Name
	values, err := m.Read(s.Values)
	if err != nil {
		return nil, err
	}
	dt, stored := values.DType(), values.Len()
	if dt == dtype.String || dt.IsComplex() || dt.Bits() < 8 {
		return nil, diag.Unsupportedf("a sparse tensor of %s", dt).AtTensor(name)
	}
	size, err := (&wire.TensorProto{Name: name, Dims: s.Dims, DataType: s.Values.DataType}).Count()
	if err != nil {
		return nil, err
	}
	bytes, err := dt.Bytes(size)
	if err != nil || bytes > max(sparseFree, sparseGrowth*int64(len(values.Bytes()))) {
		return nil, diag.Unsupportedf("a sparse tensor of %d elements, of which the file holds %d", size, stored).
			AtTensor(name)
	}
	at := &positions{rank: int64(len(s.Dims))}
	if stored > 0 || s.Indices != nil {
		if err := at.read(m, s, stored); err != nil {
			return nil, err
		}
	}
	out, err := tensor.New(dt, s.Dims...)
	if err != nil {
		return nil, err
	}
	from, to, width := values.Bytes(), out.Bytes(), int64(dt.Bits()/8)
	last := int64(-1)
	for i := range stored {
		p, ok := at.flat(s.Dims, i)
		if !ok || p <= last {
			return nil, diag.Inputf("the position of element %d is outside of %v, or does not follow the one before", i, s.Dims).
				AtTensor(name)
		}
		copy(to[p*width:(p+1)*width], from[i*width:])
		last = p
	}
	return out, nil
}

// positions are the positions of a sparse tensor's elements: indices into the flat tensor if linear, otherwise
// coordinates.
type positions struct {
	indices *tensor.Tensor
	rank    int64
	linear  bool
}

// read reads and checks the tensor of positions of stored elements.
func (p *positions) read(m *Source, s *wire.SparseTensorProto, stored int64) error {
	name := s.Values.Name
	if s.Indices == nil {
		return diag.Inputf("a sparse tensor without positions").AtTensor(name)
	}
	var err error
	if p.indices, err = m.Read(s.Indices); err != nil {
		return err
	}
	shape := p.indices.Shape()
	p.linear = len(shape) == 1
	if p.indices.DType() != dtype.I64 || len(shape) < 1 || len(shape) > 2 || shape[0] != stored || !p.linear &&
		shape[1] != p.rank {
		return diag.Inputf("positions %s of %d elements in rank %d", p.indices, stored, p.rank).AtTensor(name)
	}
	return nil
}

// flat returns the index of the i-th element in the flat tensor; ok is false if it is out of range.
func (p *positions) flat(dims []int64, i int64) (at int64, ok bool) {
	if p.linear {
		at, size := p.indices.Int(i), int64(1)
		for _, d := range dims {
			size *= d
		}
		return at, at >= 0 && at < size
	}
	for axis, d := range dims {
		c := p.indices.Int(i*p.rank + int64(axis))
		if c < 0 || c >= d {
			return 0, false
		}
		at = at*d + c
	}
	return at, true
}
