package target

import (
	"testing"

	"github.com/weirml/weir/internal/dtype"
)

// TestMatrices: names of features are kinds of matrices, and are the same again; malformed ones are unknown. Machines
// have the matrices that their shared memory holds, and programs run only where all of theirs are.
func TestMatrices(t *testing.T) {
	for feature, want := range map[string]Matrix{"matrix-f16-16x8x32": {dtype.F16, 16, 8, 32},
		"matrix-bf16-1x256x2": {dtype.BF16, 1, 256, 2}, "matrix-i8-8x8x8": {dtype.I8, 8, 8, 8}} {
		if x, ok := parseMatrix(feature); !ok || x != want || x.Feature() != feature || !isBlockFeature(feature) {
			t.Errorf("%s is %+v, %v", feature, x, ok)
		}
	}
	for _, feature := range []string{"matrix", "matrix-", "matrix-f16", "matrix-f16-16x16", "matrix-f32-16x16x16",
		"matrix-f16-16x16x16x16", "matrix-f16-12x16x16", "matrix-f16-0x16x16", "matrix-f16-512x16x16",
		"matrix-f16-+16x16x16", "matrix-f16-016x16x16", "matrix-f16--16x16x16", "matrix-f16-16x16x16-1", "shuffle"} {
		if x, ok := parseMatrix(feature); ok || feature != "shuffle" && isBlockFeature(feature) {
			t.Errorf("%s is %+v", feature, x)
		}
	}
	m, err := ParseLimits("desktop,shuffle,matrix-f16-16x16x8,matrix-f16-16x16x16,matrix-bf16-8x8x16,-matrix-bf16-8x8x16")
	if err != nil {
		t.Fatal(err)
	}
	if list := m.Matrices(dtype.F16); len(list) != 2 || list[0].Steps != 16 || len(m.Matrices(dtype.BF16)) != 0 ||
		m.Dot.BF16 != 0 || m.BF16Faster() {
		t.Errorf("the machine has %v", m.Features)
	}
	brains, err := ParseLimits("desktop,shuffle,matrix-bf16-8x8x16")
	if err != nil {
		t.Fatal(err)
	}
	if !brains.BF16Faster() || brains.Dot.BF16 < 2 || brains.WithoutMatrices(dtype.BF16).HasMatrices() ||
		brains.WithoutMatrices(dtype.BF16).Dot.BF16 != 0 {
		t.Errorf("the machine is %+v", brains)
	}
	narrow, err := ParseLimits("desktop,shuffle,-int16,matrix-f16-16x16x16")
	if err != nil {
		t.Fatal(err)
	}
	if len(narrow.Matrices(dtype.F16)) > 0 {
		t.Error("elements of 16 bits in shared memory of 32")
	}
	larger, err := ParseLimits("desktop,subgroup=64,matrix-f16-16x16x16,matrix-f16-16x16x8")
	if err != nil {
		t.Fatal(err)
	}
	if m.Within(brains) || !m.Within(m) || !m.WithoutMatrices(dtype.F16).Within(m) ||
		Vulkan(Limits{}, "matrix-f16-16x16x16").Within(larger) {
		t.Error("a program runs where it has no matrices, or other subgroups")
	}
}

// TestMatrixFor: each subgroup of a block has as many matrices of sums, in a grid that divides the product.
func TestMatrixFor(t *testing.T) {
	for _, limits := range []string{"desktop,", "gfx942,", "desktop,subgroup=8,", "desktop,invocations=64,",
		"desktop,subgroup=512,"} {
		m, err := ParseLimits(limits + "shuffle,matrix-f16-16x8x16,matrix-f16-16x16x16")
		if err != nil {
			t.Fatal(err)
		}
		for rows := int64(0); rows <= 160; rows += 8 {
			for columns := int64(0); columns <= 160; columns += 8 {
				x, down, across, ok := m.MatrixFor(dtype.F16, rows, columns, 32)
				can := rows > 0 && columns > 0 && rows%16 == 0 && m.Limits.Subgroup <= ShuffleThreads
				if ok != can {
					t.Fatalf("%s: %d × %d: %+v, %v", limits, rows, columns, x, ok)
				}
				if !ok {
					continue
				}
				if rows%(down*x.Rows) != 0 || columns%(across*x.Columns) != 0 || columns%16 == 0 && x.Columns != 16 ||
					down*across*m.Limits.Subgroup > min(ShuffleThreads, m.Limits.Invocations) {
					t.Errorf("%s: %d × %d: %+v in a grid of %d × %d", limits, rows, columns, x, down, across)
				}
			}
		}
		if _, _, _, ok := m.MatrixFor(dtype.F16, 16, 16, 8); ok {
			t.Error("a product of fewer steps than a matrix has")
		}
	}
}
