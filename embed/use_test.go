package embed

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/encoder"
)

const bert = "testdata/models/bert"

// must loads a model of testdata.
func must(t *testing.T, name string, o Options) *Model {
	t.Helper()
	m, err := Load(t.Context(), name, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

// randomTexts returns texts of random numbers of words.
func randomTexts(r *rand.Rand, n, words int) []string {
	list := make([]string, n)
	some := []string{"river", "the", "bread", "Москва", "東京", "naïve", "😀", "station", "of", "\u0301", "x", "12,5"}
	for i := range list {
		var b strings.Builder
		for range r.IntN(words) {
			b.WriteString(some[r.IntN(len(some))])
			b.WriteByte(' ')
		}
		list[i] = b.String()
	}
	return list
}

// TestTogether: the vectors of texts of many goroutines, computed together, are those of each text alone; a request
// that is canceled ends at once and disturbs no other.
func TestTogether(t *testing.T) {
	alone := must(t, bert, Options{})
	for _, calls := range []int{1, 3} {
		m := must(t, bert, Options{Compile: weir.Options{Calls: calls}})
		var wait sync.WaitGroup
		for g := range 12 {
			r := rand.New(rand.NewPCG(uint64(calls), uint64(g)))
			wait.Go(func() {
				for range 6 {
					texts := randomTexts(r, 1+r.IntN(20), 40)
					ctx, cancel := context.WithCancel(t.Context())
					if g%4 == 3 {
						time.AfterFunc(time.Duration(r.IntN(2000))*time.Microsecond, cancel)
					}
					got, err := m.Embed(ctx, texts)
					cancel()
					if err != nil {
						if g%4 != 3 || !errors.Is(err, context.Canceled) {
							t.Error(err)
						}
						continue
					}
					k := r.IntN(len(texts))
					want, err := alone.Embed(t.Context(), texts[k:k+1])
					if err != nil {
						t.Error(err)
						return
					}
					if d := distance(got[k], want[0]); d > 1e-5 {
						t.Errorf("%q differs by %.2g", texts[k], d)
					}
				}
			})
		}
		wait.Wait()
	}
}

// TestMemory: the model holds what its certificate says once runs of the most bytes are active, and never more.
func TestMemory(t *testing.T) {
	for _, calls := range []int{1, 2} {
		var held, most atomic.Int64
		account := counting{&held, &most}
		m := must(t, bert, Options{Compile: weir.Options{Calls: calls, Account: account, Threads: 1}})
		c := m.Memory()
		base := held.Load()
		most.Store(base)
		if want := c.Weights + c.Files; base != want {
			t.Errorf("%d calls: the loaded model holds %d bytes, not %d", calls, base, want)
		}
		var wait sync.WaitGroup
		for range calls {
			wait.Go(func() {
				for tokens := 1; tokens <= m.MaxTokens(); tokens++ {
					texts := slices.Repeat([]encoder.Text{{IDs: make([]int32, tokens)}}, 1200/tokens)
					if _, err := m.encoder.Run(t.Context(), 0, texts); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wait.Wait()
		if got, want := most.Load()-base, int64(calls)*c.Call; got > want {
			t.Errorf("%d calls: runs took %d bytes, of which %d are certified", calls, got, want)
		} else if calls == 1 && got != want {
			t.Errorf("runs took %d bytes at most; %d are certified", got, want)
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
		if held.Load() != 0 {
			t.Errorf("%d bytes are left", held.Load())
		}
	}
}

// counting is an account that grants everything, and counts.
type counting struct{ held, most *atomic.Int64 }

func (c counting) Take(_ context.Context, bytes int64) error {
	now := c.held.Add(bytes)
	for {
		most := c.most.Load()
		if now <= most || c.most.CompareAndSwap(most, now) {
			return nil
		}
	}
}

func (c counting) Give(bytes int64) { c.held.Add(-bytes) }

// TestBudget: a budget makes runs smaller, down to one text; less is refused with what would fit.
func TestBudget(t *testing.T) {
	free := must(t, bert, Options{})
	texts := randomTexts(rand.New(rand.NewPCG(1, 2)), 100, 60)
	want, err := free.Embed(t.Context(), texts)
	if err != nil {
		t.Fatal(err)
	}
	c := free.Memory()
	least := c.Held()
	for _, budget := range []int64{c.Held(), c.Held() - 1, c.Held() - c.Call/4, c.Held() - c.Call/2, 0} {
		m, err := Load(t.Context(), bert, Options{Compile: weir.Options{Budget: budget}})
		if e := (*weir.Error)(nil); errors.As(err, &e) && errors.Is(err, weir.ErrBudget) {
			if budget >= least || !strings.Contains(e.Fix, "MaxTokens") {
				t.Errorf("%d bytes: %v", budget, err)
			}
			var fits int
			if _, err := fmt.Sscanf(e.Fix, "texts of at most %d tokens", &fits); err != nil {
				t.Fatalf("%q: %v", e.Fix, err)
			}
			if m, err = Load(t.Context(), bert, Options{MaxTokens: fits, Compile: weir.Options{Budget: budget}}); err != nil {
				t.Errorf("%d tokens: %v", fits, err)
			} else {
				m.Close()
			}
			continue
		} else if err != nil {
			t.Fatal(err)
		}
		if held := m.Memory().Held(); budget > 0 && held > budget {
			t.Errorf("a budget of %d, and %d bytes", budget, held)
		}
		got, err := m.Embed(t.Context(), texts)
		m.Close()
		if err != nil {
			t.Fatal(err)
		}
		for i := range got {
			if d := distance(got[i], want[i]); d > 1e-5 {
				t.Errorf("a budget of %d: text %d differs by %.2g", budget, i, d)
			}
		}
	}
	if _, err := Load(t.Context(), bert, Options{Compile: weir.Options{Budget: 1000}}); !errors.Is(err, weir.ErrBudget) {
		t.Errorf("a budget of 1000: %v", err)
	}
}

// TestClosed: a closed model refuses texts, also those that wait; closing waits for runs.
func TestClosed(t *testing.T) {
	m := must(t, bert, Options{})
	texts := randomTexts(rand.New(rand.NewPCG(3, 4)), 2000, 60)
	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() {
			if _, err := m.Embed(t.Context(), texts); err != nil && !errors.Is(err, weir.ErrClosed) {
				t.Error(err)
			}
		})
	}
	time.Sleep(5 * time.Millisecond)
	for range 2 {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
	wait.Wait()
	if _, err := m.Embed(t.Context(), texts[:1]); !errors.Is(err, weir.ErrClosed) {
		t.Errorf("a closed model: %v", err)
	}
}

// TestOptions: dimensions, normalisation, empty lists and options that do not fit.
func TestOptions(t *testing.T) {
	m := must(t, bert, Options{})
	if v, err := m.Embed(t.Context(), nil); err != nil || v == nil || len(v) != 0 {
		t.Errorf("no texts: %v, %v", v, err)
	}
	whole, err := m.Embed(t.Context(), []string{"a river"})
	if err != nil {
		t.Fatal(err)
	}
	n := must(t, bert, Options{Dimensions: 5, Normalize: true})
	part, err := n.Embed(t.Context(), []string{"a river"})
	if err != nil || n.Dimensions() != 5 || len(part[0]) != 5 {
		t.Fatalf("%v, %v", part, err)
	}
	want := slices.Clone(whole[0][:5])
	normalize(want)
	if d := distance(part[0], want); d > 1e-6 {
		t.Errorf("5 dimensions differ by %.2g", d)
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := m.Embed(canceled, []string{"a"}); !errors.Is(err, context.Canceled) {
		t.Errorf("a canceled context: %v", err)
	}
	if _, err := m.EmbedAs(t.Context(), "nothing", []string{"a"}); !errors.Is(err, weir.ErrInput) {
		t.Errorf("an unknown prompt: %v", err)
	}
	for _, o := range []Options{{Dimensions: -1}, {Dimensions: 1000}, {MaxTokens: -1}, {MaxTokens: 1 << 20},
		{Prompt: "a", PromptName: "b"}, {Prompt: "a", NoPrompt: true}, {PromptName: "nothing"},
		{Compile: weir.Options{Outputs: []string{"x"}}}, {Compile: weir.Options{Budget: -1}}} {
		if m, err := Load(t.Context(), bert, o); !errors.Is(err, weir.ErrInput) {
			t.Errorf("%+v: %v", o, err)
			if err == nil {
				m.Close()
			}
		}
	}
}

// TestFolders: what is no model is refused with its reason.
func TestFolders(t *testing.T) {
	empty := t.TempDir()
	for _, name := range []string{empty, empty + "/nothing", "embed.go", "testdata"} {
		m, err := Load(t.Context(), name, Options{})
		if !errors.Is(err, weir.ErrInput) && !errors.Is(err, weir.ErrUnsupported) {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil {
			m.Close()
		}
	}
	if _, err := LoadFS(t.Context(), os.DirFS(bert), "config.json", Options{}); err == nil {
		t.Error("config.json is loaded as a model")
	}
}

// TestUnknownIDs: a text whose ids the model has no embedding for is refused alone, and not the texts beside it.
func TestUnknownIDs(t *testing.T) {
	m := must(t, bert, Options{})
	size := m.Tokenizer().Size()
	var wait sync.WaitGroup
	for range 50 {
		wait.Go(func() {
			_, err := m.encoder.Run(t.Context(), 0, []encoder.Text{{IDs: []int32{2, int32(size) + 1000, 3}}})
			if !errors.Is(err, weir.ErrInput) || !strings.Contains(err.Error(), "input_ids has") {
				t.Errorf("an unknown id: %v", err)
			}
			_, err = m.encoder.Run(t.Context(), 0, []encoder.Text{{IDs: []int32{2, 3}, Types: []int32{0, 7}}})
			if !errors.Is(err, weir.ErrInput) || !strings.Contains(err.Error(), "token_type_ids has") {
				t.Errorf("an unknown type: %v", err)
			}
		})
		wait.Go(func() {
			if _, err := m.Embed(t.Context(), []string{"a river"}); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
}

// TestTurns: a request of one text waits for a few runs of another's thousands, not for all.
func TestTurns(t *testing.T) {
	m := must(t, bert, Options{})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		_, err := m.Embed(ctx, randomTexts(rand.New(rand.NewPCG(5, 6)), 20_000, 60))
		ended <- err
	}()
	for m.Program().Stats().Runs == 0 {
		time.Sleep(time.Millisecond)
	}
	before := m.Program().Stats().Runs
	if _, err := m.Embed(t.Context(), []string{"a river"}); err != nil {
		t.Error(err)
	}
	if runs := m.Program().Stats().Runs - before; runs > 100 {
		t.Errorf("the text waited for %d runs", runs)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the long request: %v", err)
	}
}

// TestRefusedMemory: when the account refuses large runs, texts are computed in smaller ones; a text that gets no
// memory at all fails with the account's reason, and later ones work again.
func TestRefusedMemory(t *testing.T) {
	a := &limited{}
	a.most.Store(1 << 40)
	m := must(t, bert, Options{Compile: weir.Options{Account: a}})
	texts := randomTexts(rand.New(rand.NewPCG(7, 8)), 200, 60)
	want, err := m.Embed(t.Context(), texts)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Program().Trim(); err != nil {
		t.Fatal(err)
	}
	one, err := m.Memory().Program.Call(weir.Dims{"batch": 1, "tokens": int64(m.MaxTokens())})
	if err != nil {
		t.Fatal(err)
	}
	a.most.Store(a.held.Load() + one)
	got, err := m.Embed(t.Context(), texts)
	if err != nil {
		t.Fatal(err)
	}
	for i := range got {
		if d := distance(got[i], want[i]); d > 1e-5 {
			t.Errorf("text %d differs by %.2g", i, d)
		}
	}
	if _, err := m.Program().Trim(); err != nil {
		t.Fatal(err)
	}
	a.most.Store(a.held.Load())
	if _, err := m.Embed(t.Context(), texts); !errors.Is(err, weir.ErrMemory) {
		t.Errorf("no memory: %v", err)
	}
	a.most.Store(1 << 40)
	if _, err := m.Embed(t.Context(), texts); err != nil {
		t.Error(err)
	}
}

// limited is an account of at most so many bytes.
type limited struct{ held, most atomic.Int64 }

func (l *limited) Take(_ context.Context, bytes int64) error {
	if now := l.held.Add(bytes); now > l.most.Load() {
		l.held.Add(-bytes)
		return fmt.Errorf("%d bytes of %d", now, l.most.Load())
	}
	return nil
}

func (l *limited) Give(bytes int64) { l.held.Add(-bytes) }

// TestFarLimit: a number of tokens that only a file says costs nothing until a text has as many, and is in the
// certificate; a budget says how many fit.
func TestFarLimit(t *testing.T) {
	load := func(limit string, o Options) (*Model, error) {
		files := map[string]*string{"sentence_bert_config.json": nil}
		config := `{"tokenizer_class": "T5Tokenizer", "model_max_length": ` + limit + `}`
		files["tokenizer_config.json"] = &config
		return LoadFS(t.Context(), over(t, "t5", files), ".", o)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	m, err := load("100000000", Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Embed(t.Context(), []string{"a text"}); err != nil {
		t.Error(err)
	}
	runtime.ReadMemStats(&after)
	if taken := after.TotalAlloc - before.TotalAlloc; taken > 1<<30 {
		t.Errorf("%d bytes of Go's heap", taken)
	}
	if n := m.MaxTokens(); n != 100_000_000 || m.Memory().Held() < 1<<50 {
		t.Errorf("%d tokens, %s", n, m.Memory())
	}
	m.Close()
	if _, err := load("1000000000", Options{}); !errors.Is(err, weir.ErrInput) ||
		!strings.Contains(err.Error(), "set MaxTokens") {
		t.Errorf("10⁹ tokens: %v", err)
	}
	const budget = 64 << 20
	o := Options{Compile: weir.Options{Budget: budget}}
	_, err = load("100000000", o)
	var e *weir.Error
	if !errors.Is(err, weir.ErrBudget) || !errors.As(err, &e) {
		t.Fatal(err)
	}
	if _, err := fmt.Sscanf(e.Fix, "texts of at most %d tokens fit", &o.MaxTokens); err != nil {
		t.Fatal(e.Fix)
	}
	if m, err = load("100000000", o); err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if held := m.Memory().Held(); held > budget {
		t.Errorf("%d bytes of a budget of %d", held, budget)
	}
	text := strings.Repeat("a text ", o.MaxTokens)
	if _, err := m.Embed(t.Context(), []string{text}); err != nil {
		t.Error(err)
	}
	o.MaxTokens++
	if m, err := load("100000000", o); !errors.Is(err, weir.ErrBudget) {
		t.Errorf("a token more fits too: %v", err)
		m.Close()
	}
}
