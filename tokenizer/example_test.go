package tokenizer_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"

	"github.com/weirml/weir/tokenizer"
)

// load returns a small tokenizer of the tests. A program calls tokenizer.Load("tokenizer.json").
func load(name string) *tokenizer.Tokenizer {
	data, err := os.ReadFile("testdata/families/" + name + ".json.gz")
	if err != nil {
		panic(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		panic(err)
	}
	if data, err = io.ReadAll(z); err != nil {
		panic(err)
	}
	t, err := tokenizer.LoadBytes(data)
	if err != nil {
		panic(err)
	}
	return t
}

// A text becomes ids, and the bytes that each of them stands for.
func Example() {
	t := load("bert_uncased")
	text := "A café, don't!"
	e, err := t.Encode(text, tokenizer.Options{})
	if err != nil {
		panic(err)
	}
	for i, id := range e.IDs {
		token, _ := t.Token(id)
		fmt.Printf("%s %q;", token, text[e.Offsets[i].Begin:e.Offsets[i].End])
	}
	fmt.Printf("\n%s\n", t.Decode(e.IDs))
	// Output:
	// [CLS] "";a "A";ca "ca";##fe "fé";, ",";d "d";##o "o";##n "n";[UNK] "'";t "t";[UNK] "!";[SEP] "";
	// a cafe, don t
}

// Two texts, truncated and padded.
func ExampleTokenizer_EncodePair() {
	t := load("bert_uncased")
	e, err := t.EncodePair("it's a café", "don't", tokenizer.Options{
		Truncation: &tokenizer.Truncation{Max: 9},
		Padding:    &tokenizer.Padding{Multiple: 4},
	})
	if err != nil {
		panic(err)
	}
	fmt.Println(e.Types)
	fmt.Println(e.Mask)
	// Output:
	// [0 0 0 0 0 1 1 1 1 0 0 0]
	// [1 1 1 1 1 1 1 1 1 0 0 0]
}

// Ids that come one by one become text without halves of characters.
func ExampleTokenizer_Stream() {
	t := load("llama3")
	ids, err := t.AppendIDs(nil, "Grüße 👍🏽!", tokenizer.Options{NoSpecial: true})
	if err != nil {
		panic(err)
	}
	d := t.Stream()
	for _, id := range ids {
		if text := d.Next(id); text != "" {
			fmt.Printf("%q ", text)
		}
	}
	// Output:
	// "G" "r" "ü" "ß" "e" " " "👍" "🏽" "!"
}
