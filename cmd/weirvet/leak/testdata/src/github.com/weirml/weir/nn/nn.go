// Package nn stands for the real one: names and signatures, no meaning.
package nn

import "github.com/weirml/weir/array"

type Layer interface {
	Forward(s *array.Scope, x *array.Array) *array.Array
}
type Store struct{ x int }

func Linear(in, out int) Layer              { return nil }
func Init(l Layer, key *array.Array) *Store { return &Store{} }
func (p *Store) Close() error               { return nil }

type Context struct {
	*array.Scope
	x int
}

func Inference(s *array.Scope, p *Store) *Context          { return &Context{Scope: s} }
func One(c *Context, l Layer, x *array.Array) *array.Array { return nil }
func (c *Context) Param(name string) *array.Array          { return nil }
