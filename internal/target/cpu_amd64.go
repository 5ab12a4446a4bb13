package target

import (
	"encoding/binary"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/cpu"
)

// cpuid runs the CPUID instruction.
func cpuid(leaf, subleaf uint32) (eax, ebx, ecx, edx uint32)

// detect describes the processor, with the features whose registers the system saves.
func detect() processor {
	x := &cpu.X86
	tiles := x.HasAMXTile && allowTiles()
	has := map[string]bool{
		"amxbf16": tiles && x.HasAMXBF16, "amxint8": tiles && x.HasAMXInt8, "amxtile": tiles,
		"avx": x.HasAVX, "avx2": x.HasAVX2,
		"avx512bf16": x.HasAVX512BF16, "avx512bw": x.HasAVX512BW, "avx512dq": x.HasAVX512DQ, "avx512f": x.HasAVX512F,
		"avx512vl": x.HasAVX512VL, "avx512vnni": x.HasAVX512VNNI, "avxvnni": x.HasAVXVNNI,
		"bmi1": x.HasBMI1, "bmi2": x.HasBMI2, "f16c": x.HasF16C, "fma": x.HasFMA, "lzcnt": x.HasLZCNT, "popcnt": x.HasPOPCNT,
	}
	p := processor{Arch: runtime.GOARCH}
	for name, ok := range has {
		if ok {
			p.Features = append(p.Features, name)
		}
	}
	slices.Sort(p.Features)
	last, b, c, d := cpuid(0, 0)
	p.Vendor = registers(b, d, c)
	if most, _, _, _ := cpuid(0x8000_0000, 0); most >= 0x8000_0004 {
		for leaf := uint32(0x8000_0002); leaf <= 0x8000_0004; leaf++ {
			p.Name += registers(cpuid(leaf, 0))
		}
		p.Name = strings.Join(strings.Fields(strings.Trim(p.Name, "\x00")), " ")
	}
	p.Cache = caches(p.Vendor, last)
	return p
}

// registers returns the string in the bytes of registers.
func registers(values ...uint32) string {
	var data []byte
	for _, v := range values {
		data = binary.LittleEndian.AppendUint32(data, v)
	}
	return string(data)
}

// caches returns the sizes of caches from the CPUID leaf that lists them, whose number depends on the vendor. It
// ignores sizes outside of 4 KiB to 4 GiB, which some virtual machines report.
func caches(vendor string, last uint32) [3]int64 {
	sizes := anyCache
	leaf := uint32(4)
	if vendor == amd {
		leaf = 0x8000_001D
	} else if last < leaf {
		return sizes
	}
	if most, _, _, _ := cpuid(0x8000_0000, 0); vendor == amd && most < leaf {
		return sizes
	}
	for i := uint32(0); i < 16; i++ {
		a, b, c, _ := cpuid(leaf, i)
		kind, at := a&31, a>>5&7
		if kind == 0 {
			break
		}
		const data, unified = 1, 3
		size := int64(b>>22+1) * int64(b>>12&0x3FF+1) * int64(b&0xFFF+1) * int64(c+1)
		if (kind == data || kind == unified) && at >= 1 && at <= 3 && size >= 4<<10 && size <= 4<<30 {
			sizes[at-1] = size
		}
	}
	return sizes
}
