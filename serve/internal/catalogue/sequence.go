package catalogue

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"
	"unsafe"

	"github.com/weirml/weir"
	"github.com/weirml/weir/serve/internal/ledger"
	"github.com/weirml/weir/serve/internal/oip"
)

// defaultIdle is how long a sequence may rest, as in Triton.
const defaultIdle = time.Second

// control is an input that tells the model where in its sequence a request is.
type control struct {
	name  string
	shape []int
	of    oip.ModelSequenceBatching_Control_Kind
	dt    weir.DType
	// values are the tensors for false and true; nil for the correlation ID.
	values [2]*weir.Tensor
}

// state is an input and the output that is its next value.
type state struct {
	input, output string
	at            int // the output's index
	dt            weir.DType
	shape         []int // at the start of a sequence
	bytes         int64 // of that shape
	// inPlace says that runs update the state's memory; otherwise the output is copied to memory of its own.
	inPlace bool
	first   *ledger.Buffer // the value at the start; nil: zeros
}

// sequenceSettings checks what a configuration says about sequences, as far as that needs no model.
func sequenceSettings(c *oip.ModelConfig) error {
	s := c.GetSequenceBatching()
	if s.GetIterativeSequence() {
		return errors.New("config.pbtxt: iterative_sequence is not supported: a request is answered once")
	}
	names := map[string]bool{}
	once := func(name string) error {
		if name == "" || names[name] {
			return fmt.Errorf("config.pbtxt: sequence_batching has no name, or one twice: %q", name)
		}
		names[name] = true
		return nil
	}
	for _, i := range s.GetControlInput() {
		if err := once(i.Name); err != nil {
			return err
		}
		if len(i.Control) != 1 {
			return fmt.Errorf("config.pbtxt: control_input %q has %d controls, and one is possible", i.Name, len(i.Control))
		}
	}
	for _, st := range s.GetState() {
		if err := errors.Join(once(st.InputName), once(st.OutputName)); err != nil {
			return err
		}
		if len(st.InitialState) > 1 {
			return fmt.Errorf("config.pbtxt: state %q has %d initial_state, and one is possible", st.InputName,
				len(st.InitialState))
		}
	}
	return nil
}

// inPlace returns the states that a program may update in place, as weir.Options.States has them: those whose input and
// output have one type and one shape. States that the model's file declares are not among them.
func inPlace(m *weir.Model, c *oip.ModelConfig) map[string]string {
	all := map[string]string{}
	for _, st := range c.GetSequenceBatching().GetState() {
		in, out := find(m.Inputs(), st.InputName), find(m.Outputs(), st.OutputName)
		if in != nil && out != nil && in.State == "" && in.Kind == weir.TensorKind && in.DType == out.DType &&
			in.DType != weir.StringType && in.Shape != nil && slices.Equal(in.Shape, out.Shape) {
			all[st.InputName] = st.OutputName
		}
	}
	return all
}

// find returns the input or output with a name, nil if there is none.
func find(list []weir.Info, name string) *weir.Info {
	if at := slices.IndexFunc(list, func(i weir.Info) bool { return i.Name == name }); at >= 0 {
		return &list[at]
	}
	return nil
}

// sequence prepares the version's sequences, and leaves to clients the inputs that the server does not fill.
func (v *Version) sequence(c *oip.ModelConfig, buffers *ledger.Buffers, most int) error {
	s := c.GetSequenceBatching()
	if s == nil {
		return nil
	}
	v.Sequences = &Sequences{version: v, buffers: buffers, most: most, batched: c.MaxBatchSize > 0,
		idle: time.Duration(min(s.MaxSequenceIdleMicroseconds, 1<<50)) * time.Microsecond, slots: map[SequenceID]*slot{}}
	if v.Sequences.idle == 0 {
		v.Sequences.idle = defaultIdle
	}
	for _, i := range s.ControlInput {
		one, err := v.control(i.Name, i.Control[0])
		if err != nil {
			return fmt.Errorf("config.pbtxt: control_input %q %w", i.Name, err)
		}
		v.Sequences.controls = append(v.Sequences.controls, one)
	}
	for _, st := range s.State {
		if err := v.same("state", st.InputName, st.DataType, st.Dims, v.Inputs, c.MaxBatchSize > 0); err != nil {
			return err
		}
		one, err := v.state(st)
		if err != nil {
			return fmt.Errorf("config.pbtxt: state %q %w", st.InputName, err)
		}
		v.Sequences.states = append(v.Sequences.states, one)
	}
	for _, i := range v.Inputs {
		if i.State != "" && !slices.ContainsFunc(v.Sequences.states, func(s state) bool { return s.input == i.Name }) {
			return fmt.Errorf("config.pbtxt: sequence_batching lacks the model's state %q, which all sequences would share",
				i.Name)
		}
	}
	v.Inputs = slices.DeleteFunc(v.Inputs, func(i weir.Info) bool {
		return slices.ContainsFunc(v.Sequences.controls, func(c control) bool { return c.name == i.Name }) ||
			slices.ContainsFunc(v.Sequences.states, func(s state) bool { return s.input == i.Name })
	})
	for i := range v.Outputs {
		listed := slices.ContainsFunc(c.Output, func(o *oip.ModelOutput) bool { return o.Name == v.Outputs[i].Name })
		v.hidden = append(v.hidden, !listed &&
			slices.ContainsFunc(v.Sequences.states, func(s state) bool { return s.at == i }))
	}
	return nil
}

// describe returns the bytes that the states of a sequence have at its start, and the names of those that are copied at
// each step, not updated in place.
func (s *Sequences) describe() (bytes int64, copied []string) {
	for _, st := range s.states {
		if bytes += st.bytes; !st.inPlace {
			copied = append(copied, st.input)
		}
	}
	return bytes, copied
}

// ones returns the shape of an input that has one element.
func ones(info *weir.Info) ([]int, error) {
	shape := make([]int, len(info.Shape))
	for i, e := range info.Shape {
		if shape[i] = 1; e.Dim == "" && e.Size != 1 {
			return nil, fmt.Errorf("has more than one element: the model's is %s", info)
		}
	}
	return shape, nil
}

// control returns a control of the configuration.
func (v *Version) control(name string, c *oip.ModelSequenceBatching_Control) (one control, err error) {
	one = control{name: name, of: c.Kind}
	info := find(v.Inputs, name)
	if info == nil {
		return one, errors.New("is no input of the model")
	}
	if one.shape, err = ones(info); err != nil {
		return one, err
	}
	one.dt = info.DType
	if c.Kind == oip.ModelSequenceBatching_Control_CONTROL_SEQUENCE_CORRID {
		if !slices.Contains([]weir.DType{weir.I32, weir.I64, weir.U32, weir.U64, weir.StringType}, info.DType) {
			return one, fmt.Errorf("is for an ID, which the model's %s cannot have", info)
		}
		if c.DataType != oip.DataType_TYPE_INVALID && c.DataType != oip.ConfigType(info.DType) {
			return one, fmt.Errorf("has data_type %v, and the model's is %s", c.DataType, info)
		}
		return one, nil
	}
	sets := 0
	for i := range one.values {
		sets = 0
		var t *weir.Tensor
		if len(c.Int32FalseTrue) == 2 {
			sets++
			t, err = weir.FromSlice(c.Int32FalseTrue[i:i+1], one.shape...)
		}
		if len(c.Fp32FalseTrue) == 2 {
			sets++
			t, err = weir.FromSlice(c.Fp32FalseTrue[i:i+1], one.shape...)
		}
		if len(c.BoolFalseTrue) == 2 {
			sets++
			t, err = weir.FromSlice(c.BoolFalseTrue[i:i+1], one.shape...)
		}
		if err != nil {
			return one, err
		}
		if sets != 1 {
			return one, errors.New("needs two values, for false and true, in one of int32_false_true, fp32_false_true and " +
				"bool_false_true")
		}
		if one.values[i] = t; t.DType() != info.DType {
			return one, fmt.Errorf("has values of type %s, and the model's is %s", oip.Name(t.DType()), info)
		}
	}
	return one, nil
}

// state returns a state of the configuration, with its first value.
func (v *Version) state(c *oip.ModelSequenceBatching_State) (one state, err error) {
	one = state{input: c.InputName, output: c.OutputName}
	info := find(v.Inputs, c.InputName)
	one.at = slices.IndexFunc(v.Outputs, func(i weir.Info) bool { return i.Name == c.OutputName })
	switch {
	case info == nil:
		return one, errors.New("is no input of the model")
	case one.at < 0:
		return one, fmt.Errorf("becomes %q, which is no output of the model", c.OutputName)
	case info.Kind != weir.TensorKind || info.DType == weir.StringType || info.DType.Size() == 0:
		return one, fmt.Errorf("is %s, and only tensors of numbers are kept", info)
	case v.Outputs[one.at].Kind != weir.TensorKind || v.Outputs[one.at].DType != info.DType:
		return one, fmt.Errorf("is %s, and becomes %s", info, v.Outputs[one.at])
	}
	one.dt, one.inPlace = info.DType, info.State == c.OutputName
	if info.State != "" && !one.inPlace {
		return one, fmt.Errorf("becomes %q by the model's file, not %q", info.State, c.OutputName)
	}
	dims := c.Dims
	if len(c.InitialState) == 1 {
		first := c.InitialState[0]
		for i := range c.Dims {
			if len(first.Dims) != len(c.Dims) || first.Dims[i] < 0 || c.Dims[i] != -1 && first.Dims[i] != c.Dims[i] {
				return one, fmt.Errorf("has dims %v, and at the start %v", c.Dims, first.Dims)
			}
		}
		if dims = first.Dims; first.DataType != c.DataType {
			return one, fmt.Errorf("is %v, and at the start %v", c.DataType, first.DataType)
		}
	}
	if v.Sequences.batched {
		one.shape = append(one.shape, 1)
	}
	for _, d := range dims {
		if d == -1 {
			d = 1 // as Triton begins
		}
		one.shape = append(one.shape, int(d))
	}
	if info.Shape != nil && len(one.shape) != len(info.Shape) {
		return one, fmt.Errorf("has dims %v, and the model's is %s", c.Dims, info)
	}
	if one.bytes, err = (&oip.Tensor{Name: c.InputName, DType: one.dt, Shape: one.shape}).Bytes(); err != nil {
		return one, err
	}
	if file := c.InitialState; len(file) == 1 && file[0].GetDataFile() != "" {
		one.first, err = v.firstValue(file[0].GetDataFile(), one.bytes)
	} else if len(file) == 0 && info.Initial && one.bytes > 0 {
		one.first, err = v.initial(c.InputName, one.bytes)
	}
	return one, err
}

// initial returns a state's first value in the model's file.
func (v *Version) initial(input string, bytes int64) (b *ledger.Buffer, err error) {
	if err := v.account.calls.Take(noWait, ledger.Whole(bytes)); err != nil { // until it is copied
		return nil, err
	}
	defer v.account.calls.Give(ledger.Whole(bytes))
	t, err := v.Program.Initial(input)
	if err != nil {
		return nil, err
	}
	defer t.Close()
	if b, err = v.Sequences.buffers.Get(noWait, bytes); err == nil {
		copy(b.Bytes(), t.Bytes())
	}
	return b, err
}

// firstValue reads a state's first value from a file of the folder initial_state beside the model's versions, and from
// nowhere else.
func (v *Version) firstValue(name string, bytes int64) (b *ledger.Buffer, err error) {
	root, err := os.OpenRoot(filepath.Join(v.folder(), "initial_state"))
	if err != nil {
		return nil, fmt.Errorf("has the data_file %q: %w", name, err)
	}
	defer root.Close()
	info, err := root.Stat(name) // before it is opened: a pipe would not let go
	if err != nil {
		return nil, fmt.Errorf("has the data_file %q: %w", name, err)
	}
	if !info.Mode().IsRegular() || info.Size() != bytes {
		return nil, fmt.Errorf("has the data_file %q of %d bytes, and needs %d", name, info.Size(), bytes)
	}
	file, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if b, err = v.Sequences.buffers.Get(noWait, bytes); err != nil {
		return nil, err
	}
	if _, err = io.ReadFull(file, b.Bytes()); err != nil {
		b.Close()
		return nil, fmt.Errorf("has the data_file %q: %w", name, err)
	}
	return b, nil
}

// held is a state of one sequence.
type held struct {
	buffer *ledger.Buffer // nil if the state has no elements
	tensor *weir.Tensor
}

// hold returns memory for a state, whose elements are undefined.
func (s *Sequences) hold(dt weir.DType, bytes int64, shape []int) (h held, err error) {
	if bytes == 0 {
		h.tensor, err = weir.New(dt, shape...)
		return h, err
	}
	if h.buffer, err = s.buffers.Get(noWait, bytes); err != nil {
		return h, err
	}
	if err = h.over(dt, shape); err != nil {
		h.buffer.Close()
	}
	return h, err
}

// over makes the tensor in the state's memory.
func (h *held) over(dt weir.DType, shape []int) (err error) {
	h.tensor, err = weir.Foreign(dt, unsafe.Pointer(unsafe.SliceData(h.buffer.Bytes())), weir.ReadWrite, nil, shape...)
	return err
}

// begin returns the states of a new sequence.
func (s *Sequences) begin() (list []held, err error) {
	for i := range s.states {
		st := &s.states[i]
		h, err := s.hold(st.dt, st.bytes, st.shape)
		if err != nil {
			free(list)
			return nil, err
		}
		if h.buffer != nil {
			data := h.buffer.Bytes()
			if clear(data); st.first != nil {
				copy(data, st.first.Bytes())
			}
		}
		list = append(list, h)
	}
	return list, nil
}

// free releases states.
func free(list []held) {
	for _, h := range list {
		if h.tensor != nil {
			h.tensor.Close()
		}
		if h.buffer != nil {
			h.buffer.Close()
		}
	}
}
