package target

import (
	"errors"
	"os"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/weirml/weir/internal/diag"
)

// TestHost: the host's machine has the threads asked for, lacks none of its features, and has plausible caches.
func TestHost(t *testing.T) {
	m := Host(3)
	t.Logf("%s: %+v", Description(), m)
	if m.Threads != 3 || m.Arch != runtime.GOARCH || m.Limits.Scratch <= 0 || len(m.Lacks()) > 0 ||
		!slices.IsSorted(m.Features) {
		t.Errorf("the host is %+v", m)
	}
	for i, size := range []int64{m.Limits.L1, m.Limits.L2} {
		if size < 4<<10 {
			t.Errorf("cache %d has %d bytes", i+1, size)
		}
	}
	if runtime.GOARCH == "amd64" && host.Vendor == "" {
		t.Error("the processor has no vendor")
	}
	if runtime.GOARCH == "arm64" && !slices.Contains(host.Features, "neon") {
		t.Errorf("the processor has the features %v", host.Features)
	}
	for name, lacks := range Missing() {
		if i := slices.IndexFunc(levels, func(l level) bool { return l.name == name }); levels[i].arch != runtime.GOARCH ||
			len(lacks) == 0 {
			t.Errorf("%s, of %s, lacks %v", name, levels[i].arch, lacks)
		}
	}
}

// TestEmulated: the host has the features that are expected of an emulated processor.
func TestEmulated(t *testing.T) {
	want, ok := os.LookupEnv("WEIR_EXPECTED_FEATURES")
	if !ok {
		t.Skip("WEIR_EXPECTED_FEATURES is not set: make arm64 sets it for the processors that it emulates")
	}
	if have := strings.Join(Features(), " "); have != want {
		t.Errorf("the processor has the features %q, want %q", have, want)
	}
}

// TestSelect: on processors with various features, each name selects the wanted level, tile and width of vectors, or is
// an error of the wanted kind.
func TestSelect(t *testing.T) {
	before := host
	defer func() { host = before }()
	assumed, _ := Assumed("avx512", 2)
	both := needs("avx512")
	for _, c := range []struct {
		arch, vendor string
		features     []string
		cpu          string
		want         string // the level, or what the error lists
		kind         error
		tile         Tile
		bytes        int
	}{
		{"amd64", "GenuineIntel", both, "", "avx512", nil, Tile{14, 32}, 64},
		{"amd64", amd, both, "native", "avx512", nil, Tile{8, 48}, 64},
		{"amd64", amd, both, "avx2", "avx2", nil, Tile{6, 16}, 32},
		{"amd64", amd, both, "portable", "portable", nil, Tile{}, 16},
		{"amd64", amd, needs("avx2"), "native", "avx2", nil, Tile{6, 16}, 32},
		{"amd64", amd, needs("avx2"), "avx512", "no avx512bw, avx512dq, avx512f, avx512vl", diag.ErrUnsupported, Tile{}, 0},
		{"amd64", "GenuineIntel", needs("avxvnni"), "native", "avxvnni", nil, Tile{6, 16}, 32},
		{"amd64", "GenuineIntel", needs("avxvnni"), "avx512vnni", "no avx512bw, avx512dq, avx512f, avx512vl, avx512vnni",
			diag.ErrUnsupported, Tile{}, 0},
		{"amd64", amd, needs("avx512vnni"), "avxvnni", "no avxvnni", diag.ErrUnsupported, Tile{}, 0},
		{"amd64", amd, append(needs("avx512bf16"), "avxvnni"), "native", "avx512bf16", nil, Tile{8, 48}, 64},
		{"amd64", amd, []string{"avx"}, "native", "portable", nil, Tile{}, 16},
		{"amd64", amd, []string{"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "popcnt"}, "avx2", "no lzcnt",
			diag.ErrUnsupported, Tile{}, 0},
		{"arm64", "", nil, "native", "portable", nil, Tile{}, 16},
		{"arm64", "", nil, "avx2", "no amd64", diag.ErrUnsupported, Tile{}, 0},
		{"arm64", "", needs("neon"), "native", "neon", nil, Tile{8, 12}, 16},
		{"arm64", "", needs("dotprod"), "native", "dotprod", nil, Tile{8, 12}, 16},
		{"arm64", "", needs("bf16"), "native", "bf16", nil, Tile{8, 12}, 16},
		{"arm64", "", needs("bf16"), "dotprod", "dotprod", nil, Tile{8, 12}, 16},
		{"arm64", "", append(needs("dotprod"), "bf16", "fp16"), "native", "dotprod", nil, Tile{8, 12}, 16},
		{"arm64", "", needs("dotprod"), "bf16", "no bf16, i8mm", diag.ErrUnsupported, Tile{}, 0},
		{"arm64", "", needs("bf16"), "portable", "portable", nil, Tile{}, 16},
		{"arm64", "", needs("bf16"), "avx512", "no amd64", diag.ErrUnsupported, Tile{}, 0},
		{"amd64", "GenuineIntel", both, "neon", "no arm64", diag.ErrUnsupported, Tile{}, 0},
		{"amd64", amd, nil, "bf16", "no arm64", diag.ErrUnsupported, Tile{}, 0},
		{"amd64", amd, needs("avx512vnni"), "native", "avx512vnni", nil, Tile{8, 48}, 64},
		{"amd64", amd, needs("avx512vnni"), "avx512", "avx512", nil, Tile{8, 48}, 64},
		{"amd64", amd, needs("avx512bf16"), "native", "avx512bf16", nil, Tile{8, 48}, 64},
		{"amd64", "GenuineIntel", needs("avx512amx"), "native", "avx512amx", nil, Tile{14, 32}, 64},
		{"amd64", amd, both, "avx512vnni", "no avx512vnni", diag.ErrUnsupported, Tile{}, 0},
		{"amd64", amd, both, "avx3", "avx3", diag.ErrUnsupported, Tile{}, 0},
	} {
		host = processor{Arch: c.arch, Vendor: c.vendor, Features: c.features, Cache: anyCache}
		m, err := Select(c.cpu, 1)
		switch {
		case c.kind != nil:
			if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s on %s %v: %v", c.cpu, c.arch, c.features, err)
			}
		case err != nil || m.CPU != c.want || m.Tile != c.tile || m.VectorBytes != c.bytes:
			t.Errorf("%s on %s %v is %+v, %v", c.cpu, c.arch, c.features, m, err)
		}
		if m, err := Assumed("avx512", 2); err != nil || !reflect.DeepEqual(m, assumed) {
			t.Errorf("the assumed machine on %s %v is %+v, %v", c.cpu, c.features, m, err)
		}
		if other, err := For("avx512", 1); err != nil || other.CPU != "avx512" ||
			other.Has("avx512f") == (len(other.Features) == 0) {
			t.Errorf("another machine is %+v, %v", other, err)
		}
	}
}
