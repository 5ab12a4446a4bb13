package regalloc

// Routine collects the instructions, of type I, of a routine over virtual registers.
type Routine[I any] struct {
	// Insts are the instructions so far. Other lists can take their place for a while (see List).
	Insts []I
	// Constants are the registers whose values are constants, by their numbers in the routine's pool, which count from 1.
	// The allocator decides whether a constant has a register or is read from memory where it is used.
	Constants map[Reg]int32

	registers map[string]Reg // of constants, by their bytes
	contents  map[Reg]string // the reverse
	count     [Classes]int   // virtual registers, by class
	work      *Workspace[I]
}

// Workspace is memory that a goroutine reuses from one routine to the next. Its zero value is ready.
type Workspace[I any] struct {
	lists     [][]I // without contents
	out       []I
	flows     []flow
	intervals []interval
	order     []int32
	blocks    []block
	sets      []uint64
	blockAt   []int32
	places    []int32
	change    []int32
	depth     []int8
}

// Routine returns an empty routine that shares the workspace's memory.
func (w *Workspace[I]) Routine() Routine[I] {
	return Routine[I]{Constants: map[Reg]int32{}, registers: map[string]Reg{}, contents: map[Reg]string{}, work: w}
}

// reuse returns a list of n zeros in a workspace.
func reuse[T any](room *[]T, n int) []T {
	if cap(*room) < n {
		*room = make([]T, n+n/2)
	}
	list := (*room)[:n]
	clear(list)
	return list
}

// Register returns a new virtual register of a class.
func (r *Routine[I]) Register(c Class) Reg {
	r.count[c]++
	return Virtual(c, r.count[c]-1)
}

// Constant returns the register of a class whose value is a constant. pool puts its bytes into the routine's pool,
// once, and returns its number there.
func (r *Routine[I]) Constant(c Class, bytes []byte, pool func(bytes []byte) int32) Reg {
	key := string(bytes)
	if reg, ok := r.registers[key]; ok {
		return reg
	}
	reg := r.Register(c)
	r.registers[key], r.contents[reg] = reg, key
	r.Constants[reg] = pool(bytes)
	return reg
}

// Contents returns the bytes of a constant's register; nil for a register that is not a constant.
func (r *Routine[I]) Contents(reg Reg) []byte {
	if key, ok := r.contents[reg]; ok {
		return []byte(key)
	}
	return nil
}

// Registers returns the number of virtual registers of a class.
func (r *Routine[I]) Registers(c Class) int { return r.count[c] }

// Emit appends an instruction.
func (r *Routine[I]) Emit(in I) {
	if r.Insts == nil {
		r.Insts = r.List()
	}
	r.Insts = append(r.Insts, in)
}

// List returns an empty list of instructions with memory from the workspace.
func (r *Routine[I]) List() []I {
	if n := len(r.work.lists); n > 0 {
		l := r.work.lists[n-1]
		r.work.lists = r.work.lists[:n-1]
		return l
	}
	return make([]I, 0, firstRoom)
}

const firstRoom = 32 // instructions

// Free returns the memory of a list to the workspace; the list must not be used after it.
func (r *Routine[I]) Free(list []I) {
	if cap(list) > 0 {
		r.work.lists = append(r.work.lists, list[:0])
	}
}

// Append emits a list of instructions, which must not be used after it.
func (r *Routine[I]) Append(list []I) {
	if len(r.Insts) == 0 && cap(r.Insts) == 0 {
		r.Insts = list
		return
	}
	r.Insts = append(r.Insts, list...)
	r.Free(list)
}
