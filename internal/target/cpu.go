package target

import (
	"fmt"
	"runtime"
	"slices"
	"strings"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
)

// The names of machines whose code runs on processors.
const (
	PortableName = "portable" // code in Go, for any processor
	AMD64Name    = "amd64"    // machine code
	ARM64Name    = "arm64"    // machine code
)

// Native is the name by which a user chooses the host's highest level.
const Native = "native"

// level is a set of features for which code is generated, as a number of processors have them.
type level struct {
	arch      string   // GOARCH, and the machine's name
	name      string   // by which the user chooses it
	after     string   // the level whose features it includes; "" for the first
	needs     []string // its other features
	bytes     int      // of a vector register
	registers int      // number of vector registers
	dot       Dot
	tile      Tile
	amd       Tile // the tile for processors by AMD
}

// levels are the levels of each architecture, better ones later. Their tiles are the fastest on processors with two
// units for products: sums fill all but a few registers.
var levels = []level{
	{"amd64", "avx2", "", []string{"avx2", "bmi1", "bmi2", "f16c", "fma", "lzcnt", "popcnt"}, 32, 16, Dot{Bytes: 2},
		Tile{6, 16}, Tile{6, 16}},
	{"amd64", "avxvnni", "avx2", []string{"avxvnni"}, 32, 16, Dot{Bytes: 4}, Tile{6, 16}, Tile{6, 16}},
	{"amd64", "avx512", "avx2", []string{"avx512bw", "avx512dq", "avx512f", "avx512vl"}, 64, 32, Dot{Bytes: 2},
		Tile{14, 32}, Tile{8, 48}},
	{"amd64", "avx512vnni", "avx512", []string{"avx512vnni"}, 64, 32, Dot{Bytes: 4}, Tile{14, 32}, Tile{8, 48}},
	{"amd64", "avx512bf16", "avx512vnni", []string{"avx512bf16"}, 64, 32, Dot{Bytes: 4, BF16: 2}, Tile{14, 32},
		Tile{8, 48}},
	{"amd64", "avx512amx", "avx512bf16", []string{"amxbf16", "amxint8", "amxtile"}, 64, 32, Dot{Bytes: 4, BF16: 2},
		Tile{14, 32}, Tile{8, 48}},
	{"arm64", "neon", "", []string{"neon"}, 16, 32, Dot{}, Tile{8, 12}, Tile{8, 12}},
	{"arm64", "dotprod", "neon", []string{"dotprod"}, 16, 32, Dot{Bytes: 4}, Tile{8, 12}, Tile{8, 12}},
	{"arm64", "i8mm", "dotprod", []string{"i8mm"}, 16, 32, Dot{Bytes: 8}, Tile{8, 12}, Tile{8, 12}},
	{"arm64", "bf16", "i8mm", []string{"bf16"}, 16, 32, Dot{Bytes: 8, BF16: 4}, Tile{8, 12}, Tile{8, 12}},
}

// Levels returns the names that Select takes, the lowest level first.
func Levels() []string {
	names := []string{PortableName}
	for _, l := range levels {
		names = append(names, l.name)
	}
	return append(names, Native)
}

// Portable returns the machine for portable code, which runs on any processor.
func Portable(threads int) Machine {
	return Machine{Name: PortableName, Arch: runtime.GOARCH, CPU: PortableName, VectorBytes: 16, Threads: threads,
		Limits: limits(anyCache, 0)}
}

// anyCache is the assumed sizes in bytes of unknown caches: L1, L2, L3.
var anyCache = [3]int64{32 << 10, 1 << 20, 8 << 20}

// limits returns the limits of code for a processor with some caches, and a number of vector registers.
func limits(cache [3]int64, registers int) Limits {
	return Limits{Scratch: 7 << 20, Registers: int64(registers), Operands: 48, Values: 96, L1: cache[0], L2: cache[1]}
}

// Host returns the machine on which the process runs, at its highest level.
func Host(threads int) Machine {
	for i := len(levels) - 1; i >= 0; i-- {
		if levels[i].arch == host.Arch && levels[i].among(host.Features) {
			m := levels[i].machine(threads)
			m.Features = slices.Clone(host.Features)
			return m
		}
	}
	return Portable(threads)
}

// Select returns the machine of a level that the user named; Native or "" is the host. If the host does not have the
// level, the error is ErrUnsupported and lists the missing features.
func Select(cpu string, threads int) (Machine, error) {
	if cpu == "" || cpu == Native {
		return Host(threads), nil
	}
	m, err := For(cpu, threads)
	if err != nil {
		return Machine{}, err
	}
	if missing := m.Lacks(); len(missing) > 0 {
		fix := "--cpu portable works everywhere"
		if Host(threads).Name != PortableName {
			fix = "--cpu native chooses its best level: " + Host(threads).CPU
		}
		return Machine{}, diag.Unsupportedf("code for %s: this processor (%s) has no %s", cpu, Description(),
			strings.Join(missing, ", ")).WithFix("%s", fix)
	}
	return m, nil
}

// For returns the machine of a level, whether or not the host has it. Unknown properties, such as its caches, are the
// host's. An unknown level is ErrUnsupported.
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

// Known returns the machine that a file describes, reduced to the properties that a file may decide: its level, with
// exactly that level's features, the choice between the level's tiles, whether it multiplies bf16, and its threads. ok
// is false if there is no such machine.
func (m Machine) Known() (known Machine, ok bool) {
	for _, l := range levels {
		if m.Name == l.arch && m.CPU == l.name && (m.Tile == l.tile || m.Tile == l.amd) && m.Threads >= 1 {
			known = l.machine(m.Threads)
			known.Tile = m.Tile
			known.Dot.BF16 = min(known.Dot.BF16, max(m.Dot.BF16, 0))
			return known, true
		}
	}
	return m, false
}

// machine returns a machine with exactly the level's features.
func (l *level) machine(threads int) Machine {
	m := Machine{Name: l.arch, Arch: l.arch, CPU: l.name, Features: needs(l.name), VectorBytes: l.bytes, Dot: l.dot,
		Tile: l.tile, Threads: threads, Limits: limits(host.Cache, l.registers)}
	if host.Vendor == amd {
		m.Tile = l.amd
	}
	return m
}

// needs returns the features of a level, with those of the levels that it includes, sorted; nil for an unknown level.
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

// among reports whether all features of a level are among features.
func (l *level) among(features []string) bool {
	for _, f := range l.needs {
		if !slices.Contains(features, f) {
			return false
		}
	}
	for i := range levels {
		if levels[i].name == l.after {
			return levels[i].among(features)
		}
	}
	return true
}

// lacks returns the features of a level that are not among features.
func lacks(cpu string, features []string) []string {
	return slices.DeleteFunc(needs(cpu), func(f string) bool { return slices.Contains(features, f) })
}

// Halves reports whether the machine processes a vector in two halves, so that vectors of half the length take half the
// time, as AMD's first processors with AVX-512 do. It is true for all machines with AVX-512 and AMD's tile.
func (m Machine) Halves() bool {
	return slices.ContainsFunc(levels, func(l level) bool { return m.CPU == l.name && l.bytes == 64 && m.Tile == l.amd })
}

// BF16Faster reports whether the machine's instruction for products of bf16 takes less time than the same products in
// f32.
func (m Machine) BF16Faster() bool { return m.BF16Speed() > 1 }

// BF16Speed returns the approximate number of products of bf16 in the time of one of f32: 2 on AMD's processors with an
// instruction for them; 1 on others for amd64, whose instruction takes longer; 4 with tile registers, and with
// cooperative matrices. Tile registers compute up to 14 times as many if their operands are in the first-level cache,
// and 4 times while another thread of the core is busy. On arm64 it is 3: an instruction multiplies as many as four of
// f32, and reading the operands takes the rest.
func (m Machine) BF16Speed() float64 {
	switch {
	case m.Has("amxbf16"), len(m.Matrices(dtype.BF16)) > 0:
		return 4
	case m.Dot.BF16 > 1 && m.Halves():
		return 2
	case m.Dot.BF16 > 1 && m.Name == ARM64Name:
		return 3
	}
	return 1
}

// Lacks returns the features that code for the machine needs and the host does not have, sorted; or the architecture,
// if the host has another.
func (m Machine) Lacks() []string {
	if (m.Name == AMD64Name || m.Name == ARM64Name) && host.Arch != m.Arch {
		return []string{m.Arch}
	}
	return lacks(m.CPU, host.Features)
}

// Has reports whether code for the machine may use a feature.
func (m Machine) Has(feature string) bool { return slices.Contains(m.Features, feature) }

// processor describes the host.
type processor struct {
	Arch     string
	Vendor   string // as the processor reports it; "" if unknown
	Name     string
	Features []string // sorted, without those whose registers the system does not save
	Cache    [3]int64 // of one core; unknown sizes are anyCache's
}

// amd is the vendor that AMD's processors report.
const amd = "AuthenticAMD"

var host = detect()

// Features returns the features of the host that code could use, sorted.
func Features() []string { return slices.Clone(host.Features) }

// Missing returns the features that the host lacks, for each level of its architecture that it does not have.
func Missing() map[string][]string {
	all := map[string][]string{}
	for _, l := range levels {
		if missing := l.machine(1).Lacks(); l.arch == host.Arch && len(missing) > 0 {
			all[l.name] = missing
		}
	}
	return all
}

// Description returns the name of the host's processor, or else its architecture and vendor.
func Description() string {
	switch {
	case host.Name != "":
		return host.Name
	case host.Vendor != "":
		return fmt.Sprintf("%s, %s", host.Arch, host.Vendor)
	}
	return host.Arch
}

// HostCache returns the sizes of the host's caches in bytes: L1 for data, L2, L3. Unknown sizes are assumed.
func HostCache() [3]int64 { return host.Cache }
