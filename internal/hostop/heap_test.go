package hostop

import (
	"bytes"
	"image"
	"image/png"
	"math/rand"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/tensor"
)

// largest is the most bytes of Go's heap that a function may allocate without calling Reserve, for operands of any
// size.
const largest = 64 << 10

// heapElements is the number of elements of large operands.
const heapElements = 1 << 18

// TestHeap applies functions to large operands. It checks that a function allocates at most `largest` bytes of Go's
// heap more than it reserved: results and scratch are in memory that the caller allocates.
func TestHeap(t *testing.T) {
	slab := make([]byte, 64*heapElements+1<<20)
	measured := map[string]bool{}
	for _, c := range heapCases(t) {
		measured[c.name] = true
		c.measure(t, slab)
	}
	for _, name := range Names() {
		if why := unmeasured[name]; measured[name] == (why != "") {
			t.Errorf("%s: measured %v, and unmeasured for %q: give it a case with large operands", name, measured[name], why)
		}
	}
}

// heapCases returns applications of every function to large operands.
//
//weir:table
func heapCases(t *testing.T) []heapCase {
	r := rand.New(rand.NewSource(3))
	const n = heapElements
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
	ascending := func(dt dtype.DType, count int64) *tensor.Tensor {
		x := tensor.Must(tensor.New(dt, count))
		for i := range count {
			x.SetInt(i, i)
		}
		return x
	}
	floats := func(value float64, dt dtype.DType, shape ...int64) *tensor.Tensor {
		x := tensor.Must(tensor.New(dt, shape...))
		for i := range x.Len() {
			x.SetFloat(i, value)
		}
		return x
	}
	words := make([]string, n/16)
	numbers := make([]string, len(words))
	for i := range words {
		words[i] = strings.Repeat("Ab Ⱥc ", 1+r.Intn(4))
		numbers[i] = "-12.5e3"
	}
	words[7] = strings.Repeat("Long Ⱥ", n/4)
	packed := func(list []string) []*tensor.Tensor {
		spans, pool, err := tensor.PackStrings(tensor.New, tensor.Must(tensor.OverStrings([]int64{int64(len(list))}, list)))
		if err != nil {
			t.Fatal(err)
		}
		return []*tensor.Tensor{spans[0], pool}
	}
	texts, stops := packed(words), packed([]string{"ab", "c", "x"})
	pieces := make([]*tensor.Tensor, n/16)
	for i := range pieces {
		pieces[i] = list(dtype.F32, 3, 2)
	}
	elements, extents, err := tensor.PackSequence(tensor.New, dtype.F32, pieces...)
	if err != nil {
		t.Fatal(err)
	}
	sequence := []*tensor.Tensor{elements, extents}
	at := tensor.Must(tensor.New(dtype.I64))
	at.SetInt(0, 1000)
	var file bytes.Buffer
	if err := png.Encode(&file, image.NewNRGBA(image.Rect(0, 0, 900, 700))); err != nil {
		t.Fatal(err)
	}
	picture := tensor.Must(tensor.Over(dtype.U8, []int64{int64(file.Len())}, file.Bytes()))
	roots := tensor.Must(tensor.New(dtype.I32, n/64))
	for i := range roots.Len() {
		roots.SetInt(i, 0) // a leaf
	}
	none := func(dt dtype.DType, shape ...int64) *tensor.Tensor { return tensor.Must(tensor.New(dt, shape...)) }
	forest := []*tensor.Tensor{list(dtype.F32, n/256, 3), roots,
		tensor.Must(tensor.FromSlice([]int32{0x7f800000, 0, 0, 0}, 1, 4)), tensor.Of[int32](0, 1), none(dtype.I32, 1),
		floats(1, dtype.F32, 1)}
	ones := func(count int64) *tensor.Tensor {
		x := tensor.Must(tensor.New(dtype.I64, count))
		for i := range count {
			x.SetInt(i, 1)
		}
		return x
	}
	type attrs = map[string]any
	return []heapCase{
		{"unique", map[string]any{"axis": int64(0), "sorted": true}, []*tensor.Tensor{list(dtype.I64, n)},
			[]dtype.DType{dtype.I64, dtype.I64, dtype.I64, dtype.I64, dtype.I64}},
		{"unique", map[string]any{"axis": int64(0), "sorted": false}, []*tensor.Tensor{list(dtype.F32, n)},
			[]dtype.DType{dtype.F32, dtype.I64, dtype.I64, dtype.I64, dtype.I64}},
		{"unique", map[string]any{"axis": int64(1), "sorted": true}, []*tensor.Tensor{list(dtype.U8, 3, n/4, 2)},
			[]dtype.DType{dtype.U8, dtype.I64, dtype.I64, dtype.I64, dtype.I64}},
		{"topk", map[string]any{"axis": int64(0), "k": int64(n / 2), "largest": true}, []*tensor.Tensor{list(dtype.F32, n)},
			[]dtype.DType{dtype.F32, dtype.I64, dtype.I64}},
		{"topk", map[string]any{"axis": int64(0), "k": int64(5), "largest": false},
			[]*tensor.Tensor{list(dtype.I32, 64, n/64)}, []dtype.DType{dtype.I32, dtype.I64, dtype.I64}},
		{"non_max_suppression", map[string]any{"most": int64(300), "center": true},
			[]*tensor.Tensor{list(dtype.F32, 2, n/64, 4), list(dtype.F32, 2, 5, n/64)},
			[]dtype.DType{dtype.I64, dtype.F32, dtype.I64}},
		{"nonzero", nil, []*tensor.Tensor{list(dtype.I64, n)}, []dtype.DType{dtype.I64}},
		{"bitcast", nil, []*tensor.Tensor{list(dtype.F32, n)}, []dtype.DType{dtype.I32}},
		{"couple", attrs{"classes": int64(300)}, []*tensor.Tensor{floats(0.5, dtype.F64, 1, 300*299/2)},
			[]dtype.DType{dtype.F64, dtype.F64}},
		{"find", nil, []*tensor.Tensor{list(dtype.I64, n), ascending(dtype.I64, n/8)}, []dtype.DType{dtype.I64}},
		{"draw_uniform", attrs{"shape": []int64{n}, "factor": 2.0, "offset": 1.0}, nil, []dtype.DType{dtype.F32}},
		{"draw_normal", attrs{"shape": []int64{n}, "factor": 2.0, "offset": 1.0}, nil, []dtype.DType{dtype.F64}},
		{"draw_bernoulli", nil, []*tensor.Tensor{floats(0.5, dtype.F32, n)}, []dtype.DType{dtype.F32}},
		{"draw_kept", attrs{"shape": []int64{n}}, []*tensor.Tensor{floats(0.5, dtype.F32)}, []dtype.DType{dtype.Bool}},
		{"draw_classes", attrs{"count": int64(100)}, []*tensor.Tensor{list(dtype.F32, 4, n/8)},
			[]dtype.DType{dtype.I64, dtype.F64}},
		{"fourier", attrs{"axis": int64(1), "length": int64(4099), "room": FourierRoom(4099)},
			[]*tensor.Tensor{list(dtype.F32, 9, 4099, 2)}, []dtype.DType{dtype.F32, dtype.F32}},
		{"mel_weights", attrs{"bands": int64(128), "length": int64(8192)},
			[]*tensor.Tensor{ones(1), floats(0, dtype.F32, 1), floats(0.25, dtype.F32, 1)}, []dtype.DType{dtype.F32}},
		{"random_uniform", attrs{"shape": []int64{n}, "low": 0.0, "high": 1.0}, []*tensor.Tensor{none(dtype.U64, 2)},
			[]dtype.DType{dtype.F32, dtype.U64}},
		{"ngrams", attrs{"starts": []int64{0, n / 8}, "least": int64(1), "most": int64(1), "skip": int64(0),
			"width": int64(n / 8)},
			[]*tensor.Tensor{list(dtype.I64, 2, n), ascending(dtype.I64, n/8), ascending(dtype.I64, n/8),
				floats(1, dtype.F32, n/8)}, []dtype.DType{dtype.F32}},
		{"text_equal", nil, append(slices.Clone(texts), texts...), []dtype.DType{dtype.Bool}},
		{"text_concat", nil, append(slices.Clone(texts), texts...), []dtype.DType{dtype.I64, dtype.U8}},
		{"text_split", attrs{"delimiter": "", "most": int64(-1)}, packed(words[8 : 8+n/64]),
			[]dtype.DType{dtype.I64, dtype.I64}},
		{"text_normalize", attrs{"case": "upper", "exact": false}, append(slices.Clone(texts), stops...),
			[]dtype.DType{dtype.I64, dtype.U8}},
		{"text_match", attrs{"pattern": "(Ab|c)*.*[a-z ]+"}, texts, []dtype.DType{dtype.Bool}},
		{"text_index", nil, append(slices.Clone(texts), stops...), []dtype.DType{dtype.I64}},
		{"text_rank", nil, texts, []dtype.DType{dtype.I64}},
		{"text_format", nil, []*tensor.Tensor{list(dtype.F64, n/8)}, []dtype.DType{dtype.I64, dtype.U8}},
		{"text_parse", nil, packed(numbers), []dtype.DType{dtype.F32}},
		{"text_parse", nil, packed(numbers), []dtype.DType{dtype.I32}},
		{"sequence_at", attrs{"shape": []int64{-1, 2}}, append(slices.Clone(sequence), at), []dtype.DType{dtype.F32}},
		{"sequence_insert", nil, append(slices.Clone(sequence), pieces[0], at), []dtype.DType{dtype.F32, dtype.I64}},
		{"sequence_erase", nil, append(slices.Clone(sequence), at), []dtype.DType{dtype.F32, dtype.I64}},
		{"sequence_concat", attrs{"axis": int64(0), "stack": false, "shape": []int64{-1, 2}}, sequence,
			[]dtype.DType{dtype.F32}},
		{"sequence_concat", attrs{"axis": int64(0), "stack": true, "shape": []int64{-1, 3, 2}}, sequence,
			[]dtype.DType{dtype.F32}},
		{"sequence_split", attrs{"axis": int64(0), "keep": false}, []*tensor.Tensor{list(dtype.F32, n/16, 4), ones(n / 16)},
			[]dtype.DType{dtype.F32, dtype.I64}},
		{"decode_image", attrs{"pixels": "RGB"}, []*tensor.Tensor{picture}, []dtype.DType{dtype.U8}},
		{"trees", attrs{"targets": int64(1), "aggregate": "max"}, forest, []dtype.DType{dtype.F32}},
	}
}

// unmeasured has the functions for which TestHeap has no case, with the reason.
var unmeasured = map[string]string{
	"interpret": "only the reference calls it, whose tensors are on Go's heap",
}

// heapCase is an application of a function to large operands.
type heapCase struct {
	name  string
	attrs map[string]any
	in    []*tensor.Tensor
	types []dtype.DType
}

// measure applies the function, with its results in slab.
func (c *heapCase) measure(t *testing.T, slab []byte) {
	clear(slab)
	at := 0
	asked := int64(0)
	call := &Call{Attrs: c.attrs, In: c.in, Types: c.types, Reserve: func(bytes int64) error {
		asked += bytes
		return nil
	}, Result: func(i int, shape ...int64) (*tensor.Tensor, error) {
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
	times, most, known := Heap(c.name, c.attrs)
	for i, n := range times {
		most += n * c.in[i].Size()
	}
	f, err := Lookup(c.name)
	if err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err = f(call)
	runtime.ReadMemStats(&after)
	if took := int64(after.TotalAlloc - before.TotalAlloc); err != nil || took > asked+largest {
		t.Errorf("%s allocated %d bytes of Go's heap, and reserved %d: %v", c.name, took, asked, err)
	}
	if known == (c.name == "decode_image") || known && asked > most {
		t.Errorf("%s reserved %d bytes of Go's heap; Heap returned %d", c.name, asked, most)
	}
}
