package tokenizer

import (
	"fmt"
	"strings"

	"github.com/weirml/weir/internal/text/gguf"
	"github.com/weirml/weir/internal/text/sentencepiece"
)

// readGGUF makes a tokenizer of a GGUF file's vocabulary.
func readGGUF(v *gguf.Vocabulary) (*Tokenizer, error) {
	t := newTokenizer()
	var err error
	switch v.Model {
	case "gpt2":
		err = t.readGGUFBytes(v)
	case "llama", "t5":
		err = t.readGGUFSentences(v)
	case "bert":
		err = t.readGGUFWords(v)
	default:
		err = unsupported(fmt.Sprintf("the vocabulary %s is not supported; supported are bert, gpt2, llama, t5",
			quote(v.Model)))
	}
	if err != nil {
		return nil, err
	}
	for i, token := range v.Tokens {
		var special bool
		switch {
		case token == "" || v.Types == nil:
			continue
		case v.Types[i] == int32(sentencepiece.Control), v.Types[i] == int32(sentencepiece.Unknown):
			special = true
		case v.Types[i] != int32(sentencepiece.UserDefined), v.Model == "bert":
			continue
		}
		t.add(addedToken{content: token, normal: token, id: int32(i), special: special})
	}
	if odd := t.match(); odd >= 0 {
		return nil, input(fmt.Sprintf("the token %s is there twice", quote(t.added[odd].content)))
	}
	t.process(ggufTemplate(v))
	return t, nil
}

// ggufIDs returns the ids of tokens. Of equal ones the file is at fault.
func ggufIDs(tokens []string) (map[string]int32, error) {
	ids := make(map[string]int32, len(tokens))
	for i, token := range tokens {
		if _, ok := ids[token]; ok && token != "" {
			return nil, input(fmt.Sprintf("the token %s is there twice", quote(token)))
		}
		ids[token] = int32(i)
	}
	return ids, nil
}

// readGGUFBytes reads a byte-level BPE.
func (t *Tokenizer) readGGUFBytes(v *gguf.Vocabulary) error {
	pre, ok := ggufPreTokenizers[v.Pre]
	if !ok {
		return unsupported(fmt.Sprintf("the pre-tokenizer %s is not supported", quote(v.Pre)))
	}
	ids, err := ggufIDs(v.Tokens)
	if err != nil {
		return err
	}
	t.vocabulary = newVocabulary(ids)
	m := &bpe{vocabulary: t.vocabulary, direct: pre.direct}
	m.merges = newMergeTable(len(v.Merges))
	for i, line := range v.Merges {
		cut := 1 + strings.IndexByte(line[min(1, len(line)):], ' ')
		if cut < 1 {
			return input(fmt.Sprintf("merge %d, %s, is not two tokens", i, quote(line)))
		}
		a, okA := ids[line[:cut]]
		b, okB := ids[line[cut+1:]]
		c, okC := ids[line[:cut]+line[cut+1:]]
		if !okA || !okB || !okC {
			return input(fmt.Sprintf("merge %d: the parts of %s, or what they give, are not tokens", i, quote(line)))
		}
		m.merges.set(a, b, uint32(i), c)
	}
	raw := m.finish(true)
	var steps stages
	for _, source := range pre.patterns {
		if source == eachDigit {
			steps = append(steps, characters{class: classNumber, how: isolated})
			continue
		}
		words, err := compile(source, "tokenizer.ggml.pre")
		if err != nil {
			return err
		}
		steps = append(steps, splitPattern{pattern: words, how: isolated})
	}
	t.pre, t.model, t.decoder = append(steps, byteSplit{raw: raw}), m, byteLevelDecoder{}
	if v.AddBOS == nil {
		v.AddBOS = &pre.begins
	}
	return nil
}

// readGGUFSentences reads SentencePiece's BPE or Unigram. The text between added tokens is encoded by itself.
func (t *Tokenizer) readGGUFSentences(v *gguf.Vocabulary) error {
	ids, err := ggufIDs(v.Tokens)
	if err != nil {
		return err
	}
	f, err := v.SentencePiece()
	if err != nil {
		return err
	}
	e, err := sentencepiece.NewEncoder(f)
	if err != nil {
		return err
	}
	t.vocabulary = newVocabulary(ids)
	t.model, t.parted = &sentenceModel{encoder: e}, true
	d := decoders{replaceDecoder{replace{finder{text: "▁"}, " "}}, byteFallback{}, fuse{}}
	if f.Normalizer.AddDummyPrefix {
		d = append(d, stripDecoder{' ', 1, 0})
	}
	t.decoder = d
	yes, no := true, false
	if bos := &v.AddBOS; *bos == nil {
		*bos = &no
		if v.Model == "llama" {
			*bos = &yes
		}
	}
	if v.AddEOS == nil && v.Model == "t5" {
		v.AddEOS = &yes
	}
	return nil
}

// sentenceModel is a model of SentencePiece, with its normalisation.
type sentenceModel struct{ encoder *sentencepiece.Encoder }

func (m *sentenceModel) tokenize(dst []token, piece string, s *modelScratch) (_ []token, err error) {
	if s.sentence, err = m.encoder.Encode(s.sentence[:0], piece, &s.sentences); err != nil {
		return dst, err
	}
	for i, k := range s.sentence {
		// The last byte of a character has its bounds, and the others are empty.
		for j := i; k.Begin == k.End && j+1 < len(s.sentence); j++ {
			if next := s.sentence[j+1]; next.From != k.From || next.To != k.To {
				break
			} else {
				k.End = next.End
			}
		}
		dst = append(dst, token{k.ID, k.Begin, k.End})
	}
	return dst, nil
}

// readGGUFWords reads a WordPiece: a token that begins a word has ▁ before it, and others have no ##.
func (t *Tokenizer) readGGUFWords(v *gguf.Vocabulary) error {
	tokens := make([]string, len(v.Tokens))
	for i, token := range v.Tokens {
		rest, begins := strings.CutPrefix(token, "▁")
		switch {
		case begins:
			tokens[i] = rest
		case strings.HasPrefix(token, "[") && strings.HasSuffix(token, "]"):
			tokens[i] = token
		default:
			tokens[i] = "##" + token
		}
	}
	ids, err := ggufIDs(tokens)
	if err != nil {
		return err
	}
	for _, id := range []struct {
		id   *int
		name string
	}{{&v.Unknown, "[UNK]"}, {&v.CLS, "[CLS]"}, {&v.Separator, "[SEP]"}} {
		if at, ok := ids[id.name]; ok && *id.id < 0 {
			*id.id = int(at)
		}
	}
	if v.BOS >= 0 && v.CLS < 0 {
		v.CLS = v.BOS
	}
	if v.Unknown < 0 {
		return input("there is no unknown token")
	}
	lowercase := v.Lowercase == nil || *v.Lowercase
	strip := lowercase
	if v.StripAccents != nil {
		strip = *v.StripAccents
	}
	t.vocabulary = newVocabulary(ids)
	t.normalizer, t.pre = newBertNormalizer(true, true, strip, lowercase), stages{bertSplit{}}
	t.model = newWordPiece(t.vocabulary, tokens[v.Unknown], "##", 100)
	t.decoder = wordPieceDecoder{prefix: "##", cleanup: true}
	return nil
}

// ggufTemplate returns the special tokens around one text and two.
func ggufTemplate(v *gguf.Vocabulary) processors {
	asked := func(id int, flag *bool) []int32 {
		if id < 0 || flag == nil || !*flag {
			return nil
		}
		return []int32{int32(id)}
	}
	yes := true
	begin, end := asked(v.BOS, v.AddBOS), asked(v.EOS, v.AddEOS)
	second := begin
	switch {
	case v.Model == "bert":
		begin, second, end = asked(v.CLS, &yes), nil, asked(v.Separator, &yes)
	case v.Model == "gpt2" && ggufPreTokenizers[v.Pre].separates && begin != nil && end != nil:
		return processors{robertaProcessing{sep: end[0], cls: begin[0]}}
	}
	single := []templatePiece{{text: -1, ids: begin}, {text: 0}, {text: -1, ids: end}}
	return processors{templateProcessing{single, append(single[:3:3], templatePiece{text: -1, ids: second, kind: 1},
		templatePiece{text: 1, kind: 1}, templatePiece{text: -1, ids: end, kind: 1})}}
}
