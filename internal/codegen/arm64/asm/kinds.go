package asm

import (
	"math"
	"math/bits"
)

// kind is what an operand may be: a register, an address or an immediate, and how it enters the word.
type kind struct {
	class Class // of the register; classes of memory, NoClass of an immediate, a condition or a label
	// fits reports whether Args[at], or the immediate, is of the kind; nil: always.
	fits func(f *form, i *Inst, o *operand, at int) bool
	// put returns the bits beside the register's number; nil: none.
	put func(i *Inst, o *operand) uint32
	// text appends what an assembler reads.
	text func(b []byte, i *Inst, o *operand, at int) []byte
	list bool // the register is one of several in braces
	// reach is the number of bits of a distance in the code: in words, or for an ADR in bytes. 0: it is none.
	reach uint8
}

// kinds are the kinds by their names in the table.
//
//weir:table
var kinds = map[string]*kind{
	// General registers: as wide as the shape, with ZR; with SP; of 32 and 64 bits; as wide as an element.
	"g":    {class: General, fits: notSP, text: shaped},
	"sp":   {class: General, fits: notZR, text: shaped},
	"w":    {class: General, fits: notSP, text: as(W32)},
	"x":    {class: General, fits: notSP, text: as(X64)},
	"fill": {class: General, fits: notSP, text: asElement},
	// Registers of Inst.From.
	"integer": {class: General, fits: notSP, text: asFrom},
	"float":   {class: Vector, text: asFrom},
	// Vector registers: of the shape; of elements twice as wide, in 128 bits; in as many bits; as bytes and as elements
	// of 16 bits; one element, and one of twice the width; two elements.
	"v":      {class: Vector, text: shaped},
	"long":   {class: Vector, text: other(func(s Shape) Shape { return [...]Shape{H8, S4, D2}[layouts[s].log] })},
	"pair":   {class: Vector, text: other(func(s Shape) Shape { return widened[s] })},
	"bytes":  {class: Vector, text: other(func(s Shape) Shape { return B8 + Shape(s.full()) })},
	"halves": {class: Vector, text: other(func(s Shape) Shape { return H4 + Shape(s.full()) })},
	"across": {class: Vector, text: other(func(s Shape) Shape { return B + Shape(layouts[s].log) })},
	"two":    {class: Vector, text: twoText},
	"h":      {class: Vector, text: as(H)},
	"s":      {class: Vector, text: as(S)},
	"d":      {class: Vector, text: as(D)},
	"high":   {class: Vector, text: highText},
	// One element of a vector that multiplies all of another; groups of 4 bytes, of 2 elements of 16 bits.
	"elem": {class: Vector, fits: fitsElement, put: putElement, text: ofElement("")},
	"quad": {class: Vector, fits: laneBelow(4), put: putLane(2), text: ofElement("4b")},
	"duo":  {class: Vector, fits: laneBelow(4), put: putLane(2), text: ofElement("2h")},
	// One element that is copied.
	"any": {class: Vector, fits: fitsLane, put: putAny, text: ofElement("")},
	// Registers in a list: whole, one element of each, and tables of bytes.
	"list":  {class: Vector, fits: follows, text: shaped, list: true},
	"lane":  {class: Vector, fits: fitsListLane, text: ofList, list: true},
	"table": {class: Vector, fits: follows, text: as(B16), list: true},
	// Addresses: of one value; of lists; of one element of lists; of the pool; to prefetch.
	"m":        {class: classes, fits: fitsAccess, put: putAccess, text: address},
	"many":     {class: classes, fits: fitsMany, put: putBase, text: address},
	"one":      {class: classes, fits: fitsMany, put: putBase, text: address},
	"pool":     {class: classes, fits: fitsPool, text: address, reach: 19},
	"near":     {class: classes, fits: fitsNear, text: address, reach: nearReach},
	"prefetch": {class: classes, fits: fitsPrefetch, put: putAccess, text: address},
	// Immediates of arithmetic and logic.
	"#add":   {fits: fitsAdd, put: putAdd, text: immediate},
	"#bits":  {fits: fitsBits, put: putBits, text: maskText},
	"#wide":  {fits: fitsWide, put: putWide, text: wideText},
	"#shift": {fits: inWidth, put: immediateAt(10), text: shiftText},
	"#lsl":   {fits: inWidth, put: putLSL, text: immediate},
	"#lsr":   {fits: inWidth, put: putLSR, text: immediate},
	"#small": {fits: fitsSmall, put: putSmall, text: fieldText},
	"#flags": {fits: fitsFlags, put: putFlags, text: flagsText},
	// Conditions, labels.
	"#if":    {fits: conditions(AL), put: putIf, text: condition},
	"#where": {fits: conditions(LE), put: func(i *Inst, _ *operand) uint32 { return uint32(i.If) }, text: condition},
	"#26":    {text: label, reach: 26},
	"#19":    {text: label, reach: 19},
	"#21":    {text: label, reach: nearReach},
	// Numbers of traps and prefetches.
	"#udf":  {fits: upTo(1 << 16), put: immediateAt(0), text: immediate},
	"#hint": {fits: upTo(32), put: immediateAt(0), text: immediate},
	// Immediates of vectors: constants, by what an element may be; shifts; comparisons with zero.
	"#byte":   {fits: constants(1), put: putMask, text: constantText},
	"#mask16": {fits: constants(2), put: putMask, text: constantText},
	"#mask32": {fits: constants(4), put: putMask, text: constantText},
	"#bytes":  {fits: fitsBytes, put: putBytes, text: constantText},
	"#float":  {fits: fitsFloat, put: func(i *Inst, _ *operand) uint32 { return float8(i.Imm) << 13 }, text: floatText},
	"#floats": {fits: fitsFloat, put: func(i *Inst, _ *operand) uint32 { return spread(float8(i.Imm)) }, text: floatText},
	"#left":   {fits: inWidth, put: putLeft, text: immediate},
	"#right":  {fits: fitsRight, put: putRight, text: immediate},
	"#whole":  {fits: fitsWhole, text: immediate},
	"#from":   {fits: fitsFrom, put: immediateAt(11), text: immediate},
	"#0":      {fits: upTo(1), text: immediate},
	"#0.0":    {fits: upTo(1), text: floatText},
}

// nearReach is the reach of an ADR, whose distance is in two fields.
const nearReach = 21

// widened gives the shape of elements twice as wide in as many bits.
var widened = [shapes]Shape{B8: H4, B16: H8, H4: S2, H8: S4, S2: D1, S4: D2}

// below reports whether n is from 0 to before end.
func below(n, end int64) bool { return n >= 0 && n < end }

// notSP and notZR report whether a general register is not the one that has the same number in the word.
func notSP(_ *form, i *Inst, _ *operand, at int) bool { return i.Args[at] != SP }
func notZR(_ *form, i *Inst, _ *operand, at int) bool { return i.Args[at] != ZR }

// upTo returns a fits for an immediate below end.
func upTo(end int64) func(*form, *Inst, *operand, int) bool {
	return func(_ *form, i *Inst, _ *operand, _ int) bool { return below(i.Imm, end) }
}

// immediateAt returns a put for the immediate at a position of the word.
func immediateAt(shift int) func(*Inst, *operand) uint32 {
	return func(i *Inst, _ *operand) uint32 { return uint32(i.Imm) << shift }
}

// element returns the shape of the element that an operand names.
func (o *operand) element(i *Inst) Shape {
	if o.from {
		return i.From
	}
	return i.Shape
}

// laneBelow returns a fits for the index of an element.
func laneBelow(end uint8) func(*form, *Inst, *operand, int) bool {
	return func(_ *form, i *Inst, _ *operand, _ int) bool { return i.Lane < end }
}

// fitsLane reports whether a vector register has the element.
func fitsLane(_ *form, i *Inst, o *operand, _ int) bool {
	return i.Lane < 16>>layouts[o.element(i)].log
}

// fitsElement reports whether an operation by an element can name the register and the element.
func fitsElement(f *form, i *Inst, o *operand, at int) bool {
	return fitsLane(f, i, o, at) && (layouts[i.Shape].log > 1 || lowRegister(i.Args[at]))
}

// lowRegister reports whether the number of a vector register has four bits.
func lowRegister(r Reg) bool { return r.Virtual() || r.Number() < 16 }

// putElement puts the index of an element into the bits H, L and M.
func putElement(i *Inst, _ *operand) uint32 { return laneBits(i.Lane, layouts[i.Shape].log) }

// putLane returns a put for the index of elements of a size.
func putLane(log uint8) func(*Inst, *operand) uint32 {
	return func(i *Inst, _ *operand) uint32 { return laneBits(i.Lane, log) }
}

// laneBits returns the bits H, L and M; elements of 16 bits need all three.
func laneBits(lane, log uint8) uint32 {
	n := uint32(lane) << (log - 1)
	return n>>2&1<<11 | n>>1&1<<21 | n&1<<20
}

// putAny puts size and index of an element into one field.
func putAny(i *Inst, o *operand) uint32 { return sized(uint32(i.Lane), o.element(i)) }

// sized returns the field of a size and an index.
func sized(index uint32, s Shape) uint32 { return (2*index + 1) << layouts[s].log << 16 }

// follows reports whether a later register of a list is the one after that before it.
func follows(_ *form, i *Inst, o *operand, at int) bool {
	if o.place != 'L' || i.Args[at].Virtual() || i.Args[at-1].Virtual() {
		return true
	}
	return i.Args[at].Number() == (i.Args[at-1].Number()+1)%32
}

// fitsListLane reports both: whether a register follows, and has the element.
func fitsListLane(f *form, i *Inst, o *operand, at int) bool {
	return follows(f, i, o, at) && fitsLane(f, i, o, at)
}

// fitsAdd reports whether the immediate has 12 bits, or 12 bits above 12 zeros.
func fitsAdd(_ *form, i *Inst, _ *operand, _ int) bool {
	return below(i.Imm, 1<<12) || below(i.Imm, 1<<24) && i.Imm&0xFFF == 0
}

// putAdd puts the immediate that fitsAdd takes.
func putAdd(i *Inst, _ *operand) uint32 {
	if i.Imm >= 1<<12 {
		return 1<<22 | uint32(i.Imm)>>12<<10
	}
	return uint32(i.Imm) << 10
}

// fitsBits reports whether the immediate is a run of ones, rotated and repeated.
func fitsBits(_ *form, i *Inst, _ *operand, _ int) bool {
	_, ok := runBits(i.Imm, i.Shape)
	return ok
}

// putBits puts the immediate that fitsBits takes.
func putBits(i *Inst, _ *operand) uint32 {
	word, _ := runBits(i.Imm, i.Shape)
	return word
}

// runBits encodes a run of ones in an element of 2 to 64 bits, rotated, and repeated over the width.
func runBits(imm int64, s Shape) (word uint32, ok bool) {
	value := uint64(imm)
	if s == W32 {
		if imm < math.MinInt32 || imm > math.MaxUint32 {
			return 0, false
		}
		value = value<<32>>32 | value<<32
	}
	size := 64
	for size > 2 && value&(1<<(size/2)-1) == value>>(size/2)&(1<<(size/2)-1) {
		size /= 2
	}
	mask := ^uint64(0) >> (64 - size)
	element := value & mask
	ones := bits.OnesCount64(element)
	if ones == 0 || ones == size {
		return 0, false
	}
	// begin is where the run begins, counted round the element's end
	begin := bits.TrailingZeros64(element)
	if begin == 0 {
		begin = (bits.Len64(^element & mask)) % size
	}
	run := uint64(1)<<ones - 1
	if rotated := (run<<begin | run>>(size-begin)) & mask; rotated != element {
		return 0, false
	}
	rotation := uint32(size-begin) % uint32(size)
	length := uint32(-2*size)&0x3F | uint32(ones-1)
	return uint32(size>>6)<<22 | rotation<<16 | length<<10, true
}

// fitsWide reports whether the immediate has 16 bits, and Lane says which quarter of the register they are.
func fitsWide(_ *form, i *Inst, _ *operand, _ int) bool {
	return below(i.Imm, 1<<16) && int(i.Lane) < i.Shape.Bits()/16
}

// putWide puts 16 bits and their place.
func putWide(i *Inst, _ *operand) uint32 { return uint32(i.Imm)<<5 | uint32(i.Lane)<<21 }

// inWidth reports whether the immediate is less than the number of the register's bits, or of an element's.
func inWidth(_ *form, i *Inst, _ *operand, _ int) bool { return below(i.Imm, int64(i.Shape.Bits())) }

// putLSL and putLSR put a shift as the bit field that it moves.
func putLSL(i *Inst, _ *operand) uint32 {
	return uint32(-i.Imm&int64(i.Shape.Bits()-1))<<16 | uint32(i.Shape.Bits()-1-int(i.Imm))<<10
}
func putLSR(i *Inst, _ *operand) uint32 { return uint32(i.Imm)<<16 | uint32(i.Shape.Bits()-1)<<10 }

// fitsSmall reports whether a number to compare with has 5 bits, and the flags to set otherwise 4.
func fitsSmall(f *form, i *Inst, o *operand, at int) bool {
	return below(i.Imm, 32) && fitsFlags(f, i, o, at)
}

// putSmall puts them.
func putSmall(i *Inst, o *operand) uint32 { return uint32(i.Imm)<<16 | putFlags(i, o) }

// fitsFlags reports whether Lane is four flags.
func fitsFlags(_ *form, i *Inst, _ *operand, _ int) bool { return i.Lane < 16 }

// putFlags puts them.
func putFlags(i *Inst, _ *operand) uint32 { return uint32(i.Lane) }

// conditions returns a fits for conditions up to a last one.
func conditions(last Condition) func(*form, *Inst, *operand, int) bool {
	return func(_ *form, i *Inst, _ *operand, _ int) bool { return i.If <= last }
}

// putIf puts a condition.
func putIf(i *Inst, _ *operand) uint32 { return uint32(i.If) << 12 }

// putLeft and putRight put a shift and the size of the elements as one number.
func putLeft(i *Inst, _ *operand) uint32  { return uint32(i.Shape.Bits()+int(i.Imm)) << 16 }
func putRight(i *Inst, _ *operand) uint32 { return uint32(2*i.Shape.Bits()-int(i.Imm)) << 16 }

// fitsRight and fitsWhole report whether a shift is from 1 to the number of an element's bits, and that number.
func fitsRight(_ *form, i *Inst, _ *operand, _ int) bool {
	return below(i.Imm-1, int64(i.Shape.Bits()))
}
func fitsWhole(_ *form, i *Inst, _ *operand, _ int) bool { return i.Imm == int64(i.Shape.Bits()) }

// fitsFrom reports whether the immediate is the index of a byte.
func fitsFrom(_ *form, i *Inst, _ *operand, _ int) bool { return below(i.Imm, int64(i.Shape.Bytes())) }

// constants returns a fits for constants of elements of some bytes: one byte of them may be other than zero.
func constants(bytes int) func(*form, *Inst, *operand, int) bool {
	return func(_ *form, i *Inst, _ *operand, _ int) bool {
		if !below(i.Imm, 1<<(8*bytes)) {
			return false
		}
		return i.Imm>>shiftOf(i.Imm) < 256
	}
}

// shiftOf returns 8 times the index of the lowest byte that is not zero.
func shiftOf(imm int64) int {
	if imm == 0 {
		return 0
	}
	return bits.TrailingZeros64(uint64(imm)) &^ 7
}

// putMask puts a byte and its place in the element.
func putMask(i *Inst, _ *operand) uint32 {
	shift := shiftOf(i.Imm)
	return spread(uint32(i.Imm>>shift)) | uint32(shift/8)<<13
}

// spread divides 8 bits among the two fields of a vector's constant.
func spread(byte8 uint32) uint32 { return byte8>>5<<16 | byte8&31<<5 }

// fitsBytes reports whether all bytes of the immediate are 0 or 255.
func fitsBytes(_ *form, i *Inst, _ *operand, _ int) bool {
	return uint64(i.Imm)&0x0101010101010101*255 == uint64(i.Imm)
}

// putBytes puts a bit for each byte.
func putBytes(i *Inst, _ *operand) uint32 {
	set := uint32(0)
	for n := range 8 {
		set |= uint32(i.Imm>>(8*n)&1) << n
	}
	return spread(set)
}

// fitsFloat reports whether the immediate is the bits of ±n/16·2^r, n from 16 to 31 and r from −3 to 4.
func fitsFloat(_ *form, i *Inst, _ *operand, _ int) bool {
	exponent := i.Imm>>52&0x7FF - 1023
	return i.Imm&(1<<48-1) == 0 && exponent >= -3 && exponent <= 4
}

// float8 returns the 8 bits of a float that fitsFloat takes.
func float8(imm int64) uint32 {
	exponent := uint32(imm>>52&0x7FF-1023+3) ^ 4
	return uint32(uint64(imm)>>63)<<7 | exponent<<4 | uint32(imm>>48)&15
}
