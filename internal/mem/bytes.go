package mem

import (
	"math"
	"strconv"
	"strings"

	"github.com/weirml/weir/internal/diag"
)

// units are the suffixes of GOMEMLIMIT, the largest first.
var units = []struct {
	suffix string
	bytes  int64
}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}}

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
// of bytes. A fraction is allowed where it comes to whole bytes (1.5MiB). Errors are ErrInput.
func ParseBytes(text string) (int64, error) {
	number, unit := strings.TrimSpace(text), int64(1)
	for _, u := range units {
		if rest, ok := strings.CutSuffix(number, u.suffix); ok {
			number, unit = rest, u.bytes
			break
		}
	}
	bad := func(why string) (int64, error) {
		return 0, diag.Inputf("%q is not a size: %s", text, why).
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
	if len(fraction) > 15 {
		return bad("not a whole number of bytes")
	}
	digits, err := strconv.ParseInt(fraction, 10, 64)
	if err != nil {
		return bad("not a number with a known unit")
	}
	// digits/10^len × unit is whole exactly when the reduced denominator divides the unit, a power of two.
	scale := int64(math.Pow10(len(fraction)))
	for digits%5 == 0 && scale%5 == 0 {
		digits, scale = digits/5, scale/5
	}
	for digits%2 == 0 && scale%2 == 0 {
		digits, scale = digits/2, scale/2
	}
	if unit%scale != 0 {
		return bad("not a whole number of bytes")
	}
	part := unit / scale * digits
	if part > math.MaxInt64-n {
		return bad("too large")
	}
	return n + part, nil
}
