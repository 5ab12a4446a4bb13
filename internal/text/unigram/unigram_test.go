package unigram

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand"
	"os"
	"slices"
	"strings"
	"testing"
)

var reference = flag.String("reference", "testdata/reference.jsonl", "a file that testdata/reference.py wrote")

// TestReference compares ids and offsets with Hugging Face's.
func TestReference(t *testing.T) {
	file, err := os.Open(*reference)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<30)
	models, texts, unknown, wrong := 0, 0, 0, 0
	var l Lattice
	for lines.Scan() {
		var items [][2]any
		var o Options
		var cases []json.RawMessage
		if err := json.Unmarshal(lines.Bytes(), &[]any{&items, &o.Unknown, &o.ByteFallback, &cases}); err != nil {
			t.Fatal(err)
		}
		var pieces []Piece
		for _, item := range items {
			pieces = append(pieces, Piece{Text: item[0].(string), Score: item[1].(float64)})
		}
		m, err := New(pieces, o)
		if err != nil {
			t.Fatal(err)
		}
		models++
		for _, raw := range cases {
			var text string
			var want [][3]int32
			if err := json.Unmarshal(raw, &[]any{&text, &want}); err != nil {
				t.Fatal(err)
			}
			texts++
			var got [][3]int32
			tokens, err := m.Encode(nil, text, &l)
			for _, k := range tokens {
				got = append(got, [3]int32{k.ID, k.Begin, k.End})
			}
			if err != nil {
				unknown++
				got = nil
			}
			if (err != nil) != (want == nil) || !slices.Equal(got, want) {
				if wrong++; wrong < 10 {
					t.Errorf("%v %+v: %q: %v, not %v (%v)", items, o, text, got, want, err)
				}
			}
		}
	}
	t.Logf("%d models, %d texts, %d without an unknown id, %d differ", models, texts, unknown, wrong)
	if texts < 1000 {
		t.Errorf("only %d texts", texts)
	}
}

// TestTrie compares a trie with a map.
func TestTrie(t *testing.T) {
	rand := rand.New(rand.NewSource(1))
	for round := range 200 {
		want := map[string]int32{}
		var entries []Entry
		for i := range rand.Intn(300) {
			s := make([]byte, rand.Intn(6))
			for k := range s {
				if s[k] = byte(rand.Intn(256)); round%2 == 0 {
					s[k] = "ab\x00\xff"[rand.Intn(4)]
				}
			}
			entries = append(entries, Entry{string(s), int32(i)})
			if len(s) > 0 {
				want[string(s)] = int32(i)
			}
		}
		trie, err := NewTrie(entries)
		if err != nil {
			t.Fatal(err)
		}
		for s, v := range want {
			if got := trie.Find(s); got != v {
				t.Fatalf("%q: %d, not %d", s, got, v)
			}
			if n, got := trie.Longest(s); n != len(s) || got != v {
				t.Fatalf("%q: %d at %d, not %d", s, got, n, v)
			}
			if v, ok := want[s+"a"]; trie.Find(s+"a") != v && ok || !ok && trie.Find(s+"a") >= 0 {
				t.Fatalf("%q is found", s+"a")
			}
		}
		if trie.Find("") >= 0 {
			t.Fatal("the empty string is found")
		}
	}
}

// words returns a vocabulary of n words.
func words(n int) []Piece {
	rand := rand.New(rand.NewSource(3))
	pieces := []Piece{{Text: "<unk>"}}
	for c := 'a'; c <= 'z'; c++ {
		pieces = append(pieces, Piece{Text: string(c), Score: -8})
	}
	for len(pieces) < n {
		var b strings.Builder
		if rand.Intn(3) > 0 {
			b.WriteString("▁")
		}
		for range 2 + rand.Intn(6) {
			b.WriteByte("etaoinshrdlucmfwyp"[rand.Intn(1+rand.Intn(18))])
		}
		pieces = append(pieces, Piece{Text: b.String(), Score: -4 - 8*rand.Float64()})
	}
	return pieces
}

// TestAllocations checks that encoding allocates nothing once its memory has grown.
func TestAllocations(t *testing.T) {
	m, err := New(words(5000), Options{})
	if err != nil {
		t.Fatal(err)
	}
	var l Lattice
	text := strings.Repeat("▁the▁sand▁in▁é▁tea", 20)
	tokens, _ := m.Encode(nil, text, &l)
	if n := testing.AllocsPerRun(10, func() { tokens, _ = m.Encode(tokens[:0], text, &l) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestSize checks that a trie occupies at most 40 bytes for each byte of its strings, and 8 KiB, also if the strings
// leave gaps in it.
func TestSize(t *testing.T) {
	rand := rand.New(rand.NewSource(1))
	kinds := map[string]func() string{
		"words": nil,
		"bytes": func() string { return string([]byte{byte(rand.Intn(256)), byte(rand.Intn(256)), byte(rand.Intn(256))}) },
		"gaps": func() string {
			return string([]byte{byte(rand.Intn(256)), byte(rand.Intn(256)), byte(rand.Intn(2) * 255)})
		},
		"long": func() string { return strings.Repeat(string([]byte{byte(rand.Intn(256))}), rand.Intn(300)) },
		"fans": func() string {
			return string([]byte{byte(rand.Intn(4)), byte(rand.Intn(4) * 85), byte(rand.Intn(4) * 85), byte(rand.Intn(8) * 36)})
		},
	}
	for name, make := range kinds {
		for _, n := range []int{10, 1000, 50000} {
			var entries []Entry
			seen := map[string]bool{}
			total := int64(0)
			for _, p := range words(n) {
				text := p.Text
				if make != nil {
					text = make()
				}
				if !seen[text] {
					total += int64(len(text))
				}
				seen[text] = true
				entries = append(entries, Entry{Text: text})
			}
			trie, err := NewTrie(entries)
			if err != nil {
				t.Fatal(err)
			}
			if got := trie.Bytes(); got > 40*total+8192 {
				t.Errorf("%s: %d pieces of %d bytes occupy %d", name, n, total, got)
			}
		}
	}
}

func BenchmarkEncode(b *testing.B) {
	m, err := New(words(30000), Options{})
	if err != nil {
		b.Fatal(err)
	}
	var l Lattice
	var tokens []Token
	text := strings.Repeat("▁the▁sand▁in▁the▁tea▁is▁ornate▁and▁lost", 25)
	b.SetBytes(int64(len(text)))
	b.ResetTimer()
	for range b.N {
		tokens, _ = m.Encode(tokens[:0], text, &l)
	}
	b.ReportMetric(float64(len(tokens))*float64(b.N)/b.Elapsed().Seconds()/1e6, "Mtokens/s")
}

func BenchmarkNew(b *testing.B) {
	pieces := words(100000)
	b.ResetTimer()
	for range b.N {
		if _, err := New(pieces, Options{}); err != nil {
			b.Fatal(err)
		}
	}
}

func ExampleModel_Encode() {
	pieces := []Piece{{Text: "<unk>"}, {Text: "a", Score: -1}, {Text: "ab", Score: -1.5}, {Text: "b", Score: -1}}
	m, _ := New(pieces, Options{})
	tokens, _ := m.Encode(nil, "abxyb", &Lattice{})
	fmt.Println(tokens)
	// Output: [{2 0 2} {0 2 4} {3 4 5}]
}
