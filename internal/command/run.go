package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/values"
)

// inputFlags are the values of a run's inputs.
type inputFlags struct {
	inputs []string
	seed   uint64
}

// register adds the flags to a command.
func (f *inputFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&f.inputs, "input", nil,
		"[NAME=]VALUE: a .npy .npz .pb .safetensors .json .png .jpg .bin .txt file, - (npy on standard input), a JSON "+
			"literal (a sequence is a list of its tensors, null an optional without a value), zeros, random, random:LO..HI "+
			"(repeatable)")
	cmd.Flags().Var(from(&f.seed, 0, 0), "seed", "the seed of random values")
}

// read makes the inputs. Missing inputs are random if fill is set, and an error otherwise. free binds the dimensions
// that neither dims nor the shapes of the given values bind.
func (f *inputFlags) read(p *weir.Program, dims weir.Dims, fill bool,
	free func(*weir.Program, weir.Dims)) (weir.Inputs, error) {
	infos := p.Inputs()
	texts := make([]string, len(infos))
	given := make([]bool, len(infos))
	for _, text := range f.inputs {
		next := 0
		for next < len(given) && given[next] {
			next++
		}
		i, value, err := values.Match(text, infos, next)
		if err != nil {
			return nil, err
		}
		if given[i] {
			return nil, usageError{fmt.Errorf("--input %s: %s is given twice", text, infos[i].Name)}
		}
		texts[i], given[i] = value, true
	}
	r := &values.Reader{Dims: dims, Seed: f.seed, Stdin: os.Stdin, Range: func(input string) (lo, hi int64, ok bool) {
		return p.ValueRange(input, dims)
	}}
	in := weir.Inputs{}
	// Values with shapes come first: they bind dimensions for those without.
	for pass := 0; pass < 2; pass++ {
		if pass == 1 && len(in) < len(infos) {
			free(p, dims)
		}
		for i, info := range infos {
			if !given[i] && info.Initial {
				continue // the program has an initial value
			}
			if !given[i] {
				if !fill {
					return nil, diag.Inputf("input %s has no value", info).AtTensor(info.Name).WithFix("add --input %s=VALUE",
						info.Name)
				}
				texts[i] = "random"
			}
			shapeless := texts[i] == "zeros" || strings.HasPrefix(texts[i], "random")
			if shapeless != (pass == 1) {
				continue
			}
			t, err := r.Arg(texts[i], info)
			if err != nil {
				return nil, named(err)
			}
			in[info.Name] = t
		}
	}
	return in, nil
}

// takeFree binds unbound dimensions to 1, or to their minimum, and prints them.
func takeFree(p *weir.Program, dims weir.Dims) {
	for _, d := range p.Dims() {
		if _, bound := dims[d.Name]; !bound {
			dims[d.Name] = min(max(1, d.Min), d.Max)
			fmt.Fprintf(os.Stderr, "weir: %s is free: taken as %d\n", d.Name, dims[d.Name])
		}
	}
}

// runFlags are the flags of run.
type runFlags struct {
	modelFlags
	inputFlags
	output  string
	top     int
	expect  []string
	rtol    float64
	atol    float64
	keep    []string
	compare string
	values  bool
	each    eachFlags
}

// runCommand makes the command run.
func (c *cli) runCommand() *cobra.Command {
	f := &runFlags{}
	cmd := &cobra.Command{
		Use: "run MODEL", Short: "Run a model", Args: exactly(1, "one MODEL"),
		Example: `  weir run digits.onnx --input image=three.png --top 3
  weir run model.onnx --input x=x.npy --output results
  weir run model.onnx --input zeros --expect y=y.npy
  weir run model.onnx --each 'pictures/*.png?scale=1/255' --output results`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.each.inputs != "" {
				return f.each.run(cmd.Context(), f, args[0])
			}
			for _, name := range []string{"rows", "part", "format", "shard"} {
				if cmd.Flags().Changed(name) {
					return usageError{fmt.Errorf("--%s is for --each", name)}
				}
			}
			return f.run(cmd.Context(), args[0])
		},
	}
	f.modelFlags.register(cmd, c)
	f.inputFlags.register(cmd)
	f.each.register(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.output, "output", "", "write the results into this folder")
	flags.Var(from(&f.top, 0, 0), "top", "rank the elements along the last axis, and print this many")
	flags.StringArrayVar(&f.expect, "expect", nil, "NAME=FILE: fail if this output differs from the file (repeatable)")
	flags.Var(from(&f.rtol, 0, 1e-3), "rtol", "relative tolerance of --expect and --compare")
	flags.Var(from(&f.atol, 0, 1e-7), "atol", "absolute tolerance of --expect and --compare")
	flags.StringArrayVar(&f.keep, "keep", nil, "also return this tensor of the model as a result (repeatable)")
	flags.BoolVar(&f.values, "values", false, "with --json, print all elements of the results")
	flags.StringVar(&f.compare, "compare", "",
		"reference: also run the slow reference, and name the first node whose result differs")
	return cmd
}

// run compiles the model at path, runs it once, and prints, compares or writes the outputs.
func (f *runFlags) run(ctx context.Context, path string) error {
	if f.compare != "" && f.compare != "reference" {
		return usageError{fmt.Errorf("--compare %s: compare with reference", f.compare)}
	}
	if f.values && !f.c.json {
		return usageError{errors.New("--values is for --json; --output writes the results to files")}
	}
	for _, e := range f.expect {
		if !strings.Contains(e, "=") {
			return usageError{fmt.Errorf("--expect %s: write NAME=FILE", e)}
		}
	}
	l, dims, err := f.compile(ctx, path, f.kept)
	if err != nil {
		return err
	}
	defer l.Close()
	for _, e := range f.expect {
		name, _, _ := strings.Cut(e, "=")
		if names := namesOf(l.program.Outputs()); !slices.Contains(names, name) {
			return diag.Inputf("the model has no output %q", name).WithFix("its outputs are %s; --keep adds one",
				strings.Join(names, ", "))
		}
	}
	in, err := f.inputFlags.read(l.program, dims, false, takeFree)
	if err != nil {
		return err
	}
	if f.compare != "" {
		return f.compareReference(ctx, l, path, in)
	}
	r, err := l.program.Run(ctx, in)
	if err != nil {
		return err
	}
	defer r.Close()
	infos := l.program.Outputs()
	var outputs []values.Value
	for i, info := range infos {
		v, err := values.FromResults(r, i, info)
		if err != nil {
			return err
		}
		outputs = append(outputs, v)
	}
	if f.output != "" {
		if err := values.Write(f.output, outputs); err != nil {
			return diag.Inputf("%v", err).AtFile(f.output).WithCause(err)
		}
	}
	if err := f.print(outputs); err != nil {
		return err
	}
	return f.check(infos, outputs)
}

// kept adds the tensors of --keep to the outputs.
func (f *runFlags) kept(o *weir.Options, m *weir.Model) {
	if f.keep == nil {
		return
	}
	for _, info := range m.Outputs() {
		o.Outputs = append(o.Outputs, info.Name)
	}
	for _, name := range f.keep {
		if !slices.Contains(o.Outputs, name) {
			o.Outputs = append(o.Outputs, name)
		}
	}
}

// print prints a summary of the outputs, or their largest elements with --top.
func (f *runFlags) print(outputs []values.Value) error {
	if f.c.json {
		all := map[string]any{}
		for _, v := range outputs {
			all[v.Name] = values.SummariseValue(v, f.values)
		}
		return f.c.printJSON(map[string]any{"outputs": all})
	}
	if f.output != "" && f.top == 0 {
		return nil
	}
	for _, v := range outputs {
		if v.Absent {
			stdout.Printf("%s: nothing\n", v.Name)
		} else if v.Sequence {
			stdout.Printf("%s: a sequence of %d\n", v.Name, len(v.Tensors))
		}
		for i, t := range v.Tensors {
			name := v.Name
			if v.Sequence {
				name = fmt.Sprintf("%s[%d]", v.Name, i)
			}
			f.printTensor(name, t)
		}
	}
	return nil
}

// printTensor prints the line of a tensor, or its rows with --top.
func (f *runFlags) printTensor(name string, t *values.Array) {
	if f.top > 0 && t.Rank() > 0 && t.DType() != weir.StringType {
		stdout.Print(values.Rank(name, t, f.top))
		return
	}
	s := values.Summarise(t)
	line := fmt.Sprintf("%s: %s%s", name, t.DType(), values.ShapeString(t))
	if s.Min != nil {
		line += fmt.Sprintf("  min %.6g  max %.6g  mean %.6g", *s.Min, *s.Max, *s.Mean)
	}
	stdout.Printf("%s  %s\n", line, strings.Join(s.First, " "))
}

// check compares outputs with the values of --expect.
func (f *runFlags) check(infos []weir.Info, outputs []values.Value) error {
	failed := false
	for _, e := range f.expect {
		name, file, _ := strings.Cut(e, "=")
		at := slices.IndexFunc(outputs, func(v values.Value) bool { return v.Name == name })
		want, err := values.Expected(file, infos[at], outputs[at])
		if err != nil {
			return named(err)
		}
		if err := values.CompareValues(outputs[at], want, f.rtol, f.atol); err != nil {
			failed = true
			fmt.Fprintf(os.Stderr, "weir: %s is not as expected: %v\n", name, err)
		} else if !f.c.json {
			stdout.Printf("%s: as expected\n", name)
		}
	}
	if failed {
		return errFailed
	}
	return nil
}

// compareReference compares the program with the reference, and names the first node whose result differs.
func (f *runFlags) compareReference(ctx context.Context, l *loaded, path string, in weir.Inputs) error {
	d, err := l.program.Compare(ctx, in, f.rtol, f.atol)
	if err != nil {
		return err
	}
	if f.c.json {
		text, _ := json.Marshal(map[string]any{"equal": d == nil, "difference": d})
		stdout.Println(string(text))
	}
	if d == nil {
		if !f.c.json {
			stdout.Println("every tensor is as the reference has it")
		}
		return nil
	}
	dir, err := d.Save("")
	if errors.Is(err, weir.ErrUnsupported) {
		fmt.Fprintf(os.Stderr, "weir: %s\n", d)
		return errFailed
	} else if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "weir: %s; its inputs were written to %s\n", d, dir)
	return errFailed
}
