package offline

import (
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"slices"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/tensor"
)

// given is a source of elements that a reader of another module has made.
type given []Element

func (g given) Len() int64     { return int64(len(g)) }
func (g given) Digest() string { return "given" }

func (g given) Elements(_ []string, wanted func(int64) bool) iter.Seq2[Element, error] {
	return func(yield func(Element, error) bool) {
		for i, e := range g {
			if e.Index = int64(i); wanted(e.Index) && !yield(e, nil) {
				return
			}
		}
	}
}

// TestReaders: a reader gets the files of its ending, alone or of a folder; an element that it says has no values fails
// alone; a flat row has the shape of the input's.
func TestReaders(t *testing.T) {
	folder := t.TempDir()
	for _, name := range []string{"data/b.rows", "data/a.ROWS", "data/_SUCCESS", "mixed/a.rows", "mixed/b.json"} {
		write(t, filepath.Join(folder, name), nil)
	}
	ids := tensor.Must(tensor.FromSlice([]int64{0, 1, 2}, 1, 3))
	x := tensor.Must(tensor.FromSlice([]float32{1, 2, 3, 4, 5, 6}, 1, 6))
	rows := given{{Arrays: map[string]*tensor.Tensor{"ids": ids, "x": tensor.Must(x.Reshape(1, 3, 2))}},
		{Err: errors.New("a null")},
		{Arrays: map[string]*tensor.Tensor{"ids": ids}}}
	var got []string
	readers := Readers{".rows": func(names []string) (Source, error) {
		got = nil
		for _, name := range names {
			got = append(got, filepath.Base(name))
		}
		return rows, nil
	}}
	for inputs, want := range map[string]string{"data": "[a.ROWS b.rows]", "data/*.r*": "[b.rows]",
		"data/a.ROWS": "[a.ROWS]", "mixed": "[]"} {
		got = nil
		if _, err := Open(filepath.Join(folder, inputs), readers); err != nil || fmt.Sprint(got) != want {
			t.Errorf("%s: the reader got %q, %v", inputs, got, err)
		}
	}
	j := job(t, filepath.Join(folder, "mixed"), tensors(t, true), filepath.Join(folder, "out"))
	j.Source = rows
	report, err := j.Run(t.Context())
	if err != nil || report.Elements != 3 || report.Failed != 2 || report.First.Error() != "a null" {
		t.Errorf("%+v, %v", report, err)
	}
	if y := results(t, j.Output)[0]; !slices.Equal(y, []float32{1, 3, 5, 7, 9, 11}) {
		t.Errorf("the results are %v", y)
	}
	info := weir.Info{Shape: []weir.Extent{{Dim: "n"}, {Size: 3}, {Size: 2}}}
	for rank, array := range map[int]*tensor.Tensor{3: x, 2: ids} {
		if r := unfoldedRank(array, info); r != rank {
			t.Errorf("a row of %d elements has the rank %d", array.Len(), r)
		}
	}
	if info.Shape[2] = (weir.Extent{Dim: "m"}); unfoldedRank(x, info) != 2 {
		t.Error("a flat row has got a shape that nobody knows")
	}
}

func unfoldedRank(array *tensor.Tensor, info weir.Info) int { return unfolded(array, info).Rank() }

// TestTextsOfRows: a row has a text, or two, by name, or as its only array.
func TestTextsOfRows(t *testing.T) {
	one := func(text string) *tensor.Tensor { return tensor.Must(tensor.OverStrings([]int64{1}, []string{text})) }
	for want, arrays := range map[string]map[string]*tensor.Tensor{"{a }": {"text": one("a")}, "{b }": {"other": one("b")},
		"{c d}": {"text": one("c"), "text_pair": one("d")}, "{e }": {"text": one("e"), "more": one("f")},
		"": {"text": tensor.Of[float32](1)}, "!": {"a": one("a"), "b": one("b")}} {
		e := Element{Arrays: arrays}
		p, err := e.pair()
		if wrong := len(want) < 2; wrong != errors.Is(err, weir.ErrInput) || !wrong && fmt.Sprint(p) != want {
			t.Errorf("%s: %v, %v", want, p, err)
		}
	}
}
