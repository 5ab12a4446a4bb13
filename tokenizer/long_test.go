package tokenizer

import (
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// The bytes that all allocations of a first call take together, for each byte of the normalised text.
const (
	idsFactor      = 160
	encodingFactor = 260
	textConstant   = 48 << 20 // of mutants' texts, in addition
)

// TestLongTexts encodes texts of a million characters, or of ten million if WEIR_LONG is set, that are hard in some
// way. It measures the memory that all allocations of a first call take together.
func TestLongTexts(t *testing.T) {
	n := 1_000_000
	if testing.Short() {
		n = 100_000
	}
	if os.Getenv("WEIR_LONG") != "" {
		n = 10_000_000
	}
	texts := map[string]string{
		"one letter": strings.Repeat("a", n), "spaces": strings.Repeat(" ", n),
		"marks": "e" + strings.Repeat("\u0323\u0301", n/2),
		"words": strings.Repeat("the café ", n/9), "invalid": strings.Repeat("\xff\xe2\x82", n/3),
		"compatible":   strings.Repeat("\ufdfa", n/10), // NFKC makes it eleven times as long, 18 characters of each
		"added tokens": strings.Repeat("<mask>[SEP]<|eot_id|>", n/21), "almost added": strings.Repeat("<mas", n/4),
	}
	for _, name := range []string{"bert_uncased", "roberta", "qwen", "gemma", "clip", "t5"} {
		k := loadFamily(t, name)
		if _, err := k.AppendIDs(nil, "e\u0301 \ufdfa", Options{}); err != nil { // the tables that all tokenizers share
			t.Fatal(err)
		}
		first := func() { k.pool = sync.Pool{New: k.pool.New} }
		for what, text := range texts {
			size := uint64(len(text))
			switch {
			case what == "compatible" && name == "clip": // by NFKC; T5 has a table that leaves the character as it is
				size *= 11
			case what == "invalid": // three bytes are two of U+FFFD
				size *= 2
			}
			var ids []int32
			var e *Encoding
			var err error
			first()
			start := time.Now()
			used := allocated(func() { ids, err = k.AppendIDs(nil, text, Options{}) })
			took := time.Since(start)
			if err != nil || len(ids) == 0 && (name != "clip" || what != "spaces") {
				t.Errorf("%s: %s: %d ids, %v", name, what, len(ids), err)
			}
			first()
			whole := allocated(func() { e, err = k.Encode(text, Options{}) })
			if err != nil || !slices.Equal(e.IDs, ids) {
				t.Errorf("%s: %s: Encode has other ids (%v)", name, what, err)
			}
			t.Logf("%s: %s: %d bytes in %v and %v: for each normalised byte %d bytes, %d with all of an encoding", name, what,
				len(text), took, time.Since(start)-took, used/size, whole/size)
			if used > size*idsFactor || whole > size*encodingFactor {
				t.Errorf("%s: %s: %d and %d bytes of memory for %d of normalised text", name, what, used, whole, size)
			}
		}
	}
}
