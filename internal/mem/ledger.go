package mem

import (
	"cmp"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/weirml/weir/internal/diag"
)

// ledger holds every live block. Nothing else in the process knows them all.
var ledger = struct {
	sync.Mutex
	oldest  *Block // the head of a list of the live blocks, in the order of arrival
	newest  *Block
	totals  Totals
	pending int64 // bytes of pages that are being asked for
	limit   int64 // of pages; 0: none
}{}

// Totals is the memory that the process holds now, and the most it has held, in bytes by kind. A peak of all kinds is
// not the sum of the kinds' peaks, since those need not fall together.
type Totals struct {
	Current, Peak             [Kinds]int64 // logical sizes
	MappedCurrent, MappedPeak [Kinds]int64 // rounded up to whole pages, or in a pool to its pieces
	All, AllPeak              int64        // logical sizes, every kind but Foreign
	MappedAll, MappedAllPeak  int64
	Blocks                    int   // live blocks
	Spilled, SpilledPeak      int64 // in the process's own files: no memory, and in no other count
	Cached                    int64 // free in pools: memory, and in Held alone
	// Held is what a limit counts: the pages of all kinds but Foreign, and Cached, without the pages of files that the
	// system may take back (see Block.Held).
	Held, HeldPeak int64
}

// Usage returns the totals.
func Usage() Totals {
	ledger.Lock()
	defer ledger.Unlock()
	return ledger.totals
}

// ResetPeaks sets every peak to the present value.
func ResetPeaks() {
	ledger.Lock()
	defer ledger.Unlock()
	t := &ledger.totals
	t.Peak, t.MappedPeak, t.AllPeak, t.MappedAllPeak, t.SpilledPeak, t.HeldPeak = t.Current, t.MappedCurrent, t.All,
		t.MappedAll, t.Spilled, t.Held
}

// enter writes a block into the ledger.
func enter(b *Block) {
	ledger.Lock()
	defer ledger.Unlock()
	b.live, b.older, b.newer = true, ledger.newest, nil
	if b.older == nil {
		ledger.oldest = b
	} else {
		b.older.newer = b
	}
	ledger.newest = b
	if b.counted = (counted{b.size, b.mapped, 0}); b.grows {
		b.counted.mapped = 0
	}
	b.counted.held = b.holds(b.counted.mapped)
	ledger.totals.add(b, +1)
	ledger.totals.rise(b.kind)
}

// leave removes a block from the ledger.
func leave(b *Block) {
	ledger.Lock()
	defer ledger.Unlock()
	if !b.live {
		return
	}
	if b.live = false; b.older == nil {
		ledger.oldest = b.newer
	} else {
		b.older.newer = b.newer
	}
	if b.newer == nil {
		ledger.newest = b.older
	} else {
		b.newer.older = b.older
	}
	b.older, b.newer = nil, nil
	ledger.totals.add(b, -1)
}

// counted is a block's contribution to the totals, in bytes.
type counted struct{ logical, mapped, held int64 }

// add adds a block's contribution, or takes it away if sign is −1.
func (t *Totals) add(b *Block, sign int64) {
	t.count(b.kind, counted{sign * b.counted.logical, sign * b.counted.mapped, sign * b.counted.held})
	t.Blocks += int(sign)
}

// count adds to the current sums of a kind, and to those of all kinds except Foreign.
func (t *Totals) count(k Kind, more counted) {
	t.Current[k] += more.logical
	t.MappedCurrent[k] += more.mapped
	if k == Foreign {
		return
	}
	t.All += more.logical
	t.MappedAll += more.mapped
	t.Held += more.held
}

// rise updates the peaks after a block of a kind was added.
func (t *Totals) rise(k Kind) {
	t.Peak[k] = max(t.Peak[k], t.Current[k])
	t.MappedPeak[k] = max(t.MappedPeak[k], t.MappedCurrent[k])
	t.AllPeak = max(t.AllPeak, t.All)
	t.MappedAllPeak = max(t.MappedAllPeak, t.MappedAll)
	t.HeldPeak = max(t.HeldPeak, t.Held)
}

// holds returns the bytes that a limit counts of a block with so many bytes of pages. A piece of a pool is a part of
// the pool's slab, which the limit counts whole.
func (b *Block) holds(mapped int64) int64 {
	switch {
	case b.pool != nil:
		return 0
	case b.reclaimable:
		return b.pinned
	}
	return mapped
}

// Reclaimable reports whether the system may take the block's pages back at any time, since a file on a disk has their
// contents.
func (b *Block) Reclaimable() bool { return b.reclaimable }

// Held returns the bytes that a limit counts: those of Mapped, or, of a reclaimable block, those of the last Pin.
func (b *Block) Held() int64 {
	ledger.Lock()
	defer ledger.Unlock()
	return b.counted.held
}

// Pin makes limits count the pages of a reclaimable block that hold these data, and no others: those that its users
// read in every run. It does nothing to other blocks.
func (b *Block) Pin(data [][]byte) {
	if !b.reclaimable {
		return
	}
	bytes := total(joined(b.pageRanges(data)))
	ledger.Lock()
	defer ledger.Unlock()
	if b.pinned = bytes; b.live {
		ledger.totals.count(b.kind, counted{held: bytes - b.counted.held})
		ledger.totals.rise(b.kind)
		b.counted.held = bytes
	}
}

// slabs counts the bytes of a pool's slab that came, or went if they are negative.
func slabs(bytes int64) {
	ledger.Lock()
	defer ledger.Unlock()
	t := &ledger.totals
	t.Cached += bytes
	t.Held += bytes
	t.HeldPeak = max(t.HeldPeak, t.Held)
}

// recount changes a live block's contribution.
func recount(b *Block, logical, mapped int64) {
	ledger.Lock()
	defer ledger.Unlock()
	before, now := b.counted, counted{logical, mapped, b.holds(mapped)}
	b.counted = now
	if !b.live {
		return
	}
	ledger.totals.count(b.kind, counted{now.logical - before.logical, now.mapped - before.mapped,
		now.held - before.held})
	ledger.totals.rise(b.kind)
}

// Record is one live block's line in the ledger.
type Record struct {
	Kind   Kind
	Label  string
	Bytes  int64  // logical size
	Mapped int64  // rounded up to whole pages
	Caller string // file:line of the innermost code outside this package that asked for it
	User   string // file:line of the innermost code outside the library: the user's line; "" if there is none
}

// Live returns the live blocks in the order they came.
func Live() []Record {
	return records(live())
}

// live returns the live blocks in the order they came.
func live() []*Block {
	ledger.Lock()
	defer ledger.Unlock()
	var blocks []*Block
	for b := ledger.oldest; b != nil; b = b.newer {
		blocks = append(blocks, b)
	}
	return blocks
}

// records returns the blocks' lines in the ledger.
func records(blocks []*Block) []Record {
	list := make([]Record, len(blocks))
	for i, b := range blocks {
		list[i] = b.Record()
	}
	return list
}

// Record returns the block's line in the ledger, as it is or, after Close, as it was.
func (b *Block) Record() Record {
	r := Record{Kind: b.kind, Label: b.label, Bytes: b.size, Mapped: b.Mapped()}
	frames := runtime.CallersFrames(b.callers)
	for {
		frame, more := frames.Next()
		line := fmt.Sprintf("%s:%d", frame.File, frame.Line)
		test := strings.HasSuffix(frame.File, "_test.go")
		if r.Caller == "" && (test || !strings.HasPrefix(frame.Function, roomPrefix)) {
			r.Caller = line
		}
		if r.User == "" && (test || !inLibrary(frame.Function)) && !strings.HasPrefix(frame.Function, "runtime.") {
			r.User = line
		}
		if !more || r.User != "" {
			return r
		}
	}
}

// String returns the record on one line, for a leak report.
func (r Record) String() string {
	line := r.User
	if line == "" {
		line = r.Caller
	}
	return fmt.Sprintf("%s %s %s (%d bytes) allocated at %s", r.Kind, r.Label, FormatBytes(r.Bytes), r.Bytes, line)
}

const (
	modulePrefix = "github.com/weirml/weir"
	roomPrefix   = modulePrefix + "/internal/mem."
)

// inLibrary reports whether a function belongs to the library's root package or its inner rooms.
func inLibrary(function string) bool {
	for _, room := range [...]string{".", "/internal/", "/array.", "/nn.", "/train."} {
		if strings.HasPrefix(function, modulePrefix+room) {
			return true
		}
	}
	return false
}

// callers returns the stack above Map or MapFile as addresses; they become lines only when the ledger is read.
func callers() []uintptr {
	var pcs [64]uintptr
	return slices.Clone(pcs[:runtime.Callers(2, pcs[:])])
}

var (
	errInjected     = errors.New("refused by a test")
	errAddressSpace = errors.New("more than this system can address")
)

// errLimit is the cause of a refusal by SetLimit.
var errLimit = errors.New("more than the process's limit allows")

// SetLimit limits Totals.Held to so many bytes: pages of all kinds and the pools' free memory, but of files whose pages
// the system may take back only those that Pin named. A request that would exceed it is refused, with an error that
// names the limit. 0 is no limit. It returns the limit before. Memory that is held already is not touched.
func SetLimit(bytes int64) (before int64) {
	ledger.Lock()
	defer ledger.Unlock()
	before, ledger.limit = ledger.limit, max(0, bytes)
	return before
}

// Limit returns the limit that SetLimit set; 0 is no limit.
func Limit() int64 {
	ledger.Lock()
	defer ledger.Unlock()
	return ledger.limit
}

// claim asks the limit for bytes of pages, which unclaim takes back once they are in the ledger, or were refused.
func claim(bytes int64) error {
	ledger.Lock()
	defer ledger.Unlock()
	t := &ledger.totals
	if ledger.limit > 0 && bytes > 0 && bytes > ledger.limit-t.Held-ledger.pending {
		return errLimit
	}
	ledger.pending += bytes
	return nil
}

// unclaim takes back a claim.
func unclaim(bytes int64) {
	ledger.Lock()
	defer ledger.Unlock()
	ledger.pending -= bytes
}

// claimed takes pages for so many bytes. If they are refused, it asks once more after the pools have given back their
// free memory. The caller writes the pages into the ledger, then calls unclaim for all of them.
func claimed(bytes int64, get func() (mapping, error)) (m mapping, err error) {
	for again := false; ; again = true {
		if err = claim(roundUp(bytes)); err == nil {
			if m, err = get(); err == nil {
				return m, nil
			}
			unclaim(roundUp(bytes))
		}
		if again || Trim() == 0 {
			return m, err
		}
	}
}

// claimed is the function claimed, without a claim if the system may take the block's pages back.
func (b *Block) claimed(bytes int64, get func() (mapping, error)) (mapping, error) {
	if b.reclaimable {
		bytes = 0
	}
	return claimed(bytes, get)
}

// Trim gives back the pools' free slabs, and returns their bytes.
func Trim() (bytes int64) {
	for _, p := range []*Pool{userPool, largePool} {
		trimmed, _ := p.Trim() // slabs that the system would not take back count as trimmed too
		bytes += trimmed
	}
	return bytes
}

// cached records a change of the free bytes in pools.
func cached(bytes int64) {
	ledger.Lock()
	defer ledger.Unlock()
	ledger.totals.Cached += bytes
}

// mostHeld is the largest number of blocks that a refusal names.
const mostHeld = 20

// largest returns the records of the live blocks, the largest first, at most mostHeld of them.
func largest() []Record {
	blocks := live()
	slices.SortStableFunc(blocks, func(a, b *Block) int { return cmp.Compare(b.size, a.size) })
	return records(blocks[:min(len(blocks), mostHeld)])
}

// refusal returns the ErrMemory for a block that was refused; it carries the ledger.
func refusal(b *Block, cause error) error {
	t := Usage()
	var held []string
	for k, n := range t.Current {
		if n > 0 {
			held = append(held, Kind(k).String()+" "+FormatBytes(n))
		}
	}
	if held == nil {
		held = []string{"nothing"}
	}
	if t.Cached > 0 {
		held = append(held, "cached "+FormatBytes(t.Cached))
	}
	var e *diag.Error
	if limit := Limit(); errors.Is(cause, errLimit) {
		need := t.Held + roundUp(b.size)
		e = diag.New(diag.ErrMemory,
			"the limit of %d bytes that SetLimit set refused %s (%d bytes) for %s, with which pages of %d bytes would be "+
				"held; held: %s",
			limit, FormatBytes(b.size), b.size, b.kind, need, strings.Join(held, ", ")).
			WithFix("Memory.Limit says what a program needs; a limit of %d bytes grants this", need)
	} else {
		e = diag.New(diag.ErrMemory, "the system refused %s (%d bytes) for %s; held: %s", FormatBytes(b.size), b.size, b.kind,
			strings.Join(held, ", "))
	}
	if b.label != "" {
		e = e.AtTensor(b.label)
	}
	most := largest()
	if len(most) > 0 {
		e.Detail += "; most by " + most[0].String()
	}
	return e.WithCause(&Refusal{Wanted: b.Record(), Held: t, Largest: most, Err: cause})
}

// Refusal is the cause inside an ErrMemory of this package: the wanted block, and the memory held at that moment.
type Refusal struct {
	Wanted  Record
	Held    Totals
	Largest []Record // the largest live blocks, at most twenty, the largest first
	Err     error    // the system's own error
}

// Error returns the system's message.
func (r *Refusal) Error() string { return r.Err.Error() }

// Unwrap returns the system's error.
func (r *Refusal) Unwrap() error { return r.Err }
