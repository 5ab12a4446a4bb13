package main

import (
	"fmt"
	"math"
	"regexp"
	"strings"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/array"
	"github.com/weirml/weir/nn"
)

var small = size{width: 64, blocks: 2, most: 40}

// TestCache decodes bytes in pieces of several sizes: after each piece the scores equal those of the network without a
// cache over all bytes so far.
func TestCache(t *testing.T) {
	text := []byte("Twas brillig, and the slithy toves")
	whole := transformer{small, false}
	params := nn.Init(whole, 1)
	defer params.Close()
	for _, sizes := range [][]int{{1, 1, 1, 1, 1}, {16, 1, 1, 5, 1}, {34}} {
		t.Run(fmt.Sprint(sizes), func(t *testing.T) {
			d, err := newDecoder(t.Context(), small)
			if err != nil {
				t.Fatal(err)
			}
			defer d.close()
			at := 0
			for _, n := range sizes {
				got, err := d.scores(t.Context(), text[at:at+n])
				if err != nil {
					t.Fatal(err)
				}
				at += n
				want := scoresOf(t, whole, params, text[:at])
				if len(got) != len(want) {
					t.Fatalf("%d scores, want %d", len(got), len(want))
				}
				for i := range got {
					if math.Abs(float64(got[i]-want[i])) > 1e-4 {
						t.Fatalf("after %d tokens the score of %d is %v, without a cache it is %v", at, i, got[i], want[i])
					}
				}
			}
		})
	}
}

// scoresOf returns the scores after a string, of a network without a cache.
func scoresOf(t *testing.T, net nn.Layer, params *nn.Params, text []byte) []float32 {
	t.Helper()
	s := array.NewScope("whole")
	defer s.Close()
	ids := make([]int64, len(text))
	for i, c := range text {
		ids[i] = int64(c)
	}
	y, err := nn.Predict(s, net, params, array.From(s, ids, 1, len(ids)))
	if err != nil {
		t.Fatal(err)
	}
	all, err := array.Copy[float32](y)
	if err != nil {
		t.Fatal(err)
	}
	return all[len(all)-letters:]
}

// TestInPlace compares the cache with its formula, and steps with the certificate: a step takes no memory for a second
// cache, and leaves nothing behind.
func TestInPlace(t *testing.T) {
	d, err := newDecoder(t.Context(), small)
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	for _, s := range d.program.States() {
		if !s.InPlace {
			t.Errorf("%s is copied", s.Input)
		}
	}
	got, err := d.cacheBytes()
	if want := int64(2 * small.blocks * small.most * small.width * 4); err != nil || got != want {
		t.Errorf("the cache has %d bytes, want %d: %v", got, want, err)
	}
	if _, err := d.step(t.Context(), []byte("abc")); err != nil {
		t.Fatal(err)
	}
	held := weir.Usage().Current
	for range 20 {
		if _, err := d.step(t.Context(), []byte("d")); err != nil {
			t.Fatal(err)
		}
	}
	if now := weir.Usage().Current; now > held {
		t.Errorf("after 20 tokens %d bytes are held, %d were before", now, held)
	}
	if _, err := d.step(t.Context(), make([]byte, 18)); err == nil || !strings.Contains(err.Error(), "number 41") {
		t.Errorf("a position that the cache has no room for: %v", err)
	}
}

// TestPrints runs the program.
func TestPrints(t *testing.T) {
	var out strings.Builder
	if err := run(t.Context(), &out, small, "Once", 8); err != nil {
		t.Fatal(err)
	}
	want := `^certificate: \d+ bytes of the program, and 40960 of its cache of 40 positions\nprompt: 4 tokens in \S+\nwritten: 8 tokens, \d+ a second\n".+"\n$`
	if !regexp.MustCompile(want).MatchString(out.String()) {
		t.Errorf("printed was\n%s", out.String())
	}
}
