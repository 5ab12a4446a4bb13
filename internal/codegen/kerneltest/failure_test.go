package kerneltest

import (
	"errors"
	"testing"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/target"
)

// TestSameFailure: on a device another check may fail than in the interpreter, but it must be a check of the kernel,
// and the value must be outside its limits.
func TestSameFailure(t *testing.T) {
	k := &loop.Kernel{Body: []loop.Stmt{&loop.Check{What: "an index"}, &loop.Check{What: "a row"}}}
	failure := func(detail string) error { return &diag.Error{Kind: diag.ErrInput, Node: "gather", Detail: detail} }
	want := failure("an index is 50, outside [0, 49]")
	device, processor := Harness{Machine: target.Vulkan(target.Limits{})}, Harness{Machine: target.Portable(1)}
	for _, c := range []struct {
		got           error
		on, processor bool
	}{
		{want, true, true},
		{failure("an index is 18446744073709551615, outside [0, 49]"), true, false},
		{failure("a row is -1, outside [0, 3]"), true, false},
		{failure("an index is 49, outside [0, 49]"), false, false},
		{failure("a column is -1, outside [0, 3]"), false, false},
		{failure("an index is unknown"), false, false},
		{&diag.Error{Kind: diag.ErrInput, Node: "scatter", Detail: "an index is -1, outside [0, 49]"}, false, false},
		{&diag.Error{Kind: diag.ErrInternal, Node: "gather", Detail: "an index is -1, outside [0, 49]"}, false, false},
		{errors.New("lost"), false, false},
		{nil, false, false},
	} {
		if on, off := device.sameFailure(k, c.got, want), processor.sameFailure(k, c.got, want); on != c.on ||
			off != c.processor {
			t.Errorf("%v: %t on a device and %t on a processor", c.got, on, off)
		}
	}
	if device.sameFailure(k, want, nil) || !device.sameFailure(k, nil, nil) {
		t.Error("a failure and none are the same")
	}
}
