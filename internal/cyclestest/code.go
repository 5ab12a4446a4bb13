package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/weirml/weir/internal/compiler"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/sources"
	"github.com/weirml/weir/internal/target"
)

// aCase is a module; build makes a new one at each call. One that is quantised is compiled for levels of bytes only.
type aCase struct {
	name      string
	quantised bool
	build     func(ctx context.Context) (*ir.Module, []string, error)
}

// cases returns the layers, or the models in files.
func cases(ctx context.Context, files []string) (list []aCase, err error) {
	if len(files) == 0 {
		for _, l := range layers() {
			list = append(list, aCase{l.name, l.quantised, func(context.Context) (*ir.Module, []string, error) {
				m, err := parsed(l.text)
				return m, nil, err
			}})
		}
		return list, nil
	}
	for _, name := range files {
		m, err := sources.OpenPath(ctx, name)
		if err != nil {
			return nil, err
		}
		list = append(list, aCase{filepath.Base(name), false, func(ctx context.Context) (*ir.Module, []string, error) {
			built, err := m.Build(ctx, sources.Asked{})
			if err != nil {
				return nil, nil, err
			}
			return built.Module, built.Results, nil
		}})
	}
	return list, nil
}

// kernel is the machine code of a kernel: of its routines, one after the other.
type kernel struct {
	name string
	code [][]byte
}

// errSeen ends a compilation after its code was seen.
var errSeen = errors.New("the code is seen")

// kernels compiles a case for a level of processors, which need not be this one's, and returns the kernels that differ.
func (c *aCase) kernels(ctx context.Context, level string, precision dtype.DType) (list []kernel, err error) {
	defer diag.Recover(&err, "compiling "+c.name)
	machine, err := target.Assumed(level, 1)
	if err != nil {
		return nil, err
	}
	m, names, err := c.build(ctx)
	if err != nil {
		return nil, err
	}
	o := compiler.Options{Machine: machine, Precision: precision, Names: names, Foreign: true}
	o.Planned = func(compiled *compiler.Compiled) error {
		seen := map[string]bool{}
		for _, k := range compiled.Code.Kernels {
			if code, ok := k.(interface{ Routines() [][]byte }); ok {
				if text := fmt.Sprint(code.Routines()); !seen[text] {
					seen[text] = true
					list = append(list, kernel{k.Name(), code.Routines()})
				}
			}
		}
		return errSeen
	}
	if _, err := compiler.Compile(m, o); !errors.Is(err, errSeen) {
		return nil, err
	}
	return list, nil
}
