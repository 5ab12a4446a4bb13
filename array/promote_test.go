package array_test

import (
	"strings"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/array"
)

// promotions is the array API's table: the common type of the row's and the column's; "" is none. The standard does not
// define a float with an integer; here their type is the float.
var promotions = map[string]string{
	"i8":  "i8 i16 i32 i64 i16 i32 i64 none f16 f32 f64",
	"i16": "i16 i16 i32 i64 i16 i32 i64 none f16 f32 f64",
	"i32": "i32 i32 i32 i64 i32 i32 i64 none f16 f32 f64",
	"i64": "i64 i64 i64 i64 i64 i64 i64 none f16 f32 f64",
	"u8":  "i16 i16 i32 i64 u8 u16 u32 u64 f16 f32 f64",
	"u16": "i32 i32 i32 i64 u16 u16 u32 u64 f16 f32 f64",
	"u32": "i64 i64 i64 i64 u32 u32 u32 u64 f16 f32 f64",
	"u64": "none none none none u64 u64 u64 u64 f16 f32 f64",
	"f16": "f16 f16 f16 f16 f16 f16 f16 f16 f16 f32 f64",
	"f32": "f32 f32 f32 f32 f32 f32 f32 f32 f32 f32 f64",
	"f64": "f64 f64 f64 f64 f64 f64 f64 f64 f64 f64 f64",
}

var promoted = []weir.DType{weir.I8, weir.I16, weir.I32, weir.I64, weir.U8, weir.U16, weir.U32, weir.U64, weir.F16,
	weir.F32, weir.F64}

// TestPromotions: every pair of types, eager and compiled, has the common type of the array API's table, and a number
// takes the type of the array.
func TestPromotions(t *testing.T) {
	array.AssertNoLeaks(t)
	for _, x := range promoted {
		row := strings.Fields(promotions[x.String()])
		for k, y := range promoted {
			sum := func(s *array.Scope) *array.Array { return s.Add(s.Ones(x, 2), s.Ones(y, 2)) }
			if got := typeOf(sum); got != row[k] {
				t.Errorf("%v and %v are combined as %s, the standard has %s", x, y, got, row[k])
			}
			c, err := array.Jit(func(s *array.Scope, in ...*array.Array) []*array.Array {
				return []*array.Array{s.Add(in[0], in[1])}
			},
				array.Options{Name: "sum", Inputs: []array.Spec{array.SpecOf("x", x, 2), array.SpecOf("y", y, 2)}})
			if (err != nil) != (row[k] == "none") {
				t.Errorf("%v and %v, compiled: %v", x, y, err)
			} else if err == nil {
				if got := c.Program().Outputs()[0].DType.String(); got != row[k] {
					t.Errorf("%v and %v are combined as %s if compiled, the standard has %s", x, y, got, row[k])
				}
				fine(t, c.Close())
			}
		}
		for number, want := range map[float64]string{3: x.String(),
			0.5: map[bool]string{true: x.String(), false: "f32"}[x.IsFloat()]} {
			if got := typeOf(func(s *array.Scope) *array.Array { return s.Add(s.Ones(x, 2), s.Number(number)) }); got != want {
				t.Errorf("%v and the number %v are combined as %s, not %s", x, number, got, want)
			}
			if got := typeOf(func(s *array.Scope) *array.Array { return s.Sub(s.Number(number), s.Ones(x)) }); got != want {
				t.Errorf("the number %v and %v of no axes are combined as %s, not %s", number, x, got, want)
			}
		}
	}
}

// typeOf returns the type of f's result, "none" if it is an error.
func typeOf(f func(s *array.Scope) *array.Array) string {
	s := array.NewScope("type")
	defer s.Close()
	y := f(s)
	if s.Err() != nil {
		return "none"
	}
	return y.DType().String()
}
