package target

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/weirml/weir/internal/dtype"
)

// Matrix is a kind of cooperative matrices that a machine of blocks has: the threads of a subgroup together multiply a
// matrix of Rows × Steps elements by one of Steps × Columns, both of one type, and add the product to a matrix of sums.
// Sums of floats are f32, added in an order that the device chooses; sums of i8 are i32.
type Matrix struct {
	DType                dtype.DType // of the elements: f16, bf16 or i8
	Rows, Columns, Steps int64       // powers of 2
}

// Feature returns the name of a kind of matrices in Machine.Features, such as matrix-f16-16x16x16.
func (x Matrix) Feature() string {
	return fmt.Sprintf("%s%s-%dx%dx%d", matrixFeature, x.DType, x.Rows, x.Columns, x.Steps)
}

// Known reports whether code can use the matrices: they have one of the types, and sizes of powers of 2 up to 256.
func (x Matrix) Known() bool {
	for _, n := range []int64{x.Rows, x.Columns, x.Steps} {
		if n < 1 || n > 256 || n&(n-1) != 0 {
			return false
		}
	}
	return slices.Contains(matrixTypes, x.DType)
}

// matrixFeature begins the names of features that are kinds of matrices.
const matrixFeature = "matrix-"

// matrixTypes are the types of the elements of matrices.
var matrixTypes = []dtype.DType{dtype.F16, dtype.BF16, dtype.I8}

// parseMatrix returns the kind of matrices with a feature's name.
func parseMatrix(feature string) (x Matrix, ok bool) {
	words := strings.Split(feature, "-")
	if len(words) != 3 || words[0]+"-" != matrixFeature {
		return x, false
	}
	sizes := strings.Split(words[2], "x")
	i := slices.IndexFunc(matrixTypes, func(dt dtype.DType) bool { return dt.String() == words[1] })
	if i < 0 || len(sizes) != 3 {
		return x, false
	}
	x.DType = matrixTypes[i]
	for i, to := range []*int64{&x.Rows, &x.Columns, &x.Steps} {
		n, err := strconv.ParseInt(sizes[i], 10, 64)
		if err != nil {
			return x, false
		}
		*to = n
	}
	return x, x.Known() && x.Feature() == feature
}

// isBlockFeature reports whether a user or a file may name a feature.
func isBlockFeature(feature string) bool {
	_, matrix := parseMatrix(feature)
	return matrix || slices.Contains(blockFeatures, feature)
}

// Matrices returns the machine's matrices with elements of a type, those with the most products first.
func (m Machine) Matrices(dt dtype.DType) (list []Matrix) {
	if m.SharedBits(dt.Bits()) != dt.Bits() {
		return nil // matrices are loaded from shared memory
	}
	for _, f := range m.Features {
		if x, ok := parseMatrix(f); ok && x.DType == dt {
			list = append(list, x)
		}
	}
	slices.SortStableFunc(list, func(a, b Matrix) int {
		return int(b.Rows*b.Columns*b.Steps - a.Rows*a.Columns*a.Steps)
	})
	return list
}

// HasMatrices reports whether the machine has matrices of any type.
func (m Machine) HasMatrices() bool {
	return slices.ContainsFunc(m.Features, func(f string) bool { return strings.HasPrefix(f, matrixFeature) })
}

// WithoutMatrices returns the machine without its matrices of some types.
func (m Machine) WithoutMatrices(types ...dtype.DType) Machine {
	if m.HasBlocks() && slices.Contains(types, dtype.BF16) {
		m.Dot.BF16 = 0
	}
	m.Features = slices.DeleteFunc(slices.Clone(m.Features), func(f string) bool {
		x, ok := parseMatrix(f)
		return ok && slices.Contains(types, x.DType)
	})
	return m
}

// MatrixFor returns the matrices with the most products into which a product of rows × steps by steps × columns
// elements of a type divides, and the rows and columns of the grid of subgroups that share it: each subgroup has as
// many sums, and at least four matrices of them if there are so many.
func (m Machine) MatrixFor(dt dtype.DType, rows, columns, steps int64) (x Matrix, down, across int64, ok bool) {
	for _, x := range m.Matrices(dt) {
		if rows < 1 || columns < 1 || steps < 1 || rows%x.Rows != 0 || columns%x.Columns != 0 || steps%x.Steps != 0 {
			continue
		}
		high, wide := rows/x.Rows, columns/x.Columns
		down, across := int64(1), int64(1)
		most := min(ShuffleThreads, m.Limits.Invocations) / max(m.Limits.Subgroup, 1)
		for 2*down*across <= min(most, high*wide/4) {
			switch halves, halvesWide := high%(2*down) == 0, wide%(2*across) == 0; {
			case halves && (high/down >= wide/across || !halvesWide):
				down *= 2
			case halvesWide:
				across *= 2
			default:
				return x, down, across, most > 0
			}
		}
		return x, down, across, most > 0
	}
	return Matrix{}, 0, 0, false
}
