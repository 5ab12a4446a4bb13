package hostop

import (
	"math"
	"strconv"
	"unsafe"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/tensor"
)

// init defines the conversions between numbers and strings.
func init() {
	register("text_format", stringsFormat)
	register("text_parse", stringsParse)
}

// formatted appends element i of x in decimal notation, as ONNX's Cast prints it.
func formatted(to []byte, x *tensor.Tensor, i int64) []byte {
	dt := x.DType()
	switch {
	case dt == dtype.Bool && x.Int(i) != 0:
		return append(to, "True"...)
	case dt == dtype.Bool:
		return append(to, "False"...)
	case dt == dtype.U64:
		return strconv.AppendUint(to, uint64(x.Int(i)), 10)
	case dt.IsInt():
		return strconv.AppendInt(to, x.Int(i), 10)
	}
	switch v := x.Float(i); {
	case math.IsNaN(v):
		return append(to, "NaN"...)
	case math.IsInf(v, 1):
		return append(to, "INF"...)
	case math.IsInf(v, -1):
		return append(to, "-INF"...)
	default:
		return strconv.AppendFloat(to, v, 'g', -1, max(32, min(dt.Bits(), 64)))
	}
}

// stringsFormat converts numbers to strings.
func stringsFormat(c *Call) error {
	x := c.In[0]
	var buffer [32]byte
	total := int64(0)
	for i := range x.Len() {
		c.work(32)
		total += int64(len(formatted(buffer[:0], x, i)))
	}
	spans, err := c.Result(0, x.Shape()...)
	if err != nil {
		return err
	}
	pool, err := c.written(1, total)
	if err != nil {
		return err
	}
	at := int64(0)
	for i := range x.Len() {
		c.work(32)
		s := formatted(buffer[:0], x, i)
		spans.SetInt(i, tensor.Span(at, int64(len(s))))
		at += int64(copy(pool[at:], s))
	}
	return nil
}

// stringsParse converts strings to numbers, or returns ErrInput for a string that is not a number of the type.
func stringsParse(c *Call) error {
	x := c.stringsAt(0)
	out, err := c.Result(0, x.spans.Shape()...)
	if err != nil {
		return err
	}
	for i := range x.spans.Len() {
		s, err := x.at(i)
		if err != nil {
			return err
		}
		c.work(32 + int64(len(s))/8)
		if !parsed(out, i, unsafe.String(unsafe.SliceData(s), len(s))) {
			return diag.Inputf("string %d, %.40q, is not a number of type %s", i, s, out.DType())
		}
	}
	return nil
}

// parsed stores the number that s denotes as element i; it returns false if s is not a number of out's type.
func parsed(out *tensor.Tensor, i int64, s string) bool {
	dt := out.DType()
	if dt == dtype.Bool && (s == "True" || s == "False" || s == "true" || s == "false") {
		out.SetInt(i, map[byte]int64{'T': 1, 't': 1}[s[0]])
		return true
	}
	integer := integral(s) // checked because strconv copies a string that is not an integer into its error
	if dt == dtype.U64 && integer {
		if v, err := strconv.ParseUint(s, 10, 64); err == nil {
			out.SetInt(i, int64(v))
			return true
		}
	}
	if v, err := int64(0), error(nil); integer && !dt.IsFloat() {
		v, err = strconv.ParseInt(s, 10, 64)
		if err != nil {
			return parsedFloat(out, i, s)
		}
		if dt != dtype.Bool && (v < dt.MinInt() || v > 0 && uint64(v) > dt.MaxInt()) {
			return false
		}
		out.SetInt(i, v)
		return true
	}
	return parsedFloat(out, i, s)
}

// integral reports whether s is digits with at most one sign before them.
func integral(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (i > 0 || c != '+' && c != '-') {
			return false
		}
	}
	return s != ""
}

// parsedFloat is parsed for a number that is not an integer of 64 bits.
func parsedFloat(out *tensor.Tensor, i int64, s string) bool {
	dt := out.DType()
	v, err := strconv.ParseFloat(s, 64)
	if err != nil && !math.IsInf(v, 0) { // a number too large for any float becomes infinite
		return false
	}
	if dt.IsFloat() {
		out.SetFloat(i, v)
		return true
	}
	v = math.Trunc(v)
	if dt == dtype.Bool {
		out.SetFloat(i, v)
		return !math.IsNaN(v)
	}
	if !(v >= float64(dt.MinInt()) && v < float64(dt.MaxInt())+1) {
		return false
	}
	if v < 0 {
		out.SetInt(i, int64(v))
	} else {
		out.SetInt(i, int64(uint64(v)))
	}
	return true
}
