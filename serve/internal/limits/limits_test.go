package limits

import "testing"

// TestParse reads sizes as Go's GOMEMLIMIT writes them.
func TestParse(t *testing.T) {
	for text, want := range map[string]int64{"0": 0, "17": 17, "17B": 17, "3KiB": 3 << 10, "2MiB": 2 << 20,
		"8GiB": 8 << 30,
		"1TiB": 1 << 40, "": -1, "GiB": -1, "-1": -1, "1.5GiB": -1, "8GB": -1, "99999999999TiB": -1, "8GiBB": -1} {
		got, err := Parse(text)
		if err != nil {
			got = -1
		}
		if got != want {
			t.Errorf("%q is %d, not %d", text, got, want)
		}
	}
}

// TestContainer: the limit is positive, and not that of a group without one.
func TestContainer(t *testing.T) {
	if n := Container(); n < 0 || n > 1<<60 {
		t.Errorf("the container has %d bytes", n)
	}
	if n := Usable(); n < 1<<20 {
		t.Errorf("%d bytes are usable", n)
	}
}
