package mem

import (
	"fmt"
	"math"
	"math/bits"
	"strconv"
	"strings"

	"github.com/weirml/weir/internal/diag"
)

// units are the suffixes of GOMEMLIMIT, the largest first.
var units = []struct {
	suffix string
	bytes  int64
}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}}

// mostDecimals is the largest number of decimals that a size may have.
const mostDecimals = 15

// FormatBytes writes a size with GOMEMLIMIT's suffixes (B, KiB, MiB, GiB, TiB), with one decimal where the unit does
// not divide it: 512MiB, 1.5GiB, 100B. It rounds; print the exact number beside it where that matters.
func FormatBytes(n int64) string {
	if n < 0 {
		if n == math.MinInt64 {
			return "-8388608TiB"
		}
		return "-" + FormatBytes(-n)
	}
	for _, u := range units {
		if n < u.bytes {
			continue
		}
		if n%u.bytes == 0 {
			return strconv.FormatInt(n/u.bytes, 10) + u.suffix
		}
		text := strconv.FormatFloat(float64(n)/float64(u.bytes), 'f', 1, 64)
		return strings.TrimSuffix(text, ".0") + u.suffix
	}
	return "0B"
}

// ParseBytes reads a size as GOMEMLIMIT is written: a decimal number and one of B, KiB, MiB, GiB, TiB, or a bare number
// of bytes. The number may have decimals (1.5MiB, 8.27MiB); a fraction of a byte is rounded up. Errors are ErrInput.
func ParseBytes(s string) (int64, error) {
	number, unit := strings.TrimSpace(s), int64(1)
	for _, u := range units {
		if rest, ok := strings.CutSuffix(number, u.suffix); ok {
			number, unit = rest, u.bytes
			break
		}
	}
	bad := func(why string) (int64, error) {
		return 0, diag.Inputf("%q is not a size: %s", s, why).
			WithFix("write bytes, or a number with KiB, MiB, GiB or TiB, such as 512MiB")
	}
	whole, fraction, _ := strings.Cut(number, ".")
	if whole == "" || strings.Trim(whole+fraction, "0123456789") != "" || strings.HasSuffix(number, ".") {
		return bad("not a number with a known unit")
	}
	n, err := strconv.ParseInt(whole, 10, 64)
	if err != nil || n > math.MaxInt64/unit {
		return bad("too large")
	}
	n *= unit
	fraction = strings.TrimRight(fraction, "0")
	if fraction == "" {
		return n, nil
	}
	if unit == 1 {
		return bad("not an integer number of bytes")
	}
	if len(fraction) > mostDecimals {
		return bad(fmt.Sprintf("more than %d decimals", mostDecimals))
	}
	digits, err := strconv.ParseUint(fraction, 10, 64)
	if err != nil {
		return bad("not a number with a known unit")
	}
	scale := uint64(1)
	for range fraction {
		scale *= 10
	}
	// digits is less than scale, so that the quotient is at most the unit.
	high, low := bits.Mul64(digits, uint64(unit))
	part, rest := bits.Div64(high, low, scale)
	if rest > 0 {
		part++
	}
	if part > uint64(math.MaxInt64-n) {
		return bad("too large")
	}
	return n + int64(part), nil
}
