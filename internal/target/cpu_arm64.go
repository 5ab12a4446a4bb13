package target

import (
	"runtime"
	"slices"

	"golang.org/x/sys/cpu"
)

// detect describes the processor, with the features that the system lets programs use.
func detect() processor {
	a := &cpu.ARM64
	has := map[string]bool{
		"neon": a.HasASIMD, "fp16": a.HasFPHP && a.HasASIMDHP, "dotprod": a.HasASIMDDP, "i8mm": a.HasI8MM,
	}
	p := processor{Arch: runtime.GOARCH, Cache: anyCache}
	describe(&p, has)
	for name, ok := range has {
		if ok {
			p.Features = append(p.Features, name)
		}
	}
	slices.Sort(p.Features)
	return p
}

// setCache sets the size of a cache of level 1, 2 or 3. It ignores sizes outside of 4 KiB to 4 GiB, as of caches that
// are not there.
func (p *processor) setCache(level int, size int64) {
	if level >= 1 && level <= len(p.Cache) && size >= 4<<10 && size <= 4<<30 {
		p.Cache[level-1] = size
	}
}
