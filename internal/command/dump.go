package command

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weirml/weir"
)

// stageOf is the default stage for each language.
var stageOf = map[string]string{"ir": "dead-expanded", "loop": "schedule", "program": "program", "asm": "asm",
	"spirv": "spirv"}

// irText begins a text of ir, and leftOut is in a line of a text whose constant's elements are left out.
const irText = "weir 1\nir "

var leftOut = regexp.MustCompile(`(?m)^ *const %.* data \d+$`)

// dumpCommand makes the command dump.
func (c *cli) dumpCommand() *cobra.Command {
	f := &modelFlags{}
	var after, lang, kernel string
	var weights bool
	cmd := &cobra.Command{
		Use: "dump MODEL", Short: "Print the model's text after a stage of the compiler", Args: exactly(1, "one MODEL"),
		Example: `  weir dump model.onnx --lang loop
  weir dump model.onnx --after fold
  weir dump model.onnx --after import --weights > model.weir  # the model as text
  weir dump model.onnx --after copies  # copies that remain, and why
  weir dump model.onnx --lang loop --kernel convolution
  weir dump model.onnx --lang asm --kernel convolution  # its machine code, as instructions
  weir dump model.onnx --lang asm --cpu neon  # code for another processor, which cannot run here`,
		RunE: func(cmd *cobra.Command, args []string) error {
			stages := map[string]string{}
			var order []string
			f.stage = func(name, text string) { stages[name] = text; order = append(order, name) }
			l, _, err := f.compile(cmd.Context(), args[0], func(o *weir.Options, _ *weir.Model) {
				o.Stage, o.Cross = f.stage, o.CPU != "" // code for other processors too: nothing runs
				if weights {
					o.WholeStage = first(after, stageOf[lang])
				}
			})
			if err == nil {
				defer l.Close()
			} else if stages[after] == "" {
				return err
			} // a stage that was reached is printed even if a later one fails
			name := after
			if name == "" && !cmd.Flags().Changed("lang") && !slices.Contains(order, "import") {
				name = "schedule" // an artefact has no earlier stage
			}
			if name == "" {
				var ok bool
				if name, ok = stageOf[lang]; !ok {
					return &weir.Error{Kind: weir.ErrUnsupported,
						Detail: fmt.Sprintf("--lang %s; ir, loop, program, asm and, for --target vulkan, spirv are supported", lang)}
				}
			}
			text, ok := stages[name]
			if !ok && name == "schedule" {
				text, ok = stages["lower"]
			}
			if !ok && after == "" && lang == "spirv" {
				return &weir.Error{Kind: weir.ErrUnsupported, File: args[0], Detail: "no SPIR-V is made of it for this target",
					Fix: "--target vulkan makes some"}
			}
			if !ok && after == "" && lang == "asm" {
				return &weir.Error{Kind: weir.ErrUnsupported, File: args[0],
					Detail: fmt.Sprintf("no machine code is made of it for %s", l.program.Target()),
					Fix:    "--lang loop shows the kernels; weir env says which machine code there is here"}
			}
			if !ok && after == "" {
				return &weir.Error{Kind: weir.ErrUnsupported, File: args[0], Detail: "an artefact holds no ir",
					Fix: "--lang loop and --lang program are there"}
			}
			if !ok {
				return usageError{fmt.Errorf("--after %s: there is no such stage; there are %s", name, strings.Join(order, ", "))}
			}
			if after != "" && cmd.Flags().Changed("lang") && !isText(text, lang) {
				return usageError{fmt.Errorf("--lang %s: the text after %s is another language's; leave one of the two flags out",
					lang, after)}
			}
			if kernel != "" {
				one := kernelText(text, kernel)
				if names := kernelNames(text); one == "" && len(names) == 0 {
					return usageError{fmt.Errorf("--kernel %s: the text after %s has no kernels; --lang loop has them", kernel,
						name)}
				} else if one == "" {
					return usageError{fmt.Errorf("--kernel %s: there is no such kernel; there are %s", kernel,
						strings.Join(names, ", "))}
				}
				text = one
			}
			if ir := strings.HasPrefix(text, irText); weights && !ir {
				return usageError{fmt.Errorf("--weights: the text after %s is of no ir", name)}
			} else if ir && leftOut.MatchString(text) && !c.quiet {
				fmt.Fprintln(os.Stderr, "weir: of large constants the text has the sizes only: with --weights it has their "+
					"elements, and can be loaded again")
			}
			if c.json {
				return errors.Join(err, c.printJSON(map[string]string{"stage": name, "text": text}))
			}
			stdout.Print(text)
			return err
		},
	}
	f.register(cmd, c)
	cmd.Flags().StringVar(&after, "after", "", "print the text after this stage of the compiler")
	cmd.Flags().StringVar(&lang, "lang", "ir", "ir, loop, program, asm (machine code) or, for --target vulkan, spirv")
	cmd.Flags().StringVar(&kernel, "kernel", "", "print only this kernel")
	cmd.Flags().BoolVar(&weights, "weights", false,
		"print all elements of constants in the text of ir, so that every command takes the text as a model")
	return cmd
}

// isText reports whether a text is of a language.
func isText(text, lang string) bool {
	switch lang {
	case "ir", "loop", "program":
		return strings.HasPrefix(text, "weir 1\n"+lang+" ")
	}
	return !strings.HasPrefix(text, "weir 1\n")
}

// kernelHeads begin the kernels of a text.
var kernelHeads = regexp.MustCompile(`(?m)^ *kernel @([^\s(]+)(?:\(| \{$)`)

// kernelNames lists the kernels of a text.
func kernelNames(text string) (names []string) {
	for _, head := range kernelHeads.FindAllStringSubmatch(text, -1) {
		names = append(names, head[1])
	}
	return names
}

// kernelText returns the text of one kernel from a module's text.
func kernelText(text, name string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		head := strings.TrimLeft(line, " ")
		if !strings.HasPrefix(head, "kernel @"+name+"(") && head != "kernel @"+name+" {" {
			continue
		}
		indent := line[:len(line)-len(head)]
		for j := i; j < len(lines); j++ {
			if lines[j] == indent+"}" {
				return strings.Join(lines[i:j+1], "\n") + "\n"
			}
		}
	}
	return ""
}
