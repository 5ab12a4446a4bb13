package classify

import (
	"context"
	"errors"
	"slices"
	"unicode/utf8"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/encoder"
	"github.com/weirml/weir/tokenizer"
)

// Aggregation says how the labels of tokens become entities.
type Aggregation int

// The aggregations.
const (
	None    Aggregation = iota // each token is an entity
	Simple                     // tokens of the same label in a row are one; B- begins another
	First                      // as Simple, of words that have the label of their first token
	Average                    // as Simple, of words that have the best label of their tokens' mean scores
	Max                        // as Simple, of words that have the label of their token with the highest score
)

// Tagging says how tokens are labelled. The zero value works.
type Tagging struct {
	Aggregation Aggregation
	// Ignore has the labels whose entities are left out: of aggregated ones without B- and I-. nil: "O".
	Ignore []string
	// Whole reads a text that is too long in chunks, of which each begins with the last Stride tokens of the one before.
	// It needs an aggregation. Otherwise such texts are truncated.
	Whole  bool
	Stride int
}

// Entity is a part of a text with a label. Its text is text[Begin:End].
type Entity struct {
	Label string  `json:"label"`
	Score float32 `json:"score"`
	// Word is the token or, if entities are aggregated, the text that the tokenizer decodes, which may differ from that
	// of the text in case and spaces.
	Word  string `json:"word"`
	Begin int    `json:"begin"`
	End   int    `json:"end"`
	// Index is the number of the token, special ones included; 0 if entities are aggregated.
	Index int `json:"index,omitempty"`
}

// Tag returns the entities of each text, in their order: what the pipeline token-classification returns, to 1e-5, with
// offsets that count bytes. Characters counts characters instead. The model must label tokens.
func (m *Model) Tag(ctx context.Context, texts []string, o Tagging) ([][]Entity, error) {
	if !m.PerToken() {
		return nil, diag.Unsupportedf("labels of tokens, by a model that labels texts").WithFix("call Classify")
	}
	encoding, err := m.tagging(o)
	if err != nil {
		return nil, err
	}
	chunks := make([][]tokenizer.Encoding, len(texts))
	err = encoder.Parallel(ctx, len(texts), func(i int) error {
		e, err := m.Tokenizer().Encode(texts[i], encoding)
		if err == nil {
			chunks[i] = append([]tokenizer.Encoding{*e}, e.Overflow...)
		}
		return encoder.InText(i, err)
	})
	if err != nil {
		return nil, err
	}
	var list []encoder.Text
	var of []int // the text of each
	for i, c := range chunks {
		for _, e := range c {
			list, of = append(list, encoder.Text{IDs: e.IDs}), append(of, i)
		}
	}
	logits, err := m.encoder.Run(ctx, 0, list)
	if e, ok := errors.AsType[*TextError](err); ok {
		e.Index = of[e.Index]
	}
	if err != nil {
		return nil, err
	}
	out := make([][]Entity, len(texts))
	for i, text := range texts {
		n := len(chunks[i])
		out[i] = m.entities(text, chunks[i], logits[:n], o)
		logits = logits[n:]
	}
	return out, nil
}

// tagging returns the options of the tokenizer.
func (m *Model) tagging(o Tagging) (tokenizer.Options, error) {
	e := m.encoder.Encoding()
	switch {
	case o.Aggregation < None || o.Aggregation > Max:
		return e, diag.Inputf("there is no aggregation %d", int(o.Aggregation))
	case !o.Whole && o.Stride != 0:
		return e, diag.Inputf("a stride of %d tokens without Whole", o.Stride)
	case !o.Whole:
		return e, nil
	case o.Aggregation == None:
		return e, diag.Inputf("a text in chunks, without an aggregation")
	}
	cut := tokenizer.Truncation{Max: m.MaxTokens()}
	if e.Truncation != nil {
		cut = *e.Truncation
	}
	cut.Stride = o.Stride
	e.Truncation, e.Overflow = &cut, true
	return e, nil
}

// entities returns the entities of a text of its chunks.
func (m *Model) entities(text string, chunks []tokenizer.Encoding, logits [][]float32, o Tagging) []Entity {
	ignore := o.Ignore
	if ignore == nil {
		ignore = []string{"O"}
	}
	list := []Entity{}
	for i, c := range chunks {
		found := m.aggregate(m.tagged(text, c, logits[i]), o.Aggregation)
		for _, e := range found {
			if !slices.Contains(ignore, e.Label) {
				list = append(list, e)
			}
		}
	}
	if len(chunks) > 1 {
		list = apart(text, list)
	}
	return list
}

// apart returns the entities of overlapping chunks without those that overlap one of more characters, or a better one
// of as many. As from the pipeline, an empty entity at the beginning comes twice.
func apart(text string, list []Entity) []Entity {
	if len(list) == 0 {
		return list
	}
	length := func(e Entity) int { return utf8.RuneCountInString(text[e.Begin:e.End]) }
	slices.SortStableFunc(list, func(a, b Entity) int { return a.Begin - b.Begin })
	out, last := []Entity{}, list[0]
	for _, e := range list {
		if e.Begin >= last.End {
			out = append(out, last)
			last = e
		} else if d := length(e) - length(last); d > 0 || d == 0 && e.Score > last.Score {
			last = e
		}
	}
	return append(out, last)
}

// Characters returns entities whose Begin and End count characters of the text rather than bytes, as the pipeline does.
func Characters(text string, entities []Entity) []Entity {
	list := slices.Clone(entities)
	at, characters := 0, 0 // so many bytes are so many characters
	count := func(to int) int {
		to = min(max(to, 0), len(text))
		if to < at {
			at, characters = 0, 0
		}
		characters += utf8.RuneCountInString(text[at:to])
		at = to
		return characters
	}
	for i, e := range list {
		list[i].Begin = count(e.Begin)
		list[i].End = count(e.End)
	}
	return list
}
