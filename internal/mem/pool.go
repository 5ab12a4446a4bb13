package mem

import (
	"fmt"
	"math/bits"
	"sync"

	"github.com/weirml/weir/internal/diag"
)

// Pool hands out pieces of slabs, for memory that comes and goes in small pieces: a mapping for each would cost more
// than its use. A piece is a Block like any other, with its own line in the ledger; the free memory of pools is
// Totals.Cached.
//
// The pieces of a slab are linked in the order of their addresses, and a free piece has no free neighbour: a piece that
// is given back is joined with its free neighbours. Free pieces are in lists by class of size, sixteen to each power of
// two; a request takes the smallest of those that it looks at in its own class, or else one of the next class that has
// any, and gives back the rest of the piece. So taking and giving back take constant time. A slab that is entirely free
// is kept, up to a limit, until another request for memory is refused.
type Pool struct {
	mu      sync.Mutex
	free    [classes]*piece
	some    [(classes + 63) / 64]uint64 // by class: whether there is a free piece
	slabs   map[*slab]bool
	idle    int64 // bytes of slabs that are entirely free
	held    int64 // bytes of slabs
	current int64 // bytes of pieces
	peak    int64
	byClass [classes]Class
	spare   *piece // a list of unused structs, spares in number
	spares  int

	most  int64 // the largest piece, in bytes; a larger block has a mapping of its own
	least int64 // bytes of a slab
	keep  int64 // bytes of entirely free slabs that are kept

	wanted int64 // bytes kept beside keep, since a caller of Again will ask for them
}

// slab is a mapping that a pool cuts up.
type slab struct {
	system mapping
	bytes  int64
	used   int64 // bytes of its pieces that are handed out
}

// piece is a range of a slab's bytes.
type piece struct {
	slab          *slab
	at, bytes     int64
	taken         bool
	clean         bool // all zeros
	before, after *piece
	prev, next    *piece // in its list, while it is free
}

const (
	pieceAlign = 64      // of addresses and sizes, in bytes
	slabBytes  = 1 << 20 // of a slab
	largeSlab  = 2 << 20 // a slab of so many bytes or more has large pages: it is written and read in full
	mostPooled = 1 << 17 // the largest piece, in bytes; a larger block has a mapping of its own
	mostIdle   = 4 << 20 // bytes of entirely free slabs that are kept
	classes    = 16 * 44 // enough for a piece as large as an address space
	searched   = 8       // pieces of a request's own class that are looked at
)

// classOf returns the class of a size in bytes, a multiple of pieceAlign: of two sizes the larger is in no lower class.
func classOf(bytes int64) int {
	n := uint64(bytes / pieceAlign)
	top := bits.Len64(n) - 1
	if top < 4 {
		return int(n)
	}
	return (top-3)*16 + int(n>>(top-4))&15
}

// Pooled reports whether Take has memory of so many bytes from the pool.
func Pooled(bytes int64) bool { return bytes > 0 && bytes <= mostPooled && outsideHeap }

// PooledPages returns an upper bound of the bytes that the pool asks the system for, for small blocks of so many bytes
// in all.
func PooledPages(bytes int64) int64 {
	const used = slabBytes - mostPooled // of a slab, before the next is asked for
	return (bytes + used - 1) / used * slabBytes
}

// The user's tensors come from one pool; large arrays, which live for an operation or two, from another, whose slabs
// are as large as a piece.
var (
	userPool  = newPool(mostPooled, mostIdle)
	largePool = newPool(mostLarge, mostLarge)
)

// newPool returns a pool of pieces of up to most bytes, which keeps up to keep bytes of slabs that are entirely free.
func newPool(most, keep int64) *Pool {
	return &Pool{slabs: map[*slab]bool{}, most: most, least: slabBytes, keep: keep}
}

// Fragmented returns the bytes of Totals.Cached that Trim cannot give back, since they lie beside pieces in use.
func Fragmented() int64 { return userPool.Stats().Fragmented + largePool.Stats().Fragmented }

// mostLarge is the largest size in bytes of a large array whose memory is kept, and of all such memory.
const mostLarge = 64 << 20

// TakeArray is Map for an array: memory of a pool, requested at the line of callers. Its bytes are zero if zeroed is
// true; otherwise they are undefined. It uses b, an empty Block, for the result unless that has a mapping of its own.
func TakeArray(b *Block, bytes int64, callers []uintptr, zeroed bool) (*Block, error) {
	b.kind, b.label, b.size, b.callers = Tensors, "array", bytes, callers
	return poolOf(bytes).cut(b, zeroed)
}

// poolOf returns the pool for short-lived memory of so many bytes.
func poolOf(bytes int64) *Pool {
	if bytes > mostPooled {
		return largePool
	}
	return userPool
}

// Again makes pools keep so many bytes more than they do by themselves (fewer, if the number is negative) of memory
// from TakeAgain after it is given back, since its user will ask for it again. Trim, and a request that is refused
// memory, still give it back to the system.
func Again(bytes int64) error { return largePool.want(bytes) }

// TakeAgain is Map for memory that is soon given back and asked for again: it comes from a pool, and its contents are
// undefined.
func TakeAgain(kind Kind, label string, bytes int64) (*Block, error) {
	return poolOf(bytes).cut(&Block{kind: kind, label: label, size: bytes, callers: callers()}, false)
}

// UserPool returns the pool of the user's tensors.
func UserPool() *Pool { return userPool }

// Take is Map for short-lived memory: zeroed, aligned to 64 bytes, of exactly the given size in the ledger. Close gives
// it back to the pool. A large block has a mapping of its own, and under SetPoison every block has.
func (p *Pool) Take(kind Kind, label string, bytes int64) (*Block, error) {
	return p.cut(&Block{kind: kind, label: label, size: bytes, callers: callers()}, true)
}

// largest returns the size of the largest piece, in bytes: a larger slab would not be kept.
func (p *Pool) largest() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return max(p.most, p.wanted)
}

// unwritten fills an array that will be written in full, under SetPoison: a read before the write then shows.
const unwritten = 0xa5

// cut gives a block its memory.
func (p *Pool) cut(b *Block, zeroed bool) (*Block, error) {
	kind, label, bytes := b.kind, b.label, b.size
	if bytes <= 0 || bytes > p.largest() || poisoning.Load() || !outsideHeap {
		mapped, err := Map(kind, label, bytes)
		if err == nil && !zeroed && poisoning.Load() {
			Fill(mapped, unwritten)
		}
		return mapped, err
	}
	if Failing(Pages) {
		return nil, refusal(b, errInjected)
	}
	at, err := p.take((bytes + pieceAlign - 1) / pieceAlign * pieceAlign)
	if err != nil { // no memory for another slab; there may be enough for this block
		return Map(kind, label, bytes)
	}
	pages := at.slab.system.pages[at.at : at.at+at.bytes : at.at+at.bytes]
	if zeroed && !at.clean {
		clear(pages[:bytes])
	}
	b.pool, b.piece = p, at
	b.adopt(mapping{pages: pages})
	enter(b)
	cached(-at.bytes)
	return b, nil
}

// take finds a piece, or makes a slab to cut it from.
func (p *Pool) take(bytes int64) (*piece, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := p.find(bytes)
	if at == nil {
		s, err := p.grow(max(bytes, p.least))
		if err != nil {
			return nil, err
		}
		at = s
	}
	p.remove(at)
	if at.slab.used == 0 {
		p.idle -= at.slab.bytes
	}
	if at.bytes > bytes {
		rest := p.fresh()
		*rest = piece{slab: at.slab, at: at.at + bytes, bytes: at.bytes - bytes, clean: at.clean, before: at, after: at.after}
		if rest.after != nil {
			rest.after.before = rest
		}
		at.after, at.bytes = rest, bytes
		p.insert(rest)
	}
	at.taken = true
	at.slab.used += bytes
	p.current += bytes
	p.peak = max(p.peak, p.current)
	c := &p.byClass[classOf(bytes)]
	c.Current += bytes
	c.Peak = max(c.Peak, c.Current)
	return at, nil
}

// find returns a free piece of at least so many bytes; nil if there is none.
func (p *Pool) find(bytes int64) (best *piece) {
	own := classOf(bytes)
	for at, n := p.free[own], 0; at != nil && n < searched; at, n = at.next, n+1 {
		if at.bytes >= bytes && (best == nil || at.bytes < best.bytes) {
			best = at
		}
	}
	for i, c := (own+1)/64, own+1; best == nil && i < len(p.some); i, c = i+1, (i+1)*64 {
		if word := p.some[i] &^ (1<<(c%64) - 1); word != 0 {
			return p.free[i*64+bits.TrailingZeros64(word)]
		}
	}
	return best
}

// shed gives back entirely free slabs, the largest first, until at most so many bytes of them are left.
func (p *Pool) shed(bytes int64) error {
	for c := classes - 1; c >= 0 && bytes > 0 && p.idle > 0; c-- {
		for at := p.free[c]; at != nil && bytes > 0; {
			next := at.next
			if at.slab.used == 0 {
				bytes -= at.slab.bytes
				if err := p.drop(at); err != nil {
					return err
				}
			}
			at = next
		}
	}
	return nil
}

// grow takes another slab, of at least so many bytes, and gives back free slabs that are too small.
func (p *Pool) grow(bytes int64) (*piece, error) {
	if err := p.shed(bytes); err != nil {
		return nil, err
	}
	if err := claim(roundUp(bytes)); err != nil {
		return nil, err
	}
	defer unclaim(roundUp(bytes))
	system, err := mapPages(int(bytes), name(Tensors, "pool"))
	if err != nil {
		return nil, err
	}
	if bytes >= largeSlab {
		system.large()
	}
	s := &slab{system: system, bytes: int64(len(system.pages))}
	slabs(s.bytes)
	p.slabs[s] = true
	p.held += s.bytes
	p.idle += s.bytes
	at := &piece{slab: s, bytes: s.bytes, clean: true}
	p.insert(at)
	return at, nil
}

// put gives a piece back, joined with its free neighbours.
func (p *Pool) put(at *piece) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !at.taken {
		panic(diag.Internalf("mem: a piece of a pool is given back twice"))
	}
	p.byClass[classOf(at.bytes)].Current -= at.bytes
	p.current -= at.bytes
	at.slab.used -= at.bytes
	cached(at.bytes)
	at.taken, at.clean = false, false
	if b := at.before; b != nil && !b.taken {
		p.remove(b)
		b.join(at)
		p.spend(at)
		at = b
	}
	if a := at.after; a != nil && !a.taken {
		p.remove(a)
		at.join(a)
		p.spend(a)
	}
	p.insert(at)
	if at.slab.used > 0 {
		return nil
	}
	p.idle += at.slab.bytes
	if p.idle > p.keep+p.wanted {
		return p.drop(at)
	}
	return nil
}

// want changes the number of bytes of entirely free slabs that are kept, and gives back the excess.
func (p *Pool) want(bytes int64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wanted += bytes
	return p.shed(p.idle - p.keep - p.wanted)
}

// mostSpare is the largest number of unused piece structs that are kept.
const mostSpare = 256

// fresh returns an unused piece struct.
func (p *Pool) fresh() *piece {
	if p.spare == nil {
		return &piece{}
	}
	at := p.spare
	p.spare, p.spares = at.next, p.spares-1
	return at
}

// spend keeps the struct of a piece that was joined to another, for reuse.
func (p *Pool) spend(at *piece) {
	if p.spares < mostSpare {
		*at = piece{next: p.spare}
		p.spare, p.spares = at, p.spares+1
	}
}

// join merges a piece with the piece after it.
func (p *piece) join(after *piece) {
	p.bytes += after.bytes
	p.clean = p.clean && after.clean
	if p.after = after.after; p.after != nil {
		p.after.before = p
	}
}

// drop gives a slab back; at is its only piece.
func (p *Pool) drop(at *piece) error {
	p.remove(at)
	s := at.slab
	delete(p.slabs, s)
	p.held -= s.bytes
	p.idle -= s.bytes
	slabs(-s.bytes)
	if err := s.system.release(); err != nil {
		return fmt.Errorf("mem: giving back a pool's block: %w", err)
	}
	return nil
}

// insert puts a free piece into its class's list.
func (p *Pool) insert(at *piece) {
	c := classOf(at.bytes)
	at.prev, at.next = nil, p.free[c]
	if at.next != nil {
		at.next.prev = at
	}
	p.free[c] = at
	p.some[c/64] |= 1 << (c % 64)
	p.byClass[c].Cached += at.bytes
}

// remove takes a piece out of its class's list.
func (p *Pool) remove(at *piece) {
	c := classOf(at.bytes)
	if at.next != nil {
		at.next.prev = at.prev
	}
	if at.prev != nil {
		at.prev.next = at.next
	} else if p.free[c] = at.next; at.next == nil {
		p.some[c/64] &^= 1 << (c % 64)
	}
	at.prev, at.next = nil, nil
	p.byClass[c].Cached -= at.bytes
}

// Trim gives back every slab that is entirely free, and returns their bytes.
func (p *Pool) Trim() (bytes int64, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.free {
		for at := p.free[c]; at != nil; {
			next := at.next
			if at.slab.used == 0 {
				bytes += at.slab.bytes
				if e := p.drop(at); err == nil {
					err = e
				}
			}
			at = next
		}
	}
	return bytes, err
}

// Class counts a pool's pieces of about one size, in bytes.
type Class struct {
	Least         int64 // the smallest piece of the class
	Current, Peak int64 // handed out
	Cached        int64 // free
}

// PoolStats counts a pool's memory, in bytes.
type PoolStats struct {
	Held          int64 // from the system
	Current, Peak int64 // handed out
	Cached        int64 // Held less Current
	Fragmented    int64 // the bytes of Cached that Trim cannot give back, since they lie beside pieces in use
	Classes       []Class
}

// Stats returns the pool's present counts.
func (p *Pool) Stats() PoolStats {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := PoolStats{Held: p.held, Current: p.current, Peak: p.peak, Cached: p.held - p.current,
		Fragmented: p.held - p.current - p.idle}
	for i, c := range p.byClass {
		if c != (Class{}) {
			c.Least = leastOf(i)
			s.Classes = append(s.Classes, c)
		}
	}
	return s
}

// leastOf returns the smallest size of a class.
func leastOf(class int) int64 {
	if class < 16 {
		return int64(class) * pieceAlign
	}
	return int64(16+class%16) << (class/16 - 1) * pieceAlign
}
