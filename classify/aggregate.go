package classify

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/weirml/weir/tokenizer"
)

// tagged is a token with the scores of its labels, or a word of several tokens.
type tagged struct {
	Entity
	scores    []float32
	continues bool // it is of the same word as the token before
}

// tagged returns the tokens of a chunk that stand for text.
func (m *Model) tagged(text string, e tokenizer.Encoding, logits []float32) []tagged {
	t, n := m.Tokenizer(), len(m.labels)
	unknown, known := int32(-1), false
	if m.unknown != "" {
		unknown, known = t.ID(m.unknown)
	}
	prefix := t.ContinuingPrefix() != ""
	list := make([]tagged, 0, len(e.IDs))
	for i, id := range e.IDs {
		if e.Special[i] {
			continue
		}
		k := tagged{scores: logits[i*n : (i+1)*n : (i+1)*n]}
		softmax(k.scores)
		at := e.Offsets[i]
		k.Index, k.Begin, k.End = i, at.Begin, at.End
		k.Word, _ = t.Token(id)
		if known && id == unknown {
			k.Word = text[at.Begin:at.End]
		} else if prefix { // a token that begins a word has as many characters as its text
			k.continues = utf8.RuneCountInString(k.Word) != utf8.RuneCountInString(text[at.Begin:at.End])
		} else {
			k.continues = at.Begin > 0 && text[at.Begin-1] != ' ' && !strings.HasPrefix(text[at.Begin:], " ")
		}
		k.label(m, k.scores)
		list = append(list, k)
	}
	return list
}

// label sets the best label of scores, the first of equal ones.
func (k *tagged) label(m *Model, scores []float32) {
	best := 0
	for i, s := range scores {
		if s > scores[best] {
			best = i
		}
	}
	k.Label, k.Score = m.labels[best], scores[best]
}

// aggregate returns the entities of tokens.
func (m *Model) aggregate(tokens []tagged, how Aggregation) []Entity {
	if how >= First {
		tokens = m.words(tokens, how)
	}
	var list []Entity
	for len(tokens) > 0 {
		n := 1
		for how != None && n < len(tokens) && joins(tokens[n-1].Label, tokens[n].Label) {
			n++
		}
		e := tokens[0].Entity
		if how != None {
			e = m.group(tokens[:n])
		}
		list, tokens = append(list, e), tokens[n:]
	}
	return list
}

// words returns the words of tokens, each with one label.
func (m *Model) words(tokens []tagged, how Aggregation) (list []tagged) {
	for len(tokens) > 0 {
		n := 1
		for n < len(tokens) && tokens[n].continues {
			n++
		}
		word := tokens[:n]
		w := tagged{Entity: word[0].Entity}
		switch how {
		case Max:
			for _, k := range word {
				if k.Score > w.Score {
					w.Label, w.Score = k.Label, k.Score
				}
			}
		case Average:
			w.label(m, average(word))
		}
		w.End, w.Word = word[n-1].End, m.joined(word)
		list, tokens = append(list, w), tokens[n:]
	}
	return list
}

// average returns the mean scores of a word's tokens.
func average(word []tagged) []float32 {
	mean := slices.Clone(word[0].scores)
	for _, k := range word[1:] {
		for i, s := range k.scores {
			mean[i] += s
		}
	}
	for i := range mean {
		mean[i] /= float32(len(word))
	}
	return mean
}

// joins reports whether a token is of the same entity as the one before.
func joins(before, label string) bool {
	return !strings.HasPrefix(label, "B-") && tag(before) == tag(label)
}

// tag returns a label without B- or I-.
func tag(label string) string {
	if strings.HasPrefix(label, "B-") || strings.HasPrefix(label, "I-") {
		return label[2:]
	}
	return label
}

// group returns the entity of tokens or words. Like the pipeline, it drops what is before the label's first hyphen.
func (m *Model) group(list []tagged) Entity {
	e := Entity{Label: list[0].Label, Begin: list[0].Begin, End: list[len(list)-1].End, Word: m.joined(list)}
	if _, after, ok := strings.Cut(e.Label, "-"); ok {
		e.Label = after
	}
	sum := 0.0
	for _, k := range list {
		sum += float64(k.Score)
	}
	e.Score = float32(sum / float64(len(list)))
	return e
}

// joined returns the text of tokens or words, as the tokenizer decodes it.
func (m *Model) joined(list []tagged) string {
	words := make([]string, len(list))
	for i, k := range list {
		words[i] = k.Word
	}
	return m.Tokenizer().DecodeTokens(words)
}
