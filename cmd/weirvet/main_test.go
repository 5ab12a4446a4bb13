package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestCommand runs the command over a module that leaks and over one that does not, alone and under go vet.
func TestCommand(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a command, which takes long; -short")
	}
	command := filepath.Join(t.TempDir(), "weirvet")
	if runtime.GOOS == "windows" {
		command += ".exe"
	}
	if out, err := exec.Command("go", "build", "-o", command, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	const leaks = "main.go:7:7: the scope from array.NewScope is not closed if the function runs to its end: defer " +
		"s.Close(), or call it on this path too"
	for body, want := range map[string]string{"_ = s": leaks, "s.Close()": ""} {
		folder := t.TempDir()
		writeModule(t, folder, body)
		for _, args := range [][]string{{command, "./..."}, {"go", "vet", "-vettool=" + command, "./..."}} {
			run := exec.Command(args[0], args[1:]...)
			run.Dir, run.Env = folder, append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off")
			out, err := run.CombinedOutput()
			if (err != nil) != (want != "") || !strings.Contains(string(out), want) {
				t.Errorf("%v on %q: %v\n%s", args, body, err, out)
			}
		}
	}
}

// writeModule writes a module with a function of the given body, and a stub of Weir that it imports.
func writeModule(t *testing.T, folder, body string) {
	stub, err := filepath.Abs("leak/testdata/src/github.com/weirml/weir")
	if err != nil {
		t.Fatal(err)
	}
	weir := filepath.Join(folder, "weir")
	if err := os.CopyFS(weir, os.DirFS(stub)); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"weir/go.mod": "module github.com/weirml/weir\n\ngo 1.26\n",
		"go.mod": "module example\n\ngo 1.26\n\nrequire github.com/weirml/weir v0.0.0\n\nreplace " +
			"github.com/weirml/weir => ./weir\n",
		"main.go": "// Package example is one.\npackage example\n\nimport \"github.com/weirml/weir/array\"\n\nfunc f() " +
			"{\n\ts := array.NewScope(\"s\")\n\t" + body + "\n}\n",
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
