// Package weir stands for the root of the real module: names and signatures, no meaning.
package weir

import (
	"context"
	"io"
)

type DType uint8

const (
	F32 DType = iota
	BF16
)

type Element interface{ ~float32 | ~int64 | ~uint8 }

type Arg interface{ arg() }
type given struct{}

func (given) arg() {}

type Inputs map[string]Arg
type Dims map[string]int64
type Options struct {
	Calls  int
	States map[string]string
}
type Extent struct {
	Size int64
	Dim  string
}
type Info struct{ Name string }

type Model struct{ x int }

func Load(path string) (*Model, error)       { return &Model{}, nil }
func LoadBytes(data []byte) (*Model, error)  { return &Model{}, nil }
func (m *Model) Close() error                { return nil }
func (m *Model) Inputs() []Info              { return nil }
func (m *Model) Metadata() map[string]string { return nil }

type Program struct{ x int }

func Compile(ctx context.Context, m *Model, o Options) (*Program, error) { return &Program{}, nil }
func (p *Program) Close() error                                          { return nil }
func (p *Program) CloseContext(ctx context.Context) error                { return nil }
func (p *Program) Run(ctx context.Context, in Inputs) (*Results, error)  { return &Results{}, nil }
func (p *Program) NewCall(d Dims) (*Call, error)                         { return &Call{}, nil }
func (p *Program) Outputs() []Info                                       { return nil }
func (p *Program) Memory() *Memory                                       { return nil }
func (p *Program) WriteTo(w io.Writer) (int64, error)                    { return 0, nil }

type Memory struct{ x int }

func (m *Memory) Peak(calls int, d Dims) (int64, error) { return 0, nil }

type Outputs interface {
	Get(name string) *Tensor
	At(i int) *Tensor
	Sequence(name string) []*Tensor
	Close() error
}

type Results struct{ x int }

func (r *Results) Get(name string) *Tensor        { return nil }
func (r *Results) At(i int) *Tensor               { return nil }
func (r *Results) Sequence(name string) []*Tensor { return nil }
func (r *Results) Close() error                   { return nil }

type Call struct{ x int }

func (c *Call) Bind(name string, a Arg) error { return nil }
func (c *Call) Input(name string) *Tensor     { return nil }
func (c *Call) Output(name string) *Tensor    { return nil }
func (c *Call) Run(ctx context.Context) error { return nil }
func (c *Call) Close() error                  { return nil }

type Tensor struct{ given }

func New(dt DType, shape ...int) (*Tensor, error)                  { return &Tensor{}, nil }
func FromSlice[T Element](data []T, shape ...int) (*Tensor, error) { return &Tensor{}, nil }
func Copy[T Element](t *Tensor) ([]T, error)                       { return nil, nil }
func View[T Element](t *Tensor) ([]T, error)                       { return nil, nil }
func (t *Tensor) Close() error                                     { return nil }
func (t *Tensor) Bytes() []byte                                    { return nil }
func (t *Tensor) Len() int                                         { return 0 }
func (t *Tensor) Shape() []int                                     { return nil }

func Consume(t *Tensor) Arg           { return given{} }
func Donate(t *Tensor) Arg            { return given{} }
func Update(t *Tensor) Arg            { return given{} }
func Sequence(tensors ...*Tensor) Arg { return given{} }

type Error struct{ Detail string }

func (e *Error) Error() string { return e.Detail }

var ErrInput, ErrClosed error
