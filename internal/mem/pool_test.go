package mem

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/weirml/weir/internal/diag"
)

// check compares a pool with the blocks that are taken from it: the pieces fill their slabs, no two free pieces are
// neighbours, the lists contain the free pieces and no others, and the counts agree.
func (p *Pool) check(t *testing.T, taken []*Block) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	owned := map[*piece]bool{}
	current := int64(0)
	for _, b := range taken {
		if b.pool == p {
			owned[b.piece] = true
			current += b.piece.bytes
		}
	}
	slabs, free, idle, held := map[*slab]int64{}, 0, int64(0), int64(0)
	firsts := map[*piece]bool{}
	for c, at := range p.free {
		if (at != nil) != (p.some[c/64]>>(c%64)&1 == 1) {
			t.Fatalf("class %d: the map of what there is is wrong", c)
		}
		for ; at != nil; at = at.next {
			free++
			if at.taken || owned[at] || classOf(at.bytes) != c || at.after != nil && !at.after.taken || at.before != nil &&
				!at.before.taken {
				t.Fatalf("a free piece of %d bytes is in class %d", at.bytes, c)
			}
			first := at
			for first.before != nil {
				first = first.before
			}
			firsts[first] = true
		}
	}
	for at := range owned {
		for at.before != nil {
			at = at.before
		}
		firsts[at] = true
	}
	for at := range firsts {
		s, end := at.slab, int64(0)
		for ; at != nil; at = at.after {
			if at.at != end || at.bytes <= 0 || at.bytes%pieceAlign != 0 || at.taken != owned[at] || at.after != nil &&
				at.after.before != at {
				t.Fatalf("a piece of %d bytes at %d, not at %d", at.bytes, at.at, end)
			}
			end += at.bytes
			if !at.taken {
				free--
			} else {
				slabs[s] += at.bytes
			}
		}
		if end != s.bytes || !p.slabs[s] || s.used != slabs[s] {
			t.Fatalf("the pieces of a slab of %d bytes come to %d, in use are %d", s.bytes, end, s.used)
		}
		held += s.bytes
		if s.used == 0 {
			idle += s.bytes
		}
	}
	if free != 0 || current != p.current || held != p.held || idle != p.idle || len(firsts) != len(p.slabs) {
		t.Fatalf("%d free pieces too many; %d of %d bytes, idle %d; the pool says %d, %d, %d", free, current, held, idle,
			p.current, p.held, p.idle)
	}
}

// TestPoolAgainstModel takes and gives back blocks at random, and compares the pool with a list of the taken ones:
// every block is zeroed, aligned, of its size, and shared with no other.
func TestPoolAgainstModel(t *testing.T) {
	before := Usage()
	for seed := range uint64(30) {
		random := rand.New(rand.NewPCG(seed, 7))
		p := newPool(mostPooled, mostIdle)
		var taken []*Block
		var marks []byte
		for step := range 600 {
			switch {
			case random.IntN(100) < 55-int(seed%3)*10 || len(taken) == 0:
				size := 1 + random.Int64N(1<<random.IntN(18))
				b, err := p.Take(Tensors, "x", size)
				if err != nil {
					t.Fatal(err)
				}
				data := b.Bytes()
				if int64(len(data)) != size || b.Size() != size || uintptr(b.Pointer())%pieceAlign != 0 ||
					!bytes.Equal(data, make([]byte, size)) {
					t.Fatalf("seed %d, step %d: %d bytes of %d, or not zeroed", seed, step, len(data), size)
				}
				mark := byte(1 + step%250)
				FillBytes(data, mark)
				taken, marks = append(taken, b), append(marks, mark)
			case random.IntN(40) == 0:
				if _, err := p.Trim(); err != nil || p.Stats().Cached != p.Stats().Fragmented {
					t.Fatalf("after Trim: %+v (%v)", p.Stats(), err)
				}
			default:
				i := random.IntN(len(taken))
				if Written(taken[i].Bytes(), marks[i]) != 0 {
					t.Fatalf("seed %d, step %d: somebody else wrote", seed, step)
				}
				if err := taken[i].Close(); err != nil {
					t.Fatal(err)
				}
				taken, marks = slices.Delete(taken, i, i+1), slices.Delete(marks, i, i+1)
			}
			if step%20 == 0 {
				p.check(t, taken)
				now := Usage()
				if s := p.Stats(); s.Held-s.Current != now.Cached-before.Cached || now.Blocks-before.Blocks != len(taken) {
					t.Fatalf("the pool is %+v, the ledger %+v", s, now)
				}
			}
		}
		for _, b := range taken {
			b.Close()
		}
		p.check(t, nil)
		s := p.Stats()
		// there is no pool within Go's heap
		if s.Current != 0 || s.Fragmented != 0 || s.Cached > mostIdle || (s.Peak == 0) == outsideHeap {
			t.Errorf("all is given back, and %+v", s)
		}
		if released, err := p.Trim(); err != nil || released != s.Cached || p.Stats().Held != 0 {
			t.Errorf("Trim gave back %d of %d (%v)", released, s.Cached, err)
		}
	}
	if after := Usage(); after.All != before.All || after.Cached != before.Cached || after.MappedAll != before.MappedAll {
		t.Errorf("before %+v, after %+v", before, after)
	}
}

// TestPoolTogether: four goroutines take, fill and close blocks of one pool; no block changes while it is taken, and
// the pool is consistent afterwards.
func TestPoolTogether(t *testing.T) {
	p := newPool(mostPooled, mostIdle)
	var all sync.WaitGroup
	for g := range 4 {
		all.Go(func() {
			random := rand.New(rand.NewPCG(uint64(g), 3))
			for range 300 {
				b, err := p.Take(Tensors, "x", 1+random.Int64N(5000))
				if err != nil {
					t.Error(err)
					return
				}
				FillBytes(b.Bytes(), byte(g+1))
				if random.IntN(50) == 0 {
					p.Trim()
				}
				if Written(b.Bytes(), byte(g+1)) != 0 {
					t.Error("somebody else wrote")
				}
				b.Close()
			}
		})
	}
	all.Wait()
	p.check(t, nil)
	p.Trim()
}

// TestClasses: classes do not decrease with the size, and leastOf returns the smallest size of each.
func TestClasses(t *testing.T) {
	last := 0
	for size := int64(pieceAlign); size <= slabBytes; size += pieceAlign {
		c := classOf(size)
		if c < last || c >= classes || leastOf(c) > size || c != last && leastOf(c) != size {
			t.Fatalf("%d bytes are in class %d, of at least %d; before it %d", size, c, leastOf(c), last)
		}
		last = c
	}
}

// TestLimit: a request beyond the limit is refused with the ledger, the pools' free memory is given up for it, and a
// request within the limit is granted.
func TestLimit(t *testing.T) {
	if !outsideHeap {
		t.Skip("pages are Go's own here")
	}
	held, err := Map(Weights, "many weights", 3<<20)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	small, err := userPool.Take(Tensors, "x", 100)
	if err != nil {
		t.Fatal(err)
	}
	small.Close() // leaves a slab
	now := Usage()
	if now.Cached < slabBytes {
		t.Fatalf("%d bytes are kept", now.Cached)
	}
	defer SetLimit(SetLimit(now.MappedAll + now.Cached))
	b, err := Map(Arena, "a", slabBytes) // replaces the slab
	if err != nil {
		t.Fatal(err)
	}
	if u := Usage(); u.Cached > now.Cached-slabBytes {
		t.Errorf("%d bytes are kept still", u.Cached)
	}
	_, err = Map(Arena, "too much", now.Cached+PageSize())
	var r *Refusal
	if !errors.Is(err, diag.ErrMemory) || !errors.As(err, &r) || len(r.Largest) == 0 ||
		r.Largest[0].Label != "many weights" || !strings.Contains(r.Largest[0].User, "pool_test.go:") {
		t.Errorf("beyond the limit: %v", err)
	}
	if !strings.Contains(err.Error(), "many weights 3MiB") || !strings.Contains(err.Error(), "pool_test.go:") {
		t.Errorf("the error does not say who holds most: %v", err)
	}
	SetLimit(Usage().MappedAll + Usage().Cached + 3*PageSize()) // no room for a slab
	tiny, err := userPool.Take(Tensors, "tiny", 10)
	if err != nil || tiny.pool != nil {
		t.Errorf("a small block where there is no room for a slab: %v", err)
	}
	if err == nil {
		tiny.Close()
	}
	b.Close()
	if u := Usage(); u.All != now.All || u.Blocks != now.Blocks {
		t.Errorf("before %+v, after %+v", now, u)
	}
}

// TestAgain: memory named by Again is kept after it is given back, however large, until Again takes it away.
func TestAgain(t *testing.T) {
	if !outsideHeap {
		t.Skip("pages are Go's own here")
	}
	const size = mostLarge + 1<<20
	take := func() {
		t.Helper()
		b, err := TakeAgain(Outputs, "y", size)
		if err != nil {
			t.Fatal(err)
		}
		b.Close()
	}
	Trim()
	before := Usage().Cached
	take()
	if now := Usage().Cached; now != before {
		t.Errorf("%d bytes are kept that nobody wants", now-before)
	}
	Again(size)
	take()
	if now := Usage().Cached; now < before+size {
		t.Errorf("%d bytes are kept", now-before)
	}
	take()
	if now := Usage().Cached; now > before+size+PageSize() {
		t.Errorf("%d bytes are kept after the same again", now-before)
	}
	Again(-size)
	if now := Usage().Cached; now != before {
		t.Errorf("%d bytes are kept that nobody wants any more", now-before)
	}
	largePool.check(t, nil)
}
