package oip

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
)

// TestParametersText: random parameters are read and written as encoding/json does.
func TestParametersText(t *testing.T) {
	random := rand.New(rand.NewPCG(38, 2))
	pieces := []string{"a", "0", "\"", "\\", "<", "é", "\x00", "\u2028", "\xff", " ", "{", "}", ",", ":", "/"}
	text := func() string {
		var b strings.Builder
		for range random.IntN(6) {
			b.WriteString(pieces[random.IntN(len(pieces))])
		}
		return b.String()
	}
	space := func() string { return []string{"", " ", "\n\t", "\r "}[random.IntN(4)] }
	for range 20000 {
		want := Parameters{}
		for range random.IntN(4) {
			values := []any{text(), random.Int64() - random.Int64(), random.NormFloat64(), true, false, int64(0)}
			want[text()] = values[random.IntN(len(values))]
		}
		written, err := json.Marshal(map[string]any(want))
		if err != nil {
			t.Fatal(err)
		}
		if got := AppendJSON(nil, want); string(got) != string(written) {
			t.Fatalf("%q is written as %s, want %s", want, got, written)
		}
		var spaced strings.Builder // spaces between tokens: the encoder's text has them in strings only
		inside := false
		for i := 0; i < len(written); i++ {
			c := written[i]
			if c == '"' && (i == 0 || !escaped(written[:i])) {
				inside = !inside
			}
			if !inside && strings.ContainsRune("{},:", rune(c)) {
				fmt.Fprintf(&spaced, "%s%c%s", space(), c, space())
			} else {
				spaced.WriteByte(c)
			}
		}
		var got Parameters
		var list map[string]json.RawMessage
		if err := json.Unmarshal([]byte(spaced.String()), &list); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(spaced.String()), &got); err != nil {
			t.Fatalf("%s: %v", spaced.String(), err)
		}
		again := Parameters{}
		for name, value := range list {
			if again[name], err = scalar(span(value)); err != nil {
				t.Fatal(err)
			}
		}
		if !reflect.DeepEqual(got, again) {
			t.Fatalf("%s is read as %v, want %v", spaced.String(), got, again)
		}
	}
	for _, bad := range []string{`[]`, `1`, `"a"`, `{"a":null}`, `{"a":{}}`, `{"a":[1,2]}`, `{"a":1,"b":{"c":"}"}}`, `{"a":1e999}`} {
		var p Parameters
		if err := json.Unmarshal([]byte(bad), &p); err == nil {
			t.Errorf("%s is read as %v", bad, p)
		}
	}
}

// escaped reports whether the byte after some text is escaped by a backslash.
func escaped(before []byte) bool {
	n := 0
	for len(before) > n && before[len(before)-1-n] == '\\' {
		n++
	}
	return n%2 == 1
}
