package spirv

import (
	"github.com/weirml/weir/internal/codegen/blocks"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/target"
)

// MatrixType returns the type of matrices that the threads of a subgroup share.
func (w *writer) MatrixType(use blocks.MatrixUse, x target.Matrix) id {
	const subgroup = 3 // the scope
	rows, columns, element := x.Rows, x.Columns, w.matrixElement(x.DType)
	switch use {
	case blocks.MatrixLeft:
		columns = x.Steps
	case blocks.MatrixRight:
		rows = x.Steps
	case blocks.MatrixSums:
		element = w.floatType(32)
		if x.DType.IsInt() {
			element = w.intType(32)
		}
	}
	return w.global(opTypeCooperativeMatrix, 0, uint32(element), uint32(w.constant32(subgroup)),
		uint32(w.constant32(uint32(rows))), uint32(w.constant32(uint32(columns))), uint32(w.constant32(uint32(use))))
}

// matrixElement returns the type of the elements of a product's factors.
func (w *writer) matrixElement(dt dtype.DType) id {
	switch dt {
	case dtype.F16:
		w.capability(capabilityFloat16)
		return w.floatType(16)
	case dtype.BF16:
		w.capability(capabilityBFloat16Type, capabilityBFloat16CooperativeMatrix)
		w.extension("SPV_KHR_bfloat16")
		return w.global(opTypeFloat, 0, 16, encodingBFloat16)
	}
	w.capability(capabilityInt8)
	return w.intType(8)
}

// LoadMatrix loads a matrix from shared memory, whose elements have the bits of the matrix's elements.
func (w *writer) LoadMatrix(use blocks.MatrixUse, x target.Matrix, m *memory, offset sym.Expr, lines blocks.Lines) id {
	typ := w.MatrixType(use, x)
	from, layout, stride := w.matrixPlace(m, offset, lines)
	result := w.fresh()
	w.do(opCooperativeMatrixLoad, uint32(typ), uint32(result), uint32(from), uint32(layout), uint32(stride),
		w.access(memoryAccessNone))
	return result
}

// StoreMatrix stores a matrix of sums in shared memory.
func (w *writer) StoreMatrix(m *memory, offset sym.Expr, lines blocks.Lines, sums id) {
	to, layout, stride := w.matrixPlace(m, offset, lines)
	w.do(opCooperativeMatrixStore, uint32(to), uint32(sums), uint32(layout), uint32(stride), w.access(memoryAccessNone))
}

// matrixPlace returns the pointer to the first element of a matrix in shared memory, and how its elements lie.
func (w *writer) matrixPlace(m *memory, offset sym.Expr, lines blocks.Lines) (at, layout, stride id) {
	const byRows, byColumns = 0, 1
	layout = w.constant32(byRows)
	if lines.Columns {
		layout = w.constant32(byColumns)
	}
	at = w.element(storageClassWorkgroup, m.Variable, w.sharedType(m.DType), w.kernel.Integer(offset).ID)
	return at, layout, w.constant32(uint32(lines.Stride))
}

// MultiplyMatrices returns sums + left · right.
func (w *writer) MultiplyMatrices(x target.Matrix, left, right, sums id) id {
	operands := []id{left, right, sums}
	typ := w.MatrixType(blocks.MatrixSums, x)
	if x.DType.IsInt() {
		operands = append(operands, matrixOperandsSigned)
	}
	return w.write(opCooperativeMatrixMulAdd, typ, operands)
}
