package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const first = `{"Action":"start","Package":"m/a"}
{"Action":"run","Package":"m/a","Test":"TestGood"}
{"Action":"output","Package":"m/a","Test":"TestGood","Output":"=== RUN   TestGood\n"}
{"Action":"output","Package":"m/a","Test":"TestGood","Output":"    a_test.go:3: chatter\n"}
{"Action":"pass","Package":"m/a","Test":"TestGood"}
{"Action":"output","Package":"m/a","Test":"TestData","Output":"    a_test.go:7: the data: not there\n"}
{"Action":"output","Package":"m/a","Test":"TestData","Output":"--- SKIP: TestData (0.00s)\n"}
{"Action":"skip","Package":"m/a","Test":"TestData"}
{"Action":"output","Package":"m/a","Test":"TestChip/wide","Output":"    a_test.go:9: no such chip\n"}
{"Action":"skip","Package":"m/a","Test":"TestChip/wide"}
{"Action":"output","Package":"m/a","Test":"TestBad","Output":"    a_test.go:5: 1 is not 2\n"}
{"Action":"fail","Package":"m/a","Test":"TestBad"}
{"Action":"output","Package":"m/a","Test":"TestEnds","Output":"panic: here\n"}
{"Action":"output","Package":"m/a","Output":"FAIL\tm/a\t0.1s\n"}
{"Action":"fail","Package":"m/a"}
{"ImportPath":"m/b","Action":"build-output","Output":"b.go:1: no\n"}
not an event
`

const second = `{"Action":"output","Package":"m/a","Output":"PASS\n"}
{"Action":"pass","Package":"m/a","Test":"TestData"}
{"Action":"output","Package":"m/a","Output":"ok  \tm/a\t0.2s\n"}
`

// TestLeftOut: the output of a failed test is printed, that of a passed one is not, and a test that one run skips and
// another runs is not listed.
func TestLeftOut(t *testing.T) {
	file := filepath.Join(t.TempDir(), "endings")
	var shown, said strings.Builder
	for _, run := range []string{first, second} {
		if err := watch(strings.NewReader(run), &shown, file); err != nil {
			t.Fatal(err)
		}
	}
	want := "    a_test.go:5: 1 is not 2\nFAIL\tm/a\t0.1s\npanic: here\nb.go:1: no\nnot an event\nok  \tm/a\t0.2s\n"
	if shown.String() != want {
		t.Errorf("shown:\n%s\nwant:\n%s", shown.String(), want)
	}
	if err := say(&said, file); err != nil {
		t.Fatal(err)
	}
	want = "== 3 tests ran, 1 were left out\n   a.TestChip/wide: no such chip\n"
	if said.String() != want {
		t.Errorf("said:\n%s\nwant:\n%s", said.String(), want)
	}
	if err := say(&said, file+".not"); !os.IsNotExist(err) {
		t.Error(err)
	}
}
