//go:build unix

package main

import (
	"bytes"
	"debug/elf"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"text/template"

	"go.yaml.in/yaml/v3"
)

// most is the most bytes that the stripped command may have.
const most = 39 << 20

// TestDockerfile runs the build commands of the Dockerfile, with a folder of the test in place of /out: the result is
// one static file. (It needs no Docker; the image has nothing besides that file.)
func TestDockerfile(t *testing.T) {
	text, err := os.ReadFile("../../Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	out, ran := t.TempDir(), 0
	for line := range strings.Lines(string(text)) {
		command, ok := strings.CutPrefix(strings.TrimSpace(line), "RUN ")
		if !ok {
			continue
		}
		c := exec.Command("sh", "-c", strings.ReplaceAll(command, "/out", out))
		c.Dir = "../../.."
		if said, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", command, err, said)
		}
		ran++
	}
	info, err := os.Stat(filepath.Join(out, "weir-serve"))
	if err != nil || ran != 2 {
		t.Fatalf("%d commands ran: %v", ran, err)
	}
	if info.Size() > most {
		t.Errorf("the command has %d bytes, and at most %d are wanted", info.Size(), most)
	}
	if runtime.GOOS != "linux" {
		return
	}
	f, err := elf.Open(filepath.Join(out, "weir-serve"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
			t.Errorf("the command is not static: it has %v", p.Type)
		}
	}
}

// render fills a template of the chart, with the functions of Helm that it uses.
func render(t *testing.T, path string, values map[string]any) []map[string]any {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	page, err := template.New(path).Option("missingkey=error").Funcs(template.FuncMap{
		"quote": func(v any) string { return fmt.Sprintf("%q", fmt.Sprint(v)) },
		"add":   func(a, b int) int { return a + b },
	}).Parse(string(text))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := page.Execute(&out, map[string]any{"Values": values, "Release": map[string]any{"Name": "r"}}); err != nil {
		t.Fatal(err)
	}
	var list []map[string]any
	for from := yaml.NewDecoder(&out); ; {
		one := map[string]any{}
		if err := from.Decode(&one); err == io.EOF {
			return list
		} else if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		list = append(list, one)
	}
}

// TestChart: the chart's templates are manifests, and the container's arguments are flags of the command.
func TestChart(t *testing.T) {
	const chart = "../../examples/helm/weir-serve/"
	for _, tokens := range []string{"", "secret"} {
		values := render(t, chart+"values.yaml", nil)[0]
		values["tokens"] = tokens
		for file, kind := range map[string]string{"deployment.yaml": "Deployment", "service.yaml": "Service"} {
			all := render(t, chart+"templates/"+file, values)
			if len(all) != 1 || all[0]["kind"] != kind || all[0]["metadata"].(map[string]any)["name"] != "r" {
				t.Errorf("%s has %v", file, all)
			}
			if kind != "Deployment" {
				continue
			}
			pod := all[0]["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)
			container := pod["containers"].([]any)[0].(map[string]any)
			args := []string{t.TempDir()} // in place of /mnt/models
			for _, a := range container["args"].([]any)[1:] {
				args = append(args, a.(string))
			}
			if s, err := parse(args); err != nil || (s.tokens != "") != (tokens != "") || s.manage == "" || !s.json {
				t.Errorf("%v: %v", args, err)
			}
			memory := container["resources"].(map[string]any)
			if memory["limits"].(map[string]any)["memory"] != values["memory"] ||
				memory["requests"].(map[string]any)["memory"] != values["memory"] {
				t.Errorf("the container's memory is %v", memory)
			}
			if grace, _ := pod["terminationGracePeriodSeconds"].(int); grace <= values["drain"].(int) {
				t.Errorf("the pod ends after %d seconds, and the server drains for %v", grace, values["drain"])
			}
		}
	}
}

// TestUnit: the unit's command is one that the flags accept.
func TestUnit(t *testing.T) {
	text, err := os.ReadFile("../../examples/weir-serve.service")
	if err != nil {
		t.Fatal(err)
	}
	_, command, ok := strings.Cut(string(text), "\nExecStart=")
	command, _, _ = strings.Cut(command, "\n")
	args := strings.Fields(strings.ReplaceAll(command, "/srv/models", t.TempDir()))
	if s, err := parse(args[1:]); !ok || err != nil || s.options.Limit > 7<<30 || !s.json {
		t.Errorf("%q: %v", command, err)
	}
}
