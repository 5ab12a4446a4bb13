//go:build ((linux && !android) || (darwin && !ios) || windows) && (amd64 || arm64)

package vulkan

import (
	"slices"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/target"
)

// The extensions by which a device has cooperative matrices, and those of bf16.
const (
	matrixExtension = "VK_KHR_cooperative_matrix"
	brainExtension  = "VK_KHR_shader_bfloat16"
)

// componentTypes are the numbers of the types of a matrix's elements.
const (
	componentF16  = 0
	componentF32  = 1
	componentI8   = 3
	componentI32  = 5
	componentBF16 = 1000141000
)

// scopeSubgroup is the scope of matrices that the threads of a subgroup share.
const scopeSubgroup = 3

// matrices returns the features of a device's cooperative matrices that code can use. The code needs Vulkan's memory
// model, and subgroups as for target.Shuffle.
func (i *instance) matrices(handle uintptr, f12 blob) (features []string, err error) {
	if f12.word(featureMemoryModel) == 0 {
		return nil, nil
	}
	has, err := i.extensions("vkEnumerateDeviceExtensionProperties", handle)
	get := i.function("vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR")
	if err != nil || get == 0 || !slices.Contains(has, matrixExtension) {
		return nil, err
	}
	var p pins
	defer p.Unpin()
	matrix, brain := newBlob(&p, matrixFeaturesSize, kindMatrixFeatures, 0),
		newBlob(&p, brainFeaturesSize, kindBrainFeatures, 0)
	next := matrix.address()
	if slices.Contains(has, brainExtension) {
		brain = newBlob(&p, brainFeaturesSize, kindBrainFeatures, next)
		next = brain.address()
	}
	do(i.function("vkGetPhysicalDeviceFeatures2"), handle, newBlob(&p, features2Size, kindFeatures2, next).address())
	support := newBlob(&p, matrixSupportSize, kindMatrixSupport, 0)
	do(i.function("vkGetPhysicalDeviceProperties2"), handle,
		newBlob(&p, properties2Size, kindProperties2, support.address()).address())
	if matrix.word(featureMatrix) == 0 || support.word(matrixStages)&stageCompute == 0 {
		return nil, nil
	}
	brains := brain.word(featureBrain) != 0 && brain.word(featureBrainMatrix) != 0
	kinds, err := i.matrixKinds(handle, get)
	for _, k := range kinds {
		if x, ok := k.known(); ok && (x.DType != dtype.BF16 || brains) {
			features = append(features, x.Feature())
		}
	}
	return features, err
}

// matrixKinds returns the kinds of matrices that a driver enumerates with the function get.
func (i *instance) matrixKinds(handle, get uintptr) ([]matrixKind, error) {
	const name, most = "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR", 4096
	var p pins
	defer p.Unpin()
	var count uint32
	if err := call(name, get, handle, at(&p, &count), 0); err != nil {
		return nil, err
	}
	list := make([]matrixKind, min(count, most))
	if count = uint32(len(list)); count == 0 {
		return nil, nil
	}
	for n := range list {
		list[n].kind = kindMatrix
	}
	err := call(name, get, handle, at(&p, &count), at(&p, &list[0]))
	return list[:min(int(count), len(list))], err
}

// known returns a kind as code uses it: subgroups share its matrices, sums are of the type that target.Matrix says, and
// wrap if they are integers.
func (k *matrixKind) known() (x target.Matrix, ok bool) {
	x = target.Matrix{Rows: int64(k.rows), Columns: int64(k.columns), Steps: int64(k.steps)}
	sums := uint32(componentF32)
	switch k.left {
	case componentF16:
		x.DType = dtype.F16
	case componentBF16:
		x.DType = dtype.BF16
	case componentI8:
		x.DType, sums = dtype.I8, componentI32
	default:
		return x, false
	}
	return x, k.right == k.left && k.added == sums && k.result == sums && k.saturates == 0 && k.scope == scopeSubgroup &&
		x.Known()
}

// enableMatrices appends the extensions of the machine's matrices to names, and returns the address of the structures
// that enable their features, before those at next.
func enableMatrices(p *pins, m target.Machine, names []uintptr, next uintptr) ([]uintptr, uintptr) {
	if !m.HasMatrices() {
		return names, next
	}
	matrix := newBlob(p, matrixFeaturesSize, kindMatrixFeatures, next)
	matrix.set(featureMatrix, 1)
	names, next = append(names, pinString(p, matrixExtension)), matrix.address()
	if len(m.Matrices(dtype.BF16)) > 0 {
		brain := newBlob(p, brainFeaturesSize, kindBrainFeatures, next)
		brain.set(featureBrain, 1)
		brain.set(featureBrainMatrix, 1)
		names, next = append(names, pinString(p, brainExtension)), brain.address()
	}
	return names, next
}
