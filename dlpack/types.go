package dlpack

import (
	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/diag"
)

// The type codes of DLDataType.
const (
	signed = iota
	unsigned
	float
	opaque
	bfloat
	complexNumber
	boolean
)

// types maps Weir's element types to DLPack's. It contains the types that both have.
var types = map[weir.DType]Type{
	weir.Bool: {boolean, 8, 1},
	weir.I2:   {signed, 2, 1}, weir.I4: {signed, 4, 1}, weir.I8: {signed, 8, 1}, weir.I16: {signed, 16, 1},
	weir.I32: {signed, 32, 1}, weir.I64: {signed, 64, 1},
	weir.U2: {unsigned, 2, 1}, weir.U4: {unsigned, 4, 1}, weir.U8: {unsigned, 8, 1}, weir.U16: {unsigned, 16, 1},
	weir.U32: {unsigned, 32, 1}, weir.U64: {unsigned, 64, 1},
	weir.F16: {float, 16, 1}, weir.F32: {float, 32, 1}, weir.F64: {float, 64, 1}, weir.BF16: {bfloat, 16, 1},
	weir.C64: {complexNumber, 64, 1}, weir.C128: {complexNumber, 128, 1},
	weir.F8E4M3FN: {10, 8, 1}, weir.F8E4M3FNUZ: {11, 8, 1}, weir.F8E5M2: {12, 8, 1}, weir.F8E5M2FNUZ: {13, 8, 1},
	weir.F8E8M0: {14, 8, 1},
	weir.F4E2M1: {17, 4, 1},
}

// dtypes is the inverse of types.
var dtypes = func() map[Type]weir.DType {
	m := map[Type]weir.DType{}
	for dt, t := range types {
		m[t] = dt
	}
	return m
}()

// TypeOf returns DLPack's form of an element type; ErrUnsupported for strings.
func TypeOf(dt weir.DType) (Type, error) {
	t, ok := types[dt]
	if !ok {
		return t, diag.Unsupportedf("%s in DLPack", dt)
	}
	return t, nil
}

// DType returns the element type; ErrUnsupported for vectors and for types that Weir does not have.
func (t Type) DType() (weir.DType, error) {
	dt, ok := dtypes[t]
	if !ok {
		return weir.InvalidDType, diag.Unsupportedf("DLPack's type code %d of %d bits and %d lanes", t.Code, t.Bits, t.Lanes)
	}
	return dt, nil
}
