package values

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/tensor"
)

// TestValues writes values of every kind as a run's results, and reads them back as arguments.
func TestValues(t *testing.T) {
	texts := tensor.Must(tensor.OverStrings([]int64{2}, []string{"a\xff", ""}))
	row, column := tensor.Of[float32](1, 2), tensor.Must(tensor.FromSlice([]float32{1, 2}, 2, 1))
	for i, c := range []struct {
		kind  weir.Kind
		dt    weir.DType
		value Value
	}{
		{weir.TensorKind, weir.StringType, Value{Tensors: []*Array{texts}}},
		{weir.SequenceKind, weir.F32, Value{Sequence: true, Tensors: []*Array{row, column}}},
		{weir.SequenceKind, weir.F32, Value{Sequence: true}},
		{weir.SequenceKind, weir.StringType, Value{Sequence: true, Tensors: []*Array{texts, texts}}},
		{weir.OptionalKind, weir.F32, Value{Optional: true, Tensors: []*Array{row}}},
		{weir.OptionalKind, weir.F32, Value{Optional: true, Absent: true}},
		{weir.OptionalSequenceKind, weir.F32, Value{Optional: true, Sequence: true, Tensors: []*Array{row}}},
		{weir.OptionalSequenceKind, weir.F32, Value{Optional: true, Sequence: true}},
		{weir.OptionalSequenceKind, weir.F32, Value{Optional: true, Sequence: true, Absent: true}},
	} {
		dir := t.TempDir()
		c.value.Name = fmt.Sprint("v", i)
		if err := Write(dir, []Value{c.value}); err != nil {
			t.Fatal(err)
		}
		info := weir.Info{Name: c.value.Name, DType: c.dt, Kind: c.kind}
		if c.kind == weir.TensorKind {
			info.Shape = []weir.Extent{{Size: 2}}
		}
		got, err := Expected(filepath.Join(dir, c.value.Name+".pb"), info, c.value)
		if err != nil {
			t.Errorf("%+v: %v", c.value, err)
			continue
		}
		if err := CompareValues(got, c.value, 0, 0); err != nil {
			t.Errorf("%+v: %v", c.value, err)
		}
	}
}

// TestLiteralValues reads values of every kind from a command line.
func TestLiteralValues(t *testing.T) {
	for _, c := range []struct {
		text string
		kind weir.Kind
		dt   weir.DType
		want string
	}{
		{`["a", "b"]`, weir.TensorKind, weir.StringType, `[string[2]{"a", "b"}]`},
		{`[[1, 2], 3, []]`, weir.SequenceKind, weir.I64, "[i64[2]{1, 2} i64[]{3} i64[0]{}]"},
		{`[]`, weir.SequenceKind, weir.F32, "[]"},
		{`null`, weir.OptionalKind, weir.F32, "nothing"},
		{`[1]`, weir.OptionalKind, weir.F32, "[f32[1]{1}]"},
		{`null`, weir.OptionalSequenceKind, weir.F32, "nothing"},
		{`[[1]]`, weir.OptionalSequenceKind, weir.F32, "[f32[1]{1}]"},
		{"zeros", weir.SequenceKind, weir.F32, "[f32[1]{0}]"},
		{`{"a": 1}`, weir.SequenceKind, weir.F32, "error"},
		{`["a"]`, weir.SequenceKind, weir.F32, "error"},
		{`null`, weir.SequenceKind, weir.F32, "[]"},
	} {
		info := weir.Info{Name: "x", DType: c.dt, Kind: c.kind, Shape: []weir.Extent{{Size: -1, Dim: "n"}}}
		var v Value
		var err error
		r := &Reader{Dims: weir.Dims{}}
		if c.kind == weir.TensorKind {
			one, e := r.read(c.text, info)
			v, err = Of("x", one), e
		} else {
			v, err = r.value(c.text, info)
		}
		got := fmt.Sprint(v.Tensors)
		switch {
		case err != nil:
			got = "error"
		case v.Absent:
			got = "nothing"
		}
		if got != c.want {
			t.Errorf("%s as %s is %s, not %s (%v)", c.text, info, got, c.want, err)
		}
	}
}

// TestCompareValues: values that differ in length, in an element or in presence are errors that say so.
func TestCompareValues(t *testing.T) {
	one, two := tensor.Of[float32](1), tensor.Of[float32](2)
	for _, c := range []struct {
		got, want Value
		say       string
	}{
		{Value{Sequence: true, Tensors: []*Array{one}}, Value{Sequence: true, Tensors: []*Array{one, one}},
			"a sequence of 1 tensors"},
		{Value{Sequence: true, Tensors: []*Array{one, two}}, Value{Sequence: true, Tensors: []*Array{one, one}}, "tensor 1"},
		{Value{Optional: true, Absent: true}, Value{Optional: true, Tensors: []*Array{one}}, "nothing"},
	} {
		if err := CompareValues(c.got, c.want, 1e-3, 0); err == nil || !strings.Contains(err.Error(), c.say) {
			t.Errorf("%+v for %+v: %v", c.got, c.want, err)
		}
	}
}
