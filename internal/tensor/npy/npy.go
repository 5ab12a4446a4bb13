// Package npy reads and writes NumPy's array files (.npy, format versions 1 to 3) and reads its archives of them
// (.npz).
//
// The format is NEP 1's: a magic string, a version, a header that is a Python dictionary literal with the keys descr,
// fortran_order and shape, and the elements. Both byte orders and both memory orders are read. Written files are
// row-major and in the machine's byte order, byte for byte as NumPy writes them. NumPy's fixed-width strings are String
// tensors.
//
// Files are not trusted: at most a small multiple of a file's actual bytes is taken as memory (see mem.Claim).
package npy

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"
	"unsafe"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/tensor"
)

const (
	magic = "\x93NUMPY"
	// maxHeader is the longest header read; NumPy itself reads 10,000 bytes unless told to trust the file.
	maxHeader = 1 << 16
	// alignment is the multiple of bytes to which NumPy pads a header.
	alignment = 64
	// maxEmpty is the most elements of no bytes, such as strings of width 0, that an array may have.
	maxEmpty = 1 << 16
)

// kinds maps a descr without its byte order to an element type.
var kinds = map[string]dtype.DType{
	"b1": dtype.Bool, "?": dtype.Bool,
	"u1": dtype.U8, "u2": dtype.U16, "u4": dtype.U32, "u8": dtype.U64,
	"i1": dtype.I8, "i2": dtype.I16, "i4": dtype.I32, "i8": dtype.I64,
	"f2": dtype.F16, "f4": dtype.F32, "f8": dtype.F64,
	"c8": dtype.C64, "c16": dtype.C128,
}

// names is the inverse of kinds.
var names = func() map[dtype.DType]string {
	m := map[dtype.DType]string{}
	for name, dt := range kinds {
		if name != "?" {
			m[dt] = name
		}
	}
	return m
}()

// Supports reports whether NumPy has the element type, so that Write can write it.
func Supports(dt dtype.DType) bool { return names[dt] != "" || dt == dtype.String }

// bigMachine reports whether this machine is big-endian.
var bigMachine = binary.NativeEndian.Uint16([]byte{0, 1}) == 1

// header has the content of a file's header.
type header struct {
	dt      dtype.DType
	wide    bool  // of String: elements are UTF-32, not bytes
	size    int64 // of an element, in bytes
	swap    bool  // the bytes of a number are in the other order than this machine's
	fortran bool  // column-major: the first index runs fastest
	shape   []int64
	count   int64 // elements
	bytes   int64 // of all elements in the file
}

// Read reads an array and no byte after it. It takes memory as the data comes, so that a header that promises too much
// costs nothing. A faulty file is ErrInput; an element type that Weir lacks is ErrUnsupported.
func Read(r io.Reader) (*tensor.Tensor, error) { return read(r, -1, nil) }

// ReadAt reads the array at the beginning of r, which has size bytes. It checks that the data is there before it takes
// memory.
func ReadAt(r io.ReaderAt, size int64) (*tensor.Tensor, error) {
	return read(io.NewSectionReader(r, 0, size), size, func(int64) error { return nil })
}

// read reads an array from r, which has size bytes; −1 if that is unknown. If it is known, take is asked for the
// array's memory and its caller's copy, and the ledger counts it, before it is taken.
func read(r io.Reader, size int64, take func(bytes int64) error) (*tensor.Tensor, error) {
	h, length, err := readHeader(r)
	if err != nil {
		return nil, err
	}
	if size >= 0 && h.bytes > size-length {
		return nil, short(size-length, h)
	}
	if size >= 0 {
		if err := take(2 * h.memory()); err != nil {
			return nil, err
		}
		held, err := mem.Reserve(mem.Tensors, "array", h.memory())
		if err != nil {
			return nil, err
		}
		defer held.Close()
	}
	return readArray(r, h, size >= 0)
}

// memory returns the bytes that the array takes: strings have headers.
func (h *header) memory() int64 {
	if h.dt == dtype.String {
		return h.bytes + h.count*int64(unsafe.Sizeof(""))
	}
	return h.bytes
}

func short(got int64, h *header) error {
	return diag.Inputf("the file has %d of the %d bytes of data that its header asks for", max(got, 0), h.bytes)
}

// readData reads the array's bytes, aligned for every element type. Unless it was checked that they exist, it takes
// memory in steps that double.
func readData(r io.Reader, h *header, checked bool) ([]byte, error) {
	step := int64(1 << 20)
	if checked {
		step = h.bytes
	}
	var data []byte
	for done := int64(0); ; {
		grown, err := tensor.New(dtype.U8, min(h.bytes, max(step, 2*done)))
		if err != nil {
			return nil, err
		}
		copy(grown.Bytes(), data)
		data = grown.Bytes()
		n, err := io.ReadFull(r, data[done:])
		done += int64(n)
		switch {
		case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
			return nil, short(done, h)
		case err != nil:
			return nil, diag.Inputf("reading the data of an array: %w", err)
		case done == h.bytes:
			return data, nil
		}
	}
}

// readHeader reads everything before the data and returns its length in bytes.
func readHeader(r io.Reader) (*header, int64, error) {
	var start [12]byte
	if err := readHeaderBytes(r, start[:8]); err != nil {
		return nil, 0, err
	}
	if string(start[:6]) != magic {
		return nil, 0, diag.Inputf("not a .npy file: it begins with %q, not %q", start[:6], magic)
	}
	major, minor := start[6], start[7]
	if major < 1 || major > 3 || minor != 0 {
		return nil, 0, diag.Unsupportedf(".npy format version %d.%d: 1.0, 2.0 and 3.0 are read", major, minor)
	}
	prefix := start[:12]
	if major == 1 {
		prefix = start[:10]
	}
	if err := readHeaderBytes(r, prefix[8:]); err != nil {
		return nil, 0, err
	}
	length := int64(binary.LittleEndian.Uint16(prefix[8:]))
	if major > 1 {
		length = int64(binary.LittleEndian.Uint32(prefix[8:]))
	}
	if length > maxHeader {
		return nil, 0, diag.Inputf("a .npy header of %d bytes is more than %d", length, maxHeader)
	}
	dictionary := make([]byte, length)
	if err := readHeaderBytes(r, dictionary); err != nil {
		return nil, 0, err
	}
	h, err := parseHeader(string(dictionary))
	return h, int64(len(prefix)) + length, err
}

// readHeaderBytes fills p; a file that ends too early is an ErrInput.
func readHeaderBytes(r io.Reader, p []byte) error {
	_, err := io.ReadFull(r, p)
	switch {
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return diag.Inputf("the file ends inside the .npy header")
	case err != nil:
		return diag.Inputf("reading a .npy header: %w", err)
	}
	return nil
}

// fixBytes converts the bytes of numbers to this machine's order, and every true bool to 1.
func (h *header) fixBytes(data []byte) {
	if h.dt == dtype.Bool {
		for i, b := range data {
			if b > 1 {
				data[i] = 1
			}
		}
	}
	if h.swap {
		width := h.dt.Size()
		if h.dt.IsComplex() {
			width /= 2
		}
		reverse(data, width)
	}
}

// reverse reverses the bytes of every word of the given width.
func reverse(data []byte, width int) {
	for ; len(data) >= width; data = data[width:] {
		for i, j := 0, width-1; i < j; i, j = i+1, j-1 {
			data[i], data[j] = data[j], data[i]
		}
	}
}

// decodeStrings returns the strings in data, each of a fixed size, without trailing NULs.
func (h *header) decodeStrings(data []byte) ([]string, error) {
	if h.swap {
		reverse(data, 4)
	}
	list := make([]string, h.count)
	var utf []byte
	for i := range list {
		element := data[int64(i)*h.size : int64(i+1)*h.size]
		if !h.wide {
			list[i] = string(bytes.TrimRight(element, "\x00"))
			continue
		}
		utf = utf[:0]
		for ; len(element) > 0; element = element[4:] {
			r := binary.NativeEndian.Uint32(element)
			if r > utf8.MaxRune || !utf8.ValidRune(rune(r)) {
				return nil, diag.Inputf("string %d of the array holds %#x, which is no Unicode character", i, r)
			}
			utf = utf8.AppendRune(utf, rune(r))
		}
		list[i] = string(bytes.TrimRight(utf, "\x00"))
	}
	return list, nil
}

// transposeBytes is transpose for numbers of any size.
func transposeBytes(data []byte, h *header) []byte {
	switch h.size {
	case 2:
		return transposeWords[uint16](data, h.shape)
	case 4:
		return transposeWords[uint32](data, h.shape)
	case 8:
		return transposeWords[uint64](data, h.shape)
	case 16:
		return transposeWords[[2]uint64](data, h.shape)
	}
	return transpose(data, h.shape)
}

// transposeWords is transpose for bytes that are aligned words.
func transposeWords[T any](data []byte, shape []int64) []byte {
	if len(data) == 0 {
		return data
	}
	var word T
	size := int(unsafe.Sizeof(word))
	words := transpose(unsafe.Slice((*T)(unsafe.Pointer(&data[0])), len(data)/size), shape)
	return unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), len(data))
}

// transpose returns column-major elements in row-major order.
func transpose[T any](in []T, shape []int64) []T {
	if len(shape) < 2 || len(in) == 0 {
		return in
	}
	out := make([]T, len(in))
	strides := make([]int64, len(shape)) // the strides of in
	step := int64(1)
	for axis, d := range shape {
		strides[axis] = step
		step *= d
	}
	last := len(shape) - 1
	to := 0
	tensor.Each(shape[:last], func(idx []int64) {
		from := tensor.Offset(strides, idx)
		for range shape[last] {
			out[to] = in[from]
			to++
			from += strides[last]
		}
	})
	return out
}

// Write writes t as a .npy file of version 1, row-major, in the machine's byte order. An element type that NumPy lacks
// is ErrUnsupported, see Supports; so are strings that end in a NUL, which the format cannot hold. Strings are written
// as UTF-32, or as bytes if one of them is not UTF-8.
func Write(w io.Writer, t *tensor.Tensor) error {
	if t.DType() == dtype.String {
		return writeStrings(w, t)
	}
	name := names[t.DType()]
	if name == "" {
		return diag.Unsupportedf("NumPy has no element type %v", t.DType())
	}
	if err := writeHeader(w, order(t.DType().Size())+name, t.Shape()); err != nil {
		return err
	}
	_, err := w.Write(t.Bytes())
	return err
}

// order returns the descr's mark for this machine's byte order; single bytes have none.
func order(size int) string {
	switch {
	case size == 1:
		return "|"
	case bigMachine:
		return ">"
	}
	return "<"
}

// writeHeader writes the magic string, the version and the padded dictionary.
func writeHeader(w io.Writer, descr string, shape []int64) error {
	var dims strings.Builder
	for _, d := range shape {
		fmt.Fprintf(&dims, "%d, ", d)
	}
	tuple := strings.TrimSuffix(dims.String(), ", ")
	if len(shape) == 1 {
		tuple += ","
	}
	dictionary := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", descr, tuple)
	if len(shape) > 0 { // NumPy leaves room for the first dimension to grow to 21 digits
		dictionary += strings.Repeat(" ", 21-len(strconv.FormatInt(shape[0], 10)))
	}
	const fixed = 10 // magic, version, length
	padded := (fixed + len(dictionary) + 1 + alignment - 1) / alignment * alignment
	dictionary += strings.Repeat(" ", padded-fixed-len(dictionary)-1) + "\n"
	head := append([]byte(magic), 1, 0)
	head = binary.LittleEndian.AppendUint16(head, uint16(len(dictionary)))
	_, err := w.Write(append(head, dictionary...))
	return err
}

// writeStrings writes strings, padded to the longest.
func writeStrings(w io.Writer, t *tensor.Tensor) error {
	list := t.Strings()
	wide := true
	longest, bytewise := 1, 1
	for i, s := range list {
		if strings.HasSuffix(s, "\x00") {
			return diag.Unsupportedf("string %d ends in a NUL, which a .npy file cannot hold", i)
		}
		wide = wide && utf8.ValidString(s)
		longest = max(longest, utf8.RuneCountInString(s))
		bytewise = max(bytewise, len(s))
	}
	descr, size := fmt.Sprintf("|S%d", bytewise), bytewise
	if wide {
		descr, size = fmt.Sprintf("%sU%d", order(4), longest), 4*longest
	}
	if int64(size) > tensor.MaxBytes()/max(t.Len(), 1) {
		return diag.Unsupportedf("%d strings would take %d bytes each, as a .npy file gives every one the longest's width",
			t.Len(), size)
	}
	if err := writeHeader(w, descr, t.Shape()); err != nil {
		return err
	}
	element := make([]byte, 0, size)
	for _, s := range list {
		element = element[:0]
		if wide {
			for _, r := range s {
				element = binary.NativeEndian.AppendUint32(element, uint32(r))
			}
		} else {
			element = append(element, s...)
		}
		element = append(element, make([]byte, size-len(element))...)
		if _, err := w.Write(element); err != nil {
			return err
		}
	}
	return nil
}
