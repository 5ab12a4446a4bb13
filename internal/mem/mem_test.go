package mem

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/weirml/weir/internal/diag"
)

// mustMap maps a block that is closed when the test ends.
func mustMap(t *testing.T, kind Kind, label string, size int64) *Block {
	t.Helper()
	b, err := Map(kind, label, size)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

// TestMap: blocks of several sizes are zeroed, aligned, counted, and gone after Close.
func TestMap(t *testing.T) {
	before := Usage()
	for _, size := range []int64{0, 1, 63, 64, pageSize - 1, pageSize, pageSize + 1, 1<<20 + 7} {
		b := mustMap(t, Arena, "a", size)
		data := b.Bytes()
		if int64(len(data)) != size || int64(cap(data)) != size || b.Size() != size {
			t.Fatalf("size %d: len %d cap %d Size %d", size, len(data), cap(data), b.Size())
		}
		for i := range data {
			if data[i] != 0 {
				t.Fatalf("size %d: byte %d is not zero", size, i)
			}
		}
		align := pageSize
		if !outsideHeap {
			align = 64
		} else if b.Mapped() != roundUp(size) {
			t.Errorf("size %d: mapped %d", size, b.Mapped())
		}
		if address := int64(uintptr(b.Pointer())); address%align != 0 {
			t.Errorf("size %d: address %#x", size, address)
		}
		FillBytes(data, 7)
		if size > 0 && (data[0] != 7 || data[size-1] != 7) {
			t.Errorf("size %d: not filled", size)
		}
		if got := Usage().Current[Arena] - before.Current[Arena]; got != size {
			t.Errorf("size %d: ledger says %d", size, got)
		}
		if err := errors.Join(b.Close(), b.Close()); err != nil {
			t.Error(err)
		}
		if b.Bytes() != nil || b.Pointer() != nil || b.Size() != size {
			t.Errorf("size %d: a closed block still shows memory", size)
		}
	}
	if after := Usage(); after.Current != before.Current || after.MappedCurrent != before.MappedCurrent ||
		after.Blocks != before.Blocks {
		t.Errorf("ledger before %+v, after %+v", before, after)
	}
}

// TestMapRefuses: a negative size is an ErrInput; a huge one is an ErrMemory that carries the ledger.
func TestMapRefuses(t *testing.T) {
	if _, err := Map(Arena, "a", -1); !errors.Is(err, diag.ErrInput) {
		t.Errorf("a negative size: %v", err)
	}
	held := mustMap(t, Weights, "w", 3<<20)
	for _, size := range []int64{math.MaxInt64, math.MaxInt64 - pageSize, 1 << 60, 1 << 48} {
		_, err := Map(Arena, "main", size)
		if !errors.Is(err, diag.ErrMemory) {
			t.Fatalf("%d bytes: %v", size, err)
		}
		for _, want := range []string{"main", "arena", "weights " + FormatBytes(Usage().Current[Weights])} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%q does not say %q", err, want)
			}
		}
		var refused *Refusal
		if !errors.As(err, &refused) || refused.Held.Current[Weights] < held.Size() || refused.Wanted.Bytes != size {
			t.Errorf("the refusal does not carry the ledger: %+v", refused)
		}
	}
}

// TestPeaks: peaks count blocks that are closed again, and ResetPeaks sets them to the present values.
func TestPeaks(t *testing.T) {
	a := mustMap(t, Scratch, "a", 1000)
	ResetPeaks()
	base := Usage()
	if base.Peak != base.Current || base.AllPeak != base.All {
		t.Fatalf("peaks differ from what is held after a reset: %+v", base)
	}
	b := mustMap(t, Scratch, "b", 500)
	b.Close()
	c := mustMap(t, Outputs, "c", 300)
	a.Close()
	u := Usage()
	if u.Peak[Scratch]-base.Current[Scratch] != 500 || u.Current[Scratch]-base.Current[Scratch] != -1000 {
		t.Errorf("scratch: %+v after %+v", u, base)
	}
	if u.AllPeak-base.All != 500 || u.All-base.All != -700 || u.Peak[Outputs]-base.Current[Outputs] != 300 {
		t.Errorf("all: %+v after %+v", u, base)
	}
	if outsideHeap && u.MappedPeak[Scratch]-base.MappedCurrent[Scratch] != pageSize {
		t.Errorf("mapped: %+v after %+v", u, base)
	}
	c.Close()
}

// TestLiveNamesTheLine: a live block's record names the line that asked for it.
func TestLiveNamesTheLine(t *testing.T) {
	_, file, line, _ := runtime.Caller(0)
	b := mustMapHere(Tensors, "x", 10) // line+1
	defer b.Close()
	var found []Record
	for _, r := range Live() {
		if r.Label == "x" && r.Kind == Tensors {
			found = append(found, r)
		}
	}
	if len(found) != 1 {
		t.Fatalf("found %v", found)
	}
	r := found[0]
	at := file + ":"
	if !strings.HasPrefix(r.Caller, at) || !strings.HasPrefix(r.User, at) || r.Bytes != 10 {
		t.Errorf("record %+v does not name %s:%d", r, file, line+1)
	}
	if want := "tensors x 10B (10 bytes) allocated at " + r.User; r.String() != want {
		t.Errorf("got %q, want %q", r, want)
	}
}

// mustMapHere maps a block; its caller's line is the one that the test expects.
func mustMapHere(kind Kind, label string, size int64) *Block {
	b, err := Map(kind, label, size)
	if err != nil {
		panic(err)
	}
	return b
}

// TestFailAfter: after FailAfter(n), n blocks are mapped and all further ones refused, for n from 0 to 3; no block is
// left.
func TestFailAfter(t *testing.T) {
	before := Usage().Blocks
	for n := range int64(4) {
		restore := FailAfter(n)
		var blocks []*Block
		for range 4 {
			b, err := Map(Arena, "a", 1)
			if err == nil {
				blocks = append(blocks, b)
			} else if !errors.Is(err, diag.ErrMemory) {
				t.Errorf("n = %d: %v", n, err)
			}
		}
		restore()
		if int64(len(blocks)) != n {
			t.Errorf("n = %d: %d succeeded", n, len(blocks))
		}
		for _, b := range blocks {
			b.Close()
		}
	}
	mustMap(t, Arena, "a", 1).Close()
	if after := Usage().Blocks; after != before {
		t.Errorf("%d blocks before, %d after", before, after)
	}
}

// TestWritten: Written finds the end of the last written byte in memory of 0 to 69 bytes, and FillBytes fills more than
// 128 KiB.
func TestWritten(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for size := range 70 {
		data := make([]byte, size)
		FillBytes(data, 0xA5)
		if got := Written(data, 0xA5); got != 0 {
			t.Fatalf("size %d: untouched, got %d", size, got)
		}
		for i := range data {
			data[random.IntN(i+1)] = 1
			data[i] = 0
			if got := Written(data, 0xA5); got != int64(i+1) {
				t.Fatalf("size %d: byte %d, got %d", size, i, got)
			}
		}
	}
	big := make([]byte, 1<<17+9)
	FillBytes(big, 3)
	if bytes.Count(big, []byte{3}) != len(big) {
		t.Errorf("a large fill is not complete")
	}
}

// TestProtect: a read-only block keeps its contents and faults when written; a closed block is an ErrClosed.
func TestProtect(t *testing.T) {
	b := mustMap(t, Weights, "w", 100)
	b.Bytes()[0] = 9
	if err := b.Protect(true); err != nil {
		t.Fatal(err)
	}
	if b.Bytes()[0] != 9 {
		t.Errorf("the contents changed")
	}
	if outsideHeap && !faults(func() { b.Bytes()[0] = 1 }) {
		t.Errorf("a read-only block was written")
	}
	if err := b.Protect(false); err != nil {
		t.Fatal(err)
	}
	b.Bytes()[0] = 1
	b.Close()
	if err := b.Protect(true); !errors.Is(err, diag.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// faults reports whether f ends with a panic, or with a memory fault that CatchFaults turns into an error.
func faults(f func()) (faulted bool) {
	defer func() { faulted = faulted || recover() != nil }()
	return CatchFaults(func() error { f(); return nil }) != nil
}

// TestPoisonFaultsOnStaleMemory: under SetPoison reading a closed block is an ErrClosed.
func TestPoisonFaultsOnStaleMemory(t *testing.T) {
	before := SetPoison(true)
	defer SetPoison(before)
	b := mustMap(t, Outputs, "y", 5000)
	stale := b.Bytes()
	FillBytes(stale, 1)
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	for range 50 { // none of these may land on the closed block's addresses
		mustMap(t, Outputs, "z", 5000)
	}
	if !outsideHeap {
		if bytes.Count(stale, []byte{closedPattern}) != len(stale) {
			t.Errorf("the closed block was not overwritten")
		}
		return
	}
	sum := 0
	err := CatchFaults(func() error { sum += int(stale[4999]); return nil })
	if !errors.Is(err, diag.ErrClosed) || !strings.Contains(err.Error(), "outputs y") {
		t.Errorf("reading a closed block: %v (read %d)", err, sum)
	}
}

// TestPoisonReleasesTheOldest: closed blocks keep at most maxClosedBytes of addresses, and none after poisoning ends.
func TestPoisonReleasesTheOldest(t *testing.T) {
	if !outsideHeap {
		t.Skip("Go's heap keeps no closed block")
	}
	before := SetPoison(true)
	for range 300 {
		mustMap(t, Outputs, "y", maxClosedBytes/256).Close()
	}
	closed.Lock()
	kept, total := len(closed.list), closed.bytes
	closed.Unlock()
	if total > maxClosedBytes || kept < 200 {
		t.Errorf("%d blocks of %d bytes are kept", kept, total)
	}
	SetPoison(false)
	closed.Lock()
	if len(closed.list) != 0 || closed.bytes != 0 {
		t.Errorf("%d blocks of %d bytes are kept after poisoning", len(closed.list), closed.bytes)
	}
	closed.Unlock()
	SetPoison(before)
}

// TestCatchFaultsPassesPanics: CatchFaults returns the function's own error, and lets panics pass that are not faults
// in blocks.
func TestCatchFaultsPassesPanics(t *testing.T) {
	own := errors.New("own")
	if err := CatchFaults(func() error { return own }); err != own {
		t.Errorf("got %v", err)
	}
	for _, f := range []func(){
		func() { panic("text") },
		func() { var p *[4]int; p[1] = 2 },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("a panic was swallowed")
				}
			}()
			_ = CatchFaults(func() error { f(); return nil })
		}()
	}
}

// file writes a file of the given contents and opens it.
func file(t *testing.T, contents []byte) *os.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, contents, 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// TestMapFile: files of several sizes, mapped and read, have their contents, cannot be written, and are counted.
func TestMapFile(t *testing.T) {
	for _, setting := range []string{"", "off"} {
		t.Setenv("WEIR_MAP", setting)
		for _, size := range []int64{0, 1, pageSize, pageSize + 1, 3*pageSize + 17} {
			contents := make([]byte, size)
			for i := range contents {
				contents[i] = byte(i * 7)
			}
			f := file(t, contents)
			before := Usage()
			b, err := MapFile(f, "model")
			if err != nil {
				t.Fatal(err)
			}
			f.Close()
			if !bytes.Equal(b.Bytes(), contents) || b.Size() != size || b.Kind() != File {
				t.Errorf("size %d, WEIR_MAP=%s: the contents differ", size, setting)
			}
			if got := Usage().Current[File] - before.Current[File]; got != size {
				t.Errorf("size %d: ledger says %d", size, got)
			}
			b.DontNeed(0, size)
			b.DontNeed(size/2, size-size/2)
			if !bytes.Equal(b.Bytes(), contents) {
				t.Errorf("size %d, WEIR_MAP=%s: the contents differ after DontNeed", size, setting)
			}
			if outsideHeap && size > 0 {
				if !faults(func() { b.Bytes()[0] = 1 }) {
					t.Errorf("size %d, WEIR_MAP=%s: a file was written", size, setting)
				}
			}
			if err := b.Close(); err != nil {
				t.Error(err)
			}
			if after := Usage(); after.Current != before.Current {
				t.Errorf("size %d: ledger before %v, after %v", size, before.Current, after.Current)
			}
		}
	}
}

// TestMapFileRefuses: a directory, a device and a closed file are errors.
func TestMapFileRefuses(t *testing.T) {
	f, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := MapFile(f, "dir"); !errors.Is(err, diag.ErrInput) ||
		!strings.Contains(err.Error(), "dir: is a directory") {
		t.Errorf("a directory: %v", err)
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	if _, err := MapFile(null, "null"); !errors.Is(err, diag.ErrInput) {
		t.Errorf("a device: %v", err)
	}
	f.Close()
	if _, err := MapFile(f, "closed"); !errors.Is(err, diag.ErrInput) {
		t.Errorf("a closed file: %v", err)
	}
}

// TestReadAt: reads fill their range and nothing else; ranges outside the file are errors.
func TestReadAt(t *testing.T) {
	contents := []byte("0123456789")
	tests := []struct {
		at, off, n int64
		want       string // the block's 8 bytes; a dot is a byte that was not read
		fails      string
	}{
		{0, 0, 8, "01234567", ""},
		{2, 5, 3, "..567...", ""},
		{8, 0, 0, "........", ""},
		{0, 10, 0, "........", ""},
		{0, 5, 8, "56789...", "the file ends at byte 10, 3 bytes short"},
		{0, 20, 1, "........", "the file ends at byte 20, 1 bytes short"},
		{0, -1, 1, "........", "lies outside any file"},
		{0, math.MaxInt64, 1, "........", "lies outside any file"},
	}
	for _, test := range tests {
		b := mustMap(t, Weights, "w", 8)
		Fill(b, '.')
		err := b.ReadAt(bytes.NewReader(contents), test.at, test.off, test.n)
		if test.fails == "" && err != nil || test.fails != "" &&
			(!errors.Is(err, diag.ErrInput) || !strings.Contains(err.Error(), test.fails)) {
			t.Errorf("%+v: %v", test, err)
		}
		if string(b.Bytes()) != test.want {
			t.Errorf("%+v: block holds %q", test, b.Bytes())
		}
	}
	b := mustMap(t, Weights, "w", 8)
	f := file(t, contents)
	f.Close()
	if err := b.ReadAt(f, 0, 0, 4); !errors.Is(err, diag.ErrInput) || !errors.Is(err, os.ErrClosed) {
		t.Errorf("a closed file: %v", err)
	}
	b.Close()
	if err := b.ReadAt(bytes.NewReader(contents), 0, 0, 4); !errors.Is(err, diag.ErrClosed) {
		t.Errorf("a closed block: %v", err)
	}
	big := mustMap(t, Weights, "w", 2*readStep+3)
	want := make([]byte, big.Size())
	for i := range want {
		want[i] = byte(i >> 8)
	}
	if err := big.ReadAt(bytes.NewReader(want), 0, 0, big.Size()); err != nil || !bytes.Equal(big.Bytes(), want) {
		t.Errorf("a read of several steps: %v", err)
	}
}

// TestConcurrent maps and closes blocks from several goroutines; the ledger ends as it began.
func TestConcurrent(t *testing.T) {
	before := Usage()
	done := make(chan bool)
	for g := range 4 {
		go func() {
			for i := range 200 {
				b := mustMapHere(Kind(g%Kinds), "c", int64(i))
				Usage()
				if i%50 == 0 {
					Live()
				}
				b.Close()
			}
			done <- true
		}()
	}
	for range 4 {
		<-done
	}
	if after := Usage(); after.Current != before.Current || after.Blocks != before.Blocks {
		t.Errorf("ledger before %+v, after %+v", before, after)
	}
}

// TestBytes formats and parses sizes, and refuses malformed ones.
func TestBytes(t *testing.T) {
	tests := []struct {
		n    int64
		text string
	}{
		{0, "0B"}, {100, "100B"}, {1023, "1023B"}, {1024, "1KiB"}, {1536, "1.5KiB"}, {512 << 20, "512MiB"}, {3 << 30, "3GiB"},
		{1<<40 + 1, "1TiB"}, {-2048, "-2KiB"}, {math.MinInt64, "-8388608TiB"},
	}
	for _, test := range tests {
		if got := FormatBytes(test.n); got != test.text {
			t.Errorf("FormatBytes(%d) = %s, want %s", test.n, got, test.text)
		}
	}
	good := map[string]int64{
		"0": 0, "17": 17, "17B": 17, "1KiB": 1024, "1.5KiB": 1536, "512MiB": 512 << 20, " 2GiB ": 2 << 30, "0.25MiB": 1 << 18,
		"1.50TiB": 3 << 39, "1.1KiB": 1127, "8.27MiB": 8671724, "0.0001KiB": 1, "8388607TiB": 8388607 << 40,
		"9223372036854775807": math.MaxInt64,
	}
	for text, want := range good {
		if got, err := ParseBytes(text); err != nil || got != want {
			t.Errorf("ParseBytes(%q) = %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "B", "-1", "1KB", "1k", "1.5", "1.", ".5MiB", "1.5B", "8388607.999999999999999TiB",
		"1.0000000000000001KiB", "8388608TiB",
		"9223372036854775808", "1e3", "0x10", "1 2"} {
		if n, err := ParseBytes(text); !errors.Is(err, diag.ErrInput) {
			t.Errorf("ParseBytes(%q) = %d, %v", text, n, err)
		}
	}
}
