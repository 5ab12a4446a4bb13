package hostop

import (
	"slices"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/tensor"
)

// A sequence is two tensors, the elements and the extents of its tensors, as package tensor packs them.

// init defines the operators on sequences.
func init() {
	for name, f := range map[string]Func{"sequence_at": sequenceAt, "sequence_insert": sequenceInsert,
		"sequence_erase": sequenceErase, "sequence_concat": sequenceConcat, "sequence_split": sequenceSplit} {
		register(name, f)
	}
}

// sequenceView is the number of bytes of Go's heap that a view of one tensor of a sequence takes: the tensor and its
// shapes.
const sequenceView = 320

// extentsWidth is the number of integers that describe a tensor of a sequence: its rank and its extents.
const extentsWidth = 1 + tensor.SequenceRank

// sequence returns views of the tensors of the sequence in inputs 0 and 1.
func (c *Call) sequence() ([]*tensor.Tensor, error) { return tensor.UnpackSequence(c.In[0], c.In[1]) }

// index returns the index in input i, which is in [0, among) or, if it counts from the end, negative. It returns
// ErrInput for an index out of range.
func (c *Call) index(i int, among int64) (int64, error) {
	at := c.In[i].Int(0)
	if at < -among || at >= among {
		return 0, diag.Inputf("position %d of a sequence of %d tensors", at, c.In[1].Shape()[0])
	}
	if at < 0 {
		at += among
	}
	return at, nil
}

// fits checks a tensor's shape against the expected one, in which −1 stands for any extent.
func fits(shape, want []int64) error {
	ok := len(shape) == len(want)
	for i := range want {
		ok = ok && (want[i] < 0 || want[i] == shape[i])
	}
	if !ok {
		return diag.Inputf("a tensor of shape %s in the sequence, where %s is declared (−1: any)", tensor.ShapeString(shape),
			tensor.ShapeString(want))
	}
	return nil
}

// sequenceAt returns the tensor at an index (input 2); it must have the declared shape.
func sequenceAt(c *Call) error {
	at, err := c.index(2, c.In[1].Shape()[0])
	if err != nil {
		return err
	}
	shape, begin, err := tensor.SequenceTensor(c.In[1], c.In[0].Len(), at)
	if err != nil {
		return err
	}
	if err := fits(shape, c.Attrs["shape"].([]int64)); err != nil {
		return err
	}
	out, err := c.Result(0, shape...)
	if err != nil {
		return err
	}
	width := int64(out.DType().Bits() / 8)
	c.copy(out.Bytes(), c.In[0].Bytes()[begin*width:])
	return nil
}

// sequenceInsert inserts a tensor (input 2) before an index (input 3).
func sequenceInsert(c *Call) error {
	x, count := c.In[2], c.In[1].Shape()[0]
	if x.Rank() > tensor.SequenceRank {
		return diag.Unsupportedf("a tensor of rank %d in a sequence", x.Rank())
	}
	at := c.In[3].Int(0)
	if at < -count || at > count {
		return diag.Inputf("position %d of a sequence of %d tensors", at, count)
	}
	if at < 0 {
		at += count
	}
	begin := c.In[0].Len()
	if at < count {
		var err error
		if _, begin, err = tensor.SequenceTensor(c.In[1], begin, at); err != nil {
			return err
		}
	}
	elements, err := c.Result(0, c.In[0].Len()+x.Len())
	if err != nil {
		return err
	}
	extents, err := c.Result(1, count+1, extentsWidth)
	if err != nil {
		return err
	}
	cut := begin * int64(elements.DType().Bits()/8)
	n := c.copy(elements.Bytes(), c.In[0].Bytes()[:cut])
	n += c.copy(elements.Bytes()[n:], x.Bytes())
	c.copy(elements.Bytes()[n:], c.In[0].Bytes()[cut:])
	row := int64(8 * extentsWidth)
	c.copy(extents.Bytes(), c.In[1].Bytes()[:at*row])
	tensor.SetSequenceShape(extents, at, x.Shape())
	c.copy(extents.Bytes()[(at+1)*row:], c.In[1].Bytes()[at*row:])
	return nil
}

// sequenceErase removes the tensor at an index (input 2).
func sequenceErase(c *Call) error {
	count := c.In[1].Shape()[0]
	at, err := c.index(2, count)
	if err != nil {
		return err
	}
	shape, begin, err := tensor.SequenceTensor(c.In[1], c.In[0].Len(), at)
	if err != nil {
		return err
	}
	size, _ := tensor.Count(shape)
	elements, err := c.Result(0, c.In[0].Len()-size)
	if err != nil {
		return err
	}
	extents, err := c.Result(1, count-1, extentsWidth)
	if err != nil {
		return err
	}
	width, row := int64(elements.DType().Bits()/8), int64(8*extentsWidth)
	n := c.copy(elements.Bytes(), c.In[0].Bytes()[:begin*width])
	c.copy(elements.Bytes()[n:], c.In[0].Bytes()[(begin+size)*width:])
	n = c.copy(extents.Bytes(), c.In[1].Bytes()[:at*row])
	c.copy(extents.Bytes()[n:], c.In[1].Bytes()[(at+1)*row:])
	return nil
}

// sequenceConcat concatenates all tensors along an axis; with the attribute stack, along a new axis.
func sequenceConcat(c *Call) error {
	if err := c.heap(sequenceView * c.In[1].Shape()[0]); err != nil {
		return err
	}
	list, err := c.sequence()
	if err != nil {
		return err
	}
	axis, stack := c.Attrs["axis"].(int64), c.Attrs["stack"].(bool)
	want := c.Attrs["shape"].([]int64) // of the result
	if len(list) == 0 {
		return diag.Inputf("an empty sequence has nothing to concatenate")
	}
	total := int64(0)
	var full []int64
	for i, t := range list {
		shape := slices.Clone(t.Shape())
		if stack {
			if int(axis) > len(shape) {
				return fits(shape, want[1:])
			}
			shape = slices.Insert(shape, int(axis), 1)
		}
		if len(shape) != len(want) {
			return diag.Inputf("tensor %d of the sequence has rank %d, where %d is expected", i, t.Rank(),
				len(want)-len(shape)+t.Rank())
		}
		total += shape[axis]
		shape[axis] = 0
		if i == 0 {
			full = shape
		}
		if !slices.Equal(shape, full) {
			return diag.Inputf("tensors %s and %s of the sequence cannot be concatenated along axis %d",
				tensor.ShapeString(list[0].Shape()), tensor.ShapeString(t.Shape()), axis)
		}
	}
	full[axis] = total
	if err := fits(full, want); err != nil {
		return err
	}
	out, err := c.Result(0, full...)
	if err != nil {
		return err
	}
	// A row is the bytes of the result that share the indices before the axis. Each tensor is a piece of every row.
	rows, _ := tensor.Count(full[:axis])
	width := int64(out.DType().Bits() / 8)
	row, offset := int64(len(out.Bytes()))/max(rows, 1), int64(0)
	for _, t := range list {
		piece := t.Len() * width / max(rows, 1)
		for r := range rows {
			c.work(4)
			c.copy(out.Bytes()[r*row+offset:], t.Bytes()[r*piece:(r+1)*piece])
		}
		offset += piece
	}
	return nil
}

// sequenceSplit cuts a tensor along an axis into pieces of the lengths in input 1. Without the attribute keep, all
// lengths are 1 and the pieces lose the axis.
func sequenceSplit(c *Call) error {
	x, lengths := c.In[0], c.In[1]
	axis, keep := c.Attrs["axis"].(int64), c.Attrs["keep"].(bool)
	if x.Rank() > tensor.SequenceRank+1 || keep && x.Rank() > tensor.SequenceRank {
		return diag.Unsupportedf("tensors of rank %d in a sequence", x.Rank())
	}
	shape := slices.Clone(x.Shape())
	left := shape[axis]
	for i := range lengths.Len() {
		n := lengths.Int(i)
		if n < 0 || n > left {
			return diag.Inputf("piece %d of a split has %d of the %d that are left along axis %d", i, n, left, axis)
		}
		left -= n
	}
	if left != 0 {
		return diag.Inputf("the pieces of a split leave %d of the %d along axis %d", left, shape[axis], axis)
	}
	elements, err := c.Result(0, x.Len())
	if err != nil {
		return err
	}
	extents, err := c.Result(1, lengths.Len(), extentsWidth)
	if err != nil {
		return err
	}
	rows, _ := tensor.Count(shape[:axis])
	row := int64(len(x.Bytes())) / max(rows, 1)
	slice := row / max(shape[axis], 1)
	at, offset := 0, int64(0)
	piece := make([]int64, 0, len(shape))
	for i := range lengths.Len() {
		c.work(8)
		size := lengths.Int(i)
		for r := range rows {
			c.work(4)
			at += c.copy(elements.Bytes()[at:], x.Bytes()[r*row+offset:r*row+offset+size*slice])
		}
		offset += size * slice
		shape[axis] = size
		if piece = append(piece[:0], shape...); !keep {
			piece = slices.Delete(piece, int(axis), int(axis)+1)
		}
		tensor.SetSequenceShape(extents, i, piece)
	}
	return nil
}
