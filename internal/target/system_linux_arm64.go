package target

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// describe adds the features that package cpu does not know, the name, and the caches.
func describe(p *processor, has map[string]bool) {
	const hwcap2, bf16 = 26, 1 << 14 // AT_HWCAP2, HWCAP2_BF16
	if vector, err := unix.Auxv(); err == nil {
		for _, entry := range vector {
			has["bf16"] = has["bf16"] || entry[0] == hwcap2 && entry[1]&bf16 != 0
		}
	}
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		p.Name = partName(string(text))
	}
	p.readCaches("/sys/devices/system/cpu/cpu0/cache")
}

// readCaches reads the caches of a processor out of the files in which Linux describes them.
func (p *processor) readCaches(folder string) {
	read := func(index, name string) string {
		text, _ := os.ReadFile(filepath.Join(index, name))
		return strings.TrimSpace(string(text))
	}
	indices, _ := filepath.Glob(filepath.Join(folder, "index*"))
	for _, index := range indices {
		if kind := read(index, "type"); kind == "Data" || kind == "Unified" {
			level, _ := strconv.Atoi(read(index, "level"))
			p.setCache(level, parseSize(read(index, "size")))
		}
	}
}

// parseSize parses a size such as 512K; 0 if it is malformed.
func parseSize(text string) int64 {
	shift := 0
	if n := len(text) - 1; n > 0 {
		if at := strings.IndexByte("KMG", text[n]); at >= 0 {
			text, shift = text[:n], 10*(at+1)
		}
	}
	size, err := strconv.ParseInt(text, 10, 32)
	if err != nil || size < 0 {
		return 0
	}
	return size << shift
}

// parts are names of processors by the numbers of their designer and of the part.
var parts = map[[2]string]string{
	{"0x41", "0xd03"}: "Arm Cortex-A53", {"0x41", "0xd05"}: "Arm Cortex-A55", {"0x41", "0xd07"}: "Arm Cortex-A57",
	{"0x41", "0xd08"}: "Arm Cortex-A72", {"0x41", "0xd0b"}: "Arm Cortex-A76", {"0x41", "0xd0c"}: "Arm Neoverse N1",
	{"0x41", "0xd40"}: "Arm Neoverse V1", {"0x41", "0xd41"}: "Arm Cortex-A78", {"0x41", "0xd49"}: "Arm Neoverse N2",
	{"0x41", "0xd4f"}: "Arm Neoverse V2", {"0xc0", "0xac3"}: "Ampere-1", {"0x46", "0x001"}: "Fujitsu A64FX",
}

// partName returns the name of the first processor that /proc/cpuinfo lists; "" if it is not known.
func partName(text string) string {
	values := map[string]string{}
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(line, ":")
		if key = strings.TrimSpace(key); values[key] == "" {
			values[key] = strings.TrimSpace(value)
		}
	}
	return parts[[2]string{values["CPU implementer"], values["CPU part"]}]
}
