package asm

// shapeBits are the ways in which shapes enter words, by their names in the table.
var shapeBits = map[string]func(i *Inst) uint32{
	"-":   func(*Inst) uint32 { return 0 },
	"x":   func(i *Inst) uint32 { return wide(i.Shape) << 31 },
	"xn":  func(i *Inst) uint32 { return wide(i.Shape) * (1<<31 | 1<<22) },
	"x30": func(i *Inst) uint32 { return wide(i.Shape) << 30 },
	"q":   func(i *Inst) uint32 { return i.Shape.full() << 30 },
	"zq":  func(i *Inst) uint32 { return i.Shape.full()<<30 | log(i.Shape)<<22 },
	"z16": func(i *Inst) uint32 { return i.Shape.full()<<30 | sized(0, i.Shape) },
	"f":   func(i *Inst) uint32 { return log(i.Shape) >> 1 & log(i.Shape) & 1 << 22 },
	"fq":  func(i *Inst) uint32 { return i.Shape.full()<<30 | log(i.Shape)>>1&log(i.Shape)&1<<22 },
	"ft":  func(i *Inst) uint32 { return floatType(i.Shape) },
	"cv": func(i *Inst) uint32 {
		return (wide(i.Shape)|wide(i.From))<<31 | floatType(i.Shape) | floatType(i.From)
	},
	"nq": func(i *Inst) uint32 { return i.Shape.full()<<30 | log(i.Shape)>>1<<22 },
	"v":  func(i *Inst) uint32 { return log(i.Shape)&3<<30 | log(i.Shape)>>2<<23 },
	"vp": func(i *Inst) uint32 { return (log(i.Shape) - 2) << 30 },
	"mq": func(i *Inst) uint32 { return i.Shape.full()<<30 | log(i.Shape)<<10 },
	"ln": listLane,
}

// wide returns 1 for a general register of 64 bits, and else 0.
func wide(s Shape) uint32 {
	if s == X64 {
		return 1
	}
	return 0
}

// log returns the logarithm of the bytes of an element.
func log(s Shape) uint32 { return uint32(layouts[s].log) }

// floatType returns the field that says which float an instruction works on; 0 of other shapes.
func floatType(s Shape) uint32 {
	switch s {
	case H:
		return 3 << 22
	case D:
		return 1 << 22
	}
	return 0
}

// listLane returns the size of an element, and its index, which has the more bits the smaller elements are.
func listLane(i *Inst) uint32 {
	size := log(i.Shape)
	lane := uint32(i.Lane) << size // in bytes
	word := lane>>3<<30 | lane>>2&1<<12 | lane&3<<10
	if size == 3 {
		return word&^(7<<10) | 1<<10 | 2<<14
	}
	return word | size<<14
}

// field returns the register's number in the word.
func field(r Reg) uint32 {
	if r == SP {
		return 31
	}
	return uint32(r.Number())
}

// encode returns the word, without distances to labels and constants.
func (f *form) encode(i *Inst) uint32 {
	word, at := f.word|f.bits(i), 0
	for n := range int(f.count) {
		o := &f.operands[n]
		if o.kind.put != nil {
			word |= o.kind.put(i, o)
		}
		if o.kind.class == NoClass {
			continue
		}
		if o.kind.class != classes {
			word |= o.at(field(i.Args[at]))
		}
		at++
	}
	return word
}

// at returns a register's number at its place.
func (o *operand) at(number uint32) uint32 {
	switch o.place {
	case 'D':
		return number
	case 'N':
		return number << 5
	case 'M':
		return number << 16
	case 'A':
		return number << 10
	case 'B':
		return number<<5 | number<<16
	}
	return 0
}
