package classify

import (
	"cmp"
	"context"
	"slices"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/encoder"
	"github.com/weirml/weir/tokenizer"
)

// Scoring says what scores labels or documents get, and how many are returned. The zero value gives all.
type Scoring struct {
	Top      int      // the most labels of a text, or documents of a query: the best ones; 0: all
	Function Function // that makes scores of logits
}

// Classify returns the labels of each text, the best first: what the pipeline text-classification returns with
// truncation=True, to 1e-5. Texts that are too long are truncated. It waits for a run that has room; if ctx ends, it
// returns the error of ctx.
func (m *Model) Classify(ctx context.Context, texts []string, o Scoring) ([][]Label, error) {
	return m.classify(ctx, len(texts), o, func(i int) (encoder.Text, error) { return m.encoder.Encode(texts[i]) })
}

// ClassifyPairs is Classify for pairs of texts, which the pipeline takes as text and text_pair. Of a pair that is too
// long, the longer text is truncated more. As for the pipeline, a text with an empty second one is a single text.
func (m *Model) ClassifyPairs(ctx context.Context, pairs []Pair, o Scoring) ([][]Label, error) {
	return m.classify(ctx, len(pairs), o, func(i int) (encoder.Text, error) { return m.encode(pairs[i]) })
}

// encode returns the ids of a pair, whose second text may be empty.
func (m *Model) encode(p Pair) (encoder.Text, error) {
	if p.Second == "" {
		return m.encoder.Encode(p.Text)
	}
	return m.encoder.EncodePair(p.Text, p.Second, tokenizer.Truncation{})
}

// classify returns the labels of n texts; encode returns the ids of each.
func (m *Model) classify(ctx context.Context, n int, o Scoring, encode func(i int) (encoder.Text, error)) ([][]Label,
	error) {
	f, err := o.Function.of(m.scores())
	if err != nil {
		return nil, err
	}
	if o.Top < 0 {
		return nil, diag.Inputf("the %d best labels", o.Top)
	}
	logits, err := m.logits(ctx, n, encode)
	if err != nil {
		return nil, err
	}
	out := make([][]Label, n)
	for i, x := range logits {
		f(x)
		out[i] = m.sorted(x, o.Top)
	}
	return out, nil
}

// scores returns the function of a text's logits by default.
func (m *Model) scores() func(x []float32) {
	switch p := m.config.Problem; {
	case p == "regression":
		return functions[Identity]
	case p == "multi_label_classification" || len(m.labels) == 1:
		return functions[Sigmoid]
	}
	return softmax
}

// sorted returns the labels with their scores, the best first; at most that many, unless it is 0.
func (m *Model) sorted(scores []float32, most int) []Label {
	list := make([]Label, len(scores))
	for i, s := range scores {
		list[i] = Label{m.labels[i], s}
	}
	slices.SortStableFunc(list, func(a, b Label) int { return cmp.Compare(b.Score, a.Score) })
	if most > 0 {
		list = list[:min(most, len(list))]
	}
	return list
}
