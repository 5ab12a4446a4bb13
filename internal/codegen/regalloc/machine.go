package regalloc

// Machine describes a machine's registers, and its instructions of type I.
type Machine[I any] interface {
	// Frame returns the register with the address of the frame.
	Frame() Reg
	// Bank returns the registers of a class.
	Bank(c Class) Bank
	// Flow returns what an instruction does to the order of execution; to is the label that it binds, or jumps to.
	Flow(in *I) (f Flow, to Label)
	// Visit calls do for every register that an instruction names or uses, with its role. do may change named registers to
	// others of their class.
	Visit(in *I, do func(r *Reg, role Role))
	// Move returns the operands of an instruction that does nothing but copy a register to another of its class; ok is
	// false for other instructions.
	Move(in *I) (to, from Reg, ok bool)
	// Overlaps reports whether an instruction writes its destination before it has read everything: it needs registers of
	// its own.
	Overlaps(in *I) bool
	// Fold makes one of an instruction's operands that lie in memory an operand there, if a form of the instruction allows
	// it. place returns where a register's value lies; ok is false if it has a register of the machine.
	Fold(in *I, place func(r Reg) (at Mem, ok bool))
	// Load and Store return the instruction that moves an entire register from memory, or to it.
	Load(r Reg, from Mem) I
	Store(to Mem, r Reg) I
	// Text returns an instruction as text, for messages.
	Text(in *I) string
}

// Bank is the registers of a class.
type Bank struct {
	// Free are the registers that values may have. The last one is taken first.
	Free []Reg
	// Temporaries hold spilled values for the length of an instruction. They are those of Free that are kept for it if any
	// value is spilled, or registers besides Free.
	Temporaries []Reg
	Bytes       int32 // of a register in memory
}

// Flow is what an instruction does to the order of execution.
type Flow uint8

// The flows.
const (
	Next     Flow = iota // the next instruction follows
	Binds                // a label is here
	Branches             // continues at a label, or with the next instruction
	Jumps                // continues at a label
	Ends                 // leaves the routine
	// Spoils marks the beginning of code that names vector registers of the machine, and no virtual ones: virtual vector
	// registers that are live across this position are kept in memory.
	Spoils
)

// leaves reports whether an instruction may continue at a label.
func (f Flow) leaves() bool { return f == Branches || f == Jumps }

// falls reports whether the next instruction may follow.
func (f Flow) falls() bool { return f != Jumps && f != Ends }
