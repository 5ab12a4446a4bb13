package memory

import (
	"errors"
	"strings"
	"testing"

	"github.com/weirml/weir"
)

// TestPeakOutsideRanges asks for peaks at sizes with which a run is refused: Peak refuses them too, and says why.
func TestPeakOutsideRanges(t *testing.T) {
	m, err := weir.LoadBytes([]byte("weir 1\nir @m {\n dim n in [2, 32]\n main @main(%x: f32[n]) {\n " +
		"assert n % 2 == 0 \"pairs\"\n %y: f32[n] = exp(%x)\n return %y }\n }\n"))
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	p, err := weir.Compile(t.Context(), m, weir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for _, n := range []int64{2, 32} {
		if peak, err := p.Memory().Peak(1, weir.Dims{"n": n}); err != nil || peak <= 0 {
			t.Errorf("n = %d: %d bytes, %v", n, peak, err)
		}
	}
	for n, want := range map[int64][]string{0: {"2..32", "0"}, 34: {"2..32", "34"}, -2: {"2..32", "-2"},
		1 << 62: {"2..32"}, 5: {"pairs", "n = 5"}} {
		peak, err := p.Memory().Peak(1, weir.Dims{"n": n})
		var e *weir.Error
		if !errors.Is(err, weir.ErrInput) || !errors.As(err, &e) || peak != 0 || e.Dim != "n" && n != 5 {
			t.Errorf("n = %d: %d bytes, %v", n, peak, err)
			continue
		}
		for _, text := range want {
			if !strings.Contains(err.Error(), text) {
				t.Errorf("n = %d: %v, which does not say %q", n, err, text)
			}
		}
	}
}
