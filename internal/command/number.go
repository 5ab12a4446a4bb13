package command

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/values"
)

// number is the value of a flag: an integer or a float64, not less than the flag's least value.
type number[T int | uint64 | float64] struct {
	to    *T
	least T
	above bool // it is more than least
}

// from returns a number with a least value and a default.
func from[T int | uint64 | float64](to *T, least, otherwise T) *number[T] {
	*to = otherwise
	return &number[T]{to: to, least: least}
}

// String returns the value for the usage.
func (n *number[T]) String() string {
	if n.to == nil {
		return "0"
	}
	return fmt.Sprint(*n.to)
}

// Type returns the kind of value for the usage.
func (n *number[T]) Type() string {
	switch any(n.least).(type) {
	case float64:
		return "float"
	case uint64:
		return "uint"
	}
	return "int"
}

// Set parses the value.
func (n *number[T]) Set(text string) error {
	var v T
	var err error
	switch to := any(&v).(type) {
	case *int:
		*to, err = strconv.Atoi(text)
	case *uint64:
		*to, err = strconv.ParseUint(text, 10, 64)
	case *float64:
		*to, err = strconv.ParseFloat(text, 64)
	}
	if err != nil || !(v >= n.least) || n.above && v == n.least || math.IsInf(float64(v), 0) {
		return errors.New(n.needed())
	}
	*n.to = v
	return nil
}

// needed returns a description of the valid values.
func (n *number[T]) needed() string {
	kind := "a whole number"
	if n.Type() == "float" {
		kind = "a number"
	}
	if n.above {
		return fmt.Sprintf("%s above %v is needed", kind, n.least)
	}
	return fmt.Sprintf("%s from %v on is needed", kind, n.least)
}

// invalid matches the flags' library's error for a value that it cannot read.
var invalid = regexp.MustCompile(`^invalid argument "(.*)" for "(?:-\w, )?(--\S+)" flag: (.*)$`)

// flagError converts an error of the flags' library: it names the flag, its value, and the valid values.
func flagError(err error) error {
	if parts := invalid.FindStringSubmatch(err.Error()); parts != nil {
		return fmt.Errorf("%s %s: %s", parts[2], parts[1], parts[3])
	}
	return err
}

// size is the value of a flag in bytes, at least one.
type size struct {
	to   *int64
	text string
}

// String returns the size as given.
func (s *size) String() string { return s.text }

// Type returns the kind of value for the usage.
func (s *size) Type() string { return "size" }

// Set parses the size.
func (s *size) Set(text string) error {
	n, err := values.ParseBytes(text)
	if err == nil && n < 1 {
		err = errors.New("at least 1 byte is needed; without the flag there is no limit")
	}
	if e := (*weir.Error)(nil); errors.As(err, &e) {
		return errors.New(e.Fix)
	}
	if err != nil {
		return err
	}
	*s.to, s.text = n, text
	return nil
}
