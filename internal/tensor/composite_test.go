package tensor

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
)

// TestPackStrings packs strings of several tensors into one pool and unpacks them; spans outside the pool are refused.
func TestPackStrings(t *testing.T) {
	a := Must(OverStrings([]int64{2, 2}, []string{"weir", "", "rün", "\xff\x00"}))
	b := Must(OverStrings(nil, []string{"x"}))
	spans, pool, err := PackStrings(New, a, b)
	if err != nil || pool.Len() != 11 {
		t.Fatal(pool, err)
	}
	for i, want := range []*Tensor{a, b} {
		got, err := UnpackStrings(spans[i], pool.Bytes())
		if err != nil || !got.Equal(want) {
			t.Errorf("%v, not %v (%v)", got, want, err)
		}
	}
	for _, span := range []int64{Span(11, 1), Span(12, 0), Span(0, 12), -1, 1 << 62} {
		if _, err := UnpackStrings(Of(span), pool.Bytes()); !errors.Is(err, diag.ErrInput) {
			t.Errorf("span %#x: %v", span, err)
		}
	}
}

// TestPackSequence packs tensors of several ranks and unpacks them; wrong types and too many axes are refused.
func TestPackSequence(t *testing.T) {
	list := []*Tensor{Of[int32](1, 2, 3), Must(FromSlice([]int32{4, 5}, 2, 1)), Scalar[int32](6),
		Must(New(dtype.I32, 0, 7))}
	elements, extents, err := PackSequence(New, dtype.I32, list...)
	if err != nil {
		t.Fatal(err)
	}
	got, err := UnpackSequence(elements, extents)
	if err != nil || len(got) != len(list) || !slices.EqualFunc(got, list, (*Tensor).Equal) {
		t.Errorf("%v, not %v (%v)", got, list, err)
	}
	for i, want := range list {
		shape, begin, err := SequenceTensor(extents, elements.Len(), int64(i))
		if err != nil || !slices.Equal(shape, want.Shape()) || want.Len() > 0 && elements.Int(begin) != want.Int(0) {
			t.Errorf("tensor %d lies at %d with shape %v (%v)", i, begin, shape, err)
		}
	}
	for what, bad := range map[string]struct {
		list []*Tensor
		kind error
	}{
		"another type":     {[]*Tensor{Of[int64](1)}, diag.ErrInput},
		"too many axes":    {[]*Tensor{Must(New(dtype.I32, 1, 1, 1, 1, 1, 1, 1, 1))}, diag.ErrUnsupported},
		"parts of a byte":  {nil, diag.ErrUnsupported},
		"an empty list":    {nil, nil},
		"of empty tensors": {[]*Tensor{Must(New(dtype.I32, 0))}, nil},
	} {
		dt := dtype.I32
		if what == "parts of a byte" {
			dt = dtype.I4
		}
		if _, _, err := PackSequence(New, dt, bad.list...); !errors.Is(err, bad.kind) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestBadExtents gives extents that are impossible or exceed the elements.
func TestBadExtents(t *testing.T) {
	elements := Of[uint8](1, 2, 3)
	for _, row := range [][]int64{{8}, {-1}, {1, 4}, {1, -1}, {2, 1 << 40, 1 << 40}, {2, 1 << 62, 4},
		{7, 2, 2, 2, 2, 2, 2, 2}} {
		extents := Must(New(dtype.I64, 1, 1+SequenceRank))
		for i, v := range row {
			extents.SetInt(int64(i), v)
		}
		if list, err := UnpackSequence(elements, extents); !errors.Is(err, diag.ErrInput) {
			t.Errorf("%v: %v, %v", row, list, err)
		}
		if _, _, err := SequenceTensor(extents, elements.Len(), 0); !errors.Is(err, diag.ErrInput) {
			t.Errorf("%v: %v", row, err)
		}
	}
	if _, err := UnpackSequence(elements, Of[int64](0)); !errors.Is(err, diag.ErrInput) {
		t.Error(err)
	}
}

// A tensor of two strings is packed: their positions in a pool, and the pool.
func ExamplePackStrings() {
	texts, _ := OverStrings([]int64{2}, []string{"weir", "rün"})
	spans, pool, _ := PackStrings(New, texts)
	fmt.Println(spans[0], pool)
	// Output: i64[2]{4, 17179869188} u8[8]{119, 101, 105, 114, 114, 195, 188, 110}
}
