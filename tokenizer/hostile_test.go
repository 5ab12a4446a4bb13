package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/weirml/weir/internal/diag"
)

// The memory that loading takes in all, in which what is freed again counts too: per byte of the file, and in addition.
const (
	loadFactor   = 100
	loadConstant = 48 << 20
)

// allocated returns the bytes that all allocations of f take together.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// hostileFiles are sound files of each kind, by name.
func hostileFiles(t testing.TB) map[string][]byte {
	files := map[string][]byte{"cl100k_base.tiktoken": family(t, ranks)}
	for _, name := range families(t) {
		files[name+".json"] = family(t, name)
	}
	for _, f := range ggufFamilies {
		files[f.name+".gguf"] = f.file(t, family(t, f.name))
	}
	for _, name := range []string{"uni_tsv.model", "bpe_id.model"} {
		data, err := os.ReadFile(filepath.Join("../internal/text/sentencepiece/testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		files[name] = data
		files[name+".gguf"] = sentenceFile(t, name, nil)
	}
	return files
}

// TestMutants loads damaged files of each kind, and uses those that can still be read. None may panic, and none takes
// more memory than its size allows.
func TestMutants(t *testing.T) {
	n := 50
	if testing.Short() {
		n = 12
	}
	if v := os.Getenv("WEIR_TOKENIZER_MUTANTS"); v != "" {
		fmt.Sscan(v, &n)
	}
	for name, data := range hostileFiles(t) {
		t.Run(name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(5, 6))
			loaded, worst := 0, 0.0
			for i := range n {
				m := mutate(r, data)
				var k *Tokenizer
				var err error
				used := allocated(func() { k, err = ready(readBytes(m, name)) })
				worst = max(worst, float64(used)/float64(len(m)+1))
				if used > uint64(len(m))*loadFactor+loadConstant {
					t.Errorf("mutant %d: %d bytes take %d", i, len(m), used)
				}
				if err != nil {
					if !errors.Is(err, diag.ErrInput) && !errors.Is(err, diag.ErrUnsupported) {
						t.Fatalf("mutant %d: the error is not typed: %v", i, err)
					}
					continue
				}
				loaded++
				for range 3 {
					text := randomText(r, []string{"word", "[CLS]"})
					if e, err := k.EncodePair(text, "b c", Options{}); err == nil {
						k.Decode(e.IDs)
					}
				}
			}
			t.Logf("%d of %d mutants loaded; %.0f times their size at most", loaded, n, worst)
		})
	}
}

// TestHostile loads files that claim more than they have, and encodes with those that are read: time and memory stay in
// proportion to the file and the text.
func TestHostile(t *testing.T) {
	const size = 20000
	level := `"model":{"type":"WordLevel","unk_token":"u","vocab":{"u":0,"a":1}}`
	repeat := func(one string, n int) string { return strings.TrimSuffix(strings.Repeat(one+",", n), ",") }
	list := func(member, of string, n int) string {
		return `{"type":"Sequence","` + member + `":[` + repeat(of, n) + `]}`
	}
	replaced := `{"type":"Replace","pattern":{"String":"a"},"content":"` + strings.Repeat("a", 50) + `"}`
	long, _ := json.Marshal(strings.Repeat("a", size))
	for name, c := range map[string]struct {
		file   string
		loads  bool
		text   string
		refuse bool // the text
	}{
		"patterns": {file: `{"pre_tokenizer":` + list("pretokenizers",
			`{"type":"Split","pattern":{"Regex":"\\p{L}"},"behavior":"Isolated","invert":false}`, size/80) + `,` + level + `}`},
		"steps":   {file: `{"pre_tokenizer":` + list("pretokenizers", `{"type":"Whitespace"}`, size/20) + `,` + level + `}`},
		"doubled": {file: `{"normalizer":` + list("normalizers", replaced, 40) + `,` + level + `}`, loads: true, text: "a", refuse: true},
		"bytes": {file: `{"normalizer":` + list("normalizers", `{"type":"ByteLevel"}`, 60) + `,` + level + `}`, loads: true,
			text: "é", refuse: true},
		"byte pieces": {file: `{"pre_tokenizer":` + list("pretokenizers", `{"type":"ByteLevel","add_prefix_space":false,`+
			`"trim_offsets":false,"use_regex":false}`, 60) + `,` + level + `}`, loads: true, text: "é", refuse: true},
		"prepended": {file: `{"normalizer":{"type":"Prepend","prepend":` + string(long) + `},"added_tokens":[` + addedJSON("b") +
			`],` + level + `}`, loads: true, text: strings.Repeat("ab", 2000), refuse: true},
		"decoded": {file: `{"decoder":` + list("decoders", replaced, 40) + `,` + level + `}`},
		"template": {file: `{"post_processor":{"type":"TemplateProcessing","single":[` +
			repeat(`{"SpecialToken":{"id":"x","type_id":0}}`, size/40) + `],"pair":[],"special_tokens":{"x":{"id":"x","ids":[` +
			repeat("0", size/2) + `],"tokens":[` + repeat(`"u"`, size/2) + `]}}},` + level + `}`},
		"processors": {file: `{"post_processor":` + list("processors", `{"type":"BertProcessing","sep":["u",0],"cls":["u",0]}`, 200) +
			`,` + level + `}`, loads: true, text: "a"},
		"padding": {file: `{"padding":{"strategy":{"Fixed":99999999},"direction":"Left","pad_to_multiple_of":null,"pad_id":0,` +
			`"pad_type_id":0,"pad_token":"u"},` + level + `}`},
		"spaces": {file: `{"added_tokens":[` + strings.Replace(addedJSON(" "), `"rstrip":false`, `"rstrip":true`, 1) + `],` + level +
			`}`, loads: true, text: strings.Repeat(" ", 300000)},
	} {
		start := time.Now()
		var k *Tokenizer
		var err error
		used := allocated(func() { k, err = LoadBytes([]byte(c.file)) })
		if used > uint64(len(c.file))*loadFactor+loadConstant || time.Since(start) > 20*time.Second {
			t.Errorf("%s: %d bytes take %d, and %v", name, len(c.file), used, time.Since(start))
		}
		if (err == nil) != c.loads || err != nil && !errors.Is(err, diag.ErrUnsupported) {
			t.Errorf("%s: the error is %v", name, err)
		}
		if err != nil || c.text == "" {
			continue
		}
		start = time.Now()
		used = allocated(func() { _, err = k.Encode(c.text, Options{}) })
		if used > uint64(len(c.text))*encodingFactor+textConstant || time.Since(start) > 20*time.Second {
			t.Errorf("%s: a text of %d bytes takes %d, and %v", name, len(c.text), used, time.Since(start))
		}
		if (err != nil) != c.refuse || err != nil && !errors.Is(err, diag.ErrInput) {
			t.Errorf("%s: the text's error is %v", name, err)
		}
	}
}

// addedJSON is an added token in a file.
func addedJSON(content string) string {
	return `{"id":5,"content":"` + content + `","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,` +
		`"special":true}`
}
