// Package probe measures what the machine can do at this moment: multiply-add arithmetic in registers, and reading from
// each level of memory. Speeds are reported as fractions of these.
//
// On amd64 and arm64 the measured loops are in assembly, with AVX-512, or AVX2 and FMA, or NEON. Elsewhere, and if the
// processor has none of them, they are Go code, which shows the speed of such code and not the machine's limits. A
// probe takes the best of several short windows, so that other work on the machine matters little, and takes at most
// 100 ms.
package probe

import (
	"math"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/target"
)

// Kind says which instructions a probe measures.
type Kind struct {
	Name string   // "avx512", "avx2", "neon", "portable": as target names what code needs
	more []string // the names in target of levels that compute floats with the same instructions

	arithmetic func(rounds int64)
	operations int64 // f32 operations in a round
	read       func(p *byte, bytes int64)
}

// portable is the kind that every machine has.
var portable = Kind{Name: target.PortableName, arithmetic: arithmetic, operations: 24, read: read}

// Best returns the kind of the widest instructions of this machine.
func Best() Kind { return kinds()[0] }

// Named returns the kind whose instructions code for a level uses for floats; ok is false if the machine lacks them.
func Named(name string) (k Kind, ok bool) {
	for _, k := range kinds() {
		if k.Name == name || slices.Contains(k.more, name) {
			return k, true
		}
	}
	return Kind{}, false
}

// Level is a level of memory: Holds is its size in bytes, and Range a number of bytes that fits in it and not in
// smaller levels.
type Level struct{ Holds, Range int64 }

// Levels returns this machine's caches of levels 1, 2 and 3, and its memory, whose Holds is math.MaxInt64.
func Levels() [4]Level {
	cache := target.HostCache()
	return [4]Level{{cache[0], cache[0] / 2}, {cache[1], cache[1] / 2},
		{cache[2], max(2*cache[1], min(cache[2]/8, 16<<20))}, {math.MaxInt64, min(max(4*cache[2], 64<<20), 512<<20)}}
}

// window is the duration of one measurement, and windows the number of measurements.
const (
	window  = 3 * time.Millisecond
	windows = 12
)

// Arithmetic returns the most f32 multiply-add arithmetic that so many threads do together, in GFLOP/s: a
// multiplication and an addition count one each.
func (k Kind) Arithmetic(threads int) float64 {
	const rounds = 1 << 14 // some tens of microseconds
	return best(threads, func(int) int64 {
		k.arithmetic(rounds)
		return rounds * k.operations
	})
}

// Read returns the speed at which so many threads together read memory repeatedly, each so many bytes of its own, in
// GB/s. Bytes are rounded up to a multiple of 4096. The error is a failure to take the memory.
func (k Kind) Read(bytes int64, threads int) (float64, error) {
	const piece = 4096
	bytes = (bytes + piece - 1) / piece * piece
	block, err := mem.Map(mem.Weights, "bandwidth probe", bytes*int64(threads)) // weights have large pages
	if err != nil {
		return 0, err
	}
	defer block.Close()
	all := block.Bytes()
	for at := 0; at < len(all); at += piece {
		all[at] = 1 // untouched pages all share one page of zeros
	}
	const most = 1 << 20 // the bytes of a call, which takes less than a millisecond
	at := make([]int64, threads)
	return best(threads, func(thread int) int64 {
		own := all[int64(thread)*bytes:][:bytes]
		done := int64(0)
		for done < most {
			n := min(most, bytes-at[thread])
			k.read(&own[at[thread]], n)
			if at[thread] += n; at[thread] == bytes {
				at[thread] = 0
			}
			done += n
		}
		return done
	}), nil
}

// best runs work, which returns the amount that it did, on so many threads for each window, and returns the largest sum
// of their rates, in 10⁹ per second.
func best(threads int, work func(thread int) int64) float64 {
	top := 0.0
	for range windows {
		rates := make([]float64, threads)
		var ready sync.WaitGroup
		var group diag.Group
		ready.Add(threads)
		for t := range threads {
			group.Go("probing", func() error {
				runtime.LockOSThread()
				defer runtime.UnlockOSThread()
				ready.Done()
				ready.Wait()
				total, begin := int64(0), time.Now()
				took := time.Duration(0)
				for took < window {
					total += work(t)
					took = time.Since(begin)
				}
				rates[t] = float64(total) / float64(took.Nanoseconds())
				return nil
			})
		}
		if err := group.Wait(); err != nil {
			panic(err)
		}
		sum := 0.0
		for _, r := range rates {
			sum += r
		}
		top = max(top, sum)
	}
	return top
}

var (
	sinkFloat float32
	sinkInt   uint64
	sinkLock  sync.Mutex
)

// arithmetic does 24 operations in each round, on 12 independent values.
func arithmetic(rounds int64) {
	a0, a1, a2, a3, a4, a5 := float32(0), float32(1), float32(2), float32(3), float32(4), float32(5)
	b0, b1, b2, b3, b4, b5 := float32(6), float32(7), float32(8), float32(9), float32(10), float32(11)
	x, y := float32(0.5), float32(0.25)
	for range rounds {
		a0, a1, a2, a3, a4, a5 = a0*x+y, a1*x+y, a2*x+y, a3*x+y, a4*x+y, a5*x+y
		b0, b1, b2, b3, b4, b5 = b0*x+y, b1*x+y, b2*x+y, b3*x+y, b4*x+y, b5*x+y
	}
	sinkLock.Lock()
	sinkFloat = a0 + a1 + a2 + a3 + a4 + a5 + b0 + b1 + b2 + b3 + b4 + b5
	sinkLock.Unlock()
}
