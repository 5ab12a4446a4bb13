package embed

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/encoder"
)

// bounded returns bert_onnx's folder with an ONNX file of testdata/bounds in place of its own.
func bounded(t *testing.T, name string) fstest.MapFS {
	t.Helper()
	data, err := os.ReadFile("testdata/bounds/" + name + ".onnx")
	if err != nil {
		t.Fatal(err)
	}
	files := over(t, "bert_onnx", nil).(fstest.MapFS)
	files["onnx/model.onnx"] = &fstest.MapFile{Data: data}
	delete(files, "sentence_bert_config.json") // which has a limit of its own
	return files
}

// TestBounds: an ONNX model takes as many tokens as it has positions for, whether its graph counts them by the shape,
// the ids or the mask. More are refused when it is loaded, with the number; longer texts are truncated to it.
func TestBounds(t *testing.T) {
	sliced := over(t, "bert_onnx", nil).(fstest.MapFS)
	for _, c := range []struct {
		name  string
		files fstest.MapFS
		most  int
	}{{"sliced", sliced, 64}, {"of_ids", bounded(t, "of_ids"), 32}, {"of_mask", bounded(t, "of_mask"), 24}} {
		for _, more := range []int{1, 1 << 20} {
			m, err := LoadFS(t.Context(), c.files, ".", Options{MaxTokens: c.most + more})
			e := (*weir.Error)(nil)
			if !errors.As(err, &e) || !errors.Is(err, weir.ErrInput) ||
				!strings.Contains(e.Fix, fmt.Sprintf("at most %d (MaxTokens)", c.most)) {
				t.Errorf("%s: %d tokens: %v", c.name, c.most+more, err)
			}
			if err == nil {
				m.Close()
			}
		}
		m, err := LoadFS(t.Context(), c.files, ".", Options{MaxTokens: c.most})
		if err != nil {
			t.Errorf("%s: %d tokens: %v", c.name, c.most, err)
			continue
		}
		long := strings.Repeat("the ", 3*c.most)
		ids, _, err := m.Tokens(nil, "", long)
		if err != nil || len(ids) != c.most {
			t.Errorf("%s: %d tokens, %v; want %d", c.name, len(ids), err, c.most)
		}
		if _, err := m.Embed(t.Context(), []string{long, "the", ""}); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		m.Close()
	}
}

// TestOneFails: a text whose elements end a run in which the ids themselves are not checked fails alone, and the texts
// of others beside it have their vectors.
func TestOneFails(t *testing.T) {
	m, err := LoadFS(t.Context(), bounded(t, "doubled"), ".", Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	want, err := m.Embed(t.Context(), []string{"a a a"})
	if err != nil {
		t.Fatal(err)
	}
	var wait sync.WaitGroup
	wait.Go(func() { // while its runs last, the others wait, and then share some
		if _, err := m.Embed(t.Context(), slices.Repeat([]string{"a a a a a a a a a a"}, 40_000)); err != nil {
			t.Error(err)
		}
	})
	for m.Program().Stats().Runs < 10 {
		time.Sleep(100 * time.Microsecond)
	}
	for g := range 100 {
		wait.Go(func() {
			if g%10 == 0 { // the positions have 200 rows, and the id 129 asks for row 258
				_, err := m.encoder.Run(t.Context(), 0, []encoder.Text{{IDs: []int32{2, 88, 3}}, {IDs: []int32{2, 129, 3}}})
				if !errors.Is(err, weir.ErrInput) {
					t.Errorf("the row 258 of 200: %v", err)
				}
				return
			}
			got, err := m.Embed(t.Context(), []string{"a a a"})
			if err != nil {
				t.Error(err)
			} else if d := distance(got[0], want[0]); d > 1e-6 {
				t.Errorf("a vector differs by %.2g", d)
			}
		})
	}
	wait.Wait()
}

// TestLeast: texts with fewer tokens than the model needs are padded to them.
func TestLeast(t *testing.T) {
	m, err := LoadFS(t.Context(), bounded(t, "near"), ".", Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	for _, text := range []string{"", "a", "a a a a a a a"} {
		if _, err := m.Embed(t.Context(), []string{text}); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
	if least, most := m.CallBytes(1, 1), m.CallBytes(1, 5); least != most {
		t.Errorf("a run with 1 token takes %d bytes, and one with 5 %d", least, most)
	}
}
