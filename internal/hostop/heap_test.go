package hostop

import (
	"math/rand"
	"runtime"
	"testing"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/tensor"
)

// largest is what a function may take of Go's heap without asking, in bytes, whatever its operands' sizes.
const largest = 64 << 10

// TestHeap applies functions to large operands. None takes more of Go's heap than a little, and than it asked for: results and room lie in memory that is given.
func TestHeap(t *testing.T) {
	r := rand.New(rand.NewSource(3))
	const n = 1 << 18
	list := func(dt dtype.DType, shape ...int64) *tensor.Tensor {
		x := tensor.Must(tensor.New(dt, shape...))
		for i := range x.Len() {
			if dt.IsFloat() {
				x.SetFloat(i, r.NormFloat64())
			} else {
				x.SetInt(i, r.Int63n(n/3))
			}
		}
		return x
	}
	for _, c := range []struct {
		name  string
		attrs map[string]any
		in    []*tensor.Tensor
		types []dtype.DType
	}{
		{"unique", map[string]any{"axis": int64(0), "sorted": true}, []*tensor.Tensor{list(dtype.I64, n)}, []dtype.DType{dtype.I64, dtype.I64, dtype.I64, dtype.I64, dtype.I64}},
		{"unique", map[string]any{"axis": int64(0), "sorted": false}, []*tensor.Tensor{list(dtype.F32, n)}, []dtype.DType{dtype.F32, dtype.I64, dtype.I64, dtype.I64, dtype.I64}},
		{"unique", map[string]any{"axis": int64(1), "sorted": true}, []*tensor.Tensor{list(dtype.U8, 3, n/4, 2)}, []dtype.DType{dtype.U8, dtype.I64, dtype.I64, dtype.I64, dtype.I64}},
		{"topk", map[string]any{"axis": int64(0), "k": int64(n / 2), "largest": true}, []*tensor.Tensor{list(dtype.F32, n)}, []dtype.DType{dtype.F32, dtype.I64, dtype.I64}},
		{"topk", map[string]any{"axis": int64(0), "k": int64(5), "largest": false}, []*tensor.Tensor{list(dtype.I32, 64, n/64)}, []dtype.DType{dtype.I32, dtype.I64, dtype.I64}},
		{"non_max_suppression", map[string]any{"most": int64(300), "center": true}, []*tensor.Tensor{list(dtype.F32, 2, n/64, 4), list(dtype.F32, 2, 5, n/64)}, []dtype.DType{dtype.I64, dtype.F32, dtype.I64}},
		{"nonzero", nil, []*tensor.Tensor{list(dtype.I64, n)}, []dtype.DType{dtype.I64}},
	} {
		slab := make([]byte, 64*n+1<<20)
		at := 0
		asked := int64(0)
		call := &Call{Attrs: c.attrs, In: c.in, Types: c.types, Reserve: func(bytes int64) error { asked += bytes; return nil }, Result: func(i int, shape ...int64) (*tensor.Tensor, error) {
			count, err := tensor.Count(shape)
			if err != nil {
				return nil, err
			}
			size, err := c.types[i].Bytes(count)
			if err != nil {
				return nil, err
			}
			at = (at + 63) &^ 63
			data := slab[at : at+int(size) : at+int(size)]
			at += int(size)
			return tensor.Over(c.types[i], shape, data)
		}}
		f, err := Lookup(c.name)
		if err != nil {
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err = f(call)
		runtime.ReadMemStats(&after)
		if took := int64(after.TotalAlloc - before.TotalAlloc); err != nil || took > asked+largest {
			t.Errorf("%s took %d bytes of Go's heap, and asked for %d: %v", c.name, took, asked, err)
		}
	}
}
