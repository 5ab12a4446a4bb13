package tokenizer

import (
	"os"
	"strings"
	"testing"
)

// BenchmarkEncode times Encode and AppendIDs on a short text and a long one. WEIR_FAMILY names other tokenizers.
// bench/text.py times the reference too.
func BenchmarkEncode(b *testing.B) {
	names := []string{"bert_uncased", "llama3"}
	if only := os.Getenv("WEIR_FAMILY"); only != "" {
		names = strings.Split(only, ",")
	}
	const sentence = "The quick brown fox jumps over the lazy dog; 1,234 people didn't see it happen in the café. "
	for _, name := range names {
		k := loadFamily(b, name)
		for _, text := range []struct{ name, text string }{{"short", sentence}, {"long", strings.Repeat(sentence, 200)}} {
			ids, err := k.AppendIDs(nil, text.text, Options{})
			if err != nil {
				b.Fatal(err)
			}
			b.Run(name+"/"+text.name+"/AppendIDs", func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					ids, _ = k.AppendIDs(ids[:0], text.text, Options{})
				}
				b.ReportMetric(float64(len(ids)*b.N)/b.Elapsed().Seconds(), "tokens/s")
			})
			b.Run(name+"/"+text.name+"/Encode", func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					k.Encode(text.text, Options{})
				}
				b.ReportMetric(float64(len(ids)*b.N)/b.Elapsed().Seconds(), "tokens/s")
			})
		}
	}
}
