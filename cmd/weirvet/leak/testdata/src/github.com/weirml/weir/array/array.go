// Package array stands for the real one: names and signatures, no meaning.
package array

import (
	"io"
	"testing"

	"github.com/weirml/weir"
)

type Scope struct{ x int }
type Option func(*Scope)
type Stats struct{ Bytes int64 }
type Loan struct{ x int }
type Array struct{ x int }

func NewScope(name string, options ...Option) *Scope { return &Scope{} }
func In(parent *Scope) Option                        { return nil }
func Limit(bytes int64) Option                       { return nil }
func (s *Scope) Close() error                        { return nil }
func (s *Scope) Err() error                          { return nil }
func (s *Scope) Cap()                                {}
func (s *Scope) Return(arrays ...*Array) *Array      { return nil }
func (s *Scope) Transfer(a *Array, to *Scope)        {}
func (s *Scope) Lend(a *Array, to *Scope) *Loan      { return nil }
func (s *Scope) Dump(w io.Writer)                    {}
func (s *Scope) Stats() Stats                        { return Stats{} }
func AssertNoLeaks(t testing.TB)                     {}
func (l *Loan) Close() error                         { return nil }
func (a *Array) Close() error                        { return nil }
func (a *Array) Scope() *Scope                       { return nil }
func (a *Array) DType() weir.DType                   { return 0 }
func (a *Array) Shape() []int                        { return nil }
func (a *Array) Dim(axis int) int                    { return 0 }
func (a *Array) Tensor() *weir.Tensor                { return nil }
func (a *Array) Detach() (*weir.Tensor, error)       { return nil, nil }

func From[T weir.Element](s *Scope, data []T, shape ...int) *Array { return nil }
func Scalar[T weir.Element](s *Scope, v T) *Array                  { return nil }
func Of(s *Scope, t *weir.Tensor) *Array                           { return nil }
func Copy[T weir.Element](a *Array) ([]T, error)                   { return nil, nil }
func View[T weir.Element](a *Array) ([]T, error)                   { return nil, nil }
func Item[T weir.Element](a *Array) (t T, err error)               { return }

func (s *Scope) Number(x float64) *Array                  { return nil }
func (s *Scope) Add(a, b *Array) *Array                   { return nil }
func (s *Scope) MatMul(a, b *Array) *Array                { return nil }
func (s *Scope) Relu(a *Array) *Array                     { return nil }
func (s *Scope) Sum(a *Array, axes ...int) *Array         { return nil }
func (s *Scope) Reshape(a *Array, shape ...int) *Array    { return nil }
func (s *Scope) Zeros(dt weir.DType, shape ...int) *Array { return nil }
func (s *Scope) Concat(axis int, arrays ...*Array) *Array { return nil }
func (s *Scope) Split(a *Array, parts int) []*Array       { return nil }
func (s *Scope) Take(a, i *Array, axis int) *Array        { return nil }

type Func func(s *Scope, in ...*Array) []*Array
type Options struct{ Name string }
type Compiled struct{ x int }

func Jit(f Func, o Options) (*Compiled, error)           { return &Compiled{}, nil }
func (c *Compiled) Call(s *Scope, in ...*Array) []*Array { return nil }
func (c *Compiled) Close() error                         { return nil }
func Grad(f Func) Func                                   { return nil }
