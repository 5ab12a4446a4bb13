// Package command is the command weir, for a main package that adds readers of files to it.
package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/offline"
)

// Exit codes.
const (
	exitNo          = 1  // a fault of an input, file or model, a failed expectation, over budget
	exitUsage       = 2  // wrong usage
	exitUnsupported = 3  // Weir cannot do it
	exitBug         = 70 // our bug
	exitInterrupted = 130
)

// usageError is wrong usage of the command line.
type usageError struct{ error }

// missingError is a file of the command line that does not exist.
type missingError struct{ error }

// Unwrap returns the cause.
func (e missingError) Unwrap() error { return e.error }

// named returns the error of reading a file that the command line names: a missingError if the file is not there.
func named(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return missingError{err}
	}
	return err
}

// errInterrupted is the error of a command that was interrupted.
var errInterrupted = errors.New("interrupted")

// errFailed ends the command with exit code 1 after its output has given the reason.
var errFailed = errors.New("failed")

// Main executes the process's command line, and returns the exit code. run --each also reads files by readers.
func Main(readers offline.Readers) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	context.AfterFunc(ctx, stop) // a second interrupt ends the process at once
	return run(ctx, &cli{readers: readers}, os.Args[1:])
}

// run executes the command line args, and returns the exit code.
func run(ctx context.Context, c *cli, args []string) int {
	if onTerminal(os.Stderr) {
		c.terminal = os.Stderr
	}
	root := c.command()
	root.SetArgs(args)
	stdout.err = nil
	err := root.ExecuteContext(ctx)
	if err == nil {
		err = stdout.err
	}
	if err == nil {
		return 0
	}
	c.json = c.json || slices.Contains(args, "--json") // a wrong flag before it leaves it unread
	return c.report(ctx, err)
}

// cli is the settings that all commands share.
type cli struct {
	json, quiet, verbose bool
	terminal             io.Writer // where progress is drawn; nil if standard error is no terminal
	readers              offline.Readers
}

// command makes the root command with all others.
func (c *cli) command() *cobra.Command {
	root := &cobra.Command{
		Use: "weir", Short: "Run models, and know before how much memory they take",
		Long: `weir runs, plans, checks, measures and compiles models (ONNX, or its own text).

Before a model runs, weir prints exactly how much memory it will take.`,
		Version:       version(),
		SilenceErrors: true, SilenceUsage: true,
	}
	root.SetVersionTemplate("weir {{.Version}}\n")
	root.PersistentFlags().BoolVar(&c.json, "json", false, "print one JSON value instead of text")
	root.PersistentFlags().BoolVarP(&c.quiet, "quiet", "q", false, "no progress")
	root.PersistentFlags().BoolVarP(&c.verbose, "verbose", "v", false, "log to standard error")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{flagError(err)} })
	root.AddCommand(c.runCommand(), c.planCommand(), c.packCommand(), c.checkCommand(), c.infoCommand(),
		c.kernelsCommand(), c.dumpCommand(), c.benchCommand(), c.testCommand(), c.compileCommand(), c.envCommand(),
		c.demoCommand(), c.embedCommand(), c.classifyCommand())
	for _, cmd := range root.Commands() {
		complete(cmd)
	}
	root.SetHelpCommand(helpCommand())
	return root
}

// helpCommand makes the command help.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use: "help [COMMAND]", Short: "Help about any command",
		RunE: func(cmd *cobra.Command, args []string) error {
			about, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return usageError{fmt.Errorf("help %s: there is no such command", strings.Join(args, " "))}
			}
			about.InitDefaultHelpFlag()
			return about.Help()
		},
	}
}

// report prints an error and returns its exit code.
func (c *cli) report(ctx context.Context, err error) int {
	if errors.Is(err, errFailed) {
		return exitNo
	}
	code := exitNo
	var usage usageError
	var missing missingError
	switch {
	case errors.As(err, &missing):
		code = exitUsage
	case errors.As(err, &usage), strings.HasPrefix(err.Error(), "unknown command"),
		strings.HasPrefix(err.Error(), "unknown flag"), strings.HasPrefix(err.Error(), "required flag"):
		code = exitUsage
	case ctx.Err() != nil:
		code, err = exitInterrupted, errInterrupted
	case errors.Is(err, weir.ErrInternal):
		code = exitBug
	case errors.Is(err, weir.ErrUnsupported):
		code = exitUnsupported
	}
	err = inFlags(err)
	if c.json {
		var e *weir.Error
		if !errors.As(err, &e) {
			e = &weir.Error{Kind: weir.ErrInput, Detail: err.Error()}
			if code == exitBug {
				e.Kind = weir.ErrInternal
			}
		}
		text, _ := json.Marshal(map[string]any{"error": e})
		stdout.Println(string(text))
	}
	fmt.Fprintln(os.Stderr, "weir:", err)
	if code == exitUsage && missing.error == nil {
		fmt.Fprintln(os.Stderr, "weir: see weir help")
	}
	if code == exitBug {
		c.reproducer(err)
	}
	return code
}

// flagsOf are the flags for the options that errors name.
var flagsOf = strings.NewReplacer("Options.Dims", "--dim NAME=MIN..MAX", "Options.Layouts", "--layout",
	"Options.Calls", "--calls", "Options.Budget", "--budget", "(MaxTokens)", "(--max-tokens)",
	"set the target to vulkan", "add --target vulkan")

// inFlags returns an error whose fix names the command's flags instead of the options of Go programs.
func inFlags(err error) error {
	e, ok := err.(*weir.Error)
	if !ok || flagsOf.Replace(e.Fix) == e.Fix {
		return err
	}
	told := *e
	told.Fix = flagsOf.Replace(e.Fix)
	return &told
}

// reproducer writes the details of a bug to a file, and prints its path.
func (c *cli) reproducer(err error) {
	f, e := os.CreateTemp("", "weir-bug-*.txt")
	if e != nil {
		return
	}
	defer f.Close()
	fmt.Fprintf(f, "%v\n\narguments: %q\n\n%s\n", err, os.Args[1:], diag.Stack(err))
	fmt.Fprintln(os.Stderr, "weir: this is a bug in weir; what is needed to find it was written to", f.Name())
}

// exactly returns a check for n arguments.
func exactly(n int, what string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) != n {
			return usageError{fmt.Errorf("%d arguments, %s is needed", len(args), what)}
		}
		return nil
	}
}

// printJSON prints a value as JSON.
func (c *cli) printJSON(v any) error {
	e := json.NewEncoder(os.Stdout)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}
