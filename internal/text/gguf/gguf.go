// Package gguf reads the vocabulary of a GGUF file: what its metadata say about tokens. It does not read tensors.
package gguf

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/text/sentencepiece"
)

// Vocabulary is what the metadata below tokenizer.ggml say. A list that the file lacks is nil; the others have one
// entry for each token.
type Vocabulary struct {
	Model    string // llama (SentencePiece's BPE), gpt2 (byte-level BPE), bert (WordPiece), t5 (Unigram), …
	Pre      string // the name of the pre-tokenizer
	Tokens   []string
	Scores   []float32
	Types    []int32  // as SentencePiece numbers them
	Merges   []string // two tokens and a space between them
	Charsmap []byte   // SentencePiece's precompiled_charsmap
	// The ids of special tokens; -1 if the file has none.
	BOS, EOS, Unknown, Separator, Padding, CLS, Mask int
	// AddBOS and so on are nil if the file does not say.
	AddBOS, AddEOS, AddSpacePrefix, RemoveExtraWhitespaces, Lowercase, StripAccents *bool
	ChatTemplate                                                                    string
}

// The types of values.
const (
	typeUint8   = 0
	typeInt8    = 1
	typeUint16  = 2
	typeInt16   = 3
	typeUint32  = 4
	typeInt32   = 5
	typeFloat32 = 6
	typeBool    = 7
	typeString  = 8
	typeArray   = 9
	typeUint64  = 10
	typeInt64   = 11
	typeFloat64 = 12
)

// sizes are the sizes of values in bytes; strings and arrays have none.
var sizes = [...]int64{typeUint8: 1, typeInt8: 1, typeUint16: 2, typeInt16: 2, typeUint32: 4, typeInt32: 4,
	typeFloat32: 4, typeBool: 1, typeString: 0, typeArray: 0, typeUint64: 8, typeInt64: 8, typeFloat64: 8}

// maxNested is the greatest number of arrays within each other.
const maxNested = 8

func fault(format string, args ...any) error {
	return &diag.Error{Kind: diag.ErrInput, Op: "GGUF", Detail: fmt.Sprintf(format, args...)}
}

// The greatest lengths of a string, and of all that is kept. Greater ones are refused, however long the file is.
const (
	maxString = 1 << 24
	maxKept   = 1 << 28
)

// reader reads a file's beginning. After the first error it returns zeros.
type reader struct {
	from io.Reader
	at   int64 // the bytes that were read
	size int64 // of the file
	kept uint64
	word [8]byte
	err  error
}

// fits reports whether n more bytes are in the file; otherwise there is an error.
func (r *reader) fits(n uint64) bool {
	if r.err == nil && n > uint64(r.size-r.at) {
		r.err = fault("%d bytes are expected at byte %d, and %d are left", n, r.at, r.size-r.at)
	}
	return r.err == nil
}

// fill reads bytes that fit.
func (r *reader) fill(to []byte) {
	n, err := io.ReadFull(r.from, to)
	if r.at += int64(n); err != nil {
		r.err = &diag.Error{Kind: diag.ErrInput, Op: "GGUF", Err: err}
	}
}

// take returns the next n bytes in memory of their own, or nil.
func (r *reader) take(n uint64) []byte {
	if !r.fits(n) {
		return nil
	}
	if r.kept += n; n > maxString || r.kept > maxKept {
		r.err = &diag.Error{Kind: diag.ErrUnsupported, Op: "GGUF",
			Detail: fmt.Sprintf("a string of %d bytes, or %d in all, is too long", n, r.kept)}
		return nil
	}
	b := make([]byte, n)
	if r.fill(b); r.err != nil {
		return nil
	}
	return b
}

// pass moves past n bytes.
func (r *reader) pass(n uint64) {
	if !r.fits(n) {
		return
	}
	m, err := io.CopyN(io.Discard, r.from, int64(n))
	if r.at += m; err != nil {
		r.err = &diag.Error{Kind: diag.ErrInput, Op: "GGUF", Err: err}
	}
}

// bytes reads a word of n bytes, at most 8, or returns zeros.
func (r *reader) bytes(n int) []byte {
	b := r.word[:n]
	clear(b)
	if r.fits(uint64(n)) {
		r.fill(b)
	}
	return b
}

func (r *reader) uint32() uint32 { return binary.LittleEndian.Uint32(r.bytes(4)) }
func (r *reader) uint64() uint64 { return binary.LittleEndian.Uint64(r.bytes(8)) }

func (r *reader) string() string { return string(r.take(r.uint64())) }

// array is the head of an array: its elements' type and their number, which the rest of the file has room for.
func (r *reader) array() (kind uint32, count uint64) {
	kind, count = r.uint32(), r.uint64()
	if r.err != nil {
		return 0, 0
	}
	least := uint64(8) // a string's length
	if kind < uint32(len(sizes)) && sizes[kind] > 0 {
		least = uint64(sizes[kind])
	}
	if left := uint64(r.size - r.at); kind >= uint32(len(sizes)) || count > left/least {
		r.err = fault("an array of %d values of type %d does not fit into %d bytes", count, kind, left)
		return 0, 0
	}
	return kind, count
}

// skip moves past a value.
func (r *reader) skip(kind uint32, nested int) {
	switch {
	case r.err != nil:
	case kind >= uint32(len(sizes)) || nested > maxNested:
		r.err = fault("a value of type %d is not known, or lies in too many arrays", kind)
	case kind == typeString:
		r.pass(r.uint64())
	case kind == typeArray:
		kind, count := r.array()
		if size := sizes[kind]; size > 0 {
			r.pass(count * uint64(size))
			return
		}
		for ; count > 0 && r.err == nil; count-- {
			r.skip(kind, nested+1)
		}
	default:
		r.pass(uint64(sizes[kind]))
	}
}

// Parse returns the vocabulary of the file of which data is the beginning.
func Parse(data []byte) (*Vocabulary, error) { return Read(bytes.NewReader(data), int64(len(data))) }

// Read returns the vocabulary of a file of size bytes, of which it reads the metadata. Its error is an ErrInput, or an
// ErrUnsupported; a file without a vocabulary has one. What it takes is at most four times the bytes that it reads.
func Read(from io.Reader, size int64) (*Vocabulary, error) {
	r := &reader{from: bufio.NewReaderSize(from, 1<<16), size: size}
	if string(r.bytes(4)) != "GGUF" {
		return nil, fault("the file does not begin with GGUF")
	}
	if version := r.uint32(); r.err == nil && version != 2 && version != 3 {
		return nil, &diag.Error{Kind: diag.ErrUnsupported, Op: "GGUF",
			Detail: fmt.Sprintf("version %d is not supported", version)}
	}
	r.uint64() // the number of tensors
	v := &Vocabulary{BOS: -1, EOS: -1, Unknown: -1, Separator: -1, Padding: -1, CLS: -1, Mask: -1}
	seen := map[string]bool{}
	for count := r.uint64(); count > 0 && r.err == nil; count-- {
		key := r.string()
		kind := r.uint32()
		if r.err != nil {
			break
		}
		if fieldOf(v, key) == nil {
			r.skip(kind, 0)
			continue
		}
		if seen[key] {
			return nil, fault("%s is there twice", key)
		}
		seen[key] = true
		r.value(fieldOf(v, key), key, kind)
	}
	if r.err != nil {
		return nil, r.err
	}
	return v, v.check()
}

// fieldOf returns where the value of a key goes, or nil.
func fieldOf(v *Vocabulary, key string) any {
	switch key {
	case "tokenizer.ggml.model":
		return &v.Model
	case "tokenizer.ggml.pre":
		return &v.Pre
	case "tokenizer.chat_template":
		return &v.ChatTemplate
	case "tokenizer.ggml.tokens":
		return &v.Tokens
	case "tokenizer.ggml.scores":
		return &v.Scores
	case "tokenizer.ggml.token_type":
		return &v.Types
	case "tokenizer.ggml.merges":
		return &v.Merges
	case "tokenizer.ggml.precompiled_charsmap":
		return &v.Charsmap
	case "tokenizer.ggml.bos_token_id":
		return &v.BOS
	case "tokenizer.ggml.eos_token_id":
		return &v.EOS
	case "tokenizer.ggml.unknown_token_id":
		return &v.Unknown
	case "tokenizer.ggml.seperator_token_id", "tokenizer.ggml.separator_token_id": // the first is how files spell it
		return &v.Separator
	case "tokenizer.ggml.padding_token_id":
		return &v.Padding
	case "tokenizer.ggml.cls_token_id":
		return &v.CLS
	case "tokenizer.ggml.mask_token_id":
		return &v.Mask
	case "tokenizer.ggml.add_bos_token":
		return &v.AddBOS
	case "tokenizer.ggml.add_eos_token":
		return &v.AddEOS
	case "tokenizer.ggml.add_space_prefix":
		return &v.AddSpacePrefix
	case "tokenizer.ggml.remove_extra_whitespaces":
		return &v.RemoveExtraWhitespaces
	case "tokenizer.ggml.normalizer.lowercase":
		return &v.Lowercase
	case "tokenizer.ggml.normalizer.strip_accents":
		return &v.StripAccents
	}
	return nil
}

// value reads a value to where it goes.
func (r *reader) value(to any, key string, kind uint32) {
	wrong := func() {
		if r.err == nil {
			r.err = fault("%s is of type %d", key, kind)
		}
	}
	var element uint32
	var count uint64
	if kind == typeArray {
		element, count = r.array()
	}
	switch to := to.(type) {
	case *string:
		if kind != typeString {
			wrong()
			return
		}
		*to = r.string()
	case **bool:
		if kind != typeBool {
			wrong()
			return
		}
		yes := r.bytes(1)[0] != 0
		*to = &yes
	case *int:
		if kind != typeUint32 && kind != typeInt32 {
			wrong()
			return
		}
		*to = int(int32(r.uint32()))
	case *[]string:
		if kind != typeArray || element != typeString {
			wrong()
			return
		}
		r.each(count, 16, func() { *to = append(*to, r.string()) })
	case *[]float32:
		if kind != typeArray || element != typeFloat32 {
			wrong()
			return
		}
		r.each(count, 4, func() { *to = append(*to, math.Float32frombits(r.uint32())) })
	case *[]int32:
		if kind != typeArray || element != typeInt32 && element != typeUint32 {
			wrong()
			return
		}
		r.each(count, 4, func() { *to = append(*to, int32(r.uint32())) })
	case *[]byte:
		if kind != typeArray || element != typeUint8 && element != typeInt8 {
			wrong()
			return
		}
		*to = r.take(count)
	}
}

// each reads count values of some bytes each.
func (r *reader) each(count, size uint64, read func()) {
	for ; count > 0 && r.err == nil; count-- {
		if r.kept += size; r.kept > maxKept {
			r.err = &diag.Error{Kind: diag.ErrUnsupported, Op: "GGUF", Detail: "the vocabulary is too large"}
			return
		}
		read()
	}
}

// check refuses lists of differing lengths and ids that are no tokens.
func (v *Vocabulary) check() error {
	n := len(v.Tokens)
	switch {
	case v.Model == "" || n == 0:
		return fault("the file has no vocabulary")
	case v.Scores != nil && len(v.Scores) != n:
		return fault("there are %d scores for %d tokens", len(v.Scores), n)
	case v.Types != nil && len(v.Types) != n:
		return fault("there are %d types for %d tokens", len(v.Types), n)
	}
	for _, id := range []int{v.BOS, v.EOS, v.Unknown, v.Separator, v.Padding, v.CLS, v.Mask} {
		if id < -1 || id >= n {
			return fault("the id %d is not one of %d", id, n)
		}
	}
	return nil
}

// SentencePiece returns the vocabulary of a file whose model is llama or t5 as a file of SentencePiece. For another
// model its error is an ErrUnsupported.
func (v *Vocabulary) SentencePiece() (*sentencepiece.File, error) {
	f := &sentencepiece.File{UnknownSurface: " \u2047 ", BOS: v.BOS, EOS: v.EOS, PAD: v.Padding,
		Normalizer: sentencepiece.Normalizer{AddDummyPrefix: true, EscapeWhitespaces: true, Charsmap: v.Charsmap}}
	switch v.Model {
	case "llama":
		f.Algorithm = sentencepiece.BPE
	case "t5":
		f.Algorithm = sentencepiece.Unigram
		f.Normalizer.RemoveExtraWhitespaces = true
	default:
		return nil, &diag.Error{Kind: diag.ErrUnsupported, Op: "GGUF",
			Detail: fmt.Sprintf("a vocabulary of kind %q is not SentencePiece's", v.Model)}
	}
	if v.AddSpacePrefix != nil {
		f.Normalizer.AddDummyPrefix = *v.AddSpacePrefix
	}
	if v.RemoveExtraWhitespaces != nil {
		f.Normalizer.RemoveExtraWhitespaces = *v.RemoveExtraWhitespaces
	}
	for i, token := range v.Tokens {
		p := sentencepiece.Piece{Text: token, Type: sentencepiece.Normal}
		if v.Scores != nil {
			p.Score = v.Scores[i]
		}
		if v.Types != nil {
			if v.Types[i] < int32(sentencepiece.Normal) || v.Types[i] > int32(sentencepiece.Byte) {
				return nil, fault("token %d is of type %d", i, v.Types[i])
			}
			p.Type = sentencepiece.Type(v.Types[i])
		}
		f.ByteFallback = f.ByteFallback || p.Type == sentencepiece.Byte
		f.Pieces = append(f.Pieces, p)
	}
	if v.Unknown >= 0 { // whatever its type is, as in files of Gemma
		for i := range f.Pieces {
			if f.Pieces[i].Type == sentencepiece.Unknown {
				f.Pieces[i].Type = sentencepiece.Control
			}
		}
		f.Pieces[v.Unknown].Type = sentencepiece.Unknown
	}
	return f, f.Check()
}
