package target

import (
	"fmt"
	"runtime"
	"slices"
	"strings"

	"github.com/weirml/weir/internal/diag"
)

// The names of machines whose code runs on processors.
const (
	PortableName = "portable" // code in Go, for any processor
	AMD64Name    = "amd64"    // machine code
)

// Native is the choice of the highest level that the processor has.
const Native = "native"

// level is a set of processors for which code is written: those that have its features.
type level struct {
	name      string // as the user chooses it
	after     string // the level whose features it has besides; "" for the first
	needs     []string
	bytes     int // of a vector register
	registers int // for vectors
	dot       Dot
	tile      Tile
	amd       Tile // where the maker is AMD
}

// levels are those of amd64, the better ones later. Their tiles are the fastest measured ones on processors that have
// two units for products: all but a few of the registers hold sums.
var levels = []level{
	{"avx2", "", []string{"avx2", "bmi1", "bmi2", "f16c", "fma", "lzcnt", "popcnt"}, 32, 16, Dot{Bytes: 2}, Tile{6, 16},
		Tile{6, 16}},
	{"avxvnni", "avx2", []string{"avxvnni"}, 32, 16, Dot{Bytes: 4}, Tile{6, 16}, Tile{6, 16}},
	{"avx512", "avx2", []string{"avx512bw", "avx512dq", "avx512f", "avx512vl"}, 64, 32, Dot{Bytes: 2}, Tile{14, 32},
		Tile{8, 48}},
	{"avx512vnni", "avx512", []string{"avx512vnni"}, 64, 32, Dot{Bytes: 4}, Tile{14, 32}, Tile{8, 48}},
	{"avx512bf16", "avx512vnni", []string{"avx512bf16"}, 64, 32, Dot{Bytes: 4, BF16: 2}, Tile{14, 32}, Tile{8, 48}},
	{"avx512amx", "avx512bf16", []string{"amxbf16", "amxint8", "amxtile"}, 64, 32, Dot{Bytes: 4, BF16: 2}, Tile{14, 32},
		Tile{8, 48}},
}

// Levels are the names that Select takes, the least first.
func Levels() []string {
	names := []string{PortableName}
	for _, l := range levels {
		names = append(names, l.name)
	}
	return append(names, Native)
}

// Portable is the machine that portable code is scheduled for: any.
func Portable(threads int) Machine {
	return Machine{Name: PortableName, Arch: runtime.GOARCH, CPU: PortableName, VectorBytes: 16, Threads: threads,
		Limits: limits(anyCache, 0)}
}

// anyCache stands for caches that are not known.
var anyCache = [3]int64{32 << 10, 1 << 20, 8 << 20}

// limits are those of code for processors.
func limits(cache [3]int64, registers int) Limits {
	return Limits{Scratch: 7 << 20, Registers: int64(registers), Operands: 48, Values: 96, L1: cache[0], L2: cache[1]}
}

// Host is the machine that the process runs on, at the highest level that it has.
func Host(threads int) Machine {
	for i := len(levels) - 1; i >= 0; i-- {
		if len(lacks(levels[i].name, host.Features)) == 0 {
			m := levels[i].machine(threads)
			m.Features = slices.Clone(host.Features)
			return m
		}
	}
	return Portable(threads)
}

// Select is the machine of a level, as the user named it: native, or "", is the host as it is. A level that the host
// has not is ErrUnsupported, and the error lists what the host lacks.
func Select(cpu string, threads int) (Machine, error) {
	if cpu == "" || cpu == Native {
		return Host(threads), nil
	}
	m, err := For(cpu, threads)
	if err != nil {
		return Machine{}, err
	}
	if missing := m.Lacks(); len(missing) > 0 {
		return Machine{}, diag.Unsupportedf("code for %s: this processor (%s) has no %s", cpu, Description(),
			strings.Join(missing, ", ")).
			WithFix("--cpu native takes the best that it has: %s", Host(threads).CPU)
	}
	return m, nil
}

// For is a machine of a level whether or not the host has it: what is not known of it, such as its caches, is taken to
// be as the host's.
func For(cpu string, threads int) (Machine, error) {
	if cpu == "" || cpu == Native {
		return Host(threads), nil
	}
	if cpu == PortableName {
		return Portable(threads), nil
	}
	for _, l := range levels {
		if l.name == cpu {
			return l.machine(threads), nil
		}
	}
	return Machine{}, diag.Unsupportedf("code for a processor called %q", cpu).WithFix("there are %s",
		strings.Join(Levels(), ", "))
}

// Assumed returns the machine of a level for tests that compare text: its caches and its tile are assumed, so it is the
// same on every host. The level is one that For takes, but not native.
func Assumed(cpu string, threads int) (Machine, error) {
	m, err := For(cpu, threads)
	for _, l := range levels {
		if l.name == m.CPU {
			m.Tile, m.Limits = l.tile, limits(anyCache, l.registers)
		}
	}
	return m, err
}

// Known is the machine that a file describes, as far as a file may be believed: its level, whose features it then has
// and no more, which of the level's tiles it was made for, whether it multiplies bf16, and its threads. It is false for
// what no machine here is like.
func (m Machine) Known() (known Machine, ok bool) {
	for _, l := range levels {
		if m.Name == AMD64Name && m.CPU == l.name && (m.Tile == l.tile || m.Tile == l.amd) && m.Threads >= 1 {
			known = l.machine(m.Threads)
			known.Tile = m.Tile
			known.Dot.BF16 = min(known.Dot.BF16, max(m.Dot.BF16, 0))
			return known, true
		}
	}
	return m, false
}

// machine is a machine of the level with no feature beyond it.
func (l *level) machine(threads int) Machine {
	m := Machine{Name: AMD64Name, Arch: "amd64", CPU: l.name, Features: needs(l.name), VectorBytes: l.bytes, Dot: l.dot,
		Tile: l.tile, Threads: threads, Limits: limits(host.Cache, l.registers)}
	if host.Vendor == amd {
		m.Tile = l.amd
	}
	return m
}

// needs are the features that a level has, those of the levels below it included, sorted; none for a name that is no
// level's.
func needs(cpu string) []string {
	for _, l := range levels {
		if l.name == cpu {
			all := append(needs(l.after), l.needs...)
			slices.Sort(all)
			return all
		}
	}
	return nil
}

// lacks are the features of a level that are not among those given.
func lacks(cpu string, features []string) []string {
	return slices.DeleteFunc(needs(cpu), func(f string) bool { return slices.Contains(features, f) })
}

// Halves reports whether the machine does an operation on one of its vectors in two halves, so that vectors half as
// long take half the time: as far as AMD's first processors with AVX-512 do.
func (m Machine) Halves() bool {
	return slices.ContainsFunc(levels, func(l level) bool { return m.CPU == l.name && l.bytes == 64 && m.Tile == l.amd })
}

// BF16Faster reports whether the machine's instruction for products of bf16 takes less time than those of f32 that
// stand for it.
func (m Machine) BF16Faster() bool { return m.BF16Speed() > 1 }

// BF16Speed is about how many products of bf16 the machine does in the time of one of f32: 2 on AMD's processors with
// an instruction for them, 1 on others, where that instruction takes longer than those for f32. Tile registers do 14
// times as many if their operands are in the nearest cache, and 4 times while another thread of the core is busy.
func (m Machine) BF16Speed() float64 {
	switch {
	case m.Has("amxbf16"):
		return 4
	case m.Dot.BF16 > 1 && m.Halves():
		return 2
	}
	return 1
}

// Lacks lists what the host has not and code for the machine needs, sorted: features, or the architecture.
func (m Machine) Lacks() []string {
	if m.Name == AMD64Name && host.Arch != "amd64" {
		return []string{m.Arch}
	}
	return lacks(m.CPU, host.Features)
}

// Has reports whether code for the machine may use a feature.
func (m Machine) Has(feature string) bool { return slices.Contains(m.Features, feature) }

// processor is what was found out about the host.
type processor struct {
	Arch     string
	Vendor   string // as the processor spells it; "" if it does not tell
	Name     string
	Features []string // sorted; those whose registers the system does not save are left out
	Cache    [3]int64 // of one core; what is not known is anyCache's
}

// amd is AMD's spelling of its name.
const amd = "AuthenticAMD"

var host = detect()

// Features lists the features of the host that code could use, sorted.
func Features() []string { return slices.Clone(host.Features) }

// Missing is what the host lacks for each level that it has not.
func Missing() map[string][]string {
	all := map[string][]string{}
	for _, l := range levels {
		if missing := l.machine(1).Lacks(); len(missing) > 0 {
			all[l.name] = missing
		}
	}
	return all
}

// Description is the host's processor in words.
func Description() string {
	switch {
	case host.Name != "":
		return host.Name
	case host.Vendor != "":
		return fmt.Sprintf("%s, %s", host.Arch, host.Vendor)
	}
	return host.Arch
}

// HostCache is the sizes of the host's caches in bytes: L1 for data, L2, L3; assumed if it does not tell.
func HostCache() [3]int64 { return host.Cache }
