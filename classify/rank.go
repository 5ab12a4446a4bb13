package classify

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/encoder"
	"github.com/weirml/weir/internal/importer/transformers"
	"github.com/weirml/weir/tokenizer"
)

// Ranked is a document with its score.
type Ranked struct {
	Index int     `json:"index"` // in the list of documents
	Score float32 `json:"score"`
}

// Rank returns the documents in the order of their scores for a query, the best first: what sentence-transformers'
// CrossEncoder.rank returns, to 1e-5. Documents of the same score keep their order. The model must have one label; for
// others the error is an ErrUnsupported.
func (m *Model) Rank(ctx context.Context, query string, documents []string, o Scoring) ([]Ranked, error) {
	if len(m.labels) != 1 {
		return nil, diag.Unsupportedf("ranking by a model of %d labels %q", len(m.labels), m.labels).
			WithFix("rerankers have one label; Predict returns the scores of pairs for each label")
	}
	if o.Top < 0 {
		return nil, diag.Inputf("the %d best documents", o.Top)
	}
	pairs := make([]Pair, len(documents))
	for i, d := range documents {
		pairs[i] = Pair{query, d}
	}
	scores, err := m.Predict(ctx, pairs, o.Function)
	if err != nil {
		return nil, err
	}
	list := make([]Ranked, len(scores))
	for i, s := range scores {
		list[i] = Ranked{i, s[0]}
	}
	slices.SortStableFunc(list, func(a, b Ranked) int { return cmp.Compare(b.Score, a.Score) })
	if o.Top > 0 {
		list = list[:min(o.Top, len(list))]
	}
	return list, nil
}

// Predict returns the scores of each pair, one for each label in the order of Labels: what sentence-transformers'
// CrossEncoder.predict returns, to 1e-5. Of a pair that is too long, the longer text is truncated more.
func (m *Model) Predict(ctx context.Context, pairs []Pair, f Function) ([][]float32, error) {
	byDefault, err := m.activation()
	if err != nil && f == Default {
		return nil, err
	}
	apply, err := f.of(byDefault)
	if err != nil {
		return nil, err
	}
	out, err := m.logits(ctx, len(pairs), func(i int) (encoder.Text, error) {
		return m.encoder.EncodePair(m.prefix+pairs[i].Text, pairs[i].Second, tokenizer.Truncation{})
	})
	if err != nil {
		return nil, err
	}
	for _, x := range out {
		apply(x)
	}
	return out, nil
}

// crossEncoder reads what a folder says about CrossEncoder: the function of scores, and a prompt before the first text
// of each pair.
func (m *Model) crossEncoder(f *transformers.Folder) error {
	var own struct {
		Activation *string           `json:"activation_fn"`
		Prompts    map[string]string `json:"prompts"`
		Default    *string           `json:"default_prompt_name"`
	}
	if _, err := f.JSON("config_sentence_transformers.json", &own); err != nil {
		return err
	}
	if own.Default != nil {
		m.prefix = own.Prompts[*own.Default]
	}
	if a := m.config.Sentence.Activation; a != nil {
		m.config.Activation = a
	}
	if a := own.Activation; a != nil && ofTorch(*a) {
		m.config.Activation = a
	}
	return nil
}

// ofTorch reports whether a name is that of a function of PyTorch. CrossEncoder applies no others, but its default.
func ofTorch(name string) bool { return strings.HasPrefix(name, "torch.") }

// activation returns the function that CrossEncoder applies.
func (m *Model) activation() (func(x []float32), error) {
	if a := m.config.Activation; a != nil && ofTorch(*a) {
		f, ok := activations[(*a)[strings.LastIndexByte(*a, '.')+1:]]
		if !ok {
			return nil, diag.Unsupportedf("the activation_fn %s", *a).AtFile(m.config.at).
				WithFix("name another function: classify.Sigmoid or classify.Identity")
		}
		return f, nil
	}
	if len(m.labels) == 1 {
		return functions[Sigmoid], nil
	}
	return functions[Identity], nil
}
