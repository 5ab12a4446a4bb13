package diag

import (
	"errors"
	"testing"
)

// TestOperators checks how errors get the operators of their nodes.
func TestOperators(t *testing.T) {
	var known Operators
	for _, n := range [][2]string{{"a", "Gather"}, {"b", "Relu"}, {"c", "Relu"}, {"x, y", "Add"}, {"two", "Add"},
		{"two", "Mul"}, {"two", "Add"}, {"", "Add"}, {"none", ""}} {
		known = known.Add(n[0], n[1])
	}
	for node, want := range map[string]string{"a": "Gather", "a, b": "Gather, Relu", "b, c": "Relu", "x, y": "Add",
		"two": "", "a, two": "", "a, unknown": "", "unknown": "", "none": ""} {
		if got := known.Of(node); got != want {
			t.Errorf("the operators of %q are %q, want %q", node, got, want)
		}
	}
	plain := errors.New("plain")
	if known.In(plain) != plain || known.In(nil) != nil {
		t.Error("an error that is not of this package has changed")
	}
	e := Inputf("an index is 9")
	if known.In(e) != error(e) {
		t.Error("an error without a node has changed")
	}
	if got, want := known.In(e.AtNode("a", "")).Error(), "node a (Gather): an index is 9"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := known.In(e.AtNode("a", "loop")).Error(), "node a (loop): an index is 9"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := Operators(nil).In(e.AtNode("a", "")).Error(), "node a: an index is 9"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
