package tiktoken

import (
	"encoding/base64"
	"errors"
	"fmt"
	"math/rand"
	"strings"
	"testing"

	"github.com/weirml/weir/internal/diag"
)

// file returns a file of the 256 bytes and some more tokens.
func file(more ...string) string {
	var b strings.Builder
	for i := range 256 + len(more) {
		token := string([]byte{byte(i)})
		if i >= 256 {
			token = more[i-256]
		}
		fmt.Fprintf(&b, "%s %d\n", base64.StdEncoding.EncodeToString([]byte(token)), i)
	}
	return b.String()
}

func TestParse(t *testing.T) {
	tokens, err := Parse([]byte(file("the", "\xe4\xb8")))
	if err != nil || len(tokens) != 258 || tokens[256] != (Token{"the", 256}) || tokens[257] != (Token{"\xe4\xb8", 257}) {
		t.Errorf("%v, %v", tokens[250:], err)
	}
	for name, text := range map[string]string{
		"there is no rank":         file() + "dGhl\n",
		`"x" is no rank`:           file() + "dGhl x\n",
		`"-1" is no rank`:          file() + "dGhl -1\n",
		"is no token in base64":    file() + "?? 300\n",
		"is there twice":           file("the", "the"),
		"its rank, 3, is there":    file() + "dGhl 3\n",
		"0 of the 256 bytes":       "dGhl 3\n",
		`"99999999999" is no rank`: file() + "dGhl 99999999999\n",
	} {
		if _, err := Parse([]byte(text)); !errors.Is(err, diag.ErrInput) || !strings.Contains(err.Error(), name) {
			t.Errorf("%v, not %s", err, name)
		}
	}
}

// TestMutants damages files: they are refused, or hold each byte once.
func TestMutants(t *testing.T) {
	rand := rand.New(rand.NewSource(1))
	text := file("the", "and", " of")
	refused := 0
	for range 10000 {
		d := []byte(text)
		for range 1 + rand.Intn(3) {
			switch at := rand.Intn(len(d)); rand.Intn(3) {
			case 0:
				d = append(d[:at:at], d[min(len(d), at+1+rand.Intn(6)):]...)
			case 1:
				d[at] = "=AZz09 \n\xff-"[rand.Intn(10)]
			default:
				d[at] ^= 1 << rand.Intn(8)
			}
		}
		tokens, err := Parse(d)
		if err != nil {
			if refused++; !errors.Is(err, diag.ErrInput) {
				t.Errorf("%v", err)
			}
		} else if len(tokens) < 256 {
			t.Errorf("%d tokens", len(tokens))
		}
	}
	if refused == 0 || refused == 10000 {
		t.Errorf("%d of 10000 mutants are refused", refused)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(file("the")))
	f.Fuzz(func(t *testing.T, data []byte) { Parse(data) })
}
