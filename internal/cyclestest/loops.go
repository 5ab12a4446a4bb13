package main

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/weirml/weir/internal/diag"
)

// instruction is one instruction of a routine: where it begins and ends, and its text.
type instruction struct {
	at, end int
	text    string
}

// encoded matches a line of llvm-mc's: an instruction, and its bytes.
var encoded = regexp.MustCompile(`^\s*(.*?)\s*(?://|#|;) encoding: \[([^\]]*)\]`)

// disassembled returns the instructions of machine code, with llvm-mc. Bytes that are no instruction are left out.
func disassembled(ctx context.Context, p *programs, triple string, code []byte) (list []instruction, err error) {
	var in strings.Builder
	for i, b := range code {
		fmt.Fprintf(&in, "0x%02x ", b)
		if i%64 == 63 {
			in.WriteByte('\n')
		}
	}
	cmd := exec.CommandContext(ctx, p.mc, "--disassemble", "--show-encoding", "--triple="+triple, "--mattr=+all")
	if strings.HasPrefix(triple, "x86") {
		cmd.Args = cmd.Args[:len(cmd.Args)-1]
	}
	cmd.Stdin = strings.NewReader(in.String())
	out, err := cmd.Output()
	if err != nil {
		return nil, diag.Inputf("%s: %v", p.mc, err)
	}
	at := 0
	for line := range strings.Lines(string(out)) {
		m := encoded.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		fields := strings.Split(m[2], ",")
		var known []byte // up to the distance of a jump, which has letters
		for _, f := range fields {
			n, err := strconv.ParseUint(f, 0, 8)
			if err != nil {
				break
			}
			known = append(known, byte(n))
		}
		step := bytes.Index(code[at:], known)
		if step < 0 {
			continue
		}
		at += step
		list = append(list, instruction{at, at + len(fields), strings.ReplaceAll(m[1], "\t", " ")})
		at += len(fields)
	}
	return list, nil
}

// jump matches a conditional jump, and its distance: from its beginning on arm64, and from its end on amd64.
var jump = regexp.MustCompile(`^(?:(b\.\w+|cbn?z \w+,|tbn?z \w+, #\d+,) #(-?\d+)|(j[a-z]+) (-?\d+))$`)

// aLoop is an innermost loop: its instructions, with the jump at its end.
type aLoop []instruction

// leaves matches what no loop contains: what follows it is reached from elsewhere, as a pause is, which jumps back.
var leaves = regexp.MustCompile(`^(?:ret|br |b #|jmp|retq)`)

// leaves reports whether the instruction is the last one before such a place.
func (in instruction) leaves() bool { return leaves.MatchString(in.text) }

// innermost returns the loops that contain no other.
func innermost(list []instruction) (loops []aLoop) {
	index := map[int]int{}
	for i, in := range list {
		index[in.at] = i
	}
	type span struct{ from, to int }
	var spans []span
	for i, in := range list {
		m := jump.FindStringSubmatch(in.text)
		if m == nil || strings.HasPrefix(m[3], "jmp") {
			continue
		}
		distance, base := m[2], in.at
		if m[3] != "" {
			distance, base = m[4], in.end
		}
		n, _ := strconv.Atoi(distance)
		if to, ok := index[base+n]; ok && to <= i && !slices.ContainsFunc(list[to:i], instruction.leaves) {
			spans = append(spans, span{to, i})
		}
	}
	for _, s := range spans {
		inner := true
		for _, other := range spans {
			inner = inner && (other == s || other.from < s.from || other.to > s.to)
		}
		if inner {
			loops = append(loops, list[s.from:s.to+1])
		}
	}
	return loops
}

// work is what a loop computes in one iteration.
type work struct {
	instructions int
	vectors      int // multiply-adds of vectors
	products     int // multiply-adds of elements
	arithmetic   int // other arithmetic with vectors of floats
}

// product is a form of multiply-adds, and the elements that one instruction multiplies.
type product struct {
	form     *regexp.Regexp
	elements int
}

// products are the forms of multiply-adds.
var products = []product{
	{regexp.MustCompile(`^f?ml[as] v\d+\.4s`), 4},
	{regexp.MustCompile(`^fml[as] v\d+\.2d`), 2},
	{regexp.MustCompile(`^fml[as] v\d+\.8h`), 8},
	{regexp.MustCompile(`^(?:[us]|us|su)dot v\d+\.4s`), 16},
	{regexp.MustCompile(`^bfdot v\d+\.4s`), 8},
	{regexp.MustCompile(`^(?:[us]|us)mmla `), 32},
	{regexp.MustCompile(`^bfmmla `), 16},
	{regexp.MustCompile(`^vfn?m(?:add|sub)\d+ps .*%zmm`), 16},
	{regexp.MustCompile(`^vfn?m(?:add|sub)\d+ps .*%ymm`), 8},
	{regexp.MustCompile(`^vfn?m(?:add|sub)\d+ps .*%xmm`), 4},
	{regexp.MustCompile(`^vfn?m(?:add|sub)\d+pd .*%ymm`), 4},
	{regexp.MustCompile(`^vpdpbusds? .*%zmm`), 64},
	{regexp.MustCompile(`^vpdpbusds? .*%ymm`), 32},
	{regexp.MustCompile(`^vpmaddwd .*%ymm`), 16},
	{regexp.MustCompile(`^vdpbf16ps .*%zmm`), 32},
}

// arithmetic matches other arithmetic of vectors of floats.
var arithmetic = regexp.MustCompile(`^(?:f(?:add|sub|mul|div|max|min|maxnm|minnm|sqrt|cmgt|cmge) v\d+\.(?:4s|2d)|` +
	`v(?:add|sub|mul|div|max|min|sqrt|cmp\w*)p[sd] )`)

// counted returns what a loop computes.
func (l aLoop) counted() (w work) {
	w.instructions = len(l)
	for _, in := range l {
		for _, p := range products {
			if p.form.MatchString(in.text) {
				w.vectors++
				w.products += p.elements
				break
			}
		}
		if arithmetic.MatchString(in.text) {
			w.arithmetic++
		}
	}
	return w
}

// onlyProducts returns the multiply-adds of a loop.
func (l aLoop) onlyProducts() (out aLoop) {
	for _, in := range l {
		for _, p := range products {
			if p.form.MatchString(in.text) {
				out = append(out, in)
				break
			}
		}
	}
	return out
}

// mainLoop returns the loop of a kernel that computes most: with most multiply-adds, or else with most other
// arithmetic. ok is false if no loop computes with vectors.
func mainLoop(loops []aLoop) (best aLoop, w work, ok bool) {
	for _, l := range loops {
		n := l.counted()
		if n.products > w.products || n.products == w.products && n.arithmetic > w.arithmetic {
			best, w, ok = l, n, true
		}
	}
	return best, w, ok
}
