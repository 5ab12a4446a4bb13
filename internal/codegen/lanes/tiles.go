package lanes

import (
	"github.com/weirml/weir/internal/codegen/regalloc"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
)

// Tiles is a machine's instructions for register tiles: rows × vectors of sums that stay in vector registers until the
// sums are complete. Registers 0 to rows·vectors−1 of the machine are the sums, row by row. The others are spare: they
// hold operands, and values of expressions.
//
// This code names vector registers of the machine, and no virtual ones, since the allocator does not know the tile's
// registers. A method changes no vector register but those that it is said to change, and those that it takes from the
// spare ones by Take and gives back by Give. General registers are virtual as everywhere. Part stands for the lanes of
// an incomplete last vector, RegisterTile.Part of them: memory of the other lanes must not be touched.
type Tiles interface {
	// SumsOf returns the vectors that add up in a type; nil if there are none.
	SumsOf(dt dtype.DType) *Sums
	// ReadsElements reports whether ReadRun and ReadOne read such elements, and WritesElements whether WriteRun writes
	// them. Elements of a type of sums are read as this type, and all types of 32 bits as each other.
	ReadsElements(f Elements) bool
	WritesElements(f Elements) bool
	// GroupOf returns how products of two types are added up by groups, if the right operand has each column's steps
	// side by side; the zero value if they are not.
	GroupOf(left, right, sums dtype.DType) Grouping
	// MostRows returns the most rows of a tile with so many vectors that the registers hold with the operands of a
	// round, if its products are added up in such a way: a multiple of g.Together, if that is set; 0 or less if they do
	// not hold one row.
	MostRows(s *Sums, vectors int, g Grouping) int
	// RowsOfBase returns how many consecutive rows of the left operand one register addresses: the others are found at
	// multiples of their distance, which is constant or an index.
	RowsOfBase(distance Distance) int
	// InMatrices emits a whole product in registers that hold matrices, if the machine has such and they can do it, and
	// reports whether it did.
	InMatrices(p *Product, vectors int, part Distance) bool

	// BeginTile begins the code of a tile. It sets t.Mask if the machine needs it for Part.
	BeginTile(t *RegisterTile)
	// Round adds the products of a round to the sums. BeginTerm comes before all rounds of a term, and EndTerm after
	// them: between the two, the sums may be kept in another order, and further rows of sums in the registers after the
	// tile's own (see Grouping). All three may change all spare registers.
	BeginTerm(t *RegisterTile, m *Term)
	Round(t *RegisterTile, r *Round)
	EndTerm(t *RegisterTile, m *Term)

	// ReadRun reads a vector of adjacent elements, ReadOne reads one element into all lanes, and WriteRun writes a
	// vector of elements. Numbers that are written as integers are within their range; floats are rounded.
	ReadRun(t *RegisterTile, f Elements, to regalloc.Reg, at regalloc.Mem, part bool)
	ReadOne(t *RegisterTile, f Elements, to regalloc.Reg, at regalloc.Mem)
	WriteRun(t *RegisterTile, f Elements, at regalloc.Mem, x regalloc.Reg, part bool)
	// Fetch brings a line of memory into a cache.
	Fetch(at regalloc.Mem, how Fetch)

	// Lanes of sums and of types of their size. to may be x, or another operand.
	ClearLanes(t *RegisterTile, r regalloc.Reg)
	// RepeatedBits returns a number with these bits in every lane.
	RepeatedBits(t *RegisterTile, bits uint64) Operand
	SetLanes(t *RegisterTile, to regalloc.Reg, x Operand)
	// Calculate makes to x op y, for Add, Sub, Mul, Div (floats), Min and Max; for Min and Max see Sums.Second. AddTimes
	// adds the product of two vectors of f32 to another, rounded once.
	Calculate(t *RegisterTile, op loop.BinaryOp, dt dtype.DType, to, x regalloc.Reg, y Operand)
	AddTimes(t *RegisterTile, to, x regalloc.Reg, y Operand)
	// Apply makes to a function of floats: Neg, Abs, Sqrt, Round, Floor or Ceil. ConvertLanes is between f32 and i32;
	// what it makes of NaN, and of numbers that do not fit, is the machine's.
	Apply(t *RegisterTile, op loop.UnaryOp, dt dtype.DType, to, x regalloc.Reg)
	ConvertLanes(t *RegisterTile, how Conversion, to, x regalloc.Reg)
	// Masks of lanes, see Sums.Masks: of floats for which a comparison holds, or that are not NaN. SelectLanes makes to
	// the lanes of yes that are in the mask, and the others of no. KeepLanes makes the lanes that are not in the mask 0.
	CompareLanes(t *RegisterTile, op loop.BinaryOp, mask, x, y regalloc.Reg)
	NumberLanes(t *RegisterTile, mask, x regalloc.Reg)
	SelectLanes(t *RegisterTile, mask, to, yes, no regalloc.Reg)
	KeepLanes(t *RegisterTile, mask, r regalloc.Reg)
	// MaskRegister returns a new virtual register of class Mask; it is not called on machines without them.
	MaskRegister() regalloc.Reg

	// TurnFour transposes four registers of 32-bit lanes, in blocks of 4 × 4: group l of four lanes of the i-th result has
	// lane 4·l+i of each. The results are in four of the given registers, spare included; free is the fifth. StoreFour
	// writes the first count lanes of a group; mask is FourMask's for a count below 4, and free may be changed. FourMask
	// may return NoReg.
	TurnFour(t *RegisterTile, rows [4]regalloc.Reg, spare regalloc.Reg) (out [4]regalloc.Reg, free regalloc.Reg)
	FourMask(t *RegisterTile, count int) regalloc.Reg
	StoreFour(t *RegisterTile, at regalloc.Mem, x regalloc.Reg, group int64, count int, mask, free regalloc.Reg)

	// Halve divides an integer of 0 or more by 2.
	Halve(x regalloc.Reg)
}

// Grouping is how a machine adds up products of consecutive steps of a sum at once.
type Grouping struct {
	Steps    int64 // so many; 0: one by one
	More     int   // rows of sums that this takes besides a tile's own
	Together int   // rows that are multiplied at once, a power of two: tiles have a multiple of it if they can; 0: one
}

// Sums describes the vectors of a type of sums.
type Sums struct {
	DType     dtype.DType
	Size      int64 // bytes of a lane
	Bytes     int64 // of a vector
	Registers int   // the machine's vector registers
	Masks     bool  // masks of lanes are in registers of class Mask; else in vector registers
	// Second: Min and Max give their second operand if either is NaN, or both are zeros; else NaN, and −0 is less than
	// 0.
	Second bool
	Half   *Sums // vectors half as long, if they take half the time; else nil
}

// Lanes returns the number of a vector's lanes.
func (s *Sums) Lanes() int64 { return s.Bytes / s.Size }

// Elements describes how elements in memory become lanes: elements of type In as lanes of type As, of at least their
// size, or (Group > 1) a group of adjacent elements as it is, for a product of groups.
type Elements struct {
	In, As dtype.DType
	Group  int64
}

// Size returns the bytes of an element or group in memory.
func (f Elements) Size() int64 { return int64(f.In.Bits()/8) * max(f.Group, 1) }

// Narrow reports whether elements are smaller than their lanes.
func (f Elements) Narrow() bool { return f.Size() < int64(f.As.Bits()/8) }

// Operand is an operand of an instruction on lanes: a register, or else what RepeatedBits returned, or a full vector
// in memory of the type of the result.
type Operand struct {
	Register regalloc.Reg
	At       regalloc.Mem
	Bits     uint64 // of a number, on machines that do not keep it in memory
}

// In returns a register as an operand.
func In(r regalloc.Reg) Operand { return Operand{Register: r} }

// Conversion is a conversion between f32 and i32.
type Conversion uint8

// The conversions.
const (
	ToFloat   Conversion = iota
	ToNearest            // integer, half to even
	TowardZero
)

// Fetch is a way to bring memory into a cache.
type Fetch uint8

// The ways of Fetch.
const (
	FetchNear   Fetch = iota // into the nearest cache
	FetchSecond              // into the second one
	FetchWrite               // to be written
)
