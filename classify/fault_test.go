package classify

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/weirml/weir"
)

// TestTextError: the error of a text names it by its number in the call, and of a pair the part that is at fault. The
// text has a token for which the model has no embedding.
func TestTextError(t *testing.T) {
	load := func(name string) *Model {
		data, err := os.ReadFile("testdata/models/" + name + "/tokenizer.json")
		if err != nil {
			t.Fatal(err)
		}
		const list = `"added_tokens":`
		at := strings.Index(string(data), list)
		text := string(data[:at+len(list)]) + strings.Replace(string(data[at+len(list):]), "[", `[{"id": 320, "content":
			"oddity", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": false},`, 1)
		return must(t, name, map[string]string{"tokenizer.json": text}, Options{MaxTokens: 48})
	}
	nli, rank, tag := load("nli_bert"), load("rerank_xlm_roberta"), load("token_bert")
	ctx, odd := t.Context(), "an oddity"
	texts := make([]string, 40)
	pairs := make([]Pair, 40)
	for i := range texts {
		texts[i], pairs[i] = fmt.Sprint("a text ", i), Pair{"a text", fmt.Sprint("another ", i)}
	}
	with := func(at int, text string) []string {
		list := append([]string{}, texts...)
		list[at] = text
		return list
	}
	paired := func(at int, p Pair) []Pair {
		list := append([]Pair{}, pairs...)
		list[at] = p
		return list
	}
	long := strings.Repeat("the river ", 60)
	failure := func(_ any, err error) error { return err }
	in := with(17, long+odd)
	in[3] = long
	for _, c := range []struct {
		call        string
		err         error
		index, part int
	}{
		{"Classify", failure(nli.Classify(ctx, with(23, odd), Scoring{})), 23, 0},
		{"ClassifyPairs, one text", failure(nli.ClassifyPairs(ctx, paired(7, Pair{odd, ""}), Scoring{})), 7, 0},
		{"ClassifyPairs, 1", failure(nli.ClassifyPairs(ctx, paired(39, Pair{odd, "b"}), Scoring{})), 39, 1},
		{"Predict, 2", failure(rank.Predict(ctx, paired(31, Pair{"a", odd}), Default)), 31, 2},
		{"Predict, 1", failure(rank.Predict(ctx, paired(0, Pair{odd, odd}), Default)), 0, 1},
		{"Rank, query", failure(rank.Rank(ctx, odd, texts, Scoring{})), 0, 1},
		{"Rank, document", failure(rank.Rank(ctx, "a", with(12, odd), Scoring{})), 12, 2},
		{"ZeroShot", failure(nli.ZeroShot(ctx, with(5, odd), []string{"a", "b", "c"}, Candidates{})), 5, 1},
		{"ZeroShot, empty", failure(nli.ZeroShot(ctx, with(6, ""), []string{"a"}, Candidates{})), 6, 0},
		{"ZeroShot, label", failure(nli.ZeroShot(ctx, texts, []string{"a", odd}, Candidates{})), 0, 2},
		{"Tag", failure(tag.Tag(ctx, with(17, odd), Tagging{})), 17, 0},
		{"Tag, chunks", failure(tag.Tag(ctx, in, Tagging{Aggregation: Simple, Whole: true})), 17, 0},
	} {
		name, err := c.call, c.err
		e, ok := errors.AsType[*TextError](err)
		if !ok || e.Index != c.index || e.Part != c.part || !errors.Is(err, weir.ErrInput) ||
			!strings.Contains(err.Error(), fmt.Sprint(" ", c.index, ": ")) {
			t.Errorf("%s: %v; it should name %d and the part %d", name, err, c.index, c.part)
		}
	}
}
