package batch

import (
	"math/bits"
	"time"
)

// paces are the times of earlier runs, by the bytes of a row and by the rows of a run, both rounded up to a power of
// two.
type paces [64]struct {
	runs  int // since all sizes were measured last
	most  int // the rows of the next run
	sizes [32]pace
}

// pace is the time of runs of about one size.
type pace struct {
	runs  int
	bytes float64 // the nanoseconds of a byte of the inputs
}

const (
	pays     = 0.95 // larger runs pay if a row takes at most so much of its time in smaller ones
	attempts = 3    // runs of a size before it is judged: the first ones also get their memory from the system
	again    = 256  // runs after which all sizes are measured again
)

// MostRows returns the most rows that a run has at present: Options.Rows or, with Options.Measured, what pays by the
// times of earlier runs or is about to be measured. More waiting requests than fill the program's calls with such runs
// only wait in the batcher instead of elsewhere.
func (b *Batcher) MostRows() int {
	if b.paces == nil {
		return b.rows
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	most := 1
	for i := range b.paces {
		most = max(most, b.paces[i].most)
	}
	return most
}

// mostRows returns the most rows of a run that begins with a request. The batcher is locked.
func (b *Batcher) mostRows(first *request) int {
	if b.paces == nil {
		return b.rows
	}
	least := bits.Len(uint(first.rows - 1))
	class := &b.paces[bits.Len(uint(first.rowBytes))]
	best, sizes := least, &class.sizes
	for at := least; at < len(sizes) && 1<<at < 2*b.rows; at++ {
		p := &sizes[at]
		if p.runs < attempts {
			if best >= at-1 { // the size before pays: this one is measured
				best = at
			}
			break
		}
		if p.bytes < pays*sizes[best].bytes {
			best = at
		}
	}
	class.most = min(b.rows, 1<<best)
	return class.most
}

// measured records the time of a run, if all calls were in use when it began: otherwise it may have had more processors
// than the others. Longer times than before may come from a disturbance, and count less.
func (b *Batcher) measured(list []*request, took time.Duration) {
	if b.paces == nil || !list[0].full {
		return
	}
	rows, row := 0, list[0].rowBytes
	for _, r := range list {
		rows += r.rows
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	class, size := &b.paces[bits.Len(uint(row))], bits.Len(uint(rows-1))
	p := &class.sizes[size]
	now := float64(took) / float64(max(1, row*rows))
	switch p.runs++; {
	case p.runs == 1:
		p.bytes = now
	case now < p.bytes:
		p.bytes += (now - p.bytes) / 2
	default:
		p.bytes += (now - p.bytes) / 8
	}
	if class.runs++; class.runs == again {
		class.runs = 0
		for at := range class.sizes {
			class.sizes[at].runs = 0
		}
	}
}
