// Command sugarme times github.com/sugarme/tokenizer for bench/text.py: it prints a line for a short text and one for a
// long one, with the nanoseconds and the allocations of a call. Its arguments are a tokenizer.json and a sentence.
package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/sugarme/tokenizer/pretrained"
)

func main() {
	t, err := pretrained.FromFile(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for _, text := range []struct {
		name string
		text string
	}{{"short", os.Args[2]}, {"long", strings.Repeat(os.Args[2], 200)}} {
		best, allocations := 0.0, int64(0)
		for range 3 {
			r := testing.Benchmark(func(b *testing.B) {
				b.ReportAllocs()
				for range b.N {
					if _, err := t.EncodeSingle(text.text, true); err != nil {
						b.Fatal(err)
					}
				}
			})
			if ns := float64(r.T.Nanoseconds()) / float64(r.N); best == 0 || ns < best {
				best, allocations = ns, r.AllocsPerOp()
			}
		}
		fmt.Println(text.name, best, allocations)
	}
}
