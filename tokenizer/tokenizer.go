package tokenizer

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/text/gguf"
	"github.com/weirml/weir/internal/text/sentencepiece"
)

// Tokenizer turns texts into ids, and ids into texts. It never changes; goroutines may share it.
type Tokenizer struct {
	normalizer normalizer
	pre        preTokenizer
	model      model
	sentence   *sentencepiece.Encoder // instead of all steps; nil: there is none
	vocabulary *vocabulary
	decoder    decoder
	plans      [2][2]plan // of one text and two, without special tokens and with them
	planned    [2]bool    // whether there is a plan for one text, and for two
	trims      bool       // offsets are trimmed
	literal    bool       // the text of an unknown token is the piece's
	parted     bool       // tokens that stand for nothing have a place in the text
	cut        *Truncation
	pad        *Padding

	added    []addedToken
	addedIDs map[string]int32
	byID     map[int32]int // the index of the added token of an id
	special  map[string]bool
	exact    *matcher // of the tokens that are found in the text as it is; nil: there are none
	normal   *matcher // of those that are found in the normalised text

	pool   sync.Pool // of *scratch
	places bool      // a step reads the places of pieces, even if only ids are asked for
}

func newTokenizer() *Tokenizer {
	return &Tokenizer{addedIDs: map[string]int32{}, byID: map[int32]int{}, special: map[string]bool{}}
}

// ggufMagic is the beginning of GGUF files.
const ggufMagic = "GGUF"

// files are the names under which folders have tokenizers. The first that exists is read, otherwise a .gguf file.
var files = []string{"tokenizer.json", "tokenizer.model", "spiece.model", "sentencepiece.bpe.model"}

// Load reads a tokenizer.json, a model of SentencePiece, ranks of tiktoken or the vocabulary of a GGUF file, or the one
// in a folder. The error is an ErrUnsupported if the file has a part that this package lacks, and an ErrInput if the
// file is malformed; it names the file and the path of the value in it.
func Load(name string) (*Tokenizer, error) { return LoadFS(system{}, name) }

// system is the operating system's files by their names there.
type system struct{}

func (system) Open(name string) (fs.File, error) { return os.Open(name) }

// LoadFS reads as Load does, from a file system.
func LoadFS(fsys fs.FS, name string) (*Tokenizer, error) {
	name = within(fsys, name)
	t, err := loadFile(fsys, name)
	if d := (*diag.Error)(nil); errors.As(err, &d) {
		named := *d
		named.File = name
		return nil, &named
	}
	if err != nil {
		return nil, &diag.Error{Kind: diag.ErrInput, File: name, Err: err}
	}
	return t, nil
}

// within returns the name of the file in a folder that is read, or the name of what is not a folder.
func within(fsys fs.FS, name string) string {
	if info, err := fs.Stat(fsys, name); err != nil || !info.IsDir() {
		return name
	}
	for _, file := range files {
		if _, err := fs.Stat(fsys, path.Join(name, file)); err == nil {
			return path.Join(name, file)
		}
	}
	list, _ := fs.ReadDir(fsys, name)
	for _, e := range list {
		if !e.IsDir() && strings.HasSuffix(e.Name(), ".gguf") {
			return path.Join(name, e.Name())
		}
	}
	return path.Join(name, files[0])
}

// loadFile reads a file: of GGUF, which may be larger than the memory, the beginning.
func loadFile(fsys fs.FS, name string) (*Tokenizer, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	head := make([]byte, len(ggufMagic))
	n, err := io.ReadFull(f, head)
	if err == nil && string(head) == ggufMagic {
		v, err := gguf.Read(io.MultiReader(bytes.NewReader(head), f), info.Size())
		if err != nil {
			return nil, err
		}
		return ready(readGGUF(v))
	}
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return nil, err
	}
	data := bytes.NewBuffer(head[:n])
	data.Grow(int(min(max(info.Size(), 0), 1<<30)))
	if _, err := data.ReadFrom(f); err != nil {
		return nil, err
	}
	return ready(readBytes(data.Bytes(), name))
}

// LoadBytes reads what Load reads. It keeps no reference to data.
func LoadBytes(data []byte) (*Tokenizer, error) { return ready(readBytes(data, "")) }

// ready makes a tokenizer ready for calls.
func ready(t *Tokenizer, err error) (*Tokenizer, error) {
	if err != nil {
		return nil, err
	}
	t.pool.New = func() any { return new(scratch) }
	t.places = places(t.pre)
	return t, nil
}

// readBytes reads a file, whose name may be empty.
func readBytes(data []byte, name string) (*Tokenizer, error) {
	switch {
	case bytes.HasPrefix(data, []byte(ggufMagic)):
		v, err := gguf.Parse(data)
		if err != nil {
			return nil, err
		}
		return readGGUF(v)
	case isJSON(data):
		o, err := parse(data)
		if err != nil {
			return nil, err
		}
		return read(o)
	case isTiktoken(data):
		e, err := tiktokenOf(name, data)
		if err != nil {
			return nil, err
		}
		return readTiktoken(data, e)
	}
	return readSentencePiece(data)
}

// kept is the most bytes of a text whose scratch is kept for the next call.
const kept = 1 << 20

func (t *Tokenizer) take() *scratch { return t.pool.Get().(*scratch) }

// give ends a call's use of scratch. That of a long text goes: it may be sixty times as large as the text.
func (t *Tokenizer) give(s *scratch) {
	s.first.text, s.second.text = "", ""
	s.text.s, s.part.s, s.text.align, s.part.align = "", "", nil, nil
	if s.longest <= kept {
		t.pool.Put(s)
	}
}

// Encode returns the tokens of a text.
func (t *Tokenizer) Encode(text string, o Options) (*Encoding, error) {
	return t.encode([]string{text}, &o)
}

// EncodePair returns the tokens of two texts that belong together, as a question and a passage.
func (t *Tokenizer) EncodePair(first, second string, o Options) (*Encoding, error) {
	return t.encode([]string{first, second}, &o)
}

func (t *Tokenizer) encode(texts []string, o *Options) (*Encoding, error) {
	s := t.take()
	defer t.give(s)
	pl, cuts, err := t.encodeTexts(s, texts, o, true)
	if err != nil {
		return nil, err
	}
	es := [1]Encoding{t.build(s, pl, cuts)}
	if err := padAll(es[:], t.padding(o)); err != nil {
		return nil, err
	}
	return &es[0], nil
}

// AppendIDs appends the ids of a text to dst, without padding. It allocates nothing once it has seen texts as long, if
// dst has room and the text at most 1 MiB.
func (t *Tokenizer) AppendIDs(dst []int32, text string, o Options) ([]int32, error) {
	s := t.take()
	defer t.give(s)
	texts := [1]string{text}
	pl, cuts, err := t.encodeTexts(s, texts[:], &o, false)
	if err != nil {
		return dst, err
	}
	for _, p := range pl.parts {
		if p.text < 0 {
			dst = append(dst, p.id)
			continue
		}
		ids := s.first.ids
		if cuts[0] != nil {
			ids = ids[cuts[0][0].begin:cuts[0][0].end]
		}
		dst = append(slices.Grow(dst, len(ids)), ids...)
	}
	return dst, nil
}

// ID returns the id of a token.
func (t *Tokenizer) ID(token string) (int32, bool) {
	id, ok := t.addedIDs[token]
	if !ok {
		id, ok = t.vocabulary.ids[token]
	}
	return id, ok
}

// Token returns the token of an id, as the decoder sees it: an added token as the normaliser leaves it.
func (t *Tokenizer) Token(id int32) (string, bool) {
	if at, ok := t.byID[id]; ok {
		return t.added[at].normal, true
	}
	return t.vocabulary.token(id)
}

// Size returns the number of tokens: the model's, and those added to them.
func (t *Tokenizer) Size() int {
	n := len(t.vocabulary.ids)
	for token := range t.addedIDs {
		if _, ok := t.vocabulary.ids[token]; !ok {
			n++
		}
	}
	return n
}

// Decode returns the text of ids, without special tokens. Ids that stand for no token are left out.
func (t *Tokenizer) Decode(ids []int32) string { return t.decode(ids, true) }

// DecodeSpecial returns the text of ids, with special tokens.
func (t *Tokenizer) DecodeSpecial(ids []int32) string { return t.decode(ids, false) }

func (t *Tokenizer) decode(ids []int32, skip bool) string {
	if t.sentence != nil {
		return t.decodeSentence(ids)
	}
	tokens := make([]string, 0, len(ids))
	for _, id := range ids {
		token, ok := t.Token(id)
		if !ok || skip && t.special[token] {
			continue
		}
		tokens = append(tokens, token)
	}
	return t.join(tokens)
}

// DecodeTokens returns the text of tokens, which need not be in the vocabulary: what the reference's decoder makes of
// them.
func (t *Tokenizer) DecodeTokens(tokens []string) string { return t.join(slices.Clone(tokens)) }

// join returns the text of tokens, and may change the slice.
func (t *Tokenizer) join(tokens []string) string {
	switch {
	case t.sentence != nil:
		return strings.TrimPrefix(strings.ReplaceAll(strings.Join(tokens, ""), "▁", " "), " ")
	case t.decoder == nil:
		return strings.Join(tokens, " ")
	}
	return strings.Join(t.decoder.decode(tokens), "")
}

// Truncation returns how the file says that texts are truncated; nil if it does not.
func (t *Tokenizer) Truncation() *Truncation {
	if t.cut == nil || t.cut.Off {
		return nil
	}
	cut := *t.cut
	return &cut
}

// ContinuingPrefix returns what the tokens that continue a word begin with, as ## in WordPiece; "" if the model does
// not tell them apart.
func (t *Tokenizer) ContinuingPrefix() string {
	switch m := t.model.(type) {
	case *wordPiece:
		return m.prefix
	case *bpe:
		return m.prefix
	}
	return ""
}
