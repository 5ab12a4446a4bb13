package weirtest

import "testing"

// Trials returns the number of trials of a whole run of the tests, or of a short one (go test -short).
func Trials(whole, short int) int {
	if testing.Short() {
		return short
	}
	return whole
}

// Part returns each n-th member of a list, from the first on, in a short run of the tests (go test -short); else the
// list.
func Part[T any](list []T, n int) (part []T) {
	if !testing.Short() {
		return list
	}
	for i := 0; i < len(list); i += n {
		part = append(part, list[i])
	}
	return part
}
