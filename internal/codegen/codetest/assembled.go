package codetest

import (
	"debug/elf"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Assemble runs GNU as, with its arguments, on a source. It returns the object file, and what as says.
func Assemble(t testing.TB, source, program string, arguments ...string) (object string, out []byte, err error) {
	t.Helper()
	object = filepath.Join(t.TempDir(), "out.o")
	command := exec.Command(program, append(arguments, "-o", object, "-")...)
	command.Stdin = strings.NewReader(source)
	out, err = command.CombinedOutput()
	return object, out, err
}

// Assembled returns the bytes that GNU as makes of each text, an instruction. head is the lines before them.
func Assembled(t testing.TB, texts []string, head, program string, arguments ...string) [][]byte {
	t.Helper()
	var source strings.Builder
	source.WriteString(head)
	first := strings.Count(head, "\n") + 1
	for n, text := range texts {
		fmt.Fprintf(&source, "i%d: %s\n", n, text)
	}
	fmt.Fprintf(&source, "i%d:\n", len(texts))
	object, out, err := Assemble(t, source.String(), program, arguments...)
	if err != nil {
		lines := strings.SplitN(string(out), "\n", 30)
		for n, l := range lines {
			var at int
			if _, err := fmt.Sscanf(l, "{standard input}:%d:", &at); err == nil && at >= first && at-first < len(texts) {
				lines[n] += "   in: " + texts[at-first]
			}
		}
		t.Fatalf("as: %v\n%s", err, strings.Join(lines[:min(len(lines), 29)], "\n"))
	}
	file, err := elf.Open(object)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	code, err := file.Section(".text").Data()
	if err != nil {
		t.Fatal(err)
	}
	symbols, err := file.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	at := make([]int, len(texts)+1)
	for _, s := range symbols {
		var n int
		if _, err := fmt.Sscanf(s.Name, "i%d", &n); err == nil {
			at[n] = int(s.Value)
		}
	}
	all := make([][]byte, len(texts))
	for n := range all {
		all[n] = code[at[n]:at[n+1]]
	}
	return all
}
