package target

import (
	"errors"
	"testing"

	"github.com/weirml/weir/internal/diag"
)

// TestParseLimits: words change limits and features from left to right, and malformed ones are errors.
func TestParseLimits(t *testing.T) {
	m, err := ParseLimits("desktop, shared=1000,-float64,cached-reads")
	if err != nil {
		t.Fatal(err)
	}
	if l := m.Limits; l.Shared != 1000 || l.Invocations != 1024 || l.Subgroup != 32 || !m.HasBlocks() {
		t.Errorf("the limits are %+v", l)
	}
	if m.Has(Float64) || !m.Has(CachedReads) || !m.Has(Int64) {
		t.Errorf("the features are %v", m.Features)
	}
	for _, source := range []string{"", "shared", "shared=", "shared=0", "shared=-1", "shared=99999999999999999999",
		"Desktop", "float128", "-", "shared=1=2", "invocations=2,subgroup=4"} {
		if _, err := ParseLimits(source); !errors.Is(err, diag.ErrInput) {
			t.Errorf("%q: %v", source, err)
		}
	}
	if _, err := ParseLimits("-physical-address"); !errors.Is(err, diag.ErrUnsupported) {
		t.Errorf("without addresses: %v", err)
	}
}
