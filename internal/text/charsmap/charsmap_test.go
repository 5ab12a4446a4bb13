package charsmap

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"math/rand"
	"os"
	"path/filepath"
	"testing"

	"github.com/weirml/weir/internal/diag"
)

var reference = flag.String("reference", "testdata/reference.jsonl", "a file that testdata/reference.py wrote")
var maps = flag.String("maps", "testdata", "the folder of its charsmaps")

// TestReference compares normalised texts with those of Hugging Face's tokenizers.
func TestReference(t *testing.T) {
	file, err := os.Open(*reference)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<30)
	loaded := map[string]*Map{}
	texts, wrong := map[string]int{}, 0
	for lines.Scan() {
		var name, text, want string
		if err := json.Unmarshal(lines.Bytes(), &[]any{&name, &text, &want}); err != nil {
			t.Fatal(err)
		}
		m := loaded[name]
		if m == nil {
			data, err := os.ReadFile(filepath.Join(*maps, name))
			if err != nil {
				t.Fatal(err)
			}
			if m, err = Parse(data); err != nil {
				t.Fatal(err)
			}
			loaded[name] = m
		}
		texts[name]++
		got := ""
		for w := m.Walk(text); w.Next(); {
			got += w.With
		}
		if got != want {
			if wrong++; wrong < 20 {
				t.Errorf("%s: %+q becomes %+q, not %+q", name, text, got, want)
			}
		}
	}
	t.Logf("texts %v, %d differ", texts, wrong)
	if len(texts) == 0 {
		t.Error("there are no texts")
	}
}

// TestMutants damages charsmaps: they are refused, or every lookup ends within the tables.
func TestMutants(t *testing.T) {
	rand := rand.New(rand.NewSource(1))
	data, err := os.ReadFile("testdata/rules.charsmap")
	if err != nil {
		t.Fatal(err)
	}
	refused := 0
	text := "a\u0301b xy ke\u0301g \u4e2d\U0001F1E9\U0001F1EA\U0001F469\u200d\U0001F680 \x00\xff"
	for range 10000 {
		d := append([]byte(nil), data...)
		for range 1 + rand.Intn(3) {
			switch at := rand.Intn(len(d)); rand.Intn(5) {
			case 0:
				d = d[:max(at, 8)]
			case 1:
				binary.LittleEndian.PutUint32(d, uint32(rand.Intn(2*len(d))))
			case 2:
				at = at &^ 3 % (len(d) - 4)
				binary.LittleEndian.PutUint32(d[at:], rand.Uint32())
			default:
				d[at] ^= 1 << rand.Intn(8)
			}
		}
		m, err := Parse(d)
		if err != nil {
			if refused++; !errors.Is(err, diag.ErrInput) {
				t.Errorf("%v is not an ErrInput", err)
			}
			continue
		}
		for w := m.Walk(text); w.Next(); {
		}
		for i := range text {
			m.Longest(text[i:])
		}
	}
	if refused < 1000 || refused > 9900 {
		t.Errorf("%d of 10000 mutants are refused", refused)
	}
}

// TestAllocations checks that a walk allocates nothing.
func TestAllocations(t *testing.T) {
	data, err := os.ReadFile("testdata/rules.charsmap")
	if err != nil {
		t.Fatal(err)
	}
	m, err := Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	graphemes()
	if n := testing.AllocsPerRun(10, func() {
		for w := m.Walk("a plain text, 中 and \u0915\u094d\u0915"); w.Next(); {
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzParse(f *testing.F) {
	data, _ := os.ReadFile("testdata/rules.charsmap")
	f.Add(data, "abc")
	f.Fuzz(func(t *testing.T, data []byte, text string) {
		m, err := Parse(data)
		if err != nil {
			return
		}
		for w := m.Walk(text); w.Next(); {
		}
		m.Longest(text)
	})
}
