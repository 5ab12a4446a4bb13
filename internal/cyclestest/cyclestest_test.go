package main

import (
	"bytes"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/weirml/weir/internal/dtype"
)

// listing returns the instructions of a text, each with 4 bytes.
func listing(text string) (list []instruction) {
	for line := range strings.Lines(strings.TrimSpace(text)) {
		at := 4 * len(list)
		list = append(list, instruction{at, at + 4, strings.TrimSpace(line)})
	}
	return list
}

// TestInnermost finds the inner of two loops, a second loop, and no loop that ends with a pause's way back.
func TestInnermost(t *testing.T) {
	loops := innermost(listing(`
		mov x3, xzr
		mov x4, xzr
		fmla v0.4s, v1.4s, v2.s[0]
		fmla v3.4s, v1.4s, v2.s[0]
		b.ne #-8
		add x3, x3, #1
		b.lt #-20
		cbz x3, #8
		fadd v0.4s, v0.4s, v1.4s
		cbnz x3, #-4
		ret
		ldur x1, [x0, #-8]
		b.pl #-12
	`))
	if len(loops) != 2 || len(loops[0]) != 3 || len(loops[1]) != 2 {
		t.Fatalf("%v", loops)
	}
	best, w, ok := mainLoop(loops)
	if !ok || best[0].at != 8 || w != (work{instructions: 3, vectors: 2, products: 8}) {
		t.Errorf("%t %v %+v", ok, best, w)
	}
	if _, w, ok := mainLoop(loops[1:]); !ok || w != (work{instructions: 2, arithmetic: 1}) {
		t.Errorf("%t %+v", ok, w)
	}
	amd64 := innermost([]instruction{{0, 5, "vfmadd231ps %ymm2, %ymm1, %ymm0"}, {5, 7, "jne -7"}, {7, 9, "jmp -9"}})
	if len(amd64) != 1 || amd64[0].counted().products != 8 {
		t.Errorf("%v", amd64)
	}
}

// TestLayers: every layer is a module, and two have code for arm64.
func TestLayers(t *testing.T) {
	for _, l := range layers() {
		if _, err := parsed(l.text); err != nil {
			t.Errorf("%s: %v\n%s", l.name, err, l.text)
		}
	}
	list, err := cases(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range list {
		if i > 0 && !strings.HasPrefix(c.name, "bert int8") {
			continue
		}
		kernels, err := list[i].kernels(t.Context(), "dotprod", dtype.I8)
		if err != nil || len(kernels) == 0 || len(kernels[0].code) == 0 || len(kernels[0].code[0]) < 100 {
			t.Errorf("%s: %d kernels, %v", c.name, len(kernels), err)
		}
	}
}

// TestTable makes a row of the table, with the code of its loop.
func TestTable(t *testing.T) {
	if _, err := found(); err != nil {
		t.Skip(err)
	}
	var out bytes.Buffer
	if err := command(t.Context(), &out, []string{"-level", "neon", "-case", "stem: convolution", "-code"}); err != nil {
		t.Fatal(err)
	}
	rival := `1\.\d\d`
	if strconv.IntSize == 32 {
		rival = "-" // no generator for AVX2 is in a program of 32 bits
	}
	row := regexp.MustCompile(`(?m)^resnet50/stem: convolution_relu +neon +384 +1\.\d\d +` + rival +
		` +4\d\.\d\d +\d+ % .*\n\t`)
	if !row.MatchString(out.String()) || strings.Count(out.String(), "fmla") < 96 {
		t.Errorf("%s", &out)
	}
}
