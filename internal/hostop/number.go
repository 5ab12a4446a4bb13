package hostop

import (
	"math"
	"strconv"
	"unsafe"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/tensor"
)

func init() {
	register("text_format", textFormat)
	register("text_parse", textParse)
}

// formatted appends a number as text.
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

// textFormat writes numbers as texts.
func textFormat(c *Call) error {
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
		text := formatted(buffer[:0], x, i)
		spans.SetInt(i, tensor.Span(at, int64(len(text))))
		at += int64(copy(pool[at:], text))
	}
	return nil
}

// textParse reads numbers.
func textParse(c *Call) error {
	x := c.texts(0)
	out, err := c.Result(0, x.spans.Shape()...)
	if err != nil {
		return err
	}
	for i := range x.spans.Len() {
		text, err := x.at(i)
		if err != nil {
			return err
		}
		c.work(32 + int64(len(text))/8)
		if !parsed(out, i, unsafe.String(unsafe.SliceData(text), len(text))) {
			return diag.Inputf("text %d, %.40q, is no %s", i, text, out.DType())
		}
	}
	return nil
}

// parsed stores the number that a text says; false if it says none of the type.
func parsed(out *tensor.Tensor, i int64, text string) bool {
	dt := out.DType()
	if dt == dtype.Bool && (text == "True" || text == "False" || text == "true" || text == "false") {
		out.SetInt(i, map[byte]int64{'T': 1, 't': 1}[text[0]])
		return true
	}
	whole := integral(text) // else strconv would copy it into an error
	if dt == dtype.U64 && whole {
		if v, err := strconv.ParseUint(text, 10, 64); err == nil {
			out.SetInt(i, int64(v))
			return true
		}
	}
	if v, err := int64(0), error(nil); whole && !dt.IsFloat() {
		v, err = strconv.ParseInt(text, 10, 64)
		if err != nil {
			return parsedFloat(out, i, text)
		}
		if dt != dtype.Bool && (v < dt.MinInt() || v > 0 && uint64(v) > dt.MaxInt()) {
			return false
		}
		out.SetInt(i, v)
		return true
	}
	return parsedFloat(out, i, text)
}

// integral reports whether a text is digits, after a sign or none.
func integral(text string) bool {
	for i := range len(text) {
		if c := text[i]; (c < '0' || c > '9') && (i > 0 || c != '+' && c != '-') {
			return false
		}
	}
	return text != ""
}

// parsedFloat is parsed for what is no integer, or too large for one of 64 bits.
func parsedFloat(out *tensor.Tensor, i int64, text string) bool {
	dt := out.DType()
	v, err := strconv.ParseFloat(text, 64)
	if err != nil && !math.IsInf(v, 0) { // what is too large for any float is infinite
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
