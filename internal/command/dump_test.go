package command

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/weirml/weir"
)

// valued returns the results of run --json --values, as numbers.
func valued(t *testing.T, model string, args ...string) map[string][]any {
	t.Helper()
	r := weirRun(t, append([]string{"run", model, "--json", "--values", "--seed", "3"}, args...)...)
	var found struct {
		Outputs map[string]struct {
			Values any `json:"values"`
		} `json:"outputs"`
	}
	if err := json.Unmarshal([]byte(r.out), &found); err != nil || r.code != 0 {
		t.Fatalf("run %s: %d %v %s", model, r.code, err, r.err)
	}
	flat := map[string][]any{}
	var add func(name string, v any)
	add = func(name string, v any) {
		if list, ok := v.([]any); ok {
			for _, x := range list {
				add(name, x)
			}
			return
		}
		flat[name] = append(flat[name], v)
	}
	for name, o := range found.Outputs {
		add(strings.TrimSuffix(name, ".1"), o.Values) // a text's outputs have the names of its values
	}
	return flat
}

// TestDumpIsAModel: the text of each stage of ir, with --weights, is a model that gives the same results.
func TestDumpIsAModel(t *testing.T) {
	for model, args := range map[string][]string{
		digits:                            {"--input", "image=random"},
		models + "two_dims/model.onnx":    {"--input", "random", "--input", "random", "--dim", "m=3", "--dim", "n=5"},
		models + "kv_cache/model.onnx":    nil,
		models + "loop_nested/model.onnx": nil,
	} {
		var want map[string][]any
		if args != nil {
			want = valued(t, model, args...)
		}
		stages := strings.Split(weirRun(t, "dump", model, "--after", "nothing").err, "there are ")
		read := 0
		for i, stage := range strings.Split(strings.TrimSpace(stages[len(stages)-1]), ", ") {
			if stage == "lower" {
				break
			}
			if testing.Short() && i%8 != 0 {
				continue
			}
			r := weirRun(t, "dump", model, "--after", stage, "--weights")
			if r.code != 0 || strings.Contains(r.err, "--weights") {
				t.Fatalf("%s after %s: %d %s", model, stage, r.code, r.err)
			}
			file := filepath.Join(t.TempDir(), "stage.weir")
			if err := os.WriteFile(file, []byte(r.out), 0o600); err != nil {
				t.Fatal(err)
			}
			read++
			if args == nil {
				if r := weirRun(t, "check", file); r.code != 0 {
					t.Errorf("%s after %s is no model: %s", model, stage, r.err)
				}
				continue
			}
			if got := valued(t, file, args...); !sameResults(got, want) {
				t.Errorf("%s after %s gives other results", model, stage)
			}
		}
		if read < 5 {
			t.Errorf("%s: %d stages were read", model, read)
		}
	}
	if r := weirRun(t, "dump", digits, "--after", "import"); r.code != 0 || !strings.Contains(r.err, "--weights") {
		t.Errorf("nobody is told what a text without weights lacks: %d %s", r.code, r.err)
	}
	if r := weirRun(t, "dump", digits, "--lang", "loop", "--weights"); r.code != exitUsage {
		t.Errorf("--weights of loops: %d %s", r.code, r.err)
	}
}

// sameResults reports whether results are equal up to the order of sums.
func sameResults(a, b map[string][]any) bool {
	if len(a) != len(b) {
		return false
	}
	for name, list := range a {
		if len(list) != len(b[name]) {
			return false
		}
		for i := range list {
			x, ok := list[i].(float64)
			y, ok2 := b[name][i].(float64)
			if ok != ok2 || ok && math.Abs(x-y) > 1e-5*(1+math.Abs(y)) || !ok && fmt.Sprint(list[i]) != fmt.Sprint(b[name][i]) {
				return false
			}
		}
	}
	return true
}

// flagLines matches the names and kinds in the usage of a command's flags; a switch does not have a kind.
var flagLines = regexp.MustCompile(`(?m)^ +(?:-\w, )?--(\S+)(?: ([^\s\[]+)\S*)?  `)

// TestNumbers: each flag of a number, a size or a form refuses other values, with the flag's name and exit code 2.
func TestNumbers(t *testing.T) {
	wrong := map[string][]string{
		"int": {"-1", "x", "1.5", "99999999999999999999"}, "uint": {"-1", "x"}, "float": {"-1", "x", "nan", "inf", "-inf"},
		"size": {"-1", "-3MiB", "0", "x", "300KB", "nan", "9000000TiB"},
		"form": {"", "helm", "Deployment"}}
	numbers := 0
	for _, cmd := range (&cli{}).command().Commands() {
		for _, f := range flagLines.FindAllStringSubmatch(cmd.Flags().FlagUsages(), -1) {
			switch name, kind := f[1], f[2]; kind {
			case "", "string", "stringArray":
			case "int", "uint", "float", "size", "form":
				numbers++
				for _, text := range wrong[kind] {
					r := weirRun(t, cmd.Name(), "model.onnx", "--"+name+"="+text)
					if r.code != exitUsage || !strings.Contains(r.err, "--"+name) || strings.Contains(r.err, "strconv") {
						t.Errorf("weir %s --%s %s: %d %s", cmd.Name(), name, text, r.code, r.err)
					}
				}
			default:
				t.Errorf("weir %s --%s is a %s, of which nobody says what is too little", cmd.Name(), name, kind)
			}
		}
	}
	if numbers < 30 {
		t.Errorf("%d flags of numbers", numbers)
	}
	for _, size := range []string{"1.5GiB", "8.27MiB", "900000000"} {
		if r := weirRun(t, "plan", digits, "--budget", size, "--dim", "batch=1"); r.code != 0 {
			t.Errorf("--budget %s: %d %s", size, r.code, r.err)
		}
	}
}

// TestKeepOfArtefact: an artefact has the outputs that it was compiled with; the error for others says how to get them.
func TestKeepOfArtefact(t *testing.T) {
	file := artefact(t, digits)
	if r := weirRun(t, "run", file, "--input", "zeros", "--keep", "relu"); r.code != exitUnsupported ||
		!strings.Contains(r.err, "weir compile MODEL --keep relu") {
		t.Errorf("%d %s", r.code, r.err)
	}
	if r := weirRun(t, "compile", digits, "-o", file, "--keep", "relu"); r.code != 0 {
		t.Fatalf("%d %s", r.code, r.err)
	}
	if r := weirRun(t, "run", file, "--input", "zeros", "--keep", "relu"); r.code != 0 ||
		!strings.Contains(r.out, "relu: ") {
		t.Errorf("%d %s", r.code, r.err)
	}
}

// TestAssembly: --lang asm prints the machine code of each kernel that --lang loop prints, for the model and its
// artefact; --kernel prints one kernel; portable code has none.
func TestAssembly(t *testing.T) {
	if weir.HostProcessor().CPU == "portable" {
		t.Skip("there is no machine code for this processor")
	}
	loops := weirRun(t, "dump", digits, "--lang", "loop").out
	all := weirRun(t, "dump", digits, "--lang", "asm")
	names := regexp.MustCompile(`(?m)^ *kernel @([\w.]+)\(`).FindAllStringSubmatch(loops, -1)
	if all.code != 0 || len(names) < 4 || strings.Count(all.out, "\nkernel @") != len(names)-1 {
		t.Fatalf("%d kernels in\n%s\n%s%s", len(names), loops, all.out, all.err)
	}
	for _, name := range names {
		one := weirRun(t, "dump", digits, "--lang", "asm", "--kernel", name[1])
		if one.code != 0 || !strings.HasPrefix(one.out, "kernel @"+name[1]+" {\nscratch ") ||
			!strings.HasSuffix(one.out, "\n}\n") || !strings.Contains(one.out,
			"\tret\n") || strings.Contains(one.out[1:], "kernel @") || !strings.Contains(all.out, one.out) {
			t.Errorf("%s: %d\n%s%s", name[1], one.code, one.out, one.err)
		}
	}
	if saved := weirRun(t, "dump", artefact(t, digits), "--lang", "asm"); saved.out != all.out {
		t.Errorf("the artefact's code is\n%s%s\nand the model's\n%s", saved.out, saved.err, all.out)
	}
	// Code for other processors is made here as well.
	for level, want := range map[string]string{"avx512amx": "zmm", "neon": "fmla", "i8mm": "fmla", "avx2": "ymm"} {
		r := weirRun(t, "dump", digits, "--lang", "asm", "--cpu", level)
		if r.code != 0 || strings.Count(r.out, "\nkernel @") == 0 || !strings.Contains(r.out, want) {
			t.Errorf("--cpu %s: %d\n%s%s", level, r.code, r.out, r.err)
		}
	}
	for _, args := range [][]string{{"--cpu", "portable"}, {"--target", "reference"}} {
		r := weirRun(t, append([]string{"dump", digits, "--lang", "asm"}, args...)...)
		if r.code != exitUnsupported || !strings.Contains(r.err, "no machine code") {
			t.Errorf("%v: %d %s%s", args, r.code, r.out, r.err)
		}
	}
}
