package main

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/values"
)

// compileFlags are the flags of compile.
type compileFlags struct {
	modelFlags
	output string
	keep   []string
}

// compileCommand makes the command compile.
func (c *cli) compileCommand() *cobra.Command {
	f := &compileFlags{}
	cmd := &cobra.Command{
		Use: "compile MODEL", Short: "Save a model compiled, as a file that every command takes for a model",
		Args: exactly(1, "one MODEL"),
		Long: `Save a model compiled, as a file that every command takes for a model.

The file holds the model's loops as they are scheduled for a level of processor, the one that --cpu names whether or not this machine has it, and no machine code:
that is made when the file is loaded. A processor that has less refuses the file, unless --cpu portable says that it may be slower.

A dimension that --dim binds, NAME=SIZE, has that size in the file and no other: the file is as fast as that of a model of fixed sizes.`,
		Example: `  weir compile model.onnx -o model.weir
  weir compile model.onnx -o model.weir --dim batch=1..64 --keep hidden
  weir compile model.onnx -o model.weir --cpu avx512
  weir compile model.onnx -o model.weir --tune --dim n=8..8`,
		RunE: func(cmd *cobra.Command, args []string) error { return f.compileTo(cmd.Context(), args[0]) },
	}
	f.register(cmd, c)
	f.fixes = true
	cmd.Flags().StringVarP(&f.output, "output", "o", "", "the file to write (default the model's name with .weir)")
	cmd.Flags().StringArrayVar(&f.keep, "keep", nil, "also make this tensor of the model's an output (repeatable)")
	return cmd
}

// compileTo compiles the model at path, and writes the artefact.
func (f *compileFlags) compileTo(ctx context.Context, path string) error {
	output := f.output
	if output == "" {
		output = strings.TrimSuffix(path, filepath.Ext(path)) + ".weir"
	}
	cpu := ""
	l, _, err := f.compile(ctx, path, func(o *weir.Options, m *weir.Model) {
		(&runFlags{keep: f.keep}).kept(o, m)
		o.Cross, cpu = o.CPU != "", o.CPU
	})
	if err != nil {
		return err
	}
	defer l.Close()
	switch {
	case l.program.Target() == weir.Reference:
		cpu = string(weir.Reference)
	case cpu == "" || cpu == "native":
		cpu = l.program.CPU()
	}
	var size int64
	err = values.WriteAtomic(output, func(w io.Writer) (err error) {
		if size, err = l.program.WriteTo(w); err != nil {
			return err
		}
		return ctx.Err()
	})
	if err != nil {
		var e *weir.Error
		if ctx.Err() != nil || errors.As(err, &e) {
			return err
		}
		return diag.Inputf("cannot be written").AtFile(output).WithCause(err)
	}
	if f.c.json {
		return f.c.printJSON(map[string]any{"file": output, "bytes": size, "target": l.program.Target(), "cpu": cpu,
			"compile_ms": ms(l.compileTime), "tuned": l.program.Tuned()})
	}
	stdout.Printf("%s: %s for %s\n", output, values.FormatBytes(size), cpu)
	if f.tune {
		printTuned(l.program.Tuned())
	}
	return nil
}
