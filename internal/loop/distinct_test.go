package loop

import (
	"strings"
	"testing"
)

// alikeText has kernels that are alike, kernels whose heads are alike, and one that differs in a constant only.
const alikeText = `weir 1
loop @m {
  dim n in [1, 64]
  buffer %a: f32[n] input
  buffer %b: f32[n] output
  kernel @first(%x: f32[n] read, %y: f32[n] write) dims(n) source "first source \" {" {
    each i < n {
      store %y[i] = mul(load %x[i], 2)
    }
  }
  kernel @second(%x: f32[n] read, %y: f32[n] write) dims(n) {
    each i < n {
      store %y[i] = mul(load %x[i], 2)
    }
  }
  kernel @third(%x: f32[n] read, %y: f32[n] write) dims(n) source "third" {
    each i < n {
      store %y[i] = mul(load %x[i], 3)
    }
  }
  kernel @fourth(%x: f32[n] read,
    %y: f32[n] write) dims(n) { each i < n {
      store %y[i] = mul(load %x[i], 2) } }
  kernel @fifth(%x: f32[n] read, %y: f32[n] update) dims(n) {
    each i < n {
      store %y[i] = mul(load %x[i], 2)
    }
  }
  body {
  }
}
`

func parseAlike(t *testing.T, text string, share bool) *Module {
	t.Helper()
	m, err := Parse(text, ParseOptions{Share: share})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestParseShares(t *testing.T) {
	plain, shared := parseAlike(t, alikeText, false), parseAlike(t, alikeText, true)
	if plain.String() != shared.String() {
		t.Fatalf("sharing changes what is read:\n%s\nand\n%s", plain, shared)
	}
	if k := shared.Kernels; &k[0].Body[0] != &k[1].Body[0] || &k[0].Body[0] == &k[2].Body[0] ||
		&k[0].Params[0] != &k[2].Params[0] || &k[0].Params[0] == &k[4].Params[0] {
		t.Error("kernels share what is not alike, or do not share what is")
	}
	if k := plain.Kernels; &k[0].Body[0] == &k[1].Body[0] || &k[0].Params[0] == &k[1].Params[0] {
		t.Error("kernels share without being told to")
	}
}

// TestParseSharesErrors cuts and damages the text everywhere: with sharing the same errors are found.
func TestParseSharesErrors(t *testing.T) {
	for at := range alikeText {
		for _, text := range []string{alikeText[:at], alikeText[:at] + "~" + alikeText[at:],
			alikeText[:at] + alikeText[at+1:]} {
			plain, err1 := Parse(text, ParseOptions{})
			shared, err2 := Parse(text, ParseOptions{Share: true})
			if (err1 == nil) != (err2 == nil) || err1 != nil && err1.Error() != err2.Error() {
				t.Fatalf("%v without sharing, %v with it:\n%s", err1, err2, text)
			}
			if err1 == nil && plain.String() != shared.String() {
				t.Fatalf("sharing changes what is read:\n%s", text)
			}
		}
	}
}

func TestDistinct(t *testing.T) {
	for _, share := range []bool{false, true} {
		unlike, which := Distinct(parseAlike(t, alikeText, share).Kernels)
		var names []string
		for _, at := range which {
			names = append(names, unlike[at].Name)
		}
		if got, want := strings.Join(names, " "), "first first third first fifth"; got != want {
			t.Errorf("share %v: %s, want %s", share, got, want)
		}
	}
}

// TestVerifyModuleOnce finds the faults of kernels that are alike in each of them.
func TestVerifyModuleOnce(t *testing.T) {
	m := parseAlike(t, strings.ReplaceAll(alikeText, "%x[i]", "%x[i*n % (n + 1)]"), true)
	m.Buffers, m.Kernels = nil, m.Kernels[:2]
	alone, err := Verify(m.Kernels[0], m.Dims)
	if err != nil || len(alone) == 0 {
		t.Fatalf("%v and %v, want something that is not proved", alone, err)
	}
	unproved, err := VerifyModule(m)
	if err != nil || len(unproved) != 2*len(alone) {
		t.Fatalf("%d and %v, want %d for each of two kernels", len(unproved), err, len(alone))
	}
}
