package memplan

// mostNogoods is the memory that refuted states may take, in words of 8 bytes, for one instance.
const mostNogoods = 4 << 20

// nogoods keeps refuted states: the groups that were left in a range of points, and the room that there was
// above the surface. It is good for every ceiling: less room for the same groups is no better.
type nogoods struct {
	last  map[uint64]int32 // by hash: the newest entry, plus one
	list  []nogood
	words []uint64
}

// nogood is a refuted state. Its words are the groups left, a bit each, and then the room, a word a point.
type nogood struct {
	older int32 // an entry with the same hash, plus one
	a, b  int32 // the points
	at    int   // in words
	rest  int64 // the ceiling's remainder, where alignments differ
}

// residue is the identity of a state. describe writes it, so that known and keep read the same words.
type residue struct {
	hash  uint64
	a, b  int32
	rest  int64
	words []uint64
	set   int // words that are the groups left
}

// known reports whether a state with the same groups and at least as much room everywhere has been refuted.
func (n *nogoods) known(s *residue) bool {
	for at := n.last[s.hash]; at > 0; {
		e := &n.list[at-1]
		at = e.older
		if e.a != s.a || e.b != s.b || e.rest != s.rest {
			continue
		}
		same := true
		for i, w := range s.words {
			if k := n.words[e.at+i]; i < s.set && k != w || k < w {
				same = false
				break
			}
		}
		if same {
			return true
		}
	}
	return false
}

// keep adds a state. If there is no memory left for it, all older states are dropped.
func (n *nogoods) keep(s *residue) {
	if len(n.words)+len(s.words)+8*len(n.list) > mostNogoods {
		n.list, n.words = n.list[:0], n.words[:0]
		clear(n.last)
	}
	if n.last == nil {
		n.last = map[uint64]int32{}
	}
	n.list = append(n.list, nogood{n.last[s.hash], s.a, s.b, len(n.words), s.rest})
	n.words = append(n.words, s.words...)
	n.last[s.hash] = int32(len(n.list))
}

// scramble spreads a number over 64 bits (the mixing function of SplitMix64).
func scramble(x uint64) uint64 {
	x = (x + 1) * 0x9E3779B97F4A7C15
	x = (x ^ x>>30) * 0xBF58476D1CE4E5B9
	x = (x ^ x>>27) * 0x94D049BB133111EB
	return x ^ x>>31
}
