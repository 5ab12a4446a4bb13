package command

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/weirml/weir"
)

// flagValues are the values of flags with few values, for completion in a shell.
var flagValues = map[string][]string{
	"target": {"cpu", "vulkan", "reference"}, "precision": {"f32", "bf16", "int8"}, "cache": {"f32", "bf16", "int8"},
	"cpu": {"native", "avx512amx", "avx512bf16", "avx512vnni", "avx512", "avxvnni", "avx2", "bf16", "i8mm", "dotprod",
		"neon", "portable"},
	"limits": {"minimum", "mobile", "desktop", "gfx942"},
	"form":   {"deployment", "kserve", "seldon"}, "kubernetes": {"deployment", "kserve", "seldon"},
	"compare": {"reference"}, "lang": {"ir", "loop", "program", "asm", "spirv"},
}

// flagNames list the names of a model that complete flags of the form NAME=….
var flagNames = map[string]func(m *weir.Model) []string{
	"input": func(m *weir.Model) []string { return namesOf(m.Inputs()) },
	"state": func(m *weir.Model) []string {
		return namesOf(m.Inputs())
	}, "layout": func(m *weir.Model) []string { return namesOf(m.Inputs()) },
	"expect": func(m *weir.Model) []string { return namesOf(m.Outputs()) },
	"dim": func(m *weir.Model) (names []string) {
		for _, in := range m.Inputs() {
			for _, e := range in.Shape {
				if e.Dim != "" {
					names = append(names, e.Dim)
				}
			}
		}
		return names
	},
}

// namesOf returns the names of inputs or outputs.
func namesOf(infos []weir.Info) (names []string) {
	for _, i := range infos {
		names = append(names, i.Name)
	}
	return names
}

// complete sets up completion of a command's model and flags.
func complete(cmd *cobra.Command) {
	if strings.Contains(cmd.Use, "MODEL") {
		cmd.ValidArgsFunction = func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return []string{"onnx", "pt2", "weir"}, cobra.ShellCompDirectiveFilterFileExt
		}
	}
	for name, list := range flagValues {
		if cmd.Flags().Lookup(name) != nil {
			must(cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(list, cobra.ShellCompDirectiveNoFileComp)))
		}
	}
	for name, of := range flagNames {
		if cmd.Flags().Lookup(name) == nil {
			continue
		}
		must(cmd.RegisterFlagCompletionFunc(name, func(_ *cobra.Command, args []string, _ string) ([]string,
			cobra.ShellCompDirective) {
			if len(args) == 0 {
				return nil, cobra.ShellCompDirectiveDefault
			}
			m, err := load(args[0])
			if err != nil {
				return nil, cobra.ShellCompDirectiveDefault
			}
			defer m.Close()
			var list []string
			for _, n := range of(m) {
				list = append(list, n+"=")
			}
			return list, cobra.ShellCompDirectiveNoSpace
		}))
	}
}

// must panics at an error that only a bug of the command causes.
func must(err error) {
	if err != nil {
		panic(err)
	}
}
