package encoder

import (
	"errors"
	"fmt"

	"github.com/weirml/weir/internal/diag"
)

// TextError is the cause of an error that one of a call's texts is at fault for.
type TextError struct {
	Index int   // of the text, or of the pair of texts
	Part  int   // 1 or 2: the first or the second text of the pair; 0: the text, or the pair as a whole
	Err   error // what is wrong with it
}

// Error returns the number of the text, and what is wrong with it.
func (e *TextError) Error() string {
	what := [...]string{"text", "first text of pair", "second text of pair"}[e.Part]
	return fmt.Sprintf("%s %d: %v", what, e.Index, e.Err)
}

// Unwrap returns what is wrong with the text.
func (e *TextError) Unwrap() error { return e.Err }

// InText returns err as that of a text or, if it is a TextError already, with the text's index; nil for nil.
func InText(index int, err error) error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*TextError](err); ok {
		e.Index = index
		return err
	}
	return inPart(index, 0, err)
}

// inPart returns an error as that of a text or of a part of a pair.
func inPart(index, part int, err error) error {
	return &diag.Error{Kind: diag.As(err, diag.ErrInternal).Kind, Err: &TextError{index, part, err}}
}
