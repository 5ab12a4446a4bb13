package train

import (
	"fmt"
	"io"
	"iter"
	"math"
	"os"
	"slices"
	"sync"
	"unsafe"

	"github.com/weirml/weir"
	"github.com/weirml/weir/array"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/tensor"
)

// Field is one array of every example. In a batch, the examples' arrays are joined along a new first axis.
type Field struct {
	DType weir.DType
	Shape []int // of one example
	Len   int   // the number of examples
	// Read writes the elements of an example into into, which it must not keep. With Prefetch it runs in another
	// goroutine than the loop over the batches.
	Read func(example int, into []byte) error
}

// Column returns a field of a slice in memory: each example is the next run of as many elements as its shape has. The
// slice is borrowed.
func Column[T weir.Element](data []T, shape ...int) Field {
	return Windows(data, elements(shape), shape...)
}

// Windows is Column with another distance between the beginnings of examples, counted in elements: examples overlap if
// the stride is less than their number of elements.
func Windows[T weir.Element](data []T, stride int, shape ...int) Field {
	size, count := int(unsafe.Sizeof(*new(T))), 0
	if n := elements(shape); stride > 0 && len(data) >= n {
		count = (len(data)-n)/stride + 1
	}
	bytes := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(data))), len(data)*size)
	return Field{DType: tensor.TypeOf[T](), Shape: shape, Len: count, Read: func(i int, into []byte) error {
		copy(into, bytes[i*stride*size:])
		return nil
	}}
}

// Rows returns a field of an array whose first axis is the examples. The array is borrowed.
func Rows(a *array.Array) (Field, error) {
	if a == nil || a.Tensor() == nil || a.Rank() == 0 {
		return Field{}, diag.Inputf("rows of %v: it has no elements, or no axis", a)
	}
	f := Field{DType: a.DType(), Shape: a.Shape()[1:], Len: a.Dim(0)}
	f.Read = func(i int, into []byte) error {
		t := a.Tensor()
		if t == nil {
			return diag.New(weir.ErrClosed, "the array that the data are read from is closed")
		}
		copy(into, t.Bytes()[i*len(into):])
		return nil
	}
	return f, nil
}

// Records returns a field of a file: from offset on, examples lie one after the other in the machine's byte order, each
// followed by gap bytes that are skipped. The caller keeps the file open, and closes it.
func Records(file *os.File, offset int64, gap int, dt weir.DType, shape ...int) (Field, error) {
	size, err := (&Field{DType: dt, Shape: shape}).bytes(1)
	if err != nil {
		return Field{}, err
	}
	if offset < 0 || gap < 0 || size == 0 {
		return Field{}, diag.Inputf("records of %d bytes from byte %d on, with gaps of %d", size, offset, gap)
	}
	info, err := file.Stat()
	if err != nil {
		return Field{}, diag.Inputf("%v", err).WithCause(err)
	}
	each := size + int64(gap)
	count := max((info.Size()-offset+int64(gap))/max(each, 1), 0)
	return Field{DType: dt, Shape: shape, Len: int(count), Read: func(i int, into []byte) error {
		_, err := io.ReadFull(io.NewSectionReader(file, offset+int64(i)*each, size), into)
		return err
	}}, nil
}

// elements returns the number of elements of a shape.
func elements(shape []int) int {
	n := 1
	for _, e := range shape {
		n *= e
	}
	return n
}

// Data is a set of examples, iterated in batches, epoch after epoch.
type Data struct {
	x, y    *Field
	more    []Field
	options DataOptions
	lock    sync.Mutex
	at      position
	err     error // the error of the last Batches
	loops   bool  // a loop over Batches is running
}

// DataOptions are the order of examples and the reading of batches.
type DataOptions struct {
	Shuffle  bool   // a different order in each epoch
	Key      uint64 // determines the orders
	Prefetch int    // the number of batches that another goroutine reads ahead
	DropLast bool   // omits the last batch of an epoch if it is smaller than the others
}

// position is a position in the data: an epoch, and the number of its examples that are done.
type position struct {
	Epoch   int64 `json:"epoch"`
	Example int   `json:"example"`
}

// NewData makes data of a field of inputs and a field of targets. The zero Field as y means no targets.
func NewData(x, y Field, o DataOptions, more ...Field) (*Data, error) {
	d := &Data{x: &x, more: more, options: o}
	if y.Read != nil {
		d.y = &y
	}
	for i, f := range d.fields() {
		if f.Read == nil || f.Len != x.Len {
			return nil, diag.Inputf("field %d has %d examples, the first %d", i, f.Len, x.Len)
		}
		if _, err := f.bytes(1); err != nil {
			return nil, err
		}
	}
	if x.Len == 0 {
		return nil, diag.Inputf("there are no examples")
	}
	return d, nil
}

// fields returns the fields of X, More and Y.
func (d *Data) fields() []*Field {
	list := []*Field{d.x}
	for i := range d.more {
		list = append(list, &d.more[i])
	}
	if d.y != nil {
		list = append(list, d.y)
	}
	return list
}

// bytes returns the size of a number of examples; an example that is not an integer number of bytes is ErrUnsupported.
func (f *Field) bytes(examples int) (int64, error) {
	n := int64(examples)
	for _, e := range f.Shape {
		if e < 0 || e > 0 && n > math.MaxInt64/64/int64(e) {
			return 0, diag.Inputf("%d examples of %v%v", examples, f.DType, f.Shape)
		}
		n *= int64(e)
	}
	if bits := n * int64(f.DType.Bits()); f.DType.IsSubByte() && bits%8 != 0 {
		return 0, diag.Unsupportedf("examples of %v%v: each of them takes %d bits, which are no whole bytes", f.DType,
			f.Shape, bits)
	}
	return f.DType.Bytes(n)
}

// Len returns the number of examples.
func (d *Data) Len() int { return d.x.Len }

// Epoch returns the number of epochs that are complete.
func (d *Data) Epoch() int64 {
	d.lock.Lock()
	defer d.lock.Unlock()
	return d.at.Epoch
}

// order returns the examples of an epoch in their order, which depends on the key and the epoch alone.
func (d *Data) order(epoch int64) []int32 {
	list := make([]int32, d.x.Len)
	for i := range list {
		list[i] = int32(i)
	}
	if !d.options.Shuffle {
		return list
	}
	state := mixed(d.options.Key ^ mixed(uint64(epoch)))
	for i := len(list) - 1; i > 0; i-- {
		state = mixed(state)
		k := int(state % uint64(i+1))
		list[i], list[k] = list[k], list[i]
	}
	return list
}

// Batches iterates the rest of the current epoch in batches of size examples; the last batch may be smaller. The next
// call iterates the next epoch. A batch's arrays are valid until the next batch. With DropLast, a size beyond the
// number of examples is an error, and the rest of an epoch may contain no batch.
//
// If a field cannot be read, the iteration ends and Err returns the error. Two loops at a time would move the same
// position: the second yields no batch, and Err returns that error too.
func (d *Data) Batches(size int) iter.Seq[Batch] {
	return func(yield func(Batch) bool) {
		if !d.begin() {
			return
		}
		var err error
		defer func() { d.end(err) }()
		err = d.each(size, yield)
	}
}

// begin marks a loop as running; it returns false, and sets the error, if another loop is running.
func (d *Data) begin() bool {
	d.lock.Lock()
	defer d.lock.Unlock()
	if d.loops {
		d.err = diag.Inputf("another loop over the same data has not ended").WithFix("make other data of the same fields")
		return false
	}
	d.loops, d.err = true, nil
	return true
}

// end ends a loop with its error. If err is nil, the error of a loop inside of it stays.
func (d *Data) end(err error) {
	d.lock.Lock()
	defer d.lock.Unlock()
	d.loops = false
	if err != nil {
		d.err = err
	}
}

// Err returns the error that ended the last Batches early; nil if there was none, also if the loop was left by break.
func (d *Data) Err() error {
	d.lock.Lock()
	defer d.lock.Unlock()
	return d.err
}

// ready is a batch that has been read.
type ready struct {
	set      *set
	examples int
	at       position // the position after the batch
	err      error
}

// set is the memory of a batch.
type set struct {
	scope  *array.Scope
	size   int // the number of examples
	arrays []*array.Array
	bytes  [][]byte
}

// each calls yield with the batches of the rest of the epoch.
func (d *Data) each(size int, yield func(Batch) bool) (err error) {
	if size < 1 {
		return diag.Inputf("batches of %d", size)
	}
	if d.options.DropLast && size > d.x.Len {
		return diag.Inputf("batches of %d of %d examples, and smaller batches are left out", size, d.x.Len).
			WithFix("ask for smaller batches")
	}
	d.lock.Lock()
	at := d.at
	d.lock.Unlock()
	scope := array.NewScope("batches")
	defer scope.Close()
	r := &reader{d: d, at: at, size: size, order: d.order(at.Epoch)}
	if r.next() == 0 { // the epoch is over, as after batches of another size
		d.lock.Lock()
		d.at = r.after()
		d.lock.Unlock()
		return nil
	}
	sets, err := r.sets(scope, 1+max(d.options.Prefetch, 0))
	if err != nil {
		return err
	}
	if d.options.Prefetch <= 0 {
		return r.run(sets, yield)
	}
	return r.ahead(sets, yield)
}

// reader reads the batches of an epoch.
type reader struct {
	d     *Data
	at    position
	size  int
	order []int32
	last  *set // for the last, smaller batch
}

// next returns the number of examples of the next batch; 0 at the end of the epoch.
func (r *reader) next() int {
	left := len(r.order) - r.at.Example
	if left >= r.size {
		return r.size
	}
	if r.d.options.DropLast {
		return 0
	}
	return max(left, 0)
}

// sets makes memory for at most n batches, and for a smaller last batch.
func (r *reader) sets(scope *array.Scope, n int) ([]*set, error) {
	var list []*set
	left := max(len(r.order)-r.at.Example, 0)
	for range min(n, left/r.size) {
		list = append(list, r.d.set(scope, r.size))
	}
	if rest := left % r.size; rest > 0 && !r.d.options.DropLast {
		r.last = r.d.set(scope, rest)
	}
	return list, scope.Err()
}

// set makes memory for a batch of size examples.
func (d *Data) set(scope *array.Scope, size int) *set {
	s := &set{scope: scope, size: size}
	for _, f := range d.fields() {
		a := scope.Zeros(f.DType, append([]int{size}, f.Shape...)...)
		s.arrays = append(s.arrays, a)
		if t := a.Tensor(); t != nil {
			s.bytes = append(s.bytes, t.Bytes())
		}
	}
	return s
}

// read reads the next batch into a set.
func (r *reader) read(s *set) (out ready) {
	defer diag.Recover(&out.err, "reading a batch")
	for k, f := range r.d.fields() {
		each := len(s.bytes[k]) / s.size
		for i := range s.size {
			example := int(r.order[r.at.Example+i])
			if err := f.Read(example, s.bytes[k][i*each:(i+1)*each]); err != nil {
				return ready{err: diag.As(err, weir.ErrInput).AtTensor(fmt.Sprint("example ", example))}
			}
		}
	}
	r.at.Example += s.size
	return ready{set: s, examples: s.size, at: r.after()}
}

// after returns the position after the batches read so far; at the end of an epoch, the beginning of the next.
func (r *reader) after() position {
	if r.next() == 0 {
		return position{Epoch: r.at.Epoch + 1}
	}
	return r.at
}

// run reads and yields one batch after the other.
func (r *reader) run(sets []*set, yield func(Batch) bool) error {
	for i := 0; ; i++ {
		n := r.next()
		if n == 0 {
			return nil
		}
		s := r.last
		if n == r.size {
			s = sets[i%len(sets)]
		}
		b := r.read(s)
		if b.err != nil {
			return b.err
		}
		if !r.d.give(b, yield) {
			return nil
		}
	}
}

// ahead reads batches in another goroutine, which ends before ahead returns.
func (r *reader) ahead(sets []*set, yield func(Batch) bool) error {
	free := make(chan *set, len(sets)+1)
	full := make(chan ready, len(sets)+1)
	stop := make(chan struct{})
	var filling diag.Group
	for _, s := range sets {
		free <- s
	}
	filling.Go("reading batches", func() error { r.fill(free, full, stop); return nil })
	defer filling.Wait()
	defer close(stop)
	for b := range full {
		if b.err != nil {
			return b.err
		}
		if !r.d.give(b, yield) {
			return nil
		}
		if b.set != r.last {
			free <- b.set
		}
	}
	return nil
}

// fill reads batches until the epoch or the loop ends.
func (r *reader) fill(free <-chan *set, full chan<- ready, stop <-chan struct{}) {
	defer close(full)
	for n := r.next(); n > 0; n = r.next() {
		s := r.last
		if n == r.size {
			select {
			case s = <-free:
			case <-stop:
				return
			}
		}
		b := r.read(s)
		select {
		case full <- b:
		case <-stop:
			return
		}
		if b.err != nil {
			return
		}
	}
}

// give yields a batch; it returns false if the loop ends.
func (d *Data) give(r ready, yield func(Batch) bool) bool {
	list := r.set.arrays
	b := Batch{X: list[0], from: d, at: r.at}
	if list = list[1:]; d.y != nil {
		b.Y, list = list[len(list)-1], list[:len(list)-1]
	}
	b.More = slices.Clip(list)
	d.lock.Lock()
	d.at = r.at
	d.lock.Unlock()
	return yield(b)
}

// restore moves to a position.
func (d *Data) restore(at position) error {
	if at.Epoch < 0 || at.Example < 0 || at.Example > d.x.Len {
		return diag.Inputf("example %d of epoch %d: the data have %d examples", at.Example, at.Epoch, d.x.Len)
	}
	d.lock.Lock()
	defer d.lock.Unlock()
	d.at = at
	return nil
}
