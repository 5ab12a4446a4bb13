package loop

import (
	"strings"
	"testing"
)

// TestPartialWrites: a buffer that is read must be written before, region by region, in any order; a buffer that is not
// proved to be fully written is listed as unproved.
func TestPartialWrites(t *testing.T) {
	const head = `weir 1
loop @main {
  dim n in [1, 9]
  buffer %x: f32[n, 16] input
  buffer %y: f32[n, 48] output
  buffer %z: f32[n, 48] output
  buffer %w: f32[n, 48] temp
  buffer %a: f32[n, 16] temp view %w offset 0 strides [48, 1]
  buffer %b: f32[n, 16] temp view %w offset 16 strides [48, 1]
  buffer %c: f32[n, 16] temp view %w offset 32 strides [48, 1]
  buffer %ab: f32[n, 32] temp view %w offset 0 strides [48, 1]
  buffer %p: f32[1, n, 2, 8] temp view %w offset 0 strides [7, 48, 8, 1]
  buffer %y1: f32[16*n] temp view %y offset 0
  buffer %y2: f32[2*n, 16] temp view %y offset 16*n
  buffer %u: f32[n, 3] temp
  buffer %u0: f32[n, 1] temp view %u offset 0 strides [3, 1]
  buffer %u1: f32[n] temp view %u offset 1 strides [3]
  buffer %u2: f32[n] temp view %u offset 2 strides [3]
  buffer %v: f32[n] input
  buffer %turned: f32[48, n] temp view %w offset 0 strides [1, 48]
  body {
`
	for _, c := range []struct{ title, body, unproved, fault string }{
		{title: "all regions, in any order", body: "copy %c = %x\ncopy %a = %x\ncopy %b = %x\ncopy %y = %w\ncopy %z = %w"},
		{title: "a prefix", body: "copy %b = %x\ncopy %a = %x\ncopy %y2 = %ab\ncopy %y1 = %x\ncopy %z = %y"},
		{title: "under another shape", body: "copy %a = %x\ncopy %y1 = %p\ncopy %b = %x\ncopy %y2 = %ab\ncopy %z = %y"},
		{title: "columns of one element",
			body: "copy %u2 = %v\ncopy %u0 = %v\ncopy %u1 = %v\ncopy %u = %u\ncopy %a = %x\ncopy %b = %x\ncopy %c = %x\ncopy " +
				"%y = %w\ncopy %z = %w"},
		{title: "a column that is not written",
			body: "copy %u2 = %v\ncopy %u0 = %v\ncopy %u = %u\ncopy %a = %x\ncopy %b = %x\ncopy %c = %x\ncopy %y = %w\ncopy " +
				"%z = %w", unproved: "%u is written"},
		{title: "with the axes in another order",
			body: "copy %y1 = %x\ncopy %a = %x\ncopy %b = %x\ncopy %y2 = %ab\ncopy %turned = %y\ncopy %z = %w"},
		{title: "a gap", body: "copy %c = %x\ncopy %a = %x\ncopy %y = %w\ncopy %z = %y", unproved: "%w is written"},
		{title: "a region that is not written", body: "copy %a = %x\ncopy %y1 = %b\ncopy %y2 = %y2\ncopy %z = %y",
			unproved: "%b is written"},
		{title: "no write", body: "copy %y = %w", fault: "reads %w before it is written"},
		{title: "half a result", body: "copy %y1 = %x\ncopy %z = %z", fault: "reads %z before it is written"},
		{title: "half of one result", body: "copy %y1 = %x\ncopy %a = %x\ncopy %b = %x\ncopy %c = %x\ncopy %z = %w",
			unproved: "%y is written"},
		{title: "a region written twice",
			body:     "copy %a = %x\ncopy %a = %x\ncopy %ab = %ab\ncopy %c = %x\ncopy %y = %w\ncopy %z = %y",
			unproved: "%ab is written"},
	} {
		t.Run(c.title, func(t *testing.T) {
			m, err := Parse(head+c.body+"\n}\n}\n", ParseOptions{})
			if err != nil {
				t.Fatal(err)
			}
			unproved, err := VerifyModule(m)
			if c.fault != "" {
				if err == nil || !strings.Contains(err.Error(), c.fault) {
					t.Fatalf("%v, want %q", err, c.fault)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			got := strings.Join(unproved, "\n")
			if c.unproved == "" && got != "" || !strings.Contains(got, c.unproved) {
				t.Errorf("not proved is %q, want %q", got, c.unproved)
			}
		})
	}
}
