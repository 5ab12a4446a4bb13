package gguf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand"
	"testing"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/text/sentencepiece"
)

// writer writes a file's metadata.
type writer struct {
	data  []byte
	count uint64
}

func (w *writer) uint32(n uint32) { w.data = binary.LittleEndian.AppendUint32(w.data, n) }
func (w *writer) uint64(n uint64) { w.data = binary.LittleEndian.AppendUint64(w.data, n) }
func (w *writer) string(s string) { w.uint64(uint64(len(s))); w.data = append(w.data, s...) }

// add writes a key and a value.
func (w *writer) add(key string, value any) {
	w.count++
	w.string(key)
	switch v := value.(type) {
	case string:
		w.uint32(typeString)
		w.string(v)
	case bool:
		w.uint32(typeBool)
		if w.data = append(w.data, 0); v {
			w.data[len(w.data)-1] = 1
		}
	case int:
		w.uint32(typeUint32)
		w.uint32(uint32(v))
	case []string:
		w.uint32(typeArray)
		w.uint32(typeString)
		w.uint64(uint64(len(v)))
		for _, s := range v {
			w.string(s)
		}
	case []float32:
		w.uint32(typeArray)
		w.uint32(typeFloat32)
		w.uint64(uint64(len(v)))
		for _, f := range v {
			w.uint32(math.Float32bits(f))
		}
	case []int32:
		w.uint32(typeArray)
		w.uint32(typeInt32)
		w.uint64(uint64(len(v)))
		for _, n := range v {
			w.uint32(uint32(n))
		}
	default:
		panic(fmt.Sprintf("%T", value))
	}
}

// file returns a file with a vocabulary like that of Llama 2.
func file() []byte {
	tokens := []string{"<unk>", "<s>", "</s>"}
	scores := []float32{0, 0, 0}
	types := []int32{2, 3, 3}
	for b := range 256 {
		tokens, scores, types = append(tokens, fmt.Sprintf("<0x%02X>", b)), append(scores, 0), append(types, 6)
	}
	for i, s := range []string{"\u2581t", "he", "\u2581the", "\u2581", "t", "h", "e"} {
		tokens, scores, types = append(tokens, s), append(scores, -float32(i)), append(types, 1)
	}
	var w writer
	w.add("general.architecture", "llama")
	w.add("general.numbers", []int32{1, 2, 3})
	w.add("general.names", []string{"a", "b"})
	w.add("tokenizer.ggml.model", "llama")
	w.add("tokenizer.ggml.tokens", tokens)
	w.add("tokenizer.ggml.scores", scores)
	w.add("tokenizer.ggml.token_type", types)
	w.add("tokenizer.ggml.bos_token_id", 1)
	w.add("tokenizer.ggml.eos_token_id", 2)
	w.add("tokenizer.ggml.add_bos_token", true)
	head := writer{data: []byte("GGUF")}
	head.uint32(3)
	head.uint64(0)
	head.uint64(w.count)
	return append(head.data, w.data...)
}

// TestParse reads a vocabulary and encodes with it.
func TestParse(t *testing.T) {
	v, err := Parse(file())
	if err != nil {
		t.Fatal(err)
	}
	if v.Model != "llama" || len(v.Tokens) != 266 || v.BOS != 1 || v.EOS != 2 || v.Padding != -1 || v.AddBOS == nil ||
		!*v.AddBOS {
		t.Errorf("%+v", v)
	}
	f, err := v.SentencePiece()
	if err != nil {
		t.Fatal(err)
	}
	e, err := sentencepiece.NewEncoder(f)
	if err != nil {
		t.Fatal(err)
	}
	var s sentencepiece.Scratch
	tokens, err := e.Encode(nil, "the the\n", &s)
	var ids []int32
	for _, k := range tokens {
		ids = append(ids, k.ID)
	}
	if got := fmt.Sprint(ids); err != nil || got != "[261 261 13]" {
		t.Errorf("%s, %v", got, err)
	}
	if text, err := e.Decode(ids); err != nil || text != " the the\n" && text != "the the\n" {
		t.Errorf("%q, %v", text, err)
	}
}

// TestMutants damages files: they are refused, or the vocabulary's lists fit each other.
func TestMutants(t *testing.T) {
	rand := rand.New(rand.NewSource(1))
	data := file()
	refused := 0
	for range 10000 {
		d := append([]byte(nil), data...)
		for range 1 + rand.Intn(3) {
			at := rand.Intn(len(d))
			if rand.Intn(2) == 0 {
				at = rand.Intn(min(400, len(d)))
			}
			switch rand.Intn(4) {
			case 0:
				d = d[:max(at, 1)]
			case 1:
				d[at] = byte(rand.Intn(256))
			default:
				d[at] ^= 1 << rand.Intn(8)
			}
		}
		v, err := Parse(d)
		if err == nil {
			var f *sentencepiece.File
			if f, err = v.SentencePiece(); err == nil {
				_, err = sentencepiece.NewEncoder(f)
			}
		}
		if err != nil {
			if refused++; !errors.Is(err, diag.ErrInput) && !errors.Is(err, diag.ErrUnsupported) {
				t.Errorf("%v", err)
			}
		}
	}
	if refused < 1000 || refused == 10000 {
		t.Errorf("%d of 10000 mutants are refused", refused)
	}
}

// TestClaims checks that a file which claims great lists is refused before memory is taken for them.
func TestClaims(t *testing.T) {
	for _, kind := range []uint32{typeUint8, typeFloat32, typeString, typeArray, typeFloat64} {
		w := writer{data: []byte("GGUF")}
		w.uint32(3)
		w.uint64(0)
		w.uint64(1)
		w.string("tokenizer.ggml.tokens")
		w.uint32(typeArray)
		w.uint32(kind)
		w.uint64(1 << 60)
		if _, err := Parse(w.data); !errors.Is(err, diag.ErrInput) {
			t.Errorf("type %d: %v", kind, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(file())
	f.Fuzz(func(t *testing.T, data []byte) {
		if v, err := Parse(data); err == nil {
			v.SentencePiece()
		}
	})
}
