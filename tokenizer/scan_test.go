package tokenizer

import (
	"bytes"
	"encoding/json"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"unicode/utf8"
)

// TestScanValues: members and elements are those that package json reads, in files that it takes and that are damaged.
func TestScanValues(t *testing.T) {
	r := rand.New(rand.NewPCG(39, 3))
	texts := []string{"", "a", `"`, `\`, "]}", "{", ",", ": ", "é\n", "\u2028😀"}
	var value func(depth int) any
	value = func(depth int) any {
		switch kind := r.IntN(8); {
		case kind == 0:
			return nil
		case kind == 1:
			return r.IntN(2) == 0
		case kind == 2:
			return r.NormFloat64() * 1e9
		case kind == 3 || depth == 0:
			return texts[r.IntN(len(texts))]
		case kind < 6:
			list := []any{}
			for range r.IntN(4) {
				list = append(list, value(depth-1))
			}
			return list
		default:
			members := map[string]any{}
			for range r.IntN(4) {
				members[texts[r.IntN(len(texts))]] = value(depth - 1)
			}
			return members
		}
	}
	objects, lists := 0, 0
	for range 20_000 {
		data, err := json.Marshal(value(4))
		if r.IntN(2) == 0 {
			var b bytes.Buffer
			err = json.Indent(&b, data, " ", "\t")
			data = append(b.Bytes(), " \n"[:r.IntN(3)]...)
		}
		if err != nil {
			t.Fatal(err)
		}
		if len(data) > 0 && r.IntN(2) == 0 {
			data[r.IntN(len(data))] = "0129-.e[]{}\":,\\ nua"[r.IntN(19)]
		}
		if !json.Valid(data) || !utf8.Valid(data) { // which parse refuses
			continue
		}
		if got, ok := scanObject(data); ok {
			objects++
			var want map[string]json.RawMessage
			if err := json.Unmarshal(data, &want); err != nil || !maps.EqualFunc(got, want, slices.Equal) {
				t.Fatalf("%s: the members %s; want %s (%v)", data, got, want, err)
			}
		}
		if got, ok := scanList(data); ok {
			lists++
			var want []json.RawMessage
			if err := json.Unmarshal(data, &want); err != nil || !slices.EqualFunc(got, want, slices.Equal) {
				t.Fatalf("%s: the elements %s; want %s (%v)", data, got, want, err)
			}
		}
	}
	if objects < 1000 || lists < 1000 {
		t.Errorf("%d objects and %d lists were scanned", objects, lists)
	}
}

// TestScan: vocabularies and merges are those that package json reads, in files that it takes and that are damaged.
func TestScan(t *testing.T) {
	r := rand.New(rand.NewPCG(39, 2))
	bits := []string{"a", "é", `"`, `\`, "{", "]", ",", ":", " ", "\n", "\u2028", "😀", "<", "\x00", "Ġ"}
	word := func() (s string) {
		for range r.IntN(4) {
			s += bits[r.IntN(len(bits))]
		}
		return s
	}
	scanned := 0
	for range 5000 {
		ids, pairs := map[string]int64{}, [][]string{}
		for range r.IntN(6) {
			ids[word()], pairs = r.Int64N(1<<r.IntN(40)), append(pairs, []string{word(), word()})
		}
		for _, v := range []any{ids, pairs} {
			data, err := json.Marshal(v)
			if r.IntN(2) == 0 {
				data, err = json.MarshalIndent(v, " ", "\t")
			}
			if err != nil {
				t.Fatal(err)
			}
			if len(data) > 0 && r.IntN(2) == 0 {
				data[r.IntN(len(data))] = "0129-.e[]{}\":,\\ nua"[r.IntN(19)]
			}
			if !json.Valid(data) || !utf8.Valid(data) { // which parse refuses
				continue
			}
			var wantIDs map[string]int64
			if got, ok := scanIDs(data); ok {
				scanned++
				err := json.Unmarshal(data, &wantIDs)
				same := maps.EqualFunc(got, wantIDs, func(a int32, b int64) bool { return int64(a) == b })
				if err != nil || !same {
					t.Fatalf("%s: the ids %v; want %v (%v)", data, got, wantIDs, err)
				}
			}
			var got, want [][]string
			ok, err := scanMerges(data, func(i int, a, b string) error {
				if i != len(got) {
					t.Fatalf("%s: merge %d follows %d", data, i, len(got))
				}
				got = append(got, []string{a, b})
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if ok {
				scanned++
				if err := json.Unmarshal(data, &want); err != nil || !slices.EqualFunc(got, want, slices.Equal) {
					t.Fatalf("%s: the merges %q; want %q (%v)", data, got, want, err)
				}
			}
		}
	}
	if scanned < 4000 {
		t.Errorf("%d lists were scanned", scanned)
	}
}
