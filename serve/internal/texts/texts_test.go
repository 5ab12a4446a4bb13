package texts

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"
)

// own allocates on Go's heap.
func own(bytes int64) ([]byte, error) { return make([]byte, bytes), nil }

// FuzzDecode: what DecodeOpenAI reads is what encoding/json reads; it neither panics nor reads beyond the message.
func FuzzDecode(f *testing.F) {
	for _, text := range []string{`"a"`, `["a","b"]`, `[1,2]`, `[[1],[2,3]]`, `[]`, `[[]]`, `"\u00e9\ud83d\ude00\ud800\n\\"`,
		`["\ud83dx", "\udc00", "\ud800\ud800\udc00"]`, `[1,"a"]`, `[[1],2]`, `[1.5]`, `[-1]`, `[2147483647,2147483648]`, ` [ "a" , ` +
			"\n" + `"b" ] `, `{"a":["]"]}`, `null`, `[["a"]]`, `[[1,[2]]]`, `["]","[","\""]`} {
		f.Add(`{"input":` + text + `,"model":"m"}`)
	}
	f.Add(`{"input":"x","input":["y"],"dimensions":3,"encoding_format":"base64"}`)
	f.Add(`{"query":"q","documents":["a",{"text":"b","x":[{"y":"]"}]},{}],"top_n":2}`)
	f.Fuzz(func(t *testing.T, body string) {
		var want struct {
			Model string
			Input any
		}
		err := json.Unmarshal([]byte(body), &want)
		DecodeRanking([]byte(strings.Clone(body)), 4, own) // does not panic
		got, failed := DecodeOpenAI([]byte(strings.Clone(body)), 4, own)
		if err != nil || !utf8.ValidString(body) {
			if failed == nil {
				t.Fatalf("%q is read: %v", body, err)
			}
			return
		}
		if failed != nil {
			return
		}
		if got.Model != want.Model {
			t.Fatalf("%q: the model is %q", body, got.Model)
		}
		list, many := want.Input.([]any)
		if !many {
			list = []any{want.Input}
		}
		if _, flat := list[0].(float64); flat {
			list = []any{list}
		}
		for i, one := range list {
			switch one := one.(type) {
			case string:
				if got.Texts[i] != one {
					t.Fatalf("%q: text %d is %q, want %q", body, i, got.Texts[i], one)
				}
			case []any:
				var ids []any
				for _, id := range got.IDs[i] {
					ids = append(ids, float64(id))
				}
				if !reflect.DeepEqual(ids, one) {
					t.Fatalf("%q: the ids of text %d are %v, want %v", body, i, ids, one)
				}
			default:
				t.Fatalf("%q is read as %v", body, got)
			}
		}
		if got.Len() != len(list) || len(list) > 4 {
			t.Fatalf("%q has %d texts, want %d", body, got.Len(), len(list))
		}
	})
}

// TestRefused: memory that is refused is the error of a request; more texts than possible are refused by number.
func TestRefused(t *testing.T) {
	for _, body := range []string{`["a","b","c"]`, `[[1],[2],[3]]`} {
		body = `{"input":` + body + `}`
		if _, err := DecodeOpenAI([]byte(body), 2, own); err == nil || !strings.Contains(err.Error(), "more than 2 texts") {
			t.Errorf("%s: %v", body, err)
		}
		full := fmt.Errorf("full")
		if _, err := DecodeOpenAI([]byte(body), 9, func(int64) ([]byte, error) { return nil, full }); err != full {
			t.Errorf("%s: %v", body, err)
		}
	}
}
