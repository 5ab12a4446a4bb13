package sym

import "testing"

// TestJoinedRemainders shows that a quotient and the remainder beside it become their dividend, also if the remainder
// has lost multiples of the divisor.
func TestJoinedRemainders(t *testing.T) {
	for from, want := range map[string]string{
		"14*(u//14) + u%14":                             "u",
		"14336*((u + 384*a)//14) + 1024*((u + 6*a)%14)": "1024*u + 393216*a",
		"401408*((u + 384*a)//3136) + 7168*(((u + 384*a)//56)%56) + 128*((u + 48*a)%56)": "128*u + 49152*a",
		"n*(14*((u + 30*a)//14) + (u + 2*a)%14)":                                         "n*u + 30*n*a",
		"14*((u + 30*a)//14) + (u + 3*a)%14": "14*((u + 30*a)//14) + (u + " +
			"3*a)%14",
		"14*((u + 30*a)//7) + (u + 2*a)%14": "14*((u + 30*a)//7) + (u + 2*a)%14",
	} {
		if got := testDims().Simplify(parse(t, from)); !got.Equal(parse(t, want)) {
			t.Errorf("%s becomes %s, want %s", from, got, want)
		}
	}
}
