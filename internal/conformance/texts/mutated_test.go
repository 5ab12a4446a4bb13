package texts

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/weirml/weir"
)

var tokens = regexp.MustCompile(`"[^"\n]*"|[%@]?[A-Za-z_][A-Za-z0-9_.]*|-?[0-9]+|->|==|<=|//|\n|.`)

// odd are tokens that replace others.
var odd = []string{"no_such", "%none", "@none", "0", "-1", "1", "9223372036854775807", "-9223372036854775808",
	"4294967296", "\"\"", "f32", "i64", "bool", "state", "storage", "carve", "release",
	"assert", "const", "dim", "require", "return", "region", "(", ")", "{", "}", "[", "]", ",", ":", "inf", "relu",
	"nonzero", "if", "loop", "n", "m", "k", "%x", "%y", "%s"}

// mutated returns a text with a few tokens left out, doubled, swapped or replaced.
func mutated(text string, r *rand.Rand) string {
	list := tokens.FindAllString(text, -1)
	for range 1 + r.IntN(3) {
		i, j := 4+r.IntN(len(list)-4), 4+r.IntN(len(list)-4)
		switch r.IntN(6) {
		case 0:
			list = slices.Delete(list, i, i+1)
		case 1:
			list = slices.Insert(list, i, list[j], " ")
		case 2:
			list[i], list[j] = list[j], list[i]
		case 3:
			list[i] = list[j]
		default:
			list[i] = odd[r.IntN(len(odd))]
		}
		if len(list) < 8 {
			break
		}
	}
	out := ""
	for _, t := range list {
		out += t
	}
	return out
}

// textModels returns the models of testdata that are texts, and a text with each declaration.
func textModels(t *testing.T) []string {
	list := []string{`weir 1
ir @m {
  dim m in [1, 64]
  dim k in [0, 64] limit m
  require m <= 32 from "the author" about %x
  main @main(%x: f32[m], %s: f32[4], %c: bool[]) {
    state %s -> %n
    const %two: f32[] = [2]
    storage %l: 4*m + 128 bytes align 64
    assert m <= 16 "the window"
    %t: f32[m] = exp(%x) carve %l at 128
    %z: i64[1, k] = nonzero(%x) {found = string "k"}
    %n: f32[4] = mul(%s, %two)
    %y: f32[m] = if(%c) region () {
      %a: f32[m] = neg(%t)
      return %a
    } region () {
      return %x
    }
    release %l
    return %y, %n, %z
  }
}
`}
	for _, pattern := range []string{"testdata/memory/*/*.weir", "testdata/states/*.weir"} {
		files, _ := filepath.Glob(pattern)
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, string(data))
		}
	}
	return list
}

// TestMutatedTexts compiles texts with a few changed tokens: each compiles, or is refused with an error that is not
// internal. WEIR_FUZZ_TEXTS is the number of texts; the default is 1,500.
func TestMutatedTexts(t *testing.T) {
	count := 1500
	if n, err := strconv.Atoi(os.Getenv("WEIR_FUZZ_TEXTS")); err == nil {
		count = n
	}
	texts := textModels(t)
	compiled := 0
	for seed := range count {
		r := rand.New(rand.NewPCG(uint64(seed), 13))
		text := texts[0]
		if seed%3 != 0 {
			text = texts[r.IntN(len(texts))]
		}
		if seed == 0 {
			// a state whose new value is the result of an unknown operator
			text = strings.Replace(text, "mul(%s, %two)", "no_such(%s, %two)", 1)
		} else {
			text = mutated(text, r)
		}
		m, err := weir.LoadBytes([]byte(text))
		if err == nil {
			var p *weir.Program
			if p, err = weir.Compile(t.Context(), m, weir.Options{Target: weir.CPU, CPU: "portable"}); err == nil {
				compiled++
				p.Close()
			}
			m.Close()
		}
		if errors.Is(err, weir.ErrInternal) || err != nil && !errors.As(err, new(*weir.Error)) {
			t.Errorf("seed %d: %v\n%s", seed, err, text)
		}
	}
	if compiled < count/50 || compiled == count {
		t.Errorf("%d of %d compiled", compiled, count)
	}
	t.Logf("%d of %d compiled", compiled, count)
}
