package tokenizer

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/weirml/weir/internal/text/tiktoken"
)

// tiktokenEncoding is what tiktoken says of an encoding beside its ranks.
type tiktokenEncoding struct {
	pattern string
	special map[string]int32
	sum     string // the SHA-256 of the file with its ranks, in hexadecimal; "": another encoding has the same file
}

// The patterns of tiktoken 0.14, in the syntax of Ruby: $ is \z there, and only * + ? can be possessive.
const (
	r50kWords  = `'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++\z|\s+(?!\S)|\s`
	cl100Words = `'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++\z|` +
		`\s*[\r\n]|\s+(?!\S)|\s`
	o200kWords = `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|` +
		`[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|` +
		`\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`
)

// tiktokenEncodings are tiktoken's encodings by name.
var tiktokenEncodings = map[string]tiktokenEncoding{
	"gpt2": {pattern: r50kWords, special: map[string]int32{"<|endoftext|>": 50256}},
	"r50k_base": {pattern: r50kWords, special: map[string]int32{"<|endoftext|>": 50256},
		sum: "306cd27f03c1a714eca7108e03d66b7dc042abe8c258b44c199a7ed9838dd930"},
	"p50k_base": {pattern: r50kWords, special: map[string]int32{"<|endoftext|>": 50256},
		sum: "94b5ca7dff4d00767bc256fdd1b27e5b17361d7b8a5f968547f9f23eb70d2069"},
	"p50k_edit": {pattern: r50kWords, special: map[string]int32{"<|endoftext|>": 50256, "<|fim_prefix|>": 50281,
		"<|fim_middle|>": 50282, "<|fim_suffix|>": 50283}},
	"cl100k_base": {pattern: cl100Words, special: map[string]int32{"<|endoftext|>": 100257, "<|fim_prefix|>": 100258,
		"<|fim_middle|>": 100259, "<|fim_suffix|>": 100260, "<|endofprompt|>": 100276},
		sum: "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7"},
	"o200k_base": {pattern: o200kWords, special: map[string]int32{"<|endoftext|>": 199999, "<|endofprompt|>": 200018},
		sum: "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"},
	"o200k_harmony": {pattern: o200kWords, special: harmony()},
}

// harmony returns the special tokens of o200k_harmony.
func harmony() map[string]int32 {
	special := map[string]int32{"<|startoftext|>": 199998, "<|endoftext|>": 199999, "<|return|>": 200002,
		"<|constrain|>": 200003, "<|channel|>": 200005, "<|start|>": 200006, "<|end|>": 200007, "<|message|>": 200008,
		"<|call|>": 200012, "<|endofprompt|>": 200018}
	named := map[int32]bool{}
	for _, id := range special {
		named[id] = true
	}
	for id := int32(200000); id < 201088; id++ {
		if !named[id] || id == 200018 { // this one has two names
			special[fmt.Sprintf("<|reserved_%d|>", id)] = id
		}
	}
	return special
}

// LoadTiktoken reads ranks of tiktoken for an encoding: cl100k_base, gpt2, o200k_base, o200k_harmony, p50k_base,
// p50k_edit or r50k_base. It keeps no reference to data. Ids are those of tiktoken's encode with all special tokens
// allowed.
func LoadTiktoken(data []byte, encoding string) (*Tokenizer, error) {
	e, ok := tiktokenEncodings[encoding]
	if !ok {
		return nil, unsupported(fmt.Sprintf("the encoding %s is not known; known are %s", quote(encoding),
			strings.Join(slices.Sorted(maps.Keys(tiktokenEncodings)), ", ")))
	}
	return ready(readTiktoken(data, e))
}

// isTiktoken reports whether a file's content begins with a token in base64 and its rank.
func isTiktoken(data []byte) bool {
	line := data[:min(len(data), 4096)]
	token, rest, ok := strings.Cut(string(line), " ")
	return ok && token != "" && rest != "" && rest[0] >= '0' && rest[0] <= '9' &&
		strings.Trim(token, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=") == ""
}

// tiktokenOf returns the encoding that the name of a file tells, or its content.
func tiktokenOf(name string, data []byte) (tiktokenEncoding, error) {
	if stem, ok := strings.CutSuffix(path.Base(strings.ReplaceAll(name, `\`, "/")), ".tiktoken"); ok {
		if e, ok := tiktokenEncodings[stem]; ok {
			return e, nil
		}
	}
	sum := sha256.Sum256(data)
	for _, e := range tiktokenEncodings {
		if e.sum == hex.EncodeToString(sum[:]) {
			return e, nil
		}
	}
	return tiktokenEncoding{}, unsupported("tiktoken's ranks do not say how texts are cut, and neither the file's name " +
		"nor its content is that of a known encoding: use LoadTiktoken")
}

// longestRanked is the most bytes of a token of tiktoken: its pairs of parts are found by trying each.
const longestRanked = 1024

// readTiktoken makes a tokenizer of ranks. Any two tokens that together are a token are merged, the one of the lowest
// rank first.
func readTiktoken(data []byte, e tiktokenEncoding) (*Tokenizer, error) {
	tokens, err := tiktoken.Parse(data)
	if err != nil {
		return nil, err
	}
	t := newTokenizer()
	ranks := make(map[string]int32, len(tokens))
	ids := make(map[string]int32, len(tokens))
	var text []rune
	for _, k := range tokens {
		if len(k.Bytes) > longestRanked {
			return nil, unsupported(fmt.Sprintf("a token of %d bytes is longer than %d", len(k.Bytes), longestRanked))
		}
		text = text[:0]
		for i := range len(k.Bytes) {
			text = append(text, byteCharacters[k.Bytes[i]])
		}
		ranks[k.Bytes], ids[string(text)] = k.Rank, k.Rank
	}
	t.vocabulary = newVocabulary(ids)
	m := &bpe{vocabulary: t.vocabulary, direct: true}
	if m.merges, err = rankedMerges(tokens, ranks); err != nil {
		return nil, err
	}
	m.finish(true)
	words, err := compile(e.pattern, "tiktoken")
	if err != nil {
		return nil, err
	}
	t.pre = stages{splitPattern{pattern: words, how: isolated}, byteSplit{raw: true}}
	t.model, t.decoder = m, byteLevelDecoder{}
	for _, content := range slices.Sorted(maps.Keys(e.special)) {
		id := e.special[content]
		if token, ok := t.vocabulary.token(id); ok {
			return nil, input(fmt.Sprintf("the token %s has the id %d of the special token %s", quote(token), id, content))
		}
		t.add(addedToken{content: content, normal: content, id: id, special: true})
	}
	t.match()
	t.process(nil)
	return t, nil
}

// rankedMerges returns the merges of all pairs of tokens that together are a token.
func rankedMerges(tokens []tiktoken.Token, ranks map[string]int32) (mergeTable, error) {
	each := func(use func(a, b, whole int32)) {
		for _, k := range tokens {
			for i := 1; i < len(k.Bytes); i++ {
				a, ok := ranks[k.Bytes[:i]]
				if !ok {
					continue
				}
				if b, ok := ranks[k.Bytes[i:]]; ok {
					use(a, b, k.Rank)
				}
			}
		}
	}
	n := 0
	each(func(_, _, _ int32) { n++ })
	table := newMergeTable(n)
	each(func(a, b, whole int32) { table.set(a, b, uint32(whole), whole) })
	return table, nil
}
