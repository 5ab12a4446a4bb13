package reference

import (
	"errors"
	"testing"
	"unsafe"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/target"
)

const source = `kernel @gather(%x: f32[n] read, %at: i64[m] read, %y: f32[m] write) dims(m, n) {
  local %copy: f32[n]
  each i < n { store %copy[i] = mul(load %x[i], 2) }
  each j < m {
    check k = load %at[j] in [0, n - 1] "an index"
    store %y[j] = load %copy[k]
  }
}`

// TestRun runs a kernel with a local and a check: tiles, scratch, results, and the error of an index out of range.
func TestRun(t *testing.T) {
	k, err := loop.ParseKernel(source)
	if err != nil {
		t.Fatal(err)
	}
	code := Compile([]*loop.Kernel{k})
	c := code.Kernels[0]
	dims := []int64{2, 3} // m, n
	tiles, err := c.Tiles(dims)
	if err != nil || tiles != 1 || c.Name() != "gather" || code.Machine.Name != "reference" {
		t.Errorf("%d tiles of %s on %s, %v", tiles, c.Name(), code.Machine.Name, err)
	}
	bytes, err := c.Scratch(dims)
	if err != nil || bytes != 12 {
		t.Errorf("scratch is %d, %v, want 12", bytes, err)
	}
	x, at, y := []float32{1, 2, 3}, []int64{2, 0}, make([]float32, 2)
	args := &target.Args{Dims: dims, Operands: []target.Operand{
		{Base: unsafe.Pointer(&x[0]), Bytes: 12}, {Base: unsafe.Pointer(&at[0]), Bytes: 16},
		{Base: unsafe.Pointer(&y[0]), Bytes: 8},
	}}
	scratch := make([]byte, bytes)
	if err := c.Run(args, 0, 0, scratch); err != nil || y[0] != 0 {
		t.Errorf("no tiles: %v, %v", err, y)
	}
	if err := c.Run(args, 0, 1, scratch); err != nil || y[0] != 6 || y[1] != 2 {
		t.Errorf("gathered %v, %v", y, err)
	}
	at[1] = 3
	if err := c.Run(args, 0, 1, scratch); !errors.Is(err, diag.ErrInput) {
		t.Errorf("an index out of range: %v", err)
	}
}
