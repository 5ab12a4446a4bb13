package command

import (
	"context"
	"errors"
	"io"
	"os"
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
		Use: "compile MODEL", Short: "Compile a model into a file that every command takes as a model",
		Args: exactly(1, "one MODEL"),
		Long: `Compile a model into a file that every command takes as a model.

The file holds the model's loops, scheduled for the level of processor that --cpu names; this machine need not have that level. The file holds no machine code:
the code is generated when the file is loaded. On a processor below that level, loading fails, unless --cpu portable permits slower code.

If --dim NAME=SIZE binds a dimension, the file is compiled for that size only, and is as fast as the file of a model with fixed sizes.`,
		Example: `  weir compile model.onnx -o model.weir
  weir compile model.onnx -o model.weir --dim batch=1..64 --keep hidden
  weir compile model.onnx -o model.weir --cpu avx512
  weir compile model.onnx -o model.weir --tune --dim n=8..8`,
		RunE: func(cmd *cobra.Command, args []string) error { return f.compileTo(cmd.Context(), args[0]) },
	}
	f.register(cmd, c)
	f.fixes = true
	cmd.Flags().StringVarP(&f.output, "output", "o", "", "the file to write (default the model's name with .weir)")
	cmd.Flags().StringArrayVar(&f.keep, "keep", nil, "also make this tensor of the model an output (repeatable)")
	return cmd
}

// notOnto returns an error if a file to be written is the model that is read, under whatever name.
func notOnto(output, model string) error {
	from, err := os.Stat(model)
	if err != nil {
		return nil // the error of reading it says more
	}
	if to, err := os.Stat(output); err == nil && os.SameFile(from, to) {
		return diag.Inputf("the output is the model that is read: writing would destroy it").AtFile(output).
			WithFix("name another file with -o")
	}
	return nil
}

// compileTo compiles the model at path, and writes the artefact.
func (f *compileFlags) compileTo(ctx context.Context, path string) error {
	output := f.output
	if output == "" {
		output = strings.TrimSuffix(path, filepath.Ext(path)) + ".weir"
	}
	if err := notOnto(output, path); err != nil {
		return err
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
