package memplan_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/memplan"
)

// TestReadCSV reads a table with columns in another order, and tables whose errors name the line.
func TestReadCSV(t *testing.T) {
	p, err := memplan.ReadCSV(strings.NewReader(
		"\uFEFFsize, ID ,upper,lower,alignment\r\n10,a,3,0,4\r\n\r\n0,\"b, c\",4,2, 1\r\n"))
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(p.Steps, p.Buffers); got != "4 [{a 10 4 0 2 <nil>} {b, c 0 1 2 3 <nil>}]" {
		t.Error(got)
	}
	const head = "id,lower,upper,size\n"
	for _, c := range []struct{ text, want string }{
		{"", "the table is empty"},
		{"id,lower,upper\n", "line 1: no column size"},
		{"name,lower,upper,size\n", `line 1: a column "name"`},
		{"lower,upper,size\n", "line 1: no column id"},
		{"id,lower,upper,size,size\n", "line 1: the column size twice"},
		{head + "a,0,1\n", "wrong number of fields"},
		{head + "a,0,1,\"2\n", `extraneous or missing`},
		{head + "a,0,1,x\n", `line 2: size "x" is not an integer`},
		{head + "a,0,1,\n", `line 2: size "" is not an integer`},
		{head + "a,0,1,99999999999999999999\n", "line 2: size 99999999999999999999 is beyond 64 bits"},
		{head + "a,0,1,9223372036854775807\n", `line 2: buffer "a" has size 9223372036854775807`},
		{head + "a,0,1,-1\n", `line 2: buffer "a" has size -1`},
		{head + "a,-1,1,4\n", `line 2: buffer "a" is alive from -1 to 1`},
		{head + "a,0,2147483648,4\n", `line 2: buffer "a" is alive from 0 to 2147483648`},
		{head + "a,4,3,4\n", `line 2: buffer "a" is never alive: lower 4, upper 3`},
		{head + "a,4,4,4\n", `line 2: buffer "a" is never alive`},
		{head + "a,0,1,4\nb,0,1,4\n\na,2,3,4\n", `line 5: buffer "a" is in line 2 already`},
		{"id,lower,upper,size,alignment\na,0,1,4,3\n", "an alignment of 3"},
		{"id,lower,upper,size,alignment\na,0,1,4,0\n", "an alignment of 0"},
		{head + "\"" + strings.Repeat("a", 17<<20), "more than 16777216 bytes"},
	} {
		_, err := memplan.ReadCSV(strings.NewReader(c.text))
		if !errors.Is(err, diag.ErrInput) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.60q: %v, want %q", c.text, err, c.want)
		}
	}
}

// many is a reader of a table that never ends.
type many struct {
	row  int
	rest []byte
}

func (m *many) Read(to []byte) (int, error) {
	if len(m.rest) == 0 {
		m.rest = fmt.Appendf(nil, "%d,0,1,1\n", m.row)
		if m.row == 0 {
			m.rest = []byte("id,lower,upper,size\n")
		}
		m.row++
	}
	n := copy(to, m.rest)
	m.rest = m.rest[n:]
	return n, nil
}

// TestReadCSVStopsReading: a table with too many rows is refused before it is read to its end.
func TestReadCSVStopsReading(t *testing.T) {
	m := &many{}
	_, err := memplan.ReadCSV(m)
	if !errors.Is(err, diag.ErrInput) || !strings.Contains(err.Error(), "more than 32768 buffers") || m.row > 40000 {
		t.Errorf("%v after %d rows", err, m.row)
	}
}

// FuzzReadCSV reads arbitrary tables, and plans those that are valid.
func FuzzReadCSV(f *testing.F) {
	f.Add("id,lower,upper,size\na,0,3,4\nb,1,2,9223372036854775807\n")
	f.Add("id,lower,upper,size,alignment\na,0,3,2305843009213693951,4\nb,1,2,2305843009213693951,1\nc,2,4,0,64")
	f.Fuzz(func(t *testing.T, text string) {
		p, err := memplan.ReadCSV(strings.NewReader(text))
		if err != nil {
			if !errors.Is(err, diag.ErrInput) {
				t.Fatal(err)
			}
			return
		}
		s, err := memplan.Plan(p, memplan.Options{Work: 1 << 18})
		if err != nil {
			if !errors.Is(err, diag.ErrInput) {
				t.Fatal(err)
			}
			return
		}
		arena, fixed := s.Arena.Const()
		if bound, ok := s.Bound.Const(); !fixed || !ok || leastOf(s) < bound || leastOf(s) > arena ||
			s.Proven != (leastOf(s) == arena) {
			t.Fatalf("arena %s, bound %s, least %s", s.Arena, s.Bound, s.Least)
		}
	})
}
