package target

import (
	"errors"
	"strings"
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
	desktop, err := ParseLimits("desktop")
	if err != nil {
		t.Fatal(err)
	}
	for source, want := range map[string]Limits{
		"shared=1000":                {Shared: 1000, Invocations: 1024, Subgroup: 32, Private: 512},
		"invocations=16":             {Shared: 49152, Invocations: 16, Subgroup: 16, Private: 512},
		"subgroup=4,invocations=16":  {Shared: 49152, Invocations: 16, Subgroup: 4, Private: 512},
		"minimum,shared=1000,-int64": {Shared: 1000, Invocations: 128, Subgroup: 1, Private: 256},
	} {
		m, err := ParseLimits(source)
		if err != nil {
			t.Fatal(source, err)
		}
		got := Limits{Shared: m.Limits.Shared, Invocations: m.Limits.Invocations, Subgroup: m.Limits.Subgroup,
			Private: m.Limits.Private}
		if got != want || m.Has(Int64) != desktop.Has(Int64) && !strings.HasPrefix(source, "minimum") {
			t.Errorf("%q: the limits are %+v, the features %v", source, got, m.Features)
		}
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
