package mem

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/weirml/weir/internal/diag"
)

// TestClaim charges until the file's bytes are used up; what is refused is not charged, and blocks are the ledger's.
func TestClaim(t *testing.T) {
	before := Usage()
	c := NewClaim(context.Background(), 100)
	most := int64(ClaimFloor + 100*ClaimFactor)
	for _, step := range []struct {
		bytes int64
		ok    bool
	}{{ClaimFloor, true}, {100*ClaimFactor + 1, false}, {-1, false}, {math.MaxInt64, false}, {100 * ClaimFactor, true},
		{1, false}, {0, true}} {
		if err := c.Take(step.bytes); (err == nil) != step.ok || err != nil && !errors.Is(err, diag.ErrInput) {
			t.Errorf("%d: %v", step.bytes, err)
		}
	}
	c.Extend(100)
	if err := c.Take(100*ClaimFactor + 1); err == nil {
		t.Errorf("more than %d is granted", most+100*ClaimFactor)
	}
	b, err := c.Map(Weights, "w", 3000)
	if err != nil || len(c.Blocks()) != 1 || Usage().Current[Weights]-before.Current[Weights] != 3000 {
		t.Fatalf("%v, %v", err, c.Blocks())
	}
	if _, err := c.Map(Weights, "w", 1<<40); !errors.Is(err, diag.ErrInput) || !strings.Contains(err.Error(), "w") {
		t.Error(err)
	}
	err = errors.Join(b.Close(), c.Close(), c.Close())
	if err != nil || len(c.Blocks()) > 0 || Usage().All != before.All {
		t.Errorf("%v, %v", err, Live())
	}
	if Claimable(math.MaxInt64) != math.MaxInt64 || Claimable(0) != ClaimFloor {
		t.Error(Claimable(math.MaxInt64), Claimable(0))
	}
}

// TestClaimEnds charges after the context has ended.
func TestClaimEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	c := NewClaim(ctx, 1<<30)
	cancel()
	if err := c.JSON(bytes.Repeat([]byte("1,"), 1<<20)); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	err := error(nil)
	for range 2 * looking {
		err = errors.Join(err, c.Take(1))
	}
	if !errors.Is(err, context.Canceled) {
		t.Error("no charge looked at the context")
	}
	c.Alone()
	if err := c.Take(ClaimFloor); err != nil {
		t.Error(err)
	}
}

// TestClaimJSON charges each value, however short, and nothing within strings.
func TestClaimJSON(t *testing.T) {
	for _, c := range []struct {
		text   string
		values int64
	}{{`5`, 1}, {`[1,2,3]`, 4}, {`{"a":{},"b":[]}`, 5}, {`"a,b[{"`, 1}, {`"\",",`, 2}, {`["\\",1]`, 3}, {``, 1}} {
		claim := NewClaim(context.Background(), 0)
		if err := claim.JSON([]byte(c.text)); err != nil || claim.taken != c.values*claimValue+int64(len(c.text)) {
			t.Errorf("%s: %d, %v", c.text, claim.taken, err)
		}
	}
	if err := NewClaim(context.Background(), 6<<20).JSON(bytes.Repeat([]byte("{},"), 2<<20)); err == nil {
		t.Error("two million empty objects in 6 MiB are granted")
	}
}

// TestMapFS reads entries of zip files, of which some state sizes that are not true.
func TestMapFS(t *testing.T) {
	before := Usage()
	for _, c := range []struct {
		name, says string
		bytes      int
		method     uint16
	}{{"stored", "", 100_000, zip.Store}, {"deflated", "", 100_000, zip.Deflate}, {"empty", "", 0, zip.Store},
		{"a bomb", "far more", ClaimFloor + 8<<20, zip.Deflate}} {
		var file bytes.Buffer
		z := zip.NewWriter(&file)
		w, err := z.CreateHeader(&zip.FileHeader{Name: "m", Method: c.method})
		if err != nil {
			t.Fatal(err)
		}
		if _, err = w.Write(make([]byte, c.bytes)); err != nil {
			t.Fatal(err)
		}
		z.Close()
		r, err := zip.NewReader(bytes.NewReader(file.Bytes()), int64(file.Len()))
		if err != nil {
			t.Fatal(err)
		}
		f, err := OpenFS(r, "m")
		if c.says != "" {
			if !errors.Is(err, diag.ErrInput) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: %v", c.name, err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		b, err := MapFS(f, "m")
		if err != nil || int(b.Size()) != c.bytes {
			t.Fatalf("%s: %v", c.name, err)
		}
		b.Close()
	}
	if now := Usage(); now.All != before.All {
		t.Error(Live())
	}
}

// TestReplace replaces a file from many goroutines at the same time, and removes what killed ones left.
func TestReplace(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a[b].bin")
	if locks || runtime.GOOS == "windows" { // elsewhere nothing tells whether a process still writes the file
		if err := os.WriteFile(filepath.Join(dir, ".a[b].bin.LEFT.tmp"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for range 10 {
				if err := Replace(path, i%2 == 0, func(w io.Writer) error {
					_, err := w.Write(bytes.Repeat([]byte{byte(i)}, 10_000))
					return err
				}); err != nil {
					t.Error(err)
				}
				data, err := os.ReadFile(path)
				if err != nil || len(data) != 10_000 || bytes.Count(data, data[:1]) != len(data) {
					t.Errorf("%d bytes, %v", len(data), err)
				}
			}
		})
	}
	all.Wait()
	broken := errors.New("broken")
	if err := Replace(path, true, func(io.Writer) error { return broken }); !errors.Is(err, broken) {
		t.Error(err)
	}
	if list, err := os.ReadDir(dir); err != nil || len(list) != 1 {
		t.Errorf("%v, %v", list, err)
	}
}
