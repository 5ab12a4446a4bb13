package lanes

import (
	"github.com/weirml/weir/internal/codegen/regalloc"
	"github.com/weirml/weir/internal/loop"
)

// RegisterTile is a tile of sums in registers whose code is being emitted; see Tiles.
type RegisterTile struct {
	*Emitter
	*Sums
	Rows, Vectors int
	Part          Distance     // lanes of the last vector; 0: all
	Mask          regalloc.Reg // of Part, once the machine has made it
	Cleared       bool         // all sums are 0
	whole         bool         // all lanes may be written
	spare         []regalloc.Reg
}

// Begin takes the vector registers for the tile; those that are not sums are spare.
func (t *RegisterTile) Begin() {
	for n := t.Registers - 1; n >= t.Rows*t.Vectors; n-- {
		t.spare = append(t.spare, vectorRegister(n))
	}
	t.BeginTile(t)
}

// vectorRegister returns a vector register of the machine.
func vectorRegister(n int) regalloc.Reg {
	return regalloc.Reg(regalloc.Vector)<<regalloc.ClassShift + regalloc.Reg(n)
}

// Sum returns the register of a row's vector of sums.
func (t *RegisterTile) Sum(row, vector int) regalloc.Reg {
	return vectorRegister(row*t.Vectors + vector)
}

// Take returns a spare register, which Give makes spare again.
func (t *RegisterTile) Take() regalloc.Reg {
	if len(t.spare) == 0 {
		Refuse("an expression of sums that needs many registers")
	}
	r := t.spare[len(t.spare)-1]
	t.spare = t.spare[:len(t.spare)-1]
	return r
}

// Give makes a register spare again.
func (t *RegisterTile) Give(r regalloc.Reg) { t.spare = append(t.spare, r) }

// takeMask returns a register for a mask of lanes, which giveMask gives back.
func (t *RegisterTile) takeMask() regalloc.Reg {
	if t.Masks {
		return t.MaskRegister()
	}
	return t.Take()
}

func (t *RegisterTile) giveMask(r regalloc.Reg) {
	if r != regalloc.NoReg && !t.Masks {
		t.Give(r)
	}
}

// result returns a register for a result computed from r: r itself if it is a spare one (own), else a new one.
func (t *RegisterTile) result(r regalloc.Reg, own bool) regalloc.Reg {
	if own {
		return r
	}
	return t.Take()
}

// clear makes all sums 0.
func (t *RegisterTile) clear() {
	for n := range t.Rows * t.Vectors {
		t.ClearLanes(t, vectorRegister(n))
	}
}

// Partial reports whether a vector is the last one and lacks some lanes.
func (t *RegisterTile) Partial(vector int) bool {
	return vector == t.Vectors-1 && (!t.Part.Known() || t.Part.Fixed != 0)
}

// wide returns elements of the sums' type as they are.
func (t *RegisterTile) wide() Elements { return Elements{In: t.DType, As: t.DType} }

// LoadSums reads all sums from memory.
func (t *RegisterTile) LoadSums(s *Stream) {
	t.eachVector(s, func(row, vector int, at regalloc.Mem) {
		t.ReadRun(t, t.wide(), t.Sum(row, vector), at, t.Partial(vector))
	})
}

// AddSums adds sums in memory to all sums.
func (t *RegisterTile) AddSums(s *Stream) {
	t.eachVector(s, func(row, vector int, at regalloc.Mem) {
		r, sum := t.Take(), t.Sum(row, vector)
		t.ReadRun(t, t.wide(), r, at, t.Partial(vector))
		t.Calculate(t, loop.Add, t.DType, sum, sum, In(r))
		t.Give(r)
	})
}

// saveSums writes all sums to memory.
func (t *RegisterTile) saveSums(s *Stream) {
	t.eachVector(s, func(row, vector int, at regalloc.Mem) {
		t.WriteRun(t, t.wide(), at, t.Sum(row, vector), t.Partial(vector) && !t.whole)
	})
}

// eachVector calls do for each of the tile's vectors, with its address in a stream.
func (t *RegisterTile) eachVector(s *Stream, do func(row, vector int, at regalloc.Mem)) {
	base := s.At
	if !s.Row.Known() {
		base = t.CopyOf(base)
	}
	for row := range t.Rows {
		at := regalloc.Mem{Base: base}
		if s.Row.Known() {
			at.Disp = displacement(int64(row) * s.Row.Fixed)
		}
		for vector := range t.Vectors {
			v := at
			v.Disp += int32(int64(vector) * t.Bytes)
			do(row, vector, v)
		}
		if !s.Row.Known() {
			t.MoveOn(base, s.Row)
		}
	}
}

// displacement returns a number as a displacement of 32 bits.
func displacement(v int64) int32 {
	if v > 1<<30 || v < -1<<30 {
		Refuse("rows too far from each other")
	}
	return int32(v)
}

// EachLane emits code for each lane of Part.
func (t *RegisterTile) EachLane(do func(i int64)) {
	count := t.Lanes()
	if t.Part.Known() {
		count = t.Part.Fixed
	}
	end := t.Label()
	for i := range count {
		if !t.Part.Known() {
			t.CompareNumber(t.Part.Register, i)
			t.JumpIf(LessOrEqual, end)
		}
		do(i)
	}
	t.Bind(end)
}

// turnedRows is the number of rows that are stored together: the lanes in 128 bits.
const turnedRows = 4

// storeTurned stores all sums to a place whose rows are adjacent in memory and whose columns are not, as in a result
// with its channels first: four rows at a time are transposed in registers, and four elements of a column are stored
// together. It overwrites the sums.
func (t *RegisterTile) storeTurned(p place) {
	for first := 0; first < t.Rows; first += turnedRows {
		t.turnRows(p, first, min(turnedRows, t.Rows-first))
	}
}

// turnRows stores count rows from the first on: column after column.
func (t *RegisterTile) turnRows(p place, first, count int) {
	at := t.CopyOf(p.stream.At)
	t.MoveOn(at, Known(int64(first)*t.Size))
	mask := regalloc.NoReg
	if count < turnedRows {
		mask = t.FourMask(t, count)
	}
	end := t.Label()
	for vector := range t.Vectors {
		columns, ragged := t.Lanes(), t.Partial(vector) && !t.Part.Known()
		if t.Partial(vector) && t.Part.Known() {
			columns = t.Part.Fixed
		}
		var rows [turnedRows]regalloc.Reg
		for i := range rows {
			if i < count {
				rows[i] = t.Sum(first+i, vector)
			} else {
				rows[i] = t.Take()
			}
		}
		spare := t.Take()
		blocks, free := t.TurnFour(t, rows, spare)
		for c := range columns {
			if ragged {
				t.CompareNumber(t.Part.Register, c)
				t.JumpIf(LessOrEqual, end)
			}
			t.StoreFour(t, regalloc.Mem{Base: at}, blocks[c%turnedRows], c/turnedRows, count, mask, free)
			t.MoveOn(at, p.column)
		}
		for _, r := range rows[count:] { // their present contents do not matter
			t.Give(r)
		}
		t.Give(spare)
	}
	t.Bind(end)
	t.giveMask(mask)
}
