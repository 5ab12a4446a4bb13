package pattern

import (
	"encoding/json"
	"errors"
	"math/rand"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/weirml/weir/internal/diag"
)

// known reads the patterns of known tokenizers.
func known(t testing.TB) map[string]string {
	data, err := os.ReadFile("testdata/known.json")
	if err != nil {
		t.Fatal(err)
	}
	var out map[string]string
	if err := json.Unmarshal(data, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestRefused checks that syntax beyond the package is refused by name, and malformed patterns as such.
func TestRefused(t *testing.T) {
	for _, c := range []struct {
		source, words string
		kind          error
	}{
		{`(?<n>a)`, "a named group", diag.ErrUnsupported},
		{`(a)\1`, `\1`, diag.ErrUnsupported},
		{`\X`, `\X`, diag.ErrUnsupported},
		{`a\K`, `\K`, diag.ErrUnsupported},
		{`(?~a)`, "this kind of group", diag.ErrUnsupported},
		{`(?(1)a)`, "this kind of group", diag.ErrUnsupported},
		{`(?i:ss)`, `the folding of "ss"`, diag.ErrUnsupported},
		{`(?i:ß)`, `the folding of 'ß'`, diag.ErrUnsupported},
		{`(?i:\p{L}[\p{L}])`, "the folding of a class", diag.ErrUnsupported},
		{`\p{Wrong}`, `the property "Wrong"`, diag.ErrUnsupported},
		{`(?<=a+)b`, "a lookbehind of varying length", diag.ErrUnsupported},
		{`a{3,1}`, "bounds are swapped", diag.ErrUnsupported},
		{`(?s:a)`, "unknown option", diag.ErrInput},
		{`(a`, "a group does not end", diag.ErrInput},
		{`a)`, "closes no group", diag.ErrInput},
		{`[a`, "a class does not end", diag.ErrInput},
		{`[]`, "a class is empty", diag.ErrInput},
		{`[b-a]`, "a range is empty", diag.ErrInput},
		{`*a`, "nothing stands before a quantifier", diag.ErrInput},
		{`a{100001}`, "more than 100000 times", diag.ErrInput},
		{`a\`, "ends in a backslash", diag.ErrInput},
		{"a\xff", "not UTF-8", diag.ErrInput},
		{strings.Repeat("(", 300), "groups lie within each other", diag.ErrInput},
		{strings.Repeat("[", 300), "classes lie within each other", diag.ErrInput},
		{strings.Repeat("a", 1<<17), "is longer than", diag.ErrInput},
		{`(?:a{1000}){1000}`, "a pattern of more than", diag.ErrUnsupported},
	} {
		if _, err := Compile(c.source); !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.words) {
			t.Errorf("%q: %v, not %q", short(c.source), err, c.words)
		}
	}
}

// TestHostile checks that patterns which take backtracking exponential time end, and soon.
func TestHostile(t *testing.T) {
	long := strings.Repeat("a", 5000)
	for _, source := range []string{`(?:a|a)*b`, `(?:a*)*b`, `(?:a+)+$b`, `(?=(?:a|a)*b)a`, `(?:a?){200}b`, `(?:(?:a*)*)*b`, `\b(?:a|aa)+b`} {
		p, err := Compile(source)
		if err != nil {
			t.Errorf("%q: %v", source, err)
			continue
		}
		begin := time.Now()
		m := p.Matches(long)
		if m.Next() {
			t.Errorf("%q matches", source)
		}
		if m.Err() == nil && !p.Linear() {
			t.Errorf("%q: a search of exponential time ends without an error", source)
		}
		if took := time.Since(begin); took > 20*time.Second {
			t.Errorf("%q took %v", source, took)
		}
	}
}

// TestMutants compiles damaged patterns, and matches with those that are still patterns.
func TestMutants(t *testing.T) {
	rand := rand.New(rand.NewSource(1))
	var sources []string
	for _, s := range known(t) {
		sources = append(sources, s)
	}
	const parts = `()[]{}|*+?\^$.-:=!<>&ipPLxu019,saz` + "\xffé"
	compiled, rounds := 0, 10000
	if testing.Short() {
		rounds = 1000
	}
	for range rounds {
		s := []byte(sources[rand.Intn(len(sources))])
		for range 1 + rand.Intn(4) {
			at := rand.Intn(len(s))
			switch rand.Intn(4) {
			case 0:
				s[at] = parts[rand.Intn(len(parts))]
			case 1:
				s = append(s[:at], s[min(len(s), at+1+rand.Intn(4)):]...)
			case 2:
				s = append(s[:at:at], append([]byte{parts[rand.Intn(len(parts))]}, s[at:]...)...)
			default:
				s = append(s[:at:at], s[rand.Intn(len(s)):]...)
			}
			if len(s) == 0 {
				s = []byte("a")
			}
		}
		p, err := Compile(string(s))
		if err != nil {
			if !errors.Is(err, diag.ErrUnsupported) && !errors.Is(err, diag.ErrInput) {
				t.Errorf("%q: %v", s, err)
			}
			continue
		}
		compiled++
		last := 0
		text := "I'll pay $12,345.67\r\n for\xff naïve  日本語 '"
		for m := p.Matches(text); m.Next(); last = m.End {
			if m.Begin < last || m.End < m.Begin || m.End > len(text) {
				t.Errorf("%q: a match from %d to %d after %d", s, m.Begin, m.End, last)
			}
		}
	}
	if compiled < rounds/10 {
		t.Errorf("only %d mutants are patterns", compiled)
	}
}

// TestAllocations checks that matching allocates nothing.
func TestAllocations(t *testing.T) {
	text := sample(t)[:1000]
	for name, source := range known(t) {
		p, err := Compile(source)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		run := func() {
			for m := p.Matches(text); m.Next(); {
			}
		}
		run()
		if n := testing.AllocsPerRun(20, run); n > 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

// sample returns a text of 100 kB: mostly English and code, some of it in other scripts.
func sample(t testing.TB) string {
	source, err := os.ReadFile("parse.go")
	if err != nil {
		t.Fatal(err)
	}
	prose := "The quick brown fox doesn't jump over 12 lazy dogs, it's said; naïve readers (all 3,141 of them) agree.\n"
	other := "日本語の文章です。Привет, мир! Καλημέρα κόσμε 안녕하세요 नमस्ते 😀\n\n"
	return strings.Repeat(strings.Repeat(prose, 40)+other+string(source[:2000]), 16)[:100000]
}

func BenchmarkKnown(b *testing.B) {
	text := sample(b)
	for name, source := range known(b) {
		p, err := Compile(source)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for range b.N {
				for m := p.Matches(text); m.Next(); {
				}
			}
		})
	}
}

func BenchmarkCompile(b *testing.B) {
	source := known(b)["o200k"]
	for range b.N {
		if _, err := Compile(source); err != nil {
			b.Fatal(err)
		}
	}
}

func FuzzCompile(f *testing.F) {
	for _, s := range known(f) {
		f.Add(s, "I'll 12 é")
	}
	f.Fuzz(func(t *testing.T, source, text string) {
		p, err := Compile(source)
		if err != nil {
			return
		}
		steps := 100000
		p.find(text, 0, &steps)
	})
}
