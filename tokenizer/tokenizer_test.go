package tokenizer

import (
	"encoding/json"
	"errors"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/weirml/weir/internal/diag"
)

func loadFamily(t testing.TB, name string) *Tokenizer {
	k, err := LoadBytes(family(t, name))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// TestAppendIDs compares AppendIDs with Encode, and counts its allocations.
func TestAppendIDs(t *testing.T) {
	for _, name := range families(t) {
		k := loadFamily(t, name)
		for _, q := range questions(k, 200) {
			q.options.Padding = nil
			e, err := k.Encode(q.A, q.options)
			q.options.Overflow = false
			ids, failed := k.AppendIDs(nil, q.A, q.options)
			if (err == nil) != (failed == nil) || err == nil && !slices.Equal(ids, e.IDs) {
				t.Fatalf("%s: %q: AppendIDs gives %v %v, Encode %v", name, q.A, ids, failed, err)
			}
		}
		var ids []int32
		text := strings.Repeat("The café's naïve résumé, 123 日本語 don't [CLS] <mask>\u0301! ", 20)
		allocations := testing.AllocsPerRun(50, func() { ids, _ = k.AppendIDs(ids[:0], text, Options{}) })
		if allocations >= 1 {
			t.Errorf("%s: AppendIDs allocates %v times a call", name, allocations)
		}
	}
}

// TestInvalid compares texts that are not UTF-8 with the same texts after Rust's from_utf8_lossy.
func TestInvalid(t *testing.T) {
	for in, want := range map[string]string{
		"a\xffb": "a\uFFFDb", "\xe2\x82": "\uFFFD", "\xe2\x82a": "\uFFFDa", "\xf0\x9f\x92\xf0": "\uFFFD\uFFFD",
		"\xed\xa0\x80": "\uFFFD\uFFFD\uFFFD", "\xc0\x80": "\uFFFD\uFFFD", "\xf4\x90\x80\x80": "\uFFFD\uFFFD\uFFFD\uFFFD",
		"\xe0\x9f\xbf": "\uFFFD\uFFFD\uFFFD", "é\xe2\x82\xac\x80": "é€\uFFFD", "\xf0\x90\x80": "\uFFFD",
	} {
		if got := lossy([]byte(in)); got != want {
			t.Errorf("%q becomes %q, not %q", in, got, want)
		}
	}
	r := rand.New(rand.NewPCG(3, 4))
	for _, name := range []string{"bert_uncased", "gpt2", "gemma"} {
		k := loadFamily(t, name)
		for range 500 {
			b := []byte(randomText(r, []string{"word"}))
			for range r.IntN(4) {
				if len(b) > 0 {
					b[r.IntN(len(b))] = byte(r.Uint32())
				}
			}
			e, err := k.Encode(string(b), Options{})
			want, failed := k.Encode(lossy(b), Options{})
			if err != nil || failed != nil || !slices.Equal(e.IDs, want.IDs) {
				t.Fatalf("%s: %q differs from its repaired text: %v %v", name, b, err, failed)
			}
			for _, at := range e.Offsets {
				if at.Begin < 0 || at.Begin > at.End || at.End > len(b) {
					t.Fatalf("%s: %q: offsets %v of %d bytes", name, b, at, len(b))
				}
			}
		}
	}
}

// TestCharacters compares what happens to each of the 1,112,064 characters with the reference's answers, of which these
// are hashes. testdata/tables.py reads the same answers.
func TestCharacters(t *testing.T) {
	names := []string{"NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents"}
	want := map[string]uint32{
		"NFC": 0xe0e73ca9, "NFD": 0x95919c85, "NFKC": 0x1e3e6f61,
		"NFKD": 0x170ff970, "Lowercase": 0x970fee1c, "StripAccents": 0xe0c7541e,
	}
	for _, name := range names {
		n, err := normalizers[name](object{})
		if err != nil {
			t.Fatal(err)
		}
		h := fnv.New32a()
		var s scratch
		for r := rune(0); r <= utf8.MaxRune; r++ {
			if !utf8.ValidRune(r) {
				continue
			}
			s.text.reset(string(r), 0)
			if err := n.normalize(&s.text, &s); err != nil {
				t.Fatal(err)
			}
			h.Write([]byte(s.text.s))
			h.Write([]byte{'\n'})
		}
		if h.Sum32() != want[name] {
			t.Errorf("%s of all characters has the hash %#x, not %#x", name, h.Sum32(), want[name])
		}
	}
}

// endsMatter has the tokenizers whose decoder treats the first or last part of a text in its own way, so that parts do
// not make the whole. TestRecorded compares their parts with the reference's.
var endsMatter = map[string]bool{"clip": true, "llama2": true, "words_patterns": true}

// TestStream decodes ids one by one: the parts make the whole, and none ends within a character.
func TestStream(t *testing.T) {
	for _, name := range families(t) {
		k := loadFamily(t, name)
		if k.decoder == nil {
			continue
		}
		for _, q := range questions(k, 150) {
			e, err := k.Encode(q.A, Options{NoSpecial: true})
			if err != nil {
				t.Fatal(err)
			}
			whole := k.Decode(e.IDs)
			if strings.Contains(whole, "\uFFFD") {
				continue
			}
			var b strings.Builder
			d := k.Stream()
			for _, id := range e.IDs {
				part := d.Next(id)
				if !utf8.ValidString(part) || strings.Contains(part, "\uFFFD") {
					t.Fatalf("%s: %q: the part %q is not of whole characters", name, q.A, part)
				}
				b.WriteString(part)
			}
			if b.WriteString(d.Rest()); b.String() != whole && !endsMatter[name] {
				t.Fatalf("%s: %q: the parts are %q, the whole is %q", name, q.A, b.String(), whole)
			}
		}
	}
}

// TestVocabulary: a tokenizer has as many tokens as it says, each id's token has that id, and no other token has one.
// An added token that the normaliser changes is found by its own text, and given as the normaliser leaves it, as in the
// reference.
func TestVocabulary(t *testing.T) {
	files, err := filepath.Glob("testdata/families/*.json.gz")
	if err != nil || len(files) < 20 {
		t.Fatalf("%d families, %v", len(files), err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".json.gz")
		k := loadFamily(t, name)
		found := 0
		for id := range int32(4 * k.Size()) {
			token, ok := k.Token(id)
			if !ok {
				continue
			}
			found++
			if at, added := k.byID[id]; added {
				token = k.added[at].content
			}
			if back, ok := k.ID(token); !ok || back != id {
				t.Errorf("%s: token %q of id %d has the id %d, %v", name, token, id, back, ok)
			}
		}
		if found != k.Size() || found == 0 {
			t.Errorf("%s: %d ids have tokens, and the size is %d", name, found, k.Size())
		}
		if id, ok := k.ID("no token \x00"); ok {
			t.Errorf("%s: a token that is not there has the id %d", name, id)
		}
	}
}

// TestGoroutines encodes on several goroutines with one tokenizer.
func TestGoroutines(t *testing.T) {
	k := loadFamily(t, "llama3")
	qs := questions(k, 200)
	var want [][]int32
	for _, q := range qs {
		ids, _ := k.AppendIDs(nil, q.A, Options{})
		want = append(want, ids)
	}
	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() {
			for i, q := range qs {
				if ids, err := k.AppendIDs(nil, q.A, Options{}); err != nil || !slices.Equal(ids, want[i]) {
					t.Errorf("%q: other ids on several goroutines: %v", q.A, err)
				}
			}
		})
	}
	wait.Wait()
}

// TestBatch pads a batch to the length of its longest text.
func TestBatch(t *testing.T) {
	k := loadFamily(t, "bert_uncased")
	texts := []string{"a", "a longer text, of many words", ""}
	es, err := k.EncodeBatch(texts, Options{Padding: &Padding{Multiple: 8, ID: 7}})
	if err != nil {
		t.Fatal(err)
	}
	for i, e := range es {
		alone, err := k.Encode(texts[i], Options{})
		if err != nil {
			t.Fatal(err)
		}
		n := len(alone.IDs)
		if len(e.IDs)%8 != 0 || len(e.IDs) != len(es[0].IDs) || !slices.Equal(e.IDs[:n], alone.IDs) {
			t.Errorf("%q: %v is not %v padded", texts[i], e.IDs, alone.IDs)
		}
		for j := n; j < len(e.IDs); j++ {
			if e.IDs[j] != 7 || e.Mask[j] != 0 || !e.Special[j] {
				t.Errorf("%q: token %d is not padding", texts[i], j)
			}
		}
	}
}

// TestBatchGoroutines encodes batches on several goroutines: the encodings are those of each text, in order, and the
// error is of the first text at fault.
func TestBatchGoroutines(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	k := loadFamily(t, "bert_uncased")
	var texts []string
	for i := range 3000 {
		texts = append(texts, strings.Repeat("word ", i%40))
	}
	es, err := k.EncodeBatch(texts, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i, text := range texts {
		if ids, err := k.AppendIDs(nil, text, Options{}); err != nil || !slices.Equal(ids, es[i].IDs) {
			t.Fatalf("text %d: %v, not %v; %v", i, es[i].IDs, ids, err)
		}
	}
	// A stride that is not less than the tokens that are left is at fault for texts that are cut.
	o := Options{Overflow: true, Truncation: &Truncation{Max: 37, Stride: 35}}
	for range 20 {
		_, err := k.EncodeBatch(texts, o)
		var d *diag.Error
		if !errors.As(err, &d) || d.Detail != "text 12" {
			t.Fatalf("the error is %v", err)
		}
	}
	if es, err := k.EncodeBatch(nil, Options{}); err != nil || len(es) != 0 {
		t.Errorf("no texts: %v %v", es, err)
	}
}

// TestFileOptions reads truncation and padding from the file: they do what the same options do, unless options replace
// them.
func TestFileOptions(t *testing.T) {
	data := string(family(t, "bert_uncased"))
	data = strings.Replace(data, `"truncation":null`, `"truncation":{"direction":"Left","max_length":9,`+
		`"strategy":"LongestFirst","stride":2}`, 1)
	data = strings.Replace(data, `"padding":null`, `"padding":{"strategy":{"Fixed":12},"direction":"Left",`+
		`"pad_to_multiple_of":8,"pad_id":5,"pad_type_id":1,"pad_token":"[PAD]"}`, 1)
	k, err := LoadBytes([]byte(data))
	if err != nil {
		t.Fatal(err)
	}
	plain := loadFamily(t, "bert_uncased")
	o := Options{Overflow: true, Truncation: &Truncation{Max: 9, Stride: 2, Side: Left},
		Padding: &Padding{Length: 12, Multiple: 8, ID: 5, Type: 1, Side: Left}}
	off := Options{Truncation: &Truncation{Off: true}, Padding: &Padding{Off: true}}
	const text = "a text that is longer than nine tokens, and has more"
	for _, c := range []struct {
		got, want *Tokenizer
		a, b      Options
	}{{k, plain, Options{Overflow: true}, o}, {k, plain, off, Options{}}} {
		got, err := c.got.Encode(text, c.a)
		if err != nil {
			t.Fatal(err)
		}
		want, err := c.want.Encode(text, c.b)
		if err != nil {
			t.Fatal(err)
		}
		a, b := answerOf(got), answerOf(want)
		b.Known = true
		if d := differ(a, b); d != "" {
			t.Errorf("%v: %s differ: %v and %v", c.a, d, got, want)
		}
	}
	if e, err := k.Encode(text, Options{}); err != nil || len(e.IDs) != 16 || len(e.Overflow) != 0 {
		t.Errorf("%v %v", e, err)
	}
}

// TestSteps takes a pattern whose search takes too many steps: that is an error, and not other ids.
func TestSteps(t *testing.T) {
	k, err := LoadBytes([]byte(`{"pre_tokenizer":{"type":"Split","pattern":{"Regex":"(?=(?:a|aa)*b)a"},` +
		`"behavior":"Isolated","invert":false},"model":{"type":"WordLevel","unk_token":"u","vocab":{"u":0}}}`))
	if errors.Is(err, diag.ErrUnsupported) {
		t.Skip("the pattern is refused:", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if e, err := k.Encode("aab", Options{}); err != nil || len(e.IDs) != 3 {
		t.Errorf("%v %v", e, err)
	}
	if _, err := k.Encode(strings.Repeat("a", 60), Options{}); !errors.Is(err, diag.ErrInput) {
		t.Errorf("an exponential search gives %v", err)
	}
}

// TestNoDropout reads a BPE whose dropout is given, and is none.
func TestNoDropout(t *testing.T) {
	data := string(family(t, "gpt2"))
	for _, value := range []string{"null", "0", "0.0"} {
		changed := strings.Replace(data, `"dropout":null`, `"dropout":`+value, 1)
		if _, err := LoadBytes([]byte(changed)); err != nil || changed == data && value != "null" {
			t.Errorf("dropout %s: %v", value, err)
		}
	}
}

// TestRefused loads files with one thing wrong: the error is typed, and names the file and the place.
func TestRefused(t *testing.T) {
	const model = `"model":{"type":"WordLevel","unk_token":"u","vocab":{"u":0}}`
	for _, c := range []struct {
		file, says string
		kind       error
	}{
		{`{`, "not a JSON object", diag.ErrInput},
		{"{\"a\":\"\xff\"}", "not UTF-8", diag.ErrInput},
		{`{}`, "tokenizer.model", diag.ErrInput},
		{`{"version":"2.0",` + model + `}`, "version", diag.ErrUnsupported},
		{`{"model":{"type":"Neural"}}`, `"Neural" is not supported; supported are BPE, Unigram, WordLevel, WordPiece`,
			diag.ErrUnsupported},
		{`{"normalizer":{"type":"Magic"},` + model + `}`, "tokenizer.normalizer", diag.ErrUnsupported},
		{`{"pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"Whitespace"},{"type":"Odd"}]},` + model + `}`,
			"tokenizer.pre_tokenizer.pretokenizers[1]", diag.ErrUnsupported},
		{`{"model":{"type":"WordLevel","unk_token":"u","vocab":{"u":-1}}}`, "tokenizer.model.vocab", diag.ErrInput},
		{`{"model":{"type":"BPE","dropout":0.1,"vocab":{"u":1},"merges":[]}}`, "dropout", diag.ErrUnsupported},
		{`{"model":{"type":"BPE","vocab":{"u":1},"merges":["u v"]}}`, "merge 0", diag.ErrInput},
		{`{"decoder":{"type":"Strip","content":"ab","start":0,"stop":0},` + model + `}`, "content", diag.ErrInput},
		{`{"truncation":{"max_length":-1},` + model + `}`, "tokenizer.truncation.max_length", diag.ErrInput},
		{`{"added_tokens":[{"id":0}],` + model + `}`, "tokenizer.added_tokens[0].content", diag.ErrInput},
		{`{"normalizer":` + strings.Repeat(`{"type":"Sequence","normalizers":[`, 20) + strings.Repeat(`]}`, 20) + `,` +
			model + `}`, "deep", diag.ErrUnsupported},
	} {
		name := filepath.Join(t.TempDir(), "tokenizer.json")
		if err := os.WriteFile(name, []byte(c.file), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Load(filepath.Dir(name))
		var d *diag.Error
		if !errors.As(err, &d) || !errors.Is(err, c.kind) || d.File != name || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%.60s: the error is %v", c.file, err)
		}
	}
	if _, err := Load(filepath.Join(t.TempDir(), "none.json")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that does not exist: %v", err)
	}
}

// mutate changes a few bytes of a file, or swaps, drops and repeats parts of it.
func mutate(r *rand.Rand, data []byte) []byte {
	out := slices.Clone(data)
	words := []string{"null", "true", "[]", "{}", "-1", "4294967296", `""`, `"a"`, "1e9", `"\ud800"`, "99999999"}
	for range 1 + r.IntN(3) {
		at := r.IntN(len(out))
		// Most changes are where the parts are, before and after the vocabulary.
		if r.IntN(3) > 0 {
			at = r.IntN(min(len(out), 3000))
		}
		end := min(at+r.IntN(30), len(out))
		switch r.IntN(4) {
		case 0:
			out[at] = byte(r.Uint32())
		case 1:
			out = slices.Delete(out, at, end)
		case 2:
			out = slices.Insert(out, at, out[at:end]...)
		case 3:
			colon := strings.IndexByte(string(out[at:]), ':')
			if colon < 0 {
				continue
			}
			begin := at + colon + 1
			stop := strings.IndexAny(string(out[begin:]), ",}]")
			if stop >= 0 {
				out = slices.Replace(out, begin, begin+stop, []byte(words[r.IntN(len(words))])...)
			}
		}
		if len(out) == 0 {
			return out
		}
	}
	return out
}

// TestMergesAsText loads files whose merges are strings, as older versions of the reference write them.
func TestMergesAsText(t *testing.T) {
	for _, name := range []string{"gpt2", "llama3", "gemma"} {
		var file, model map[string]json.RawMessage
		var pairs [][2]string
		if err := json.Unmarshal(family(t, name), &file); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(file["model"], &model); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(model["merges"], &pairs); err != nil {
			t.Fatal(err)
		}
		lines := []string{"#version: 0.2"}
		for _, p := range pairs {
			lines = append(lines, p[0]+" "+p[1])
		}
		model["merges"], _ = json.Marshal(lines)
		file["model"], _ = json.Marshal(model)
		data, err := json.Marshal(file)
		if err != nil {
			t.Fatal(err)
		}
		k, err := LoadBytes(data)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		want := loadFamily(t, name)
		for _, q := range questions(want, 200) {
			a, err := k.AppendIDs(nil, q.A, Options{})
			b, failed := want.AppendIDs(nil, q.A, Options{})
			if err != nil || failed != nil || !slices.Equal(a, b) {
				t.Fatalf("%s: %q: %v %v, not %v %v", name, q.A, a, err, b, failed)
			}
		}
	}
}
