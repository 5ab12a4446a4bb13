package target

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// describe adds the features that package cpu does not know, the name, and the caches of a fast core.
func describe(p *processor, has map[string]bool) {
	has["bf16"] = systemNumber("hw.optional.arm.FEAT_BF16") == 1
	p.Name, _ = unix.Sysctl("machdep.cpu.brand_string")
	p.setCache(1, systemNumber("hw.perflevel0.l1dcachesize"))
	p.setCache(2, systemNumber("hw.perflevel0.l2cachesize"))
	p.setCache(3, systemNumber("hw.perflevel0.l3cachesize"))
}

// systemNumber returns a number that the system tells, of 32 or 64 bits; 0 if it does not know the name.
func systemNumber(name string) int64 {
	switch value, err := unix.SysctlRaw(name); {
	case err == nil && len(value) == 4:
		return int64(binary.LittleEndian.Uint32(value))
	case err == nil && len(value) == 8:
		return int64(binary.LittleEndian.Uint64(value))
	}
	return 0
}
