package command

import (
	"bufio"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/weirml/weir"
)

// textFlags are the flags of commands whose models read texts.
type textFlags struct {
	modelFlags
	input string
}

// register adds the flags to a command. maxTokens is where --max-tokens is stored.
func (f *textFlags) register(cmd *cobra.Command, c *cli, maxTokens *int) {
	f.registerRuns(cmd, c)
	flags := cmd.Flags()
	flags.Var(&size{to: &f.budget}, "budget", "the most memory that the loaded model may take, such as 512MiB")
	flags.StringVar(&f.input, "input", "", "a file with a text on each line, or - for standard input")
	flags.Var(from(maxTokens, 0, 0), "max-tokens",
		"the most tokens of a text; longer ones are cut (default what the model says)")
}

// arguments checks the arguments of the command line: a model, and texts unless there is --input.
func (f *textFlags) arguments(args []string) error {
	if len(args) == 0 || len(args) == 1 && f.input == "" || len(args) > 1 && f.input != "" {
		return usageError{fmt.Errorf("%d arguments; a MODEL and texts, or --input, are needed", len(args))}
	}
	return nil
}

// read returns the texts, those of the arguments or of --input, and the options with which the model is compiled.
func (f *textFlags) read(model string, texts []string) ([]string, weir.Options, error) {
	if f.input != "" {
		var err error
		if texts, err = lines(f.input); err != nil {
			return nil, weir.Options{}, err
		}
	}
	if _, err := os.Stat(model); err != nil {
		return nil, weir.Options{}, named(err)
	}
	options, _, err := f.options()
	options.Dims = nil
	return texts, options, err
}

// progress shows that a model is compiled, unless the options have a logger already.
func (f *textFlags) progress(o *weir.Options) *bar {
	b := f.c.progress(0, "compiling")
	if o.Logger == nil {
		o.Logger = b.logger()
	}
	return b
}

// lines returns the lines of a file; - is standard input.
func lines(name string) (list []string, err error) {
	var from io.Reader = os.Stdin
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return nil, named(err)
		}
		defer file.Close()
		from = file
	}
	s := bufio.NewScanner(from)
	s.Buffer(nil, 64<<20)
	for s.Scan() {
		list = append(list, s.Text())
	}
	return list, s.Err()
}
