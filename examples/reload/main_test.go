package main

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/weirml/weir"
)

// TestWithin replaces the model while clients ask: nothing is refused, and memory never exceeds the limit.
func TestWithin(t *testing.T) {
	var out strings.Builder
	if err := run(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	var answers, times int
	var limit, most int64
	_, err := fmt.Sscanf(out.String(),
		"%d answers, while the model was replaced %d times\nthe limit is %d bytes, and at most %d were held\n",
		&answers, &times, &limit, &most)
	if err != nil || answers == 0 || times != reloads {
		t.Fatalf("printed was %q: %v", out.String(), err)
	}
	if limit == 0 || most > limit {
		t.Errorf("%d bytes were held, the limit is %d", most, limit)
	}
	t.Log(out.String())
}

// TestRefused holds programs until there is no memory for another one: the limit refuses to replace the program in use,
// which still answers with its version. After the memory is released, the next version replaces it.
func TestRefused(t *testing.T) {
	defer weir.SetLimit(weir.Usage().Limit)
	s, err := start(t.Context(), version(1))
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	x := make([]float32, rows*width)
	x[0] = 1
	before, err := s.answer(t.Context(), x)
	if err != nil {
		t.Fatal(err)
	}
	next := version(2)
	var others []*weir.Program
	for {
		other, err := compile(t.Context(), next)
		if errors.Is(err, weir.ErrMemory) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
		if others = append(others, other); len(others) == 10 {
			t.Fatal("the limit that two programs need has room for ten")
		}
	}
	if err := s.replace(t.Context(), next); !errors.Is(err, weir.ErrMemory) {
		t.Errorf("one program too many is %v", err)
	}
	if u := weir.Usage(); u.Current > u.Limit {
		t.Errorf("%d bytes are held, the limit is %d", u.Current, u.Limit)
	}
	still, err := s.answer(t.Context(), x)
	if err != nil || fmt.Sprint(still) != fmt.Sprint(before) {
		t.Errorf("the program in use does not answer as before: %v", err)
	}
	for _, other := range others {
		if err := other.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.replace(t.Context(), next); err != nil {
		t.Fatal(err)
	}
	after, err := s.answer(t.Context(), x)
	if err != nil || fmt.Sprint(after) == fmt.Sprint(before) {
		t.Errorf("the next version answers as the one before: %v", err)
	}
}
