package weirtest

import (
	"context"
	"testing"

	"github.com/weirml/weir"
)

// CompileText compiles a text; the model and the program are closed when the test ends.
func CompileText(t *testing.T, source string, o weir.Options) (*weir.Program, error) {
	t.Helper()
	m, err := weir.LoadBytes([]byte(source))
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { m.Close() })
	p, err := weir.Compile(context.Background(), m, o)
	if err == nil {
		t.Cleanup(func() { p.Close() })
	}
	return p, err
}

// MustCompileText is CompileText; it fails the test if there is an error.
func MustCompileText(t *testing.T, source string, o weir.Options) *weir.Program {
	t.Helper()
	p, err := CompileText(t, source, o)
	if err != nil {
		t.Fatalf("%v\n%s", err, source)
	}
	return p
}

// Story returns a text with a tensor of dim floats in a storage of a size.
func Story(dim, bytes string) string {
	return "weir 1\nir @story {\n  dim m in " + dim + "\n  main @main(%x: f32[m]) {\n    storage %s: " + bytes +
		" bytes\n" +
		"    %t: f32[m] = exp(%x) carve %s at 0\n    %y: f32[m] = neg(%t)\n    release %t\n    return %y\n  }\n}\n"
}
