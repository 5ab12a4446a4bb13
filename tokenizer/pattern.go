package tokenizer

import (
	"errors"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/text/pattern"
)

// compile returns the pattern of a regular expression, as the reference's engine understands it.
func compile(source, path string) (finder, error) {
	p, err := pattern.Compile(source)
	if err == nil {
		return p, nil
	}
	d := &diag.Error{Kind: diag.ErrInput, Err: err}
	if errors.Is(err, diag.ErrUnsupported) {
		d.Kind = diag.ErrUnsupported
	}
	d.Detail = path + ": the pattern " + quote(source)
	return nil, d
}
