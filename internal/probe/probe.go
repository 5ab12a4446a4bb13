// Package probe measures what the machine can do at this moment: multiply-add arithmetic in registers, and reading from
// each level of memory. Speeds are told as shares of these.
//
// On amd64 the measured loops are in assembly, in AVX-512 or AVX2 and FMA; elsewhere, and if neither is there, they
// are plain Go, which says what such code reaches and nothing of the machine's limits. A probe takes the best of
// several short windows, so that other work on the machine hides little, and at most 100 ms.
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

// Kind says in which instructions a probe measures.
type Kind struct {
	Name string   // "avx512", "avx2", "portable": as target names what code needs
	more []string // what target calls levels whose floats are computed in the same instructions

	arithmetic func(rounds int64)
	operations int64 // of f32 in a round
	read       func(p *byte, bytes int64)
}

// plain is what every machine has.
var plain = Kind{Name: target.PortableName, arithmetic: arithmetic, operations: 24, read: read}

// Best is the kind of the widest instructions here.
func Best() Kind { return kinds()[0] }

// Named is the kind in whose instructions code for a level computes floats; ok is false if the machine has no such
// instructions.
func Named(name string) (k Kind, ok bool) {
	for _, k := range kinds() {
		if k.Name == name || slices.Contains(k.more, name) {
			return k, true
		}
	}
	return Kind{}, false
}

// Level is a level of the memory: how many bytes it holds, and a range, in bytes, that it holds and smaller levels do
// not.
type Level struct{ Holds, Range int64 }

// Levels are this machine's caches of levels 1, 2 and 3, and its memory, whose Holds is not told.
func Levels() [4]Level {
	cache := target.HostCache()
	return [4]Level{{cache[0], cache[0] / 2}, {cache[1], cache[1] / 2},
		{cache[2], max(2*cache[1], min(cache[2]/8, 16<<20))}, {math.MaxInt64, min(max(4*cache[2], 64<<20), 512<<20)}}
}

// window is how long one measurement runs, and windows how many there are.
const (
	window  = 3 * time.Millisecond
	windows = 12
)

// Arithmetic is the most f32 multiply-add arithmetic that so many threads do together, in GFLOP/s: a multiplication and
// an addition count one each.
func (k Kind) Arithmetic(threads int) float64 {
	const rounds = 1 << 14 // some tens of microseconds
	return best(threads, func(int) int64 {
		k.arithmetic(rounds)
		return rounds * k.operations
	})
}

// Read is how fast so many threads together read memory over and over, each so many bytes of its own, in GB/s. Bytes
// are rounded up to whole pieces of 4096. The error is one of taking the memory.
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
		all[at] = 1 // untouched pages are all one page of zeros
	}
	const most = 1 << 20 // a call's bytes: below a millisecond
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

// best runs work, which returns how much it did, on so many threads for each window, and returns the largest sum of
// their rates, in 10⁹ a second.
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

// arithmetic does 24 operations a round on 12 independent values.
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
