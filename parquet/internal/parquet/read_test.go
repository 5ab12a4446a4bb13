package parquet

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/offline"
	"github.com/weirml/weir/internal/tensor"
)

var mutants = flag.Int("mutants", 2000, "the number of damaged files")

// every wants all elements.
func every(int64) bool { return true }

// read returns the elements of a source.
func read(t *testing.T, s offline.Source, inputs []string, wanted func(int64) bool) (list []offline.Element) {
	t.Helper()
	for e, err := range s.Elements(inputs, wanted) {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, e)
	}
	return list
}

// same fails unless a row's arrays are these, or those of them that are there.
func same(t *testing.T, got, want offline.Element) {
	t.Helper()
	if got.Err != nil || got.Index != want.Index || len(got.Arrays) == 0 {
		t.Fatalf("element %d is %d: %d arrays, %v", want.Index, got.Index, len(got.Arrays), got.Err)
	}
	for name, a := range got.Arrays {
		w := want.Arrays[name]
		if a.DType() != w.DType() || !slices.Equal(a.Shape(), w.Shape()) || !a.Equal(w) {
			t.Fatalf("element %d, %s is %v, not %v", got.Index, name, a, w)
		}
	}
}

// TestFiles: files of other writers, in all encodings and compressions, have the rows of the .npz file, whichever rows
// are asked for.
func TestFiles(t *testing.T) {
	arrays, err := offline.Open("testdata/rows.npz", nil)
	if err != nil {
		t.Fatal(err)
	}
	want := read(t, arrays, nil, every)
	files, err := filepath.Glob("testdata/*.parquet")
	if err != nil || len(files) < 12 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".parquet")
		if name == "lacking" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			s, err := Open([]string{file, file})
			if err != nil {
				t.Fatal(err)
			}
			if s.Len() != int64(2*len(want)) {
				t.Fatalf("%d rows", s.Len())
			}
			var inputs []string
			for _, c := range s.(*source).tables[0].columns {
				inputs = append(inputs, c.name)
			}
			if len(inputs) < 10 {
				t.Fatalf("the columns are %q", inputs)
			}
			random := rand.New(rand.NewPCG(1, 2))
			for _, share := range []float64{1, 0.5, 0.01} {
				mask := make([]bool, s.Len())
				for i := range mask {
					mask[i] = random.Float64() < share
				}
				if share == 0.01 {
					clear(mask[:len(mask)*3/4])
				}
				list := read(t, s, inputs, func(i int64) bool { return mask[i] })
				at := 0
				for i := range mask {
					if mask[i] {
						row := want[i%len(want)]
						row.Index = int64(i)
						same(t, list[at], row)
						at++
					}
				}
				if at != len(list) {
					t.Errorf("%d elements of %d", len(list), at)
				}
			}
		})
	}
}

// TestLacking: nulls, and lists of several lengths, are errors of their elements, and other rows are whole.
func TestLacking(t *testing.T) {
	s, err := Open([]string{"testdata/lacking.parquet"})
	if err != nil {
		t.Fatal(err)
	}
	for i, e := range read(t, s, []string{"x", "text"}, every) {
		told := "nothing"
		if e.Err != nil {
			told = e.Err.Error()
			if !errors.Is(e.Err, diag.ErrInput) {
				t.Errorf("%v", e.Err)
			}
		} else {
			told = tensor.ShapeString(e.Arrays["x"].Shape()) + " " + e.Arrays["text"].Strings()[0]
		}
		if want := []string{"[1,2,2] first", "a null", "a null", "a null", "an empty list", "several lengths", "[1,4,1] f",
			"[1,2,2] last"}[i]; !strings.Contains(told, want) {
			t.Errorf("element %d: %s, not %s", i, told, want)
		}
	}
	if list := read(t, s, []string{"null"}, every); list[0].Err == nil || list[7].Arrays["null"].Strings()[0] != "b" {
		t.Errorf("%+v", list)
	}
	for input, want := range map[string]string{"when": "TIMESTAMP", "pair": "several columns",
		"y": "columns are x, text"} {
		for _, err := range s.Elements([]string{input}, every) {
			if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "lacking.parquet") {
				t.Errorf("%s: %v", input, err)
			}
		}
	}
}

// TestDamaged: damaged files are refused, or have rows; none takes more memory than its bytes explain.
func TestDamaged(t *testing.T) {
	files, err := filepath.Glob("testdata/*.parquet")
	if err != nil {
		t.Fatal(err)
	}
	n := *mutants
	if testing.Short() {
		n /= 10
	}
	random := rand.New(rand.NewPCG(3, 4))
	name := filepath.Join(t.TempDir(), "damaged.parquet")
	refused := 0
	for i := range n {
		data, err := os.ReadFile(files[random.IntN(len(files))])
		if err != nil {
			t.Fatal(err)
		}
		damage(random, data)
		if tried(t, name, data) != nil {
			refused++
		}
		if t.Failed() {
			t.Fatalf("the damaged file is number %d", i)
		}
	}
	if refused < n/10 || refused == n {
		t.Errorf("%d of %d files are refused", refused, n)
	}
}

// damage changes bytes, most of them of the footer.
func damage(random *rand.Rand, data []byte) {
	for range 1 + random.IntN(4) {
		at := random.IntN(len(data))
		if random.IntN(3) > 0 {
			at = len(data) - 1 - random.IntN(min(len(data), 4000))
		}
		data[at] = byte([]int{0, 0x7f, 0xff, random.IntN(256), int(data[at]) + 1}[random.IntN(5)])
	}
}

// most is more memory than reading a small file takes, whatever its numbers say: texts of mostEntries with their levels
// and numbers, twice, and a page of the largest size.
const most = 2*(16+6)*mostEntries + 2*largest

// tried reads all rows of a file, and returns the first error.
func tried(t *testing.T, name string, data []byte) (first error) {
	t.Helper()
	if err := os.WriteFile(name, data, 0o666); err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	s, err := Open([]string{name})
	first = err
	if err == nil {
		for _, c := range s.(*source).tables[0].columns {
			rows := 0
			for e, err := range s.Elements([]string{c.name}, every) {
				if rows++; err != nil || e.Err != nil {
					if first == nil {
						first = errors.Join(err, e.Err)
					}
				}
				if err != nil && !errors.Is(err, diag.ErrInput) && !errors.Is(err, diag.ErrUnsupported) {
					t.Errorf("an error of no kind: %v", err)
				}
				if rows > 1000 {
					break
				}
			}
		}
	}
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > most {
		t.Errorf("%d bytes were allocated, %v", took, first)
	}
	return first
}

// FuzzRead reads any bytes.
func FuzzRead(f *testing.F) {
	files, err := filepath.Glob("testdata/*.parquet")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) { tried(t, filepath.Join(t.TempDir(), "a.parquet"), data) })
}

// TestExtents: nested lists have a shape if lists of the same depth have the same length.
func TestExtents(t *testing.T) {
	for levels, want := range map[string]string{"0": "[1 1]", "02": "[1 2]", "01": "[2 1]", "0212": "[2 2]", "021": "[]",
		"012": "[]", "0122": "[]", "02120": "[]", "021212": "[3 2]"} {
		var list []byte
		for _, l := range levels {
			list = append(list, byte(l-'0'))
		}
		if got := fmt.Sprint(extents(list, 2)); got != want {
			t.Errorf("%s: %s, not %s", levels, got, want)
		}
	}
}
