package hostop

import (
	"errors"
	"slices"
	"testing"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/tensor"
)

// packed returns the spans and the pool of a tensor of strings.
func packed(t *testing.T, shape []int64, list ...string) []*tensor.Tensor {
	t.Helper()
	spans, pool, err := tensor.PackStrings(tensor.New, tensor.Must(tensor.OverStrings(shape, list)))
	if err != nil {
		t.Fatal(err)
	}
	return []*tensor.Tensor{spans[0], pool}
}

// unpacked returns the strings of spans and a pool.
func unpacked(t *testing.T, spans, pool *tensor.Tensor) []string {
	t.Helper()
	out, err := tensor.UnpackStrings(spans, pool.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	return out.Strings()
}

// TestTextSplit compares with the pieces that the standard names, which are those of Python's split.
func TestTextSplit(t *testing.T) {
	for _, c := range []struct {
		text, delimiter string
		most            int64
		want            []string
	}{
		{"a,b,,c", ",", -1, []string{"a", "b", "", "c"}},
		{"a,b,,c", ",", 1, []string{"a", "b,,c"}},
		{"a,b", ",", 0, []string{"a,b"}},
		{"", ",", -1, []string{""}},
		{",", ",", -1, []string{"", ""}},
		{"", "", -1, nil},
		{" \t ", "", -1, nil},
		{"  1  2   3  ", "", -1, []string{"1", "2", "3"}},
		{"  1  2   3  ", "", 1, []string{"1", "2   3  "}},
		{"aaa", "aa", -1, []string{"", "a"}},
	} {
		var got []string
		pieces([]byte(c.text), c.delimiter, c.most, func(begin, end int) { got = append(got, c.text[begin:end]) })
		if !slices.Equal(got, c.want) {
			t.Errorf("%q at %q, at most %d: %q, not %q", c.text, c.delimiter, c.most, got, c.want)
		}
	}
}

// TestTextNormalize covers stop words, changes of case, and bytes that are not UTF-8.
func TestTextNormalize(t *testing.T) {
	for _, c := range []struct {
		words, stops []string
		to           string
		exact        bool
		want         []string
	}{
		{[]string{"monday", "Tuesday"}, []string{"monday"}, "upper", true, []string{"TUESDAY"}},
		{[]string{"Monday", "x"}, []string{"monday"}, "none", true, []string{"Monday", "x"}},
		{[]string{"Monday", "x"}, []string{"monday"}, "none", false, []string{"x"}},
		{[]string{"monday"}, []string{"monday"}, "lower", true, []string{""}},
		{[]string{"\xffÀ", "Ⱥ"}, nil, "lower", true, []string{"\xffà", "ⱥ"}},
	} {
		in := append(packed(t, []int64{int64(len(c.words))}, c.words...),
			packed(t, []int64{int64(len(c.stops))}, c.stops...)...)
		out, err := Apply("text_normalize", map[string]any{"case": c.to, "exact": c.exact}, in,
			[]dtype.DType{dtype.I64, dtype.U8})
		if err != nil {
			t.Fatal(err)
		}
		if got := unpacked(t, out[0], out[1]); !slices.Equal(got, c.want) {
			t.Errorf("%q without %q, %s: %q, not %q", c.words, c.stops, c.to, got, c.want)
		}
	}
}

// TestTextOutside checks that every function refuses spans outside their pool.
func TestTextOutside(t *testing.T) {
	attrs := map[string]any{"delimiter": ",", "most": int64(-1), "case": "lower", "exact": true, "pattern": "a"}
	for _, span := range []int64{tensor.Span(1, 3), tensor.Span(4, 0), -1, tensor.Span(0, 1<<32-1)} {
		bad := []*tensor.Tensor{tensor.Of(span), tensor.Of[uint8](1, 2, 3)}
		for _, name := range []string{"text_equal", "text_concat", "text_split", "text_normalize", "text_match", "text_index",
			"text_rank"} {
			in := append(slices.Clone(bad), bad...)
			types := []dtype.DType{dtype.I64, dtype.I64}
			switch name {
			case "text_concat", "text_normalize":
				types[1] = dtype.U8
			case "text_equal", "text_match":
				types = []dtype.DType{dtype.Bool}
			}
			if _, err := Apply(name, attrs, in, types); !errors.Is(err, diag.ErrInput) {
				t.Errorf("%s of a span %#x: %v", name, span, err)
			}
		}
	}
}
