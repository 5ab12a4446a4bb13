// Package user uses what another package gives.
package user

import (
	"across/lib"

	"github.com/weirml/weir/array"
)

func open(path string) (int, error) {
	p, err := lib.Open(path) // want `the program from lib.Open is not closed`
	if err != nil {
		return 0, err
	}
	return lib.Look(p), nil
}

func finished(path string) (int, error) {
	p, err := lib.Open(path)
	if err != nil {
		return 0, err
	}
	defer lib.Finish(p)
	return lib.Look(p), nil
}

func kept(path string) (*lib.Service, error) {
	p, err := lib.Open(path)
	if err != nil {
		return nil, err
	}
	return lib.NewService(p), nil
}

func lent(s *lib.Service) int { return len(s.Program().Outputs()) }

func block(parent *array.Scope, x *array.Array) *array.Array {
	s := array.NewScope("block", array.In(parent))
	defer s.Close()
	return lib.Block(s, x) // want `an array is returned, but dies`
}

func inner(parent *array.Scope, x *array.Array) *array.Array {
	return lib.Inner(parent, x)
}
