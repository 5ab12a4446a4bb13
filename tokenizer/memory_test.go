package tokenizer

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
)

// The memory of a loaded tokenizer in bytes, as docs/text.md says: the most of each token and each merge, and the least
// of each token.
const (
	tokenBytes = 150
	mergeBytes = 54
	tokenLeast = 60
)

// inUse returns the bytes of the heap that are in use.
func inUse() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestMemory measures what the heap gains by tokenizers of many tokens of usual lengths.
func TestMemory(t *testing.T) {
	const tokens = 60000
	vocab, merges := map[string]int{}, [][2]string{}
	var order []string
	for b := range 256 {
		token := string(byteCharacters[b])
		vocab[token], order = b, append(order, token)
	}
	for r := rand.New(rand.NewPCG(1, 2)); len(order) < tokens; {
		pair := [2]string{order[r.IntN(min(len(order), 3000))], order[r.IntN(min(len(order), 3000))]}
		if token := pair[0] + pair[1]; len(token) < 14 {
			if _, ok := vocab[token]; !ok {
				vocab[token], order, merges = len(order), append(order, token), append(merges, pair)
			}
		}
	}
	words := map[string]int{"[UNK]": 0}
	for i := range tokens {
		words[fmt.Sprintf("##word%d", i)] = i + 1
	}
	file := func(model map[string]any) []byte {
		data, err := json.Marshal(map[string]any{"model": model, "pre_tokenizer": map[string]any{"type": "ByteLevel",
			"add_prefix_space": false, "trim_offsets": true, "use_regex": true}})
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	loadFamily(t, "gpt2") // what all tokenizers share
	for name, data := range map[string][]byte{
		"BPE": file(map[string]any{"type": "BPE", "vocab": vocab, "merges": merges}),
		"WordPiece": file(map[string]any{"type": "WordPiece", "vocab": words, "unk_token": "[UNK]",
			"continuing_subword_prefix": "##", "max_input_chars_per_word": 100}),
	} {
		before := inUse()
		k, err := LoadBytes(data)
		if err != nil {
			t.Fatal(err)
		}
		gain := inUse() - before
		most := int64(tokens) * tokenBytes
		if name == "BPE" {
			most += int64(len(merges)) * mergeBytes
		}
		t.Logf("%s: %d tokens, %d merges: %d bytes, %.1f times the file's %d", name, k.Size(), len(merges), gain,
			float64(gain)/float64(len(data)), len(data))
		if counted := k.Bytes(); counted < gain || counted > gain+gain*2/5 {
			t.Errorf("%s: Bytes counts %d, and the heap gains %d", name, counted, gain)
		} else {
			t.Logf("%s: Bytes counts %.2f times as many", name, float64(counted)/float64(gain))
		}
		if gain > most || gain < tokens*tokenLeast {
			t.Errorf("%s: the heap gains %d bytes, not %d to %d", name, gain, tokens*tokenLeast, most)
		}
		runtime.KeepAlive(k)
	}
}
