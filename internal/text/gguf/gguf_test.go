package gguf

import (
	"errors"
	"fmt"
	"math/rand"
	"testing"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/text/gguftest"
	"github.com/weirml/weir/internal/text/sentencepiece"
)

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
	var w gguftest.Writer
	w.Add("general.architecture", "llama")
	w.Add("general.numbers", []int32{1, 2, 3})
	w.Add("general.names", []string{"a", "b"})
	w.Add("tokenizer.ggml.model", "llama")
	w.Add("tokenizer.ggml.tokens", tokens)
	w.Add("tokenizer.ggml.scores", scores)
	w.Add("tokenizer.ggml.token_type", types)
	w.Add("tokenizer.ggml.bos_token_id", 1)
	w.Add("tokenizer.ggml.eos_token_id", 2)
	w.Add("tokenizer.ggml.add_bos_token", true)
	return w.File()
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
		var w gguftest.Writer
		w.Text("tokenizer.ggml.tokens")
		w.Uint32(typeArray)
		w.Uint32(kind)
		w.Uint64(1 << 60)
		data := w.File()
		data[16] = 1 // the number of keys
		if _, err := Parse(data); !errors.Is(err, diag.ErrInput) {
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
