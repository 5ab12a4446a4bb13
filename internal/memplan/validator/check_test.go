package validator_test

import (
	"errors"
	"testing"

	"github.com/weirml/weir/internal/memplan/validator"
	"github.com/weirml/weir/internal/sym"
)

// TestCheck gives the validator plans of two buffers, each with one change of the second.
func TestCheck(t *testing.T) {
	number := sym.Const
	for _, c := range []struct {
		name            string
		first, last     int
		size, at, align int64
		arena, bound    int64
		want            validator.Rule
		alias           bool
		distance        int64
	}{
		{name: "above", first: 2, last: 4, size: 10, at: 128, arena: 138, bound: 138},
		{name: "one byte lower", first: 2, last: 4, size: 10, at: 99, align: 1, arena: 109, bound: 110,
			want: validator.Overlap},
		{name: "touching", first: 2, last: 4, size: 10, at: 100, align: 1, arena: 110, bound: 110},
		{name: "at the same offset, later", first: 4, last: 5, size: 10, at: 0, arena: 100, bound: 100},
		{name: "at the same offset, a step too early", first: 3, last: 5, size: 10, at: 0, arena: 100, bound: 138,
			want: validator.Overlap},
		{name: "at the same offset, earlier", first: 0, last: 0, size: 10, at: 0, arena: 100, bound: 100},
		{name: "at the same offset, a step too long", first: 0, last: 1, size: 10, at: 0, arena: 100, bound: 138,
			want: validator.Overlap},
		{name: "inside", first: 2, last: 2, size: 10, at: 50, align: 1, arena: 100, bound: 110, want: validator.Overlap},
		{name: "empty, inside", first: 2, last: 2, size: 0, at: 64, arena: 100, bound: 100},
		{name: "empty, past the end", first: 2, last: 2, size: 0, at: 128, arena: 100, bound: 100},
		{name: "misaligned", first: 2, last: 4, size: 10, at: 100, arena: 110, bound: 138, want: validator.Align},
		{name: "arena too small", first: 2, last: 4, size: 10, at: 128, arena: 137, bound: 138, want: validator.Bounds},
		{name: "arena too large", first: 2, last: 4, size: 10, at: 128, arena: 192, bound: 138, want: validator.Arena},
		{name: "bound without the rounding", first: 2, last: 4, size: 10, at: 128, arena: 138, bound: 110,
			want: validator.Bound},
		{name: "bound too large", first: 2, last: 4, size: 10, at: 128, arena: 138, bound: 139, want: validator.Bound},
		{name: "a gap below", first: 2, last: 4, size: 10, at: 192, arena: 202, bound: 138},
		{name: "negative", first: 2, last: 4, size: 10, at: -64, arena: 100, bound: 138, want: validator.Bounds},
		{name: "negative size", first: 2, last: 4, size: -1, at: 128, arena: 100, bound: 100, want: validator.Value},
		{name: "alias", first: 2, last: 9, size: 10, at: 50, alias: true, distance: 50, arena: 100, bound: 100},
		{name: "alias elsewhere", first: 2, last: 9, size: 10, at: 50, alias: true, distance: 51, arena: 100, bound: 100,
			want: validator.Alias},
		{name: "alias that reaches beyond", first: 2, last: 9, size: 60, at: 50, alias: true, distance: 50, arena: 110,
			bound: 110},
	} {
		b := validator.Buffer{Name: "b", Size: number(c.size), Align: c.align, First: c.first, Last: c.last, AliasOf: -1}
		if c.alias {
			b.AliasOf, b.AliasOffset = 0, number(c.distance)
		}
		p := &validator.Plan{
			Buffers: []validator.Buffer{{Name: "a", Size: number(100), First: 1, Last: 3, AliasOf: -1}, b},
			Offsets: []sym.Expr{number(0), number(c.at)},
			Layouts: []validator.Layout{{Arena: number(c.arena)}},
			Height:  number(c.arena), Arena: number(c.arena), Bound: number(c.bound),
		}
		err := validator.Check(p, func(sym.Name) (int64, bool) { return 0, false })
		var fault *validator.Fault
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", c.name, err)
		case c.want != "" && (!errors.As(err, &fault) || fault.Rule != c.want):
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
		if proof, err := validator.Prove(p); c.want == "" && c.size > 0 && (err != nil || proof.Class() != "proved") {
			t.Errorf("%s: constants are not proved: %+v, %v", c.name, proof, err)
		} else if c.want == validator.Overlap && err == nil && proof.Class() == "proved" {
			t.Errorf("%s: an overlap is proved disjoint", c.name)
		}
	}
}
