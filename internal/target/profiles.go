package target

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/weirml/weir/internal/diag"
)

// profiles are machines of blocks for which code can be generated without the device. Shared bytes are those of the
// devices' documentation; a thread's private bytes leave enough resident threads to hide the latency of memory.
var profiles = map[string]Machine{
	// The guarantees of Vulkan 1.2 with addresses of buffers.
	"minimum": Vulkan(Limits{}, PhysicalAddress),
	"mobile": Vulkan(Limits{Shared: 16384, Invocations: 256, Subgroup: 16, Private: 256},
		PhysicalAddress, Int8, Int16, Int64, Float16, Storage8, Storage16),
	"desktop": Vulkan(Limits{Shared: 49152, Invocations: 1024, Subgroup: 32, Private: 512},
		PhysicalAddress, Int8, Int16, Int64, Float16, Float64, Storage8, Storage16, Dot8),
	// AMD's Instinct MI300.
	"gfx942": Vulkan(Limits{Shared: 65536, Invocations: 1024, Subgroup: 64, Private: 1024},
		PhysicalAddress, Int8, Int16, Int64, Float16, Float64, Storage8, Storage16, Dot8),
}

// Profiles returns the names of profiles, sorted.
func Profiles() []string { return slices.Sorted(maps.Keys(profiles)) }

// blockFeatures are the features that a user or a file may name.
var blockFeatures = []string{Int8, Int16, Int64, Float16, Float64, Storage8, Storage16, Dot8, PhysicalAddress,
	KeepsSpecial, KeepsSubnormal, CachedReads, Fused, Shuffle}

// featureWords lists the features that a user or a file may name, for an error.
func featureWords() string {
	return strings.Join(blockFeatures, ", ") + ", and cooperative matrices such as " +
		Matrix{matrixTypes[0], 16, 16, 16}.Feature() + ", with elements of f16, bf16 or i8 and sizes of powers of 2"
}

// mostLimit is the largest limit that a user or a file may name: sums of a few do not overflow.
const mostLimit = 1 << 40

// ParseLimits parses a machine of blocks: words separated by commas, each of which changes the machine, which is the
// profile "desktop" at first, since shared=16384 asks for a real card with less memory. A profile's name sets all
// limits and features; shared=16384, invocations=128, subgroup=32 and private=256 set one limit; a feature's name
// adds the feature, and -feature removes it. Fewer invocations than a subgroup's make the subgroup smaller, unless
// it is set too. Malformed words are ErrInput; a machine without PhysicalAddress is ErrUnsupported.
func ParseLimits(source string) (Machine, error) {
	m := profiles["desktop"]
	subgroup := false // it is set
	features := slices.Clone(m.Features)
	limits := map[string]*int64{"shared": &m.Limits.Shared, "invocations": &m.Limits.Invocations,
		"subgroup": &m.Limits.Subgroup, "private": &m.Limits.Private}
	for _, word := range strings.Split(source, ",") {
		word = strings.TrimSpace(word)
		name, value, sets := strings.Cut(word, "=")
		profile, known := profiles[word]
		switch {
		case known:
			m.Limits, features = profile.Limits, slices.Clone(profile.Features)
		case sets && limits[name] != nil:
			n, err := strconv.ParseInt(value, 10, 64)
			if err != nil || n < 1 || n > mostLimit {
				return Machine{}, diag.Inputf("limit %s is %q", name, value).WithFix("give a number from 1 to %d", int64(mostLimit))
			}
			*limits[name] = n
			subgroup = subgroup || name == "subgroup"
		case !sets && isBlockFeature(word):
			features = append(features, word)
		case !sets && strings.HasPrefix(word, "-") && isBlockFeature(word[1:]):
			features = slices.DeleteFunc(features, func(f string) bool { return f == word[1:] })
		default:
			return Machine{}, diag.Inputf("%q in the limits %q", word, source).
				WithFix("there are the profiles %s, the limits %s, and the features %s", strings.Join(Profiles(), ", "),
					strings.Join(slices.Sorted(maps.Keys(limits)), ", "), featureWords())
		}
	}
	if !slices.Contains(features, PhysicalAddress) {
		return Machine{}, diag.Unsupportedf("a device without %s", PhysicalAddress)
	}
	if !subgroup {
		m.Limits.Subgroup = min(m.Limits.Subgroup, m.Limits.Invocations)
	}
	if m.Limits.Subgroup > m.Limits.Invocations {
		return Machine{}, diag.Inputf("a subgroup of %d threads in blocks of %d", m.Limits.Subgroup, m.Limits.Invocations)
	}
	return Vulkan(m.Limits, features...), nil
}

// KnownBlocks returns the machine of blocks that a file describes, with only the properties of such machines. It
// returns an error for unknown features, and for limits that no device can have.
func (m Machine) KnownBlocks() (Machine, error) {
	for _, f := range m.Features {
		if !isBlockFeature(f) {
			return m, diag.Unsupportedf("a device with %q; there are the features %s", f, featureWords())
		}
	}
	for _, n := range []int64{m.Limits.Shared, m.Limits.Invocations, m.Limits.Subgroup, m.Limits.Private} {
		if n < 1 || n > mostLimit {
			return m, diag.Inputf("a device's limit of %d", n).WithFix("limits are from 1 to %d", int64(mostLimit))
		}
	}
	known := Vulkan(Limits{Shared: m.Limits.Shared, Invocations: m.Limits.Invocations, Subgroup: m.Limits.Subgroup,
		Private: m.Limits.Private}, m.Features...)
	if known.Threads = max(m.Threads, 1); !known.Has(PhysicalAddress) {
		return m, diag.Unsupportedf("a device without %s", PhysicalAddress)
	}
	return known, nil
}
