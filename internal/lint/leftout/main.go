// Command leftout prints the output of go test -json as go test prints it without -json, and records the skipped tests
// and the reasons. Its exit status reports only errors of reading and writing.
//
//	go test -json ./... | leftout FILE
//	leftout -say FILE
//
// The first form appends to FILE. The second prints the tests that every run in FILE skipped.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// event is a line of go test -json.
type event struct{ Action, Package, Test, Output string }

// ending is the end of a package's test: skipped with the reason Why, or not skipped.
type ending struct {
	Package, Test string
	Skipped       bool
	Why           string
}

func main() {
	err := fmt.Errorf("usage: leftout FILE, or leftout -say FILE")
	if args := os.Args[1:]; len(args) == 1 {
		err = watch(os.Stdin, os.Stdout, args[0])
	} else if len(args) == 2 && args[0] == "-say" {
		err = say(os.Stdout, args[1])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "leftout:", err)
		os.Exit(1)
	}
}

// watch copies the output of go test to out, and adds the endings of tests to a file.
func watch(in io.Reader, out io.Writer, file string) error {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	to := json.NewEncoder(f)
	keep := func(e ending) {
		if fault := to.Encode(e); err == nil {
			err = fault
		}
	}
	if fault := show(in, out, keep); err == nil {
		err = fault
	}
	if fault := f.Close(); err == nil {
		err = fault
	}
	return err
}

// show copies the output of go test, without the output of tests that pass, and calls keep for each test's ending.
func show(in io.Reader, out io.Writer, keep func(ending)) error {
	said := map[[2]string][]string{} // by tests that have not ended
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadString('\n')
		if line != "" {
			var e event
			if json.Unmarshal([]byte(line), &e) != nil || e.Action == "" {
				fmt.Fprint(out, line) // a line that is not an event is for people
			} else {
				take(e, out, said, keep)
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// take adds an event to the output of its test, and prints that output if the test fails.
func take(e event, out io.Writer, said map[[2]string][]string, keep func(ending)) {
	key := [2]string{e.Package, e.Test}
	switch {
	case e.Action == "build-output", e.Action == "output" && e.Test == "":
		if e.Output != "PASS\n" {
			fmt.Fprint(out, e.Output)
		}
	case e.Action == "output":
		if !strings.HasPrefix(e.Output, "=== ") {
			said[key] = append(said[key], e.Output)
		}
	case e.Action == "fail" && e.Test == "": // the package may have ended within tests
		for k, text := range said {
			if k[0] == e.Package {
				fmt.Fprint(out, strings.Join(text, ""))
				delete(said, k)
			}
		}
	case e.Test != "" && slices.Contains([]string{"pass", "skip", "fail"}, e.Action):
		text := said[key]
		delete(said, key)
		if e.Action == "fail" {
			fmt.Fprint(out, strings.Join(text, ""))
		}
		keep(ending{e.Package, e.Test, e.Action == "skip", reason(text)})
	}
}

// reason returns the last message of a test, without the position and the verdict.
func reason(text []string) string {
	for _, line := range slices.Backward(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "--- ") {
			continue
		}
		if _, after, ok := strings.Cut(line, ".go:"); ok {
			if _, words, ok := strings.Cut(after, ": "); ok {
				return words
			}
		}
		return line
	}
	return "without a reason"
}

// say prints the tests that no run in the file has run, by reason.
func say(out io.Writer, file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	ran, skipped := map[string]bool{}, map[string]string{}
	for from := json.NewDecoder(f); ; {
		var e ending
		if err := from.Decode(&e); err == io.EOF {
			break
		} else if err != nil {
			return err
		}
		name := e.Package[strings.LastIndex(e.Package, "/")+1:] + "." + e.Test
		if e.Skipped {
			skipped[name] = e.Why
		} else {
			ran[name] = true
		}
	}
	byReason := map[string][]string{}
	count := 0
	for name, why := range skipped {
		if !ran[name] {
			byReason[why] = append(byReason[why], name)
			count++
		}
	}
	fmt.Fprintf(out, "== %d tests ran, %d were left out\n", len(ran), count)
	var reasons []string
	for why := range byReason {
		reasons = append(reasons, why)
	}
	slices.Sort(reasons)
	for _, why := range reasons {
		names := byReason[why]
		slices.Sort(names)
		fmt.Fprintf(out, "   %s: %s\n", strings.Join(names, ", "), why)
	}
	return nil
}
