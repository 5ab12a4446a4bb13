package sentencepiece

import (
	"encoding/binary"
	"errors"
	"math/rand"
	"os"
	"strings"
	"testing"

	"github.com/weirml/weir/internal/diag"
)

// load returns a model of testdata.
func load(t testing.TB, name string) *Encoder {
	data, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	f, err := Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	e, err := NewEncoder(f)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// TestMutants damages model files: they are refused, or the encoder works.
func TestMutants(t *testing.T) {
	rand := rand.New(rand.NewSource(1))
	rounds := 2500
	if testing.Short() {
		rounds = 250
	}
	for _, name := range []string{"uni_id.model", "uni_tsv.model", "bpe_id.model", "bpe_tsv.model"} {
		data, err := os.ReadFile("testdata/" + name)
		if err != nil {
			t.Fatal(err)
		}
		refused := 0
		for range rounds {
			d := append([]byte(nil), data...)
			for range 1 + rand.Intn(4) {
				at := rand.Intn(len(d))
				switch rand.Intn(5) {
				case 0:
					d = append(d[:at], d[min(len(d), at+1+rand.Intn(9)):]...)
				case 1:
					d = d[:max(1, at)]
				case 2:
					d[at] = byte(rand.Intn(256))
				default:
					d[at] ^= 1 << rand.Intn(8)
				}
			}
			f, err := Parse(d)
			var e *Encoder
			if err == nil {
				e, err = NewEncoder(f)
			}
			if err != nil {
				if refused++; !errors.Is(err, diag.ErrInput) {
					t.Errorf("%v is not an ErrInput", err)
				}
				continue
			}
			var s Scratch
			tokens, err := e.Encode(nil, "The café's  foo <mask> a\u0301b xy\xff \u4e2d", &s)
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			var ids []int32
			for _, k := range tokens {
				ids = append(ids, k.ID)
			}
			if _, err := e.Decode(ids); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if refused == 0 || refused == rounds {
			t.Errorf("%s: %d of %d mutants are refused", name, refused, rounds)
		}
	}
}

// TestGrowth checks that a charsmap whose replacements make a text much longer is an error, and does not take memory.
func TestGrowth(t *testing.T) {
	e := load(t, "uni_tsv.model")
	file := *e.file
	// A trie of one key, the byte "a", whose replacement has 4,000 bytes.
	units := make([]uint32, 512)
	units[0] = 1 << 10                          // the root's children are at 1^byte
	units[1^'a'] = 'a' | 1<<8 | (1^'a'^256)<<10 // leads to 256, which has the value
	units[256] = 1 << 31                        // value 0
	data := binary.LittleEndian.AppendUint32(nil, uint32(len(units)*4))
	for _, u := range units {
		data = binary.LittleEndian.AppendUint32(data, u)
	}
	file.Normalizer.Charsmap = append(data, strings.Repeat("b", 4000)+"\x00"...)
	grown, err := NewEncoder(&file)
	if err != nil {
		t.Fatal(err)
	}
	var s Scratch
	if _, err := grown.Encode(nil, "aaa", &s); err != nil || len(s.Normalized) != 12000 {
		t.Errorf("%d bytes, %v", len(s.Normalized), err)
	}
	_, err = grown.Encode(nil, strings.Repeat("a", 10000), &s)
	if !errors.Is(err, diag.ErrInput) || !strings.Contains(err.Error(), "becomes one of more than") {
		t.Error(err)
	}
	file.Normalizer.Charsmap = append(data, strings.Repeat("b", 5000)+"\x00"...)
	if _, err := NewEncoder(&file); err == nil || !strings.Contains(err.Error(), "a replacement has more than") {
		t.Error(err)
	}
}

// TestAllocations checks that encoding allocates nothing once its memory has grown.
func TestAllocations(t *testing.T) {
	for _, name := range []string{"uni_id.model", "uni_tsv.model", "bpe_id.model", "bpe_tsv.model"} {
		e := load(t, name)
		var s Scratch
		text := strings.Repeat("The café's  foo <mask> a\u0301b xy \u4e2d", 5)
		tokens, _ := e.Encode(nil, text, &s)
		if n := testing.AllocsPerRun(10, func() { tokens, _ = e.Encode(tokens[:0], text, &s) }); n > 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

// TestLong encodes a text of a megabyte, whose time must not grow with the square of its length.
func TestLong(t *testing.T) {
	for _, name := range []string{"uni_id.model", "bpe_id.model"} {
		e := load(t, name)
		var s Scratch
		text := strings.Repeat("a", 1<<20)
		tokens, err := e.Encode(nil, text, &s)
		if err != nil || len(tokens) == 0 || int(tokens[len(tokens)-1].End) != len(text) {
			t.Errorf("%s: %d tokens, %v", name, len(tokens), err)
		}
	}
}

func BenchmarkEncode(b *testing.B) {
	for _, name := range []string{"uni_tsv.model", "bpe_tsv.model"} {
		e := load(b, name)
		b.Run(name, func(b *testing.B) {
			var s Scratch
			var tokens []Token
			text := strings.Repeat("The memory plan of a model is proven before it runs, and takes exactly that. ", 20)
			b.SetBytes(int64(len(text)))
			for range b.N {
				tokens, _ = e.Encode(tokens[:0], text, &s)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	for _, name := range []string{"uni_id.model", "bpe_tsv.model"} {
		data, err := os.ReadFile("testdata/" + name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data, "a text")
	}
	f.Fuzz(func(t *testing.T, data []byte, text string) {
		file, err := Parse(data)
		if err != nil {
			return
		}
		if e, err := NewEncoder(file); err == nil {
			e.Encode(nil, text, &Scratch{})
		}
	})
}
