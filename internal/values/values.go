// Package values reads tensors as named on a command line (files, literals, zeros, random numbers) and
// writes results to files.
package values

import (
	"bytes"
	"encoding/json"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/safetensors"
	"github.com/weirml/weir/internal/tensor"
	"github.com/weirml/weir/internal/tensor/npy"
)

// Reader reads values for a model's inputs.
type Reader struct {
	Dims  weir.Dims // bound dimensions; reading a value adds the dimensions of its shape
	Seed  uint64    // of random values
	Stdin io.Reader
	// Range, if not nil, returns the legal range of an integer input's elements; ok is false if none is known.
	Range func(input string) (lo, hi int64, ok bool)
}

// Tensor reads a VALUE as a tensor for an input.
func (r *Reader) Tensor(value string, info weir.Info) (*weir.Tensor, error) {
	t, err := r.read(value, info)
	if err != nil {
		if e := diag.As(err, diag.ErrInput); e != nil {
			return nil, e.AtTensor(info.Name)
		}
		return nil, err
	}
	if err := r.learn(t.Shape(), info); err != nil {
		return nil, err
	}
	return ToWeir(t)
}

// Arg reads a VALUE as an argument for an input of any kind. A .pb file has the declared type; a JSON literal of a
// sequence is a list of its tensors, and null is an absent optional; zeros and random make a sequence of one tensor.
func (r *Reader) Arg(value string, info weir.Info) (weir.Arg, error) {
	if info.Kind == weir.TensorKind {
		t, err := r.Tensor(value, info)
		if err == nil && info.State != "" {
			return weir.Update(t), nil
		}
		return t, err
	}
	v, err := r.value(value, info)
	if err == nil {
		for _, t := range v.Tensors {
			if t.DType() != info.DType {
				err = diag.Inputf("the value is %s, the input is %s", t.DType(), info)
			}
		}
	}
	if err != nil {
		if e := diag.As(err, diag.ErrInput); e != nil {
			return nil, e.AtTensor(info.Name)
		}
		return nil, err
	}
	if len(v.Tensors) == 1 && !v.Sequence {
		if err := r.learn(v.Tensors[0].Shape(), info); err != nil {
			return nil, err
		}
	}
	a, _, err := ToArg(v)
	return a, err
}

// value reads a sequence or an optional.
func (r *Reader) value(value string, info weir.Info) (Value, error) {
	v := Value{Name: info.Name, Sequence: sequence(info.Kind), Optional: optional(info.Kind)}
	text := strings.TrimSpace(value)
	if strings.ToLower(filepath.Ext(value)) == ".json" {
		data, err := mem.ReadFile(value)
		if err != nil {
			return v, err
		}
		text = strings.TrimSpace(string(data))
	}
	one := info
	one.Kind = weir.TensorKind
	switch {
	case strings.ToLower(filepath.Ext(value)) == ".pb":
		data, err := mem.ReadFile(value)
		if err != nil {
			return v, err
		}
		return Parse(data, info)
	case text == "null" && v.Optional:
		v.Absent = true
		return v, nil
	case v.Sequence && literal(text):
		var list []json.RawMessage
		if err := json.Unmarshal([]byte(text), &list); err != nil {
			return v, diag.Inputf("%s is not a list of tensors: %v", text, err)
		}
		for _, item := range list {
			t, err := r.literal(string(item), one)
			if err != nil {
				return v, err
			}
			v.Tensors = append(v.Tensors, t)
		}
		return v, nil
	}
	if v.Sequence { // an extent that differs between the tensors is not a dimension
		one.Shape = slices.Clone(one.Shape)
		for i, e := range one.Shape {
			if e.Dim != "" {
				one.Shape[i] = weir.Extent{Size: 1}
			}
		}
	}
	t, err := r.read(text, one)
	v.Tensors = append(v.Tensors, t)
	return v, err
}

// learn binds the dimensions of a value's shape. It returns an error if a dimension has another value already.
func (r *Reader) learn(shape []int64, info weir.Info) error {
	for axis, e := range info.Shape {
		if e.Dim == "" || axis >= len(shape) || !identifier(e.Dim) {
			continue
		}
		if v, bound := r.Dims[e.Dim]; bound && v != shape[axis] {
			return diag.Inputf("axis %d of the value is %d, and %s is %d", axis, shape[axis], e.Dim, v).AtTensor(info.Name).
				AtDim(e.Dim)
		}
		r.Dims[e.Dim] = shape[axis]
	}
	return nil
}

// identifier reports whether an extent is a name and not an expression.
func identifier(s string) bool { return !strings.ContainsAny(s, "+-*/%(), ") }

// read reads a VALUE as a host tensor.
func (r *Reader) read(value string, info weir.Info) (*tensor.Tensor, error) {
	switch {
	case value == "zeros":
		shape, err := r.shape(info)
		if err != nil {
			return nil, err
		}
		return tensor.New(info.DType, shape...)
	case value == "random" || strings.HasPrefix(value, "random:"):
		return r.random(strings.TrimPrefix(strings.TrimPrefix(value, "random"), ":"), info)
	case value == "-":
		t, err := npy.Read(r.Stdin)
		if err != nil {
			return nil, diag.Inputf("standard input, for -, is no .npy file: %w", err)
		}
		return converted(t, info, nil)
	case literal(value):
		return r.literal(value, info)
	}
	path, query, _ := strings.Cut(value, "?")
	return r.file(path, query, info)
}

// literal reports whether a value is JSON rather than a file's name.
func literal(value string) bool {
	if value == "" {
		return false
	}
	if c := value[0]; c == '[' || c == '"' {
		return true
	}
	return json.Valid([]byte(value))
}

// shape returns an input's shape with the dimensions bound so far; free ones are 1.
func (r *Reader) shape(info weir.Info) ([]int64, error) {
	shape := make([]int64, len(info.Shape))
	for i, e := range info.Shape {
		shape[i] = e.Size
		if e.Dim != "" {
			if !identifier(e.Dim) {
				return nil, diag.Inputf("axis %d is %s: give a value of the right shape", i, e.Dim)
			}
			v, bound := r.Dims[e.Dim]
			if !bound {
				v = 1
			}
			shape[i] = v
		}
	}
	return shape, nil
}

// random makes a tensor of random numbers, within limits "LO..HI" if given.
func (r *Reader) random(limits string, info weir.Info) (*tensor.Tensor, error) {
	shape, err := r.shape(info)
	if err != nil {
		return nil, err
	}
	t, err := tensor.New(info.DType, shape...)
	if err != nil {
		return nil, err
	}
	lo, hi := 0.0, 1.0
	if r.Range != nil && info.DType.IsInt() {
		if a, b, ok := r.Range(info.Name); ok {
			lo, hi = float64(a), float64(b)
		}
	}
	if limits != "" {
		a, b, ok := strings.Cut(limits, "..")
		x, err1 := strconv.ParseFloat(a, 64)
		y, err2 := strconv.ParseFloat(b, 64)
		if !ok || err1 != nil || err2 != nil || x > y {
			return nil, diag.Inputf("random:%s is not a range", limits).WithFix("write random:LO..HI")
		}
		lo, hi = x, y
	}
	g := rand.New(rand.NewPCG(r.Seed, 0x9e3779b97f4a7c15))
	for i := int64(0); i < t.Len(); i++ {
		switch {
		case info.DType == dtype.String:
			word := make([]byte, 1+g.IntN(8))
			for k := range word {
				word[k] = 'a' + byte(g.IntN(26))
			}
			t.Strings()[i] = string(word)
		case info.DType == dtype.Bool:
			t.SetInt(i, int64(g.IntN(2)))
		case info.DType.IsInt():
			t.SetInt(i, int64(lo)+g.Int64N(int64(hi)-int64(lo)+1))
		default:
			t.SetFloat(i, lo+(hi-lo)*g.Float64())
		}
	}
	return t, nil
}

// shown returns a value's first line, or the beginning of it, for errors.
func shown(value string) string {
	line, _, more := strings.Cut(strings.TrimSpace(value), "\n")
	if runes := []rune(line); len(runes) > 60 {
		line, more = string(runes[:60]), true
	}
	if more {
		line += "…"
	}
	return line
}

// literal parses a JSON literal.
func (r *Reader) literal(value string, info weir.Info) (*tensor.Tensor, error) {
	d := json.NewDecoder(strings.NewReader(value))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, diag.Inputf("%s is not JSON: %v", shown(value), err)
	}
	var shape []int64
	for at := v; ; {
		list, ok := at.([]any)
		if !ok {
			break
		}
		shape = append(shape, int64(len(list)))
		if len(list) == 0 {
			break
		}
		at = list[0]
	}
	if err := even(v, shape); err != nil {
		return nil, err
	}
	t, err := tensor.New(info.DType, shape...)
	if err != nil {
		return nil, err
	}
	flat := int64(0)
	if err := fill(t, v, shape, &flat); err != nil {
		return nil, err
	}
	return t, nil
}

// even returns an error unless nested lists have a shape, before anything is allocated. fill checks the numbers.
func even(v any, shape []int64) error {
	if len(shape) == 0 {
		return nil
	}
	list, ok := v.([]any)
	if !ok || int64(len(list)) != shape[0] {
		return diag.Inputf("the lists are not all of the same length")
	}
	for _, x := range list {
		if err := even(x, shape[1:]); err != nil {
			return err
		}
	}
	return nil
}

// fill writes the elements of nested lists that have a shape.
func fill(t *tensor.Tensor, v any, shape []int64, flat *int64) error {
	if len(shape) > 0 {
		for _, x := range v.([]any) {
			if err := fill(t, x, shape[1:], flat); err != nil {
				return err
			}
		}
		return nil
	}
	switch x := v.(type) {
	case json.Number:
		if n, err := x.Int64(); err == nil && (t.DType().IsInt() || t.DType() == dtype.Bool) {
			t.SetInt(*flat, n)
		} else if f, err := x.Float64(); err == nil && t.DType().IsFloat() {
			t.SetFloat(*flat, f)
		} else {
			return diag.Inputf("%s is not a value of %s", x, t.DType())
		}
	case bool:
		if x {
			t.SetInt(*flat, 1)
		}
	case string:
		if t.DType() != dtype.String {
			return diag.Inputf("%q is not a value of %s", x, t.DType())
		}
		t.Strings()[*flat] = x
	default:
		return diag.Inputf("a literal holds numbers, booleans and strings in lists, not %T", v)
	}
	*flat++
	return nil
}

// open opens a regular file; anything else is refused before it is opened.
func open(path string) (f *os.File, size int64, err error) {
	if _, err := os.Stat(path); err != nil {
		return nil, 0, diag.Inputf("%v", err).WithCause(err).
			WithFix("a value is a .npy, .npz, .pb, .safetensors, .json, .png, .jpg, .bin or .txt file, -, JSON, zeros, or " +
				"random")
	}
	if f, err = mem.Open(path); err != nil {
		return nil, 0, err
	}
	stat, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, 0, diag.Inputf("%v", err).WithCause(err)
	}
	return f, stat.Size(), nil
}

// file reads a value from a file, by its extension. query has the settings of a picture.
func (r *Reader) file(path, query string, info weir.Info) (*tensor.Tensor, error) {
	ext := strings.ToLower(filepath.Ext(path))
	if read := images[ext]; read {
		return r.image(path, query, info)
	}
	f, size, err := open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	switch ext {
	case ".npy":
		t, err := npy.ReadAt(f, size)
		return converted(t, info, err)
	case ".npz":
		a, err := npy.Open(f, size)
		if err != nil {
			return nil, err
		}
		name := info.Name
		if all := a.Names(); len(all) == 1 {
			name = all[0]
		}
		t, err := a.Read(name)
		return converted(t, info, err)
	}
	data, err := io.ReadAll(f)
	if err != nil {
		return nil, diag.Inputf("%v", err)
	}
	switch ext {
	case ".pb":
		p, err := wire.ParseTensor(data)
		if err != nil {
			return nil, err
		}
		t, _, err := p.Tensor()
		return converted(t, info, err)
	case ".json":
		t, err := r.literal(string(data), info)
		if err != nil {
			return nil, diag.Inputf("%s: %w", path, err)
		}
		return t, nil
	case ".safetensors":
		return safetensor(data, info)
	case ".bin", ".txt":
		return r.raw(data, info)
	}
	return nil, diag.Inputf("%s has no extension that names its format", path).
		WithFix("use .npy, .npz, .pb, .safetensors, .json, .png, .jpg, .bin or .txt")
}

// raw takes bytes as the elements, in order; one free axis has the extent that fits.
func (r *Reader) raw(data []byte, info weir.Info) (*tensor.Tensor, error) {
	width := int64(info.DType.Bits() / 8)
	if width == 0 {
		return nil, diag.Inputf("raw bytes cannot be read as %s", info.DType)
	}
	shape, free, count := make([]int64, len(info.Shape)), -1, int64(1)
	for i, e := range info.Shape {
		if shape[i] = e.Size; e.Dim != "" {
			v, bound := r.Dims[e.Dim]
			if !bound && free < 0 {
				free = i
				continue
			}
			shape[i] = max(v, 1)
		}
		count *= shape[i]
	}
	if free >= 0 && count > 0 {
		shape[free] = int64(len(data)) / width / count
	}
	return tensor.Over(info.DType, shape, data)
}

// safetensor reads from a safetensors file the tensor with the input's name, or the only one.
func safetensor(data []byte, info weir.Info) (*tensor.Tensor, error) {
	r := bytes.NewReader(data)
	list, _, err := safetensors.ReadTable(r)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(list, func(e safetensors.Entry) bool { return e.Name == info.Name })
	if i < 0 && len(list) == 1 {
		i = 0
	}
	if i < 0 {
		return nil, diag.Inputf("the file holds no tensor of that name")
	}
	e, body := list[i], data[len(data)-r.Len():]
	if e.End > int64(len(body)) {
		return nil, diag.Inputf("the file ends before the elements of %s do", e.Name)
	}
	t, err := tensor.Over(e.DType, e.Shape, bytes.Clone(body[e.Begin:e.End]))
	return converted(t, info, err)
}

// converted returns t if it has the input's element type, else an error.
func converted(t *tensor.Tensor, info weir.Info, err error) (*tensor.Tensor, error) {
	if err != nil {
		return nil, err
	}
	if t.DType() != info.DType {
		return nil, diag.Inputf("the value is %s, the input is %s", t.DType(), info)
	}
	return t, nil
}

// ToWeir copies a host array into a weir.Tensor.
func ToWeir(t *tensor.Tensor) (*weir.Tensor, error) {
	if t.DType() == dtype.String {
		return weir.FromSlice(t.Strings(), ints(t.Shape())...)
	}
	w, err := weir.New(t.DType(), ints(t.Shape())...)
	if err != nil {
		return nil, err
	}
	copy(w.Bytes(), t.Bytes())
	return w, nil
}

// FromWeir returns a host array in the memory of a weir.Tensor, which must stay open.
func FromWeir(w *weir.Tensor) (*tensor.Tensor, error) {
	shape := make([]int64, len(w.Shape()))
	for i, s := range w.Shape() {
		shape[i] = int64(s)
	}
	if w.DType() == dtype.String {
		s, err := weir.View[string](w)
		if err != nil {
			return nil, err
		}
		return tensor.OverStrings(shape, s)
	}
	return tensor.Over(w.DType(), shape, w.Bytes())
}

// ints converts a shape to int.
func ints(shape []int64) []int {
	out := make([]int, len(shape))
	for i, s := range shape {
		out[i] = int(s)
	}
	return out
}

// Match splits an argument [NAME=]VALUE: NAME is the longest input name that the argument begins with, before a =.
// Without a name, the input is next. An argument that names no input of the model, and is not a file, is an error.
func Match(arg string, inputs []weir.Info, next int) (input int, value string, err error) {
	best := -1
	for i, info := range inputs {
		if strings.HasPrefix(arg, info.Name+"=") && (best < 0 || len(info.Name) > len(inputs[best].Name)) {
			best = i
		}
	}
	if best >= 0 {
		return best, arg[len(inputs[best].Name)+1:], nil
	}
	if name, _, named := strings.Cut(arg, "="); named && isName.MatchString(name) {
		if _, err := os.Stat(arg); err != nil {
			return 0, "", diag.Inputf("there is no input %q", name).WithFix("the inputs are %s", listed(inputs))
		}
	}
	if next >= len(inputs) {
		return 0, "", diag.Inputf("%q names no input, and all have values", arg).WithFix("the inputs are %s", listed(inputs))
	}
	return next, arg, nil
}

// isName matches strings that look like an input's name.
var isName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.:/-]*$`)

// listed joins inputs with commas, for errors.
func listed(inputs []weir.Info) string {
	list := make([]string, len(inputs))
	for i, info := range inputs {
		list[i] = info.String()
	}
	return strings.Join(list, ", ")
}

// Row reads a VALUE as rows of an input, whose first axis has the rows: an array of only the other axes is one row. An
// input without such an axis takes an array of one row, too.
func (r *Reader) Row(value string, info weir.Info) (*weir.Tensor, error) {
	t, err := r.read(value, info)
	if err == nil {
		return r.RowOf(t, info)
	}
	return nil, diag.As(err, diag.ErrInput).AtTensor(info.Name)
}

// RowFile is Row for a file of any name, and the settings of a picture.
func (r *Reader) RowFile(path, query string, info weir.Info) (*weir.Tensor, error) {
	t, err := r.file(path, query, info)
	if err != nil {
		return nil, diag.As(err, diag.ErrInput).AtTensor(info.Name)
	}
	return r.RowOf(t, info)
}

// RowOf is Row for an array.
func (r *Reader) RowOf(t *tensor.Tensor, info weir.Info) (*weir.Tensor, error) {
	t, err := converted(t, info, nil)
	if err != nil {
		return nil, diag.As(err, diag.ErrInput).AtTensor(info.Name)
	}
	shape := t.Shape()
	switch n := len(info.Shape); {
	case len(shape) == n-1:
		shape = append([]int64{1}, shape...)
	case len(shape) == n+1 && shape[0] == 1:
		shape = shape[1:]
	}
	if t, err = t.Reshape(shape...); err != nil {
		return nil, err
	}
	if err := r.learn(shape, info); err != nil {
		return nil, err
	}
	return ToWeir(t)
}
