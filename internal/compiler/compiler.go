// Package compiler is the pipeline: ir in, a program and its code out, with the certificate of its memory. The order of the
// passes is the table in passes.go; the rest is this file.
package compiler

import (
	"github.com/weirml/weir/internal/codegen/portable"
	"github.com/weirml/weir/internal/codegen/reference"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/lower"
	"github.com/weirml/weir/internal/memplan"
	"github.com/weirml/weir/internal/program"
	"github.com/weirml/weir/internal/schedule"
	"github.com/weirml/weir/internal/target"
)

// Options choose how to compile. The zero value schedules for Machine and generates portable code.
type Options struct {
	Machine   target.Machine
	Reference bool                           // no scheduling, and the slow interpreter as code
	After     func(stage string, text string) // called with the text of each stage where not nil
	Progress  func(stage string)
}

// Compiled is the result.
type Compiled struct {
	IR      *ir.Module
	Loop    *loop.Module
	Program *program.Program
	Code    *target.Code
	Arena   *memplan.Solution
	Outputs *memplan.Solution
}

// Compile runs the pipeline. It takes the module over.
func Compile(m *ir.Module, o Options) (c *Compiled, err error) {
	stage := "verify"
	defer func() {
		if r := recover(); r != nil {
			err = diag.Recovered(r, "compiling, in "+stage)
		}
	}()
	c = &Compiled{IR: m}
	done := func(name string, text func() string) {
		if o.After != nil {
			o.After(name, text())
		}
		stage = name
		if o.Progress != nil {
			o.Progress(name)
		}
	}
	if err := ir.Verify(m); err != nil {
		return nil, err
	}
	done("import", m.String)
	for _, p := range Passes {
		stage = p.Name
		if err := p.Run(m); err != nil {
			return nil, err
		}
		if err := ir.Verify(m); err != nil {
			panic(diag.Internalf("after %s: %v", p.Name, err))
		}
		done(p.Name, m.String)
	}
	stage = "lower"
	if c.Loop, err = lower.Module(m); err != nil {
		return nil, err
	}
	done("lower", c.Loop.String)
	if !o.Reference {
		stage = "schedule"
		if err := schedule.Run(c.Loop, o.Machine); err != nil {
			return nil, err
		}
		done("schedule", c.Loop.String)
	}
	stage = "plan"
	if c.Program, err = assemble(c.Loop, lifetimes(c.Loop), c.layout); err != nil {
		return nil, err
	}
	if err := c.Program.Verify(); err != nil {
		panic(diag.Internalf("the program is wrong: %v", err))
	}
	done("program", c.Program.String)
	stage = "codegen"
	generate := portable.Compile
	if o.Reference {
		generate = reference.Compile
	}
	if c.Code, err = generate(c.Loop, o.Machine); err != nil {
		return nil, err
	}
	return c, nil
}
