package tokenizer

import (
	"bytes"

	"github.com/weirml/weir/internal/text/sentencepiece"
)

// isJSON reports whether a file's content is an object of JSON, and not a model of SentencePiece.
func isJSON(data []byte) bool {
	data = bytes.TrimLeft(bytes.TrimPrefix(data, []byte("\xEF\xBB\xBF")), " \t\r\n")
	return len(data) == 0 || data[0] == '{'
}

// readSentencePiece makes a tokenizer of a model of SentencePiece.
func readSentencePiece(data []byte) (*Tokenizer, error) {
	f, err := sentencepiece.Parse(bytes.Clone(data))
	if err != nil {
		return nil, err
	}
	t := newTokenizer()
	if t.sentence, err = sentencepiece.NewEncoder(f); err != nil {
		return nil, err
	}
	pieces := make([]string, len(f.Pieces))
	for i, p := range f.Pieces {
		pieces[i] = p.Text
	}
	t.vocabulary = newPieces(pieces)
	t.process(nil)
	return t, nil
}

// runSentence encodes a text into e by SentencePiece, which has no words.
func (t *Tokenizer) runSentence(s *scratch, e *encoded, text string, whole bool) (err error) {
	m := &s.model
	if m.sentence, err = t.sentence.Encode(m.sentence[:0], text, &m.sentences); err != nil {
		return err
	}
	for _, k := range m.sentence {
		e.ids = append(e.ids, k.ID)
		if whole {
			e.at = append(e.at, Span{int(k.Begin), int(k.End)})
			e.words = append(e.words, -1)
		}
	}
	return nil
}

// decodeSentence decodes ids by SentencePiece. Those that are not in the vocabulary are left out.
func (t *Tokenizer) decodeSentence(ids []int32) string {
	known := make([]int32, 0, len(ids))
	for _, id := range ids {
		if _, ok := t.vocabulary.token(id); ok {
			known = append(known, id)
		}
	}
	text, err := t.sentence.Decode(known)
	if err != nil {
		return ""
	}
	return text
}
