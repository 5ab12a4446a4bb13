package diag

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
)

// TestKinds shows the names of kinds, and which sentinels errors.Is accepts for them.
func TestKinds(t *testing.T) {
	kinds := map[string]error{
		"input": ErrInput, "unsupported": ErrUnsupported, "budget": ErrBudget,
		"memory": ErrMemory, "closed": ErrClosed, "internal": ErrInternal,
	}
	for name, kind := range kinds {
		e := New(kind, "x")
		for other, otherKind := range kinds {
			if got := errors.Is(e, otherKind); got != (name == other) {
				t.Errorf("errors.Is(%s, %s) = %v", name, other, got)
			}
		}
		if got := errors.Is(e, errors.ErrUnsupported); got != (name == "unsupported") {
			t.Errorf("errors.Is(%s, errors.ErrUnsupported) = %v", name, got)
		}
		if got := KindName(e); got != name {
			t.Errorf("KindName(%s) = %q", name, got)
		}
		if got := KindName(fmt.Errorf("outside: %w", e)); got != name {
			t.Errorf("KindName(wrapped %s) = %q", name, got)
		}
	}
	if got := KindName(errors.New("other")); got != "internal" {
		t.Errorf("KindName(other) = %q", got)
	}
}

// TestError shows the line that an error with each combination of fields prints.
func TestError(t *testing.T) {
	tests := []struct {
		err  *Error
		want string
	}{
		{&Error{}, "internal error"},
		{&Error{Kind: ErrClosed}, "closed error"},
		{New(ErrInput, "all of it"), "all of it"},
		{Inputf("rank %d", 3).AtNode("conv1", "Conv").AtFile("m.onnx"), "m.onnx: node conv1 (Conv): rank 3"},
		{Inputf("bad").AtNode("", "Conv"), "op Conv: bad"},
		{Inputf("bad").AtNode("a b", "").AtTensor("x").AtDim("n").WithFix("pass --dim %s=1", "n"),
			`node "a b": tensor x: dimension n: bad (fix: pass --dim n=1)`},
		{Inputf("open: %w", fs.ErrNotExist), "open: file does not exist"},
		{Inputf("open").WithCause(fs.ErrNotExist), "open: file does not exist"},
		{Inputf("two: %w, %w", fs.ErrNotExist, fs.ErrClosed), "two: file does not exist, file already closed"},
		{Inputf("%s", "line\nline\x1b[31m"), "line line?[31m"},
	}
	for _, test := range tests {
		if got := test.err.Error(); got != test.want {
			t.Errorf("got  %s\nwant %s", got, test.want)
		}
	}
}

// TestLocationIsInnermostAndCopied shows that the names given first stay, and that the methods return copies.
func TestLocationIsInnermostAndCopied(t *testing.T) {
	inner := Inputf("bad").AtNode("inner", "If").AtFile("a").AtTensor("t").AtDim("d")
	outer := inner.AtNode("outer", "Loop").AtFile("b").AtTensor("u").AtDim("e").WithFix("f")
	if outer.Node != "inner" || outer.Op != "If" || outer.File != "a" || outer.Tensor != "t" || outer.Dim != "d" {
		t.Errorf("the outer location won: %+v", outer)
	}
	if inner.Fix != "" {
		t.Errorf("WithFix changed its receiver")
	}
}

// TestCause finds causes with errors.Is, whether given by %w, WithCause or As.
func TestCause(t *testing.T) {
	for _, e := range []*Error{
		Inputf("x: %w", fs.ErrNotExist), Inputf("x: %w, %w", fs.ErrClosed, fs.ErrNotExist),
		Inputf("x").WithCause(fs.ErrNotExist), As(fs.ErrNotExist, ErrInput),
	} {
		if !errors.Is(e, fs.ErrNotExist) || !errors.Is(e, ErrInput) {
			t.Errorf("%v lost its cause or kind", e)
		}
	}
	if As(nil, ErrInput) != nil {
		t.Errorf("As(nil) is not nil")
	}
	e := Inputf("x")
	if As(fmt.Errorf("w: %w", e), ErrInternal) != e {
		t.Errorf("As does not find the error inside")
	}
}

// TestJSON shows that an error has all eight keys in JSON.
func TestJSON(t *testing.T) {
	e := Unsupportedf("op %s", "Foo").AtNode("n", "Foo").AtFile("m.onnx").AtTensor("t").AtDim("d").WithFix("f").
		WithCause(fs.ErrClosed)
	got, err := json.Marshal(map[string]any{"error": e})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"error":{"kind":"unsupported","file":"m.onnx","node":"n","op":"Foo","tensor":"t","dim":"d","detail":"op Foo: file already closed","fix":"f"}}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestRecover turns panics with errors, *Errors and other values into errors of the right kind, with the stack.
func TestRecover(t *testing.T) {
	run := func(value any) (err error) {
		defer Recover(&err, "pass fold")
		if value == nil {
			return nil
		}
		if index, ok := value.(int); ok {
			_ = []int{1}[index]
		}
		panic(value)
	}
	if err := run(nil); err != nil {
		t.Errorf("no panic: %v", err)
	}
	tests := []struct {
		value any
		kind  error
		want  string
	}{
		{"text", ErrInternal, "pass fold: text"},
		{errors.New("other"), ErrInternal, "pass fold: other"},
		{fs.ErrExist, fs.ErrExist, "pass fold: file already exists"},
		{5, ErrInternal, "pass fold: runtime error: index out of range [5] with length 1"},
		{Internalf("odd %d", 1).AtNode("n", "Op"), ErrInternal, "node n (Op): pass fold: odd 1"},
		{Inputf("user"), ErrInput, "user"},
		{&Error{Detail: "no kind"}, ErrInternal, "pass fold: no kind"},
	}
	for _, test := range tests {
		err := run(test.value)
		if err == nil || !errors.Is(err, test.kind) || err.Error() != test.want {
			t.Errorf("panic(%v): got %v, want %s", test.value, err, test.want)
			continue
		}
		if errors.Is(err, ErrInternal) && !strings.Contains(Stack(err), "TestRecover") {
			t.Errorf("panic(%v): the stack does not show the test: %s", test.value, Stack(err))
		}
	}
}
