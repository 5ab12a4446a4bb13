// Package diag is the project's one error type and the six kinds of errors.
//
// Errors come in three families that are never mixed. The user's faults (ErrInput, ErrBudget, ErrClosed) and the
// machine's (ErrMemory) are returned and name the file, node, operator, tensor and dimension at fault. A legal request
// that the project cannot fulfil yet is ErrUnsupported, which is errors.ErrUnsupported too. A bug of the project is a
// panic, which Recover turns into ErrInternal at the edge of the API.
//
// An Error is read and never changed: every method that adds to it returns a copy.
package diag

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"
)

// kind is a sentinel for one kind of error.
type kind struct {
	name string // as in JSON, and at the front of an error that names nothing
	also error  // a sentinel of the standard library that errors.Is accepts too, or nil
}

func (k *kind) Error() string { return k.name }

func (k *kind) Is(target error) bool { return k.also != nil && target == k.also }

// The kinds of error. Test with errors.Is.
var (
	// ErrInput says that a file, a model, a value or an option is at fault.
	ErrInput error = &kind{name: "input"}
	// ErrUnsupported says that the request is legal and not implemented; errors.Is(err, errors.ErrUnsupported) holds
	// too.
	ErrUnsupported error = &kind{name: "unsupported", also: errors.ErrUnsupported}
	// ErrBudget says that a plan does not fit the memory it was given.
	ErrBudget error = &kind{name: "budget"}
	// ErrMemory says that the system refused memory.
	ErrMemory error = &kind{name: "memory"}
	// ErrClosed says that a program, a result or a file was used after its Close.
	ErrClosed error = &kind{name: "closed"}
	// ErrInternal says that the project is at fault.
	ErrInternal error = &kind{name: "internal"}
	// ErrTaken says that all calls of a program are in use. It is an ErrInput.
	ErrTaken error = &kind{name: "input", also: ErrInput}
)

// Error is an error and its location: file, node, tensor, dimension. Every field except Kind may be empty.
type Error struct {
	Kind   error  // one of the kinds above
	File   string // the file at fault
	Node   string // the model node's name
	Op     string // the node's operator
	Tensor string // the tensor or argument
	Dim    string // the dimension
	Detail string // the fault, in one sentence without a full stop
	Fix    string // the remedy
	Budget int64  // for an ErrBudget: bytes that suffice, if known; otherwise 0
	Err    error  // the cause, for errors.Is and errors.As
}

// Error returns one line: the location from the outside in, the detail, the cause, and the fix.
func (e *Error) Error() string {
	var b strings.Builder
	add := func(label, value string) {
		if value == "" {
			return
		}
		if b.Len() > 0 {
			b.WriteString(": ")
		}
		b.WriteString(label)
		b.WriteString(value)
	}
	add("", e.File)
	switch {
	case e.Node != "" && e.Op != "":
		add("node ", quoteIfOdd(e.Node)+" ("+e.Op+")")
	case e.Node != "":
		add("node ", quoteIfOdd(e.Node))
	case e.Op != "":
		add("op ", e.Op)
	}
	if e.Tensor != "" {
		add("tensor ", quoteIfOdd(e.Tensor))
	}
	if e.Dim != "" {
		add("dimension ", quoteIfOdd(e.Dim))
	}
	add("", e.Detail)
	if e.Err != nil && e.Err.Error() != e.Detail {
		add("", e.Err.Error())
	}
	if b.Len() == 0 {
		b.WriteString(KindName(e.Kind) + " error")
	}
	if e.Fix != "" {
		b.WriteString(" (fix: " + e.Fix + ")")
	}
	return oneLine(b.String())
}

// Enough returns a copy of a refused budget's error with bytes as the budget that works; 0 means that none is known.
func (e *Error) Enough(bytes int64) *Error {
	named := *e
	said := fmt.Sprintf("a budget of %d bytes works", e.Budget)
	words := fmt.Sprintf("a budget of %d bytes works", bytes)
	if named.Budget = bytes; bytes == 0 {
		words = "a greater budget may work"
	}
	named.Fix = strings.Replace(e.Fix, said, words, 1)
	return &named
}

// Is reports whether target is the error's kind, or a sentinel that the kind also stands for.
func (e *Error) Is(target error) bool {
	return e.Kind != nil && errors.Is(e.Kind, target)
}

// Unwrap returns the cause, or nil.
func (e *Error) Unwrap() error { return e.Err }

// KindName returns the name of a kind as in JSON: input, unsupported, budget, memory, closed or internal. For another
// error it looks for a kind within; if there is none, it returns internal.
func KindName(err error) string {
	for _, k := range []error{ErrInput, ErrUnsupported, ErrBudget, ErrMemory, ErrClosed, ErrInternal} {
		if err == k {
			return k.(*kind).name
		}
	}
	for _, k := range []error{ErrInternal, ErrClosed, ErrMemory, ErrBudget, ErrUnsupported, ErrInput} {
		if errors.Is(err, k) {
			return k.(*kind).name
		}
	}
	return ErrInternal.(*kind).name
}

// report is an Error as JSON.
type report struct {
	Kind   string `json:"kind"`
	File   string `json:"file"`
	Node   string `json:"node"`
	Op     string `json:"op"`
	Tensor string `json:"tensor"`
	Dim    string `json:"dim"`
	Detail string `json:"detail"`
	Fix    string `json:"fix"`
}

// MarshalJSON writes the eight keys kind, file, node, op, tensor, dim, detail and fix, always all of them. The cause's
// message is in detail, because JSON has no key for it.
func (e *Error) MarshalJSON() ([]byte, error) {
	detail := e.Detail
	if e.Err != nil && e.Err.Error() != detail {
		if detail != "" {
			detail += ": "
		}
		detail += e.Err.Error()
	}
	return json.Marshal(report{
		Kind: KindName(e.Kind), File: e.File, Node: e.Node, Op: e.Op, Tensor: e.Tensor, Dim: e.Dim, Detail: detail,
		Fix: e.Fix,
	})
}

// New returns an error of a kind. Detail is formatted as fmt.Errorf formats; an operand of %w becomes the cause.
func New(kind error, format string, args ...any) *Error {
	if len(args) == 0 {
		return &Error{Kind: kind, Detail: format}
	}
	formatted := fmt.Errorf(format, args...)
	e := &Error{Kind: kind, Detail: formatted.Error()}
	switch wrapped := formatted.(type) {
	case interface{ Unwrap() error }:
		e.Err = &hidden{wrapped.Unwrap(), e.Detail}
	case interface{ Unwrap() []error }:
		e.Err = &hidden{errors.Join(wrapped.Unwrap()...), e.Detail}
	}
	return e
}

// hidden is a cause whose message is already in the detail, so that it is not printed twice.
type hidden struct {
	error
	message string
}

func (h *hidden) Error() string { return h.message }
func (h *hidden) Unwrap() error { return h.error }

// Inputf returns an ErrInput: a fault of the user's file, model, value or option. %w works.
func Inputf(format string, args ...any) *Error { return New(ErrInput, format, args...) }

// Unsupportedf returns an ErrUnsupported: a legal request that is not implemented. %w works.
func Unsupportedf(format string, args ...any) *Error { return New(ErrUnsupported, format, args...) }

// Internalf returns an ErrInternal, to be given to panic.
func Internalf(format string, args ...any) *Error { return New(ErrInternal, format, args...) }

// AtFile returns a copy that names the file, unless one is named already.
func (e *Error) AtFile(file string) *Error {
	c := *e
	if c.File == "" {
		c.File = file
	}
	return &c
}

// AtNode returns a copy that names the model node and its operator, unless one is named already: the innermost node
// stays.
func (e *Error) AtNode(node, op string) *Error {
	c := *e
	if c.Node == "" && c.Op == "" {
		c.Node, c.Op = node, op
	}
	return &c
}

// Words names a node as sentences do: NODE (OPERATOR), or only the one that is not empty.
func Words(node, op string) string {
	if node == "" || op == "" {
		return node + op
	}
	return node + " (" + op + ")"
}

// conditionOrigin matches the origin of a condition that a node needs: the node as Words writes it, the line of a text,
// and the reason.
var conditionOrigin = regexp.MustCompile(`^(?:(.*?) \(([\w.:]+)\)|(\w+))(?:, (line \d+)|): (.*)$`)

// From returns a copy whose detail has the origin of a condition. If the origin is a node, the error names it.
func (e *Error) From(from string) *Error {
	match := conditionOrigin.FindStringSubmatch(from)
	if match == nil || match[3] != "" && match[4] == "" {
		c := *e
		c.Detail += " (from " + from + ")"
		return &c
	}
	c := e.AtNode(match[1], match[2]+match[3])
	why := match[5]
	if match[4] != "" {
		why = "from " + match[4] + ": " + why
	}
	c.Detail += " (" + why + ")"
	return c
}

// finder matches a node as Words writes it, in the description of a dimension's origin.
var finder = regexp.MustCompile(`(?:^| )(\S+) \(([\w.:]+)\)(?: |$)`)

// Found returns a copy whose detail has the origin of a dimension's value. If the origin is a node, the error names it.
func (e *Error) Found(origin string) *Error {
	c := *e
	if match := finder.FindStringSubmatch(origin); match != nil {
		c = *c.AtNode(match[1], match[2])
	}
	if origin != "" {
		c.Detail += " (" + origin + ")"
	}
	return &c
}

// AtTensor returns a copy that names the tensor, unless one is named already.
func (e *Error) AtTensor(tensor string) *Error {
	c := *e
	if c.Tensor == "" {
		c.Tensor = tensor
	}
	return &c
}

// AtDim returns a copy that names the dimension, unless one is named already.
func (e *Error) AtDim(dim string) *Error {
	c := *e
	if c.Dim == "" {
		c.Dim = dim
	}
	return &c
}

// WithFix returns a copy with a remedy, formatted as fmt.Sprintf formats.
func (e *Error) WithFix(format string, args ...any) *Error {
	c := *e
	c.Fix = format
	if len(args) > 0 {
		c.Fix = fmt.Sprintf(format, args...)
	}
	return &c
}

// WithCause returns a copy with the cause.
func (e *Error) WithCause(err error) *Error {
	c := *e
	c.Err = err
	return &c
}

// As returns err's first *Error, or, if there is none, a new one of the given kind with err as its cause. It is for
// adding a location to an error of unknown type: diag.As(err, diag.ErrInput).AtFile(path). A nil err gives nil.
func As(err, kind error) *Error {
	if err == nil {
		return nil
	}
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return &Error{Kind: kind, Err: err}
}

// Panic is the cause of an ErrInternal from Recover.
type Panic struct {
	Value any    // the argument of panic
	Stack string // the goroutine's stack
}

// Error returns the panic's value, printed, without the stack.
func (p *Panic) Error() string { return fmt.Sprint(p.Value) }

// Unwrap returns the panic's value if that is an error.
func (p *Panic) Unwrap() error {
	err, _ := p.Value.(error)
	return err
}

// Recover turns a panic into an ErrInternal whose cause is a *Panic with the stack. what names the interrupted work,
// such as "compile" or "pass fold". Use it at the edges only, deferred directly: defer diag.Recover(&err, "compile"). A
// panic with an *Error keeps that error's location and kind: an ErrInternal from Internalf, or an error that deep code
// threw on purpose.
func Recover(err *error, what string) {
	value := recover()
	if value == nil {
		return
	}
	*err = Recovered(value, what)
}

// Recovered is Recover for code that has called recover itself. It must run in the deferred function, so that the stack
// is that of the panic.
func Recovered(value any, what string) *Error {
	if explained := explainFault(value); explained != nil {
		return explained
	}
	cause := &Panic{Value: value, Stack: string(debug.Stack())}
	var e Error
	if thrown, ok := value.(*Error); ok {
		if Stack(thrown) != "" { // it was caught on another goroutine, and thrown again
			return thrown
		}
		e = *thrown
		if e.Kind == nil {
			e.Kind = ErrInternal
		}
		if !errors.Is(e.Kind, ErrInternal) {
			return &e
		}
		if e.Err != nil {
			e.Detail += ": " + e.Err.Error()
		}
	} else {
		e = Error{Kind: ErrInternal, Detail: fmt.Sprint(value)}
		if runtimeError, ok := value.(runtime.Error); ok {
			e.Detail = runtimeError.Error()
		}
		if address, ok := faultAddress(value); ok {
			e.Detail = fmt.Sprintf("memory at %#x was touched, and may not be", address)
		}
	}
	if what != "" {
		e.Detail = what + ": " + e.Detail
	}
	e.Err = &hidden{cause, e.Detail}
	return &e
}

// Stack returns the stack of the panic within err, or "".
func Stack(err error) string {
	var p *Panic
	if errors.As(err, &p) {
		return p.Stack
	}
	return ""
}

// quoteIfOdd quotes a name that could not be told from the surrounding sentence.
func quoteIfOdd(name string) string {
	for _, r := range name {
		if r <= ' ' || r == ':' || r == '(' || r == ')' || r == 0x7f {
			return fmt.Sprintf("%q", name)
		}
	}
	return name
}

// oneLine makes a string that a hostile file may have supplied safe to print on one line.
func oneLine(s string) string {
	clean := func(r rune) rune {
		switch {
		case r == '\n' || r == '\r' || r == '\t':
			return ' '
		case r < ' ' || r == 0x7f:
			return '?'
		}
		return r
	}
	return strings.TrimRight(strings.Map(clean, s), " ")
}
