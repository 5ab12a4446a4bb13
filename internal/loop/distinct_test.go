package loop

import (
	"strings"
	"testing"
)

// alikeText is a module with three kernels that are equal but for their names and sources, one that differs from them
// in a constant, and one that differs in a parameter's access.
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

// parseAlike parses text, with or without sharing between equal kernels.
func parseAlike(t *testing.T, text string, share bool) *Module {
	t.Helper()
	m, err := Parse(text, ParseOptions{Share: share})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestParseShares: with Share, equal kernels share their bodies and equal heads their parameters; without it nothing is
// shared.
func TestParseShares(t *testing.T) {
	separate, shared := parseAlike(t, alikeText, false), parseAlike(t, alikeText, true)
	if separate.String() != shared.String() {
		t.Fatalf("sharing changes what is read:\n%s\nand\n%s", separate, shared)
	}
	if k := shared.Kernels; &k[0].Body[0] != &k[1].Body[0] || &k[0].Body[0] == &k[2].Body[0] ||
		&k[0].Params[0] != &k[2].Params[0] || &k[0].Params[0] == &k[4].Params[0] {
		t.Error("unequal kernels share a body or parameters, or equal ones do not")
	}
	if k := separate.Kernels; &k[0].Body[0] == &k[1].Body[0] || &k[0].Params[0] == &k[1].Params[0] {
		t.Error("kernels share without being told to")
	}
}

// TestParseSharesErrors cuts and damages the text at every position: sharing does not change the errors.
func TestParseSharesErrors(t *testing.T) {
	for at := range alikeText {
		for _, text := range []string{alikeText[:at], alikeText[:at] + "~" + alikeText[at:],
			alikeText[:at] + alikeText[at+1:]} {
			separate, err1 := Parse(text, ParseOptions{})
			shared, err2 := Parse(text, ParseOptions{Share: true})
			if (err1 == nil) != (err2 == nil) || err1 != nil && err1.Error() != err2.Error() {
				t.Fatalf("%v without sharing, %v with it:\n%s", err1, err2, text)
			}
			if err1 == nil && separate.String() != shared.String() {
				t.Fatalf("sharing changes what is read:\n%s", text)
			}
		}
	}
}

// TestDistinct: equal kernels have one representative, whether they share memory or not.
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

// TestVerifyModuleOnce: unproved accesses of equal kernels are reported for each of them.
func TestVerifyModuleOnce(t *testing.T) {
	m := parseAlike(t, strings.ReplaceAll(alikeText, "%x[i]", "%x[i*n % (n + 1)]"), true)
	m.Buffers, m.Kernels = nil, m.Kernels[:2]
	alone, err := Verify(m.Kernels[0], m.Dims)
	if err != nil || len(alone) == 0 {
		t.Fatalf("%v and %v, want an unproved access", alone, err)
	}
	unproved, err := VerifyModule(m)
	if err != nil || len(unproved) != 2*len(alone) {
		t.Fatalf("%d and %v, want %d for each of two kernels", len(unproved), err, len(alone))
	}
}
