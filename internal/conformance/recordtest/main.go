// Command recordtest records the code of every kernel of many models, for every level of processors and for SPIR-V, and
// compares it with an earlier record. It judges changes of code generators that must not change the code.
//
//	recordtest -write RECORD [-level PATTERN] [-case PATTERN] [PLACE ...]
//	recordtest -compare RECORD [-level PATTERN] [-case PATTERN] [PLACE ...]
//
// It runs in the repository, and takes the constructed models of conformancetest, the model files in the repository,
// the official ONNX cases (WEIR_ONNX_DATA), the popular models (WEIR_MODELS), and the model files in further places,
// which are folders. Code is generated and never run, so the processor does not matter: a record is the same on every
// machine with amd64.
//
// A record has a line for each kernel, with tabs between the fields: case, level, precision, kernel, bytes, and a hash
// of the code, the number of tiles and the scratch; or the reason why there is no code. With -compare, differences
// are printed, kernel by kernel, and the exit status is 1 if there are any.
package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/weirml/weir/internal/diag"
)

func main() {
	ctx := context.Background()
	same, err := command(ctx, os.Stdout, os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "recordtest:", err)
		os.Exit(2)
	}
	if !same {
		os.Exit(1)
	}
}

// command does what the arguments say; same is false if a comparison found differences.
func command(ctx context.Context, out io.Writer, args []string) (same bool, err error) {
	flags := flag.NewFlagSet("recordtest", flag.ContinueOnError)
	write := flags.String("write", "", "write the record to this `file`")
	compare := flags.String("compare", "", "compare with the record in this `file`")
	level := flags.String("level", "", "only the levels whose whole names this `pattern` matches, of "+
		strings.Join(levelNames(), ", "))
	name := flags.String("case", "", "only the cases in whose names this `pattern` is found")
	if err := flags.Parse(args); err != nil {
		return false, err
	}
	if (*write == "") == (*compare == "") {
		return false, diag.Inputf("either -write or -compare is needed")
	}
	f, err := newFilter(*level, *name)
	if err != nil {
		return false, err
	}
	root, err := repository()
	if err != nil {
		return false, err
	}
	before := map[key]string{}
	if *compare != "" { // first, since compiling takes long
		if before, err = read(*compare, f); err != nil {
			return false, err
		}
	}
	cases, err := find(root, flags.Args(), f)
	if err != nil {
		return false, err
	}
	begin := time.Now()
	lines, err := record(ctx, cases, f.levels())
	if err != nil {
		return false, err
	}
	fmt.Fprintf(out, "%s of %d cases in %.0f s\n", counts(lines), len(cases), time.Since(begin).Seconds())
	if *write != "" {
		return true, writeFile(*write, lines)
	}
	return differences(out, before, lines) == 0, nil
}

// repository returns the repository's folder, in which the process runs.
func repository() (string, error) {
	at, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(at, "go.mod")); err == nil {
			return at, nil
		}
		if filepath.Dir(at) == at {
			return "", diag.Inputf("no go.mod here, nor in a folder above").WithFix("run it in the repository")
		}
		at = filepath.Dir(at)
	}
}

// filter selects levels and cases.
type filter struct{ level, name *regexp.Regexp }

// newFilter returns the filter of two patterns; "" selects everything. A pattern that selects no level is an error.
func newFilter(level, name string) (f filter, err error) {
	if level == "" {
		level = ".*"
	}
	if f.level, err = regexp.Compile("^(?:" + level + ")$"); err != nil {
		return f, diag.Inputf("-level: %v", err)
	}
	if f.name, err = regexp.Compile(name); err != nil {
		return f, diag.Inputf("-case: %v", err)
	}
	if len(f.levels()) == 0 {
		return f, diag.Inputf("no level is called %q", level).WithFix("there are %s", strings.Join(levelNames(), ", "))
	}
	return f, nil
}

// levels returns the selected levels.
func (f filter) levels() (list []string) {
	for _, name := range levelNames() {
		if f.level.MatchString(name) {
			list = append(list, name)
		}
	}
	return list
}

// key identifies a line of a record.
type key struct{ name, level, precision, kernel string }

// line is a line of a record: of a kernel, or of a case without code, whose kernel is "-".
type line struct {
	key
	bytes int
	code  string // the hash of the code, or the reason why there is none
	left  bool   // there is no code
}

// String returns the line as a record has it.
func (l line) String() string { return l.key.String() + "\t" + l.value() }

// String returns the fields of a key.
func (k key) String() string {
	return strings.Join([]string{k.name, k.level, k.precision, k.kernel}, "\t")
}

// value returns the fields after the key.
func (l line) value() string { return fmt.Sprintf("%d\t%s", l.bytes, l.code) }

// counts describes a record.
func counts(lines []line) string {
	kernels, left, cases, bytes := 0, 0, 0, 0
	for _, l := range lines {
		switch {
		case l.kernel == "-":
			cases++
		case l.left:
			left++
		default:
			kernels++
		}
		bytes += l.bytes
	}
	return fmt.Sprintf("%d kernels with %d bytes of code, %d without code, and %d compilations without kernels",
		kernels, bytes, left, cases)
}

// writeFile writes a record.
func writeFile(name string, lines []line) error {
	var b strings.Builder
	for _, l := range lines {
		b.WriteString(l.String() + "\n")
	}
	return os.WriteFile(name, []byte(b.String()), 0o644)
}

// read reads the selected lines of a record.
func read(name string, f filter) (map[key]string, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, diag.Inputf("%v", err).WithFix("write it at the earlier commit: recordtest -write %s", name)
	}
	defer file.Close()
	lines := map[key]string{}
	scanner := bufio.NewScanner(file)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		fields := strings.SplitN(scanner.Text(), "\t", 5)
		if len(fields) != 5 {
			return nil, diag.Inputf("%q is not a line of a record", scanner.Text()).AtFile(name)
		}
		k := key{fields[0], fields[1], fields[2], fields[3]}
		if f.level.MatchString(k.level) && f.name.MatchString(k.name) {
			lines[k] = fields[4]
		}
	}
	return lines, scanner.Err()
}

// differences prints the lines that differ from a record, and returns their number.
func differences(out io.Writer, before map[key]string, now []line) int {
	changed, added, gone := 0, 0, 0
	seen := map[key]bool{}
	for _, l := range now {
		seen[l.key] = true
		switch was, known := before[l.key]; {
		case !known:
			added++
			fmt.Fprintf(out, "new\t%s\n", l)
		case was != l.value():
			changed++
			fmt.Fprintf(out, "changed\t%s, was %s\n", l, was)
		}
	}
	for _, k := range sorted(before) {
		if !seen[k] {
			gone++
			fmt.Fprintf(out, "gone\t%s\t%s\n", k, before[k])
		}
	}
	fmt.Fprintf(out, "%d changed, %d new, %d gone, %d equal\n", changed, added, gone, len(now)-changed-added)
	return changed + added + gone
}
