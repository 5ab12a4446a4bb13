package tokenizer

import (
	"encoding/base64"
	"errors"
	"slices"
	"unicode/utf8"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/text/charsmap"
	"github.com/weirml/weir/internal/text/unigram"
)

// unigramModel cuts a piece into the tokens of the greatest total score.
type unigramModel struct{ model *unigram.Model }

func (m *unigramModel) tokenize(dst []token, piece string, s *modelScratch) (_ []token, err error) {
	if s.unigram, err = m.model.Encode(s.unigram[:0], piece, &s.lattice); err != nil {
		return dst, err
	}
	dst = slices.Grow(dst, len(s.unigram))
	for _, k := range s.unigram {
		dst = append(dst, token{k.ID, k.Begin, k.End})
	}
	return dst, nil
}

// placed returns an error with the place in the file that it is about.
func placed(err error, path string) error {
	d := &diag.Error{Kind: diag.ErrInput, Detail: path, Err: err}
	if errors.Is(err, diag.ErrUnsupported) {
		d.Kind = diag.ErrUnsupported
	}
	return d
}

func (t *Tokenizer) readUnigram(o object) error {
	v := o.get("vocab")
	pairs, err := decode[[][]any](v, "a list of tokens and their scores")
	if err != nil {
		return err
	}
	pieces := make([]unigram.Piece, len(pairs))
	texts := make([]string, len(pairs))
	for i, p := range pairs {
		if len(p) != 2 {
			return v.fault("entry " + number(i) + " is not a token and its score")
		}
		text, isText := p[0].(string)
		score, isNumber := p[1].(float64)
		if !isText || !isNumber {
			return v.fault("entry " + number(i) + " is not a token and its score")
		}
		pieces[i] = unigram.Piece{Text: text, Score: score}
		texts[i] = text
	}
	options := unigram.Options{Unknown: -1}
	if !o.get("unk_id").isNull() {
		if options.Unknown, err = o.number("unk_id"); err != nil {
			return err
		}
	}
	if options.ByteFallback, err = o.flagOr("byte_fallback", false); err != nil {
		return err
	}
	m, err := unigram.New(pieces, options)
	if err != nil {
		return placed(err, o.path)
	}
	t.vocabulary = newPieces(texts)
	t.model, t.literal = &unigramModel{m}, true
	return nil
}

// precompiled replaces parts of a text by a table of SentencePiece.
type precompiled struct{ table *charsmap.Map }

func readPrecompiled(o object) (normalizer, error) {
	text, err := o.text("precompiled_charsmap")
	if err != nil {
		return nil, err
	}
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, o.get("precompiled_charsmap").fault("expected base64")
	}
	m, err := charsmap.Parse(data)
	if err != nil {
		return nil, placed(err, o.path)
	}
	return precompiled{m}, nil
}

// normalize aligns as the reference does: the characters that a part gains stand for the part's last one, and those
// that it loses are counted for the character written before, if there is one.
func (n precompiled) normalize(t *aligned, s *scratch) error {
	parts := n.table.Walk(t.s)
	for parts.Next() {
		if parts.Changed {
			return n.replace(t, &s.forms)
		}
	}
	return nil
}

func (n precompiled) replace(t *aligned, w *forming) error {
	w.begin(t, form{})
	for i := range t.s {
		w.add(i)
	}
	marks := w.pending
	for parts := n.table.Walk(t.s); parts.Next(); {
		before := len(marks)
		for _, r := range parts.With {
			marks = push(marks, mark{r: r})
		}
		if !parts.Changed {
			continue
		}
		if err := t.grown(len(marks)); err != nil {
			return err
		}
		more := len(marks) - before - utf8.RuneCountInString(t.s[parts.Begin:parts.End])
		for i := range max(more, 0) {
			marks[len(marks)-1-i].change = 1
		}
		if more < 0 && len(marks) > 0 {
			marks[len(marks)-1].change += int32(more)
		}
	}
	for _, m := range marks {
		w.put(m)
	}
	w.pending, w.from, w.written = marks[:0], w.from[:0], 0
	t.commit()
	return nil
}
