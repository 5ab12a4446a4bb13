package tokenizer

import (
	"runtime"
	"strings"
	"testing"
)

// TestLongTexts encodes texts of a million characters that are hard in some way, and measures the memory that all
// allocations of a first call take together.
func TestLongTexts(t *testing.T) {
	n := 1_000_000
	if testing.Short() {
		n = 100_000
	}
	texts := map[string]string{
		"one letter": strings.Repeat("a", n), "spaces": strings.Repeat(" ", n),
		"marks": "e" + strings.Repeat("\u0323\u0301", n/2),
		"words": strings.Repeat("the café ", n/9), "invalid": strings.Repeat("\xff\xe2\x82", n/3),
		"added tokens": strings.Repeat("<mask>[SEP]<|eot_id|>", n/21), "almost added": strings.Repeat("<mas", n/4),
	}
	for _, name := range []string{"bert_uncased", "roberta", "qwen", "gemma", "clip", "t5"} {
		k := loadFamily(t, name)
		for what, text := range texts {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			ids, err := k.AppendIDs(nil, text, Options{})
			runtime.ReadMemStats(&after)
			if err != nil || len(ids) == 0 && (name != "clip" || what != "spaces") {
				t.Errorf("%s: %s: %d ids, %v", name, what, len(ids), err)
			}
			if used := after.TotalAlloc - before.TotalAlloc; used > uint64(len(text))*1000 {
				t.Errorf("%s: %s: %d bytes of memory for %d of text", name, what, used, len(text))
			}
		}
	}
}
