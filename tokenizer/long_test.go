package tokenizer

import (
	"os"
	"strings"
	"testing"
	"time"
)

// The memory that a first call takes in all: per byte of the text, and in addition.
const (
	textFactor   = 600
	textConstant = 48 << 20
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
		"compatible":   strings.Repeat("\ufdfa", n/10), // NFKC makes it eleven times as long
		"added tokens": strings.Repeat("<mask>[SEP]<|eot_id|>", n/21), "almost added": strings.Repeat("<mas", n/4),
	}
	for _, name := range []string{"bert_uncased", "roberta", "qwen", "gemma", "clip", "t5"} {
		k := loadFamily(t, name)
		for what, text := range texts {
			var ids []int32
			var err error
			start := time.Now()
			used := allocated(func() { ids, err = k.AppendIDs(nil, text, Options{}) })
			if err != nil || len(ids) == 0 && (name != "clip" || what != "spaces") {
				t.Errorf("%s: %s: %d ids, %v", name, what, len(ids), err)
			}
			t.Logf("%s: %s: %d bytes in %v, %d times their size", name, what, len(text), time.Since(start),
				used/uint64(len(text)))
			size := uint64(len(text))
			if what == "compatible" {
				size *= 11
			}
			if used > size*textFactor {
				t.Errorf("%s: %s: %d bytes of memory for %d of text", name, what, used, len(text))
			}
		}
	}
}
