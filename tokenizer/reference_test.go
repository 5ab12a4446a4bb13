package tokenizer

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"flag"
	"fmt"
	"hash/fnv"
	"io"
	"iter"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write the recorded answers again, if the reference gives the same")

// families are the names of the tokenizers in testdata/families, with those that cannot be read yet left out.
func families(t testing.TB) []string {
	files, err := filepath.Glob("testdata/families/*.json.gz")
	if err != nil || len(files) == 0 {
		t.Fatal("no families", err)
	}
	var names []string
	for _, f := range files {
		names = append(names, strings.TrimSuffix(filepath.Base(f), ".json.gz"))
	}
	return names
}

// family returns a tokenizer.json of the tests; a name with a / is a path.
func family(t testing.TB, name string) []byte {
	if strings.Contains(name, "/") {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	f, err := os.Open(filepath.Join("testdata/families", name+".json.gz"))
	if name == ranks {
		f, err = os.Open(filepath.Join("testdata/families", name+".gz"))
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// answer is what the reference says of a question, or what we do.
type answer struct {
	IDs     []int32   `json:"ids"`
	At      [][2]int  `json:"at"`
	Mask    []int32   `json:"mask"`
	Types   []int32   `json:"types"`
	Special []int     `json:"special"`
	Words   []int32   `json:"words"`
	Over    []*answer `json:"over"`
	Known   bool      `json:"known"`
	Text    string    `json:"text"`
	Whole   string    `json:"whole"`
	Parts   []string  `json:"parts"` // of the decoded text, for the first ids one by one
	Error   string    `json:"error"`
}

func answerOf(e *Encoding) *answer {
	a := &answer{IDs: e.IDs, Mask: e.Mask, Types: e.Types, Words: e.Words}
	for i, at := range e.Offsets {
		a.At = append(a.At, [2]int{at.Begin, at.End})
		a.Special = append(a.Special, index(e.Special[i]))
	}
	for i := range e.Overflow {
		a.Over = append(a.Over, answerOf(&e.Overflow[i]))
	}
	return a
}

// move takes offsets to other places.
func (a *answer) move(to []int) {
	for i, at := range a.At {
		a.At[i] = [2]int{to[at[0]], to[at[1]]}
	}
	for _, o := range a.Over {
		o.move(to)
	}
}

// ours answers a question with a tokenizer.
func ours(t *Tokenizer, q *question) *answer {
	var e *Encoding
	var err error
	if q.B != nil {
		e, err = t.EncodePair(q.text(), *q.B, q.options)
	} else {
		e, err = t.Encode(q.text(), q.options)
	}
	if err != nil {
		return &answer{Error: "error"}
	}
	a := answerOf(e)
	if at := q.repaired(); at != nil {
		a.move(at)
	}
	a.Text, a.Whole = t.Decode(e.IDs), t.DecodeSpecial(e.IDs)
	d := t.Stream()
	for _, id := range e.IDs[:min(len(e.IDs), 40)] {
		a.Parts = append(a.Parts, d.Next(id))
	}
	return a
}

// differ names the part in which two answers differ, or returns "".
func differ(a, b *answer) string {
	switch {
	case (a.Error == "") != (b.Error == ""):
		return "error"
	case !slices.Equal(a.IDs, b.IDs):
		return "ids"
	case b.Known && !slices.Equal(a.At, b.At):
		return "offsets"
	case !slices.Equal(a.Mask, b.Mask):
		return "mask"
	case !slices.Equal(a.Types, b.Types):
		return "types"
	case !slices.Equal(a.Special, b.Special):
		return "special"
	case !slices.Equal(a.Words, b.Words):
		return "words"
	case len(a.Over) != len(b.Over):
		return "number of overflowing encodings"
	case b.Parts != nil && !slices.Equal(a.Parts, b.Parts):
		return "streamed text"
	case a.Text != b.Text || a.Whole != b.Whole:
		return "decoded text"
	}
	for i := range a.Over {
		if d := differ(a.Over[i], b.Over[i]); d != "" {
			return fmt.Sprintf("%s of overflowing encoding %d", d, i)
		}
	}
	return ""
}

// appendDigest appends a hash of an answer.
func appendDigest(to []byte, a *answer) []byte {
	h := fnv.New32a()
	text, _ := json.Marshal(a)
	h.Write(text)
	return h.Sum(to)
}

// asker makes the questions of a family, one after the other.
type asker struct {
	r     *rand.Rand
	words []string
	count int
}

func newAsker(t *Tokenizer) *asker {
	return &asker{r: rand.New(rand.NewPCG(1, 2)), words: slices.Sorted(maps.Keys(t.vocabulary.ids))}
}

func (a *asker) next() question {
	a.count++
	return randomQuestion(a.r, a.count-1, a.words)
}

// questions returns the first n questions of a family.
func questions(t *Tokenizer, n int) []question {
	a := newAsker(t)
	out := make([]question, n)
	for i := range out {
		out[i] = a.next()
	}
	return out
}

// TestRecorded compares answers with those of the reference, of which testdata/golden has hashes.
func TestRecorded(t *testing.T) {
	for _, name := range families(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k, err := LoadBytes(family(t, name))
			if err != nil {
				t.Fatal(err)
			}
			compareRecorded(t, filepath.Join("testdata/golden", name), k, func(q *question) *answer { return ours(k, q) })
		})
	}
}

// compareRecorded compares our answers with the hashes of the reference's in a file.
func compareRecorded(t *testing.T, file string, k *Tokenizer, ours func(q *question) *answer) {
	golden, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	bad := 0
	for i, q := range questions(k, len(golden)/4) {
		if got := ours(&q); !bytes.Equal(appendDigest(nil, got), golden[4*i:4*i+4]) {
			if bad++; bad <= 3 {
				t.Errorf("text %d: %q %v: the answer is another than the reference's", i, q.text(), q.B)
			}
		}
	}
	if bad > 0 || len(golden) < 4 {
		t.Errorf("%d of %d texts differ", bad, len(golden)/4)
	}
}

// texts is the number of texts that a reference is asked for.
func texts() int {
	n, _ := strconv.Atoi(os.Getenv("WEIR_TEXTS"))
	if n == 0 {
		n = 10_000
	}
	return n
}

// reference returns the Python with the references.
func reference(t *testing.T) string {
	python := os.Getenv("WEIR_TOKENIZERS")
	if python == "" {
		t.Skip("WEIR_TOKENIZERS names no Python with the packages of testdata/requirements.txt")
	}
	return python
}

// wellKnown are the families that are compared with the reference itself, unless WEIR_FAMILY names others.
var wellKnown = []string{"bert_cased", "bert_uncased", "deberta", "deberta_v3", "gemma", "gpt2", "llama3", "qwen",
	"roberta", "smollm", "t5", "xlm_r"}

// TestLive compares with the reference itself, in the Python that WEIR_TOKENIZERS names: WEIR_TEXTS texts a family.
// With -rewrite it records the answers of all families.
func TestLive(t *testing.T) {
	python := reference(t)
	names := wellKnown
	if *rewrite {
		names = families(t)
	}
	if only := os.Getenv("WEIR_FAMILY"); only != "" {
		names = strings.Split(only, ",")
	}
	for _, name := range names {
		if filepath.Ext(name) != ".tiktoken" && filepath.Ext(name) != ".model" {
			t.Run(name, func(t *testing.T) { liveFamily(t, python, name, texts()) })
		}
	}
}

func liveFamily(t *testing.T, python, name string, n int) {
	data := family(t, name)
	k, err := LoadBytes(data)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "tokenizer.json")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	var golden []byte
	bad := map[string]int{}
	count, damaged := 0, 0
	for q, line := range asked(t, k, n, python, "testdata/reference.py", file) {
		var want answer
		if err := json.Unmarshal(line, &want); err != nil {
			t.Fatal(err)
		}
		got := ours(k, q)
		damaged += index(q.raw != "")
		if d := differ(got, &want); d != "" {
			if bad[d]++; bad[d] <= 2 {
				g, _ := json.Marshal(got)
				b := ""
				if q.B != nil {
					b = *q.B
				}
				w, _ := json.Marshal(want)
				t.Errorf("text %d: %s differ\n%q %q cut %v pad %v\n got %.900s\nwant %.900s", count, d, q.text(), b, q.Cut,
					q.Pad, g, w)
			}
		}
		count++
		if *rewrite {
			golden = appendDigest(golden, got)
		}
	}
	t.Logf("%d texts, %d of them not UTF-8, differences: %v", count, damaged, bad)
	if *rewrite && len(bad) == 0 {
		if err := os.WriteFile(filepath.Join("testdata/golden", name), golden, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// asked yields the first n questions of a tokenizer with a command's answers, of which each is a line.
func asked(t *testing.T, k *Tokenizer, n int, name string, args ...string) iter.Seq2[*question, []byte] {
	return func(yield func(*question, []byte) bool) {
		cmd := exec.Command(name, args...)
		cmd.Env = append(os.Environ(), "TOKENIZERS_PARALLELISM=false", "PYTHONIOENCODING=utf-8", "RUST_BACKTRACE=0")
		var said beginning
		cmd.Stderr = &said
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		defer cmd.Wait()
		defer cmd.Process.Kill() // if the test ends first
		sent := make(chan question, 256)
		go func() {
			defer in.Close()
			defer close(sent)
			to := bufio.NewWriter(in)
			enc := json.NewEncoder(to)
			enc.SetEscapeHTML(false)
			for a := newAsker(k); a.count < n; {
				q := a.next()
				sent <- q
				if enc.Encode(&q) != nil {
					return
				}
			}
			to.Flush()
		}()
		lines := bufio.NewScanner(out)
		lines.Buffer(nil, 1<<26)
		for q := range sent {
			if !lines.Scan() {
				cmd.Wait()
				t.Fatalf("the reference stopped: %v\n%s", lines.Err(), said)
			}
			if !yield(&q, lines.Bytes()) {
				return
			}
		}
	}
}

// beginning keeps the first bytes that are written to it.
type beginning []byte

func (b *beginning) Write(data []byte) (int, error) {
	*b = append(*b, data[:min(len(data), 4000-len(*b))]...)
	return len(data), nil
}
