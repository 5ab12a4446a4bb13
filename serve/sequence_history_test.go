package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/weirml/weir"
	"github.com/weirml/weir/serve/internal/catalogue"
)

var sequenceSteps = flag.Int("sequences", 2000, "steps of the random history of sequences")

// TestSequenceHistory: a random history of starts, steps, ends, refused requests, rests and unloads. A slow reference,
// a list of numbers for each sequence, says what each step answers; the server's counters are the reference's, and its
// memory is the ledger's.
func TestSequenceHistory(t *testing.T) {
	weir.Trim()
	first := weir.Usage().Held
	h := newSequenceHistory(t)
	before := h.memory("before")
	for h.step = range *sequenceSteps {
		switch h.random.IntN(40) {
		case 0:
			h.rest()
		case 1:
			h.reload()
		case 2:
			h.bad()
		case 3:
			h.cancelled()
		default:
			h.any()
		}
		if h.check(); t.Failed() {
			t.Fatalf("step %d", h.step)
		}
	}
	for key := range h.alive {
		h.ask(key, false, true, []float32{1})
	}
	h.check()
	if after := h.memory("after all ended"); after != before {
		t.Errorf("%d bytes are held, and %d were before", after, before)
	}
	t.Logf("%v", h.statuses)
	if h.statuses[200] < h.step/3 || h.statuses[400] == 0 || h.statuses[429] == 0 {
		t.Errorf("the steps are not of all kinds: %v", h.statuses)
	}
	if err := h.server.Close(t.Context()); err != nil {
		t.Error(err)
	}
	weir.SetLimit(0)
	weir.Trim()
	if state, held := h.server.ledger.State(), weir.Usage().Held; state.Held != 0 || held != first {
		t.Errorf("at the end the ledger has %+v, and the process holds %d bytes; %d at the beginning", state, held, first)
	}
}

// sequenceKey is a sequence in the reference.
type sequenceKey struct{ model, id string }

// sequenceHistory is a server and its reference.
type sequenceHistory struct {
	t        *testing.T
	random   *rand.Rand
	server   *Server
	outside  int64 // bytes that the process held before
	step     int
	alive    map[sequenceKey][]float32
	statuses map[int]int
}

// newSequenceHistory starts a server of three models: sum is updated in place, list grows, brief ends after a moment.
func newSequenceHistory(t *testing.T) *sequenceHistory {
	dir := t.TempDir()
	sum := "weir 1\nir @m {\n  main @main(%x: f32[1], %s: f32[1]) {\n    %y: f32[1] = add(%s, %x)\n" +
		"    %next: f32[1] = add(%s, %x)\n    return %y, %next\n  }\n}\n"
	list := "weir 1\nir @m {\n  dim n in [0, inf]\n  dim p in [0, inf]\n  main @main(%x: f32[n], %s: f32[p]) {\n" +
		"    %next: f32[p + n] = concat(%s, %x) {axis = int 0}\n" +
		"    %y: f32[] = reduce_sum(%next) {axes = ints [0], keep = bool false}\n    return %y, %next\n  }\n}\n"
	for name, text := range map[string]string{"sum": sum, "list": list, "brief": sum} {
		idle, dims, begin := 600_000_000, 1, 1
		if name == "list" {
			dims, begin = -1, 0
		}
		if name == "brief" {
			idle = 1000
		}
		config := fmt.Sprintf(`sequence_batching { max_sequence_idle_microseconds: %d state [ { input_name: "s"
			output_name: "next" data_type: TYPE_FP32 dims: [ %d ] initial_state: { data_type: TYPE_FP32 dims: [ %d ]
			zero_data: true name: "zero" } } ] }`, idle, dims, begin)
		if err := errors.Join(os.MkdirAll(filepath.Join(dir, name, "1"), 0o755),
			os.WriteFile(filepath.Join(dir, name, "1", "model.weir"), []byte(text), 0o644),
			os.WriteFile(filepath.Join(dir, name, "config.pbtxt"), []byte(config), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	weir.Trim()
	h := &sequenceHistory{t: t, random: rand.New(rand.NewPCG(38, 5)), alive: map[sequenceKey][]float32{},
		outside: weir.Usage().Held, statuses: map[int]int{}}
	var err error
	if h.server, err = New(Options{Folder: dir, Limit: 8 << 20}); err != nil {
		t.Fatal(err)
	}
	for !h.server.Ready() {
		time.Sleep(time.Millisecond)
	}
	return h
}

// post sends a step and returns the status and the answer.
func (h *sequenceHistory) post(ctx context.Context, key sequenceKey, start, end bool, shape int, x []float32) (int,
	[]byte) {
	data, err := json.Marshal(x)
	if err != nil {
		h.t.Fatal(err)
	}
	body := fmt.Sprintf(`{"parameters":{"sequence_id":%s,"sequence_start":%v,"sequence_end":%v},`+
		`"inputs":[{"name":"x","shape":[%d],"datatype":"FP32","data":%s}]%s}`, key.id, start, end, shape, data,
		[]string{"", `,"outputs":[{"name":"y"},{"name":"next"}]`}[h.random.IntN(5)/4])
	r := httptest.NewRequestWithContext(ctx, "POST", "/v2/models/"+key.model+"/infer", bytes.NewReader([]byte(body)))
	w := httptest.NewRecorder()
	h.server.Handler().ServeHTTP(w, r)
	h.statuses[w.Code]++
	return w.Code, w.Body.Bytes()
}

// ask sends a step, and compares its answer with the reference's.
func (h *sequenceHistory) ask(key sequenceKey, start, end bool, x []float32) {
	h.t.Helper()
	past, alive := h.alive[key]
	status, text := h.post(h.t.Context(), key, start, end, len(x), x)
	if start {
		past, alive = nil, true
	}
	want := 200
	if !alive {
		want = 400
	}
	if key.model == "list" && status == 429 && alive {
		if start {
			delete(h.alive, key)
		}
		return
	}
	if status != want {
		h.t.Errorf("%v, start %v, end %v, alive %v: status %d, %.300s", key, start, end, alive, status, text)
		return
	}
	if !alive {
		return
	}
	next := append(past[:len(past):len(past)], x...)
	if key.model != "list" && past != nil {
		next = []float32{past[0] + x[0]}
	}
	sum := float32(0)
	for _, e := range next {
		sum += e
	}
	var a struct{ Outputs []struct{ Data []float32 } }
	if err := json.Unmarshal(text, &a); err != nil || len(a.Outputs) == 0 || len(a.Outputs[0].Data) != 1 ||
		a.Outputs[0].Data[0] != sum || len(a.Outputs) > 1 && !slices.Equal(a.Outputs[1].Data, next) {
		h.t.Errorf("%v, start %v, end %v: %.300s (%v), want %.300s", key, start, end, text, err, fmt.Sprint(next))
	}
	if h.alive[key] = next; end {
		delete(h.alive, key)
	}
}

// key returns one of a few sequences.
func (h *sequenceHistory) key() sequenceKey {
	key := sequenceKey{[]string{"sum", "list"}[h.random.IntN(2)], fmt.Sprint(1 + h.random.IntN(12))}
	if h.random.IntN(3) == 0 {
		key.id = `"` + key.id + `"`
	}
	return key
}

// any is a step of any sequence, with or without start and end.
func (h *sequenceHistory) any() {
	key := h.key()
	x := []float32{float32(h.random.IntN(1000))}
	if key.model == "list" {
		x = make([]float32, []int{0, 1, 5, 1000, 30000}[h.random.IntN(5)])
		for i := range x {
			x[i] = float32(h.random.IntN(10))
		}
	}
	_, alive := h.alive[key]
	start := !alive && h.random.IntN(10) > 0 || h.random.IntN(60) == 0
	h.ask(key, start, h.random.IntN(25) == 0, x)
}

// rest waits until a sequence that rests has ended.
func (h *sequenceHistory) rest() {
	key := sequenceKey{"brief", "1"}
	h.ask(key, true, false, []float32{1})
	delete(h.alive, key)
	for h.stats("brief").Alive > 0 {
		time.Sleep(100 * time.Microsecond)
	}
	h.ask(key, false, false, []float32{1})
}

// reload unloads a model, whose sequences end, and loads it again.
func (h *sequenceHistory) reload() {
	name := []string{"sum", "list"}[h.random.IntN(2)]
	if h.random.IntN(2) == 0 {
		if err := h.server.catalogue.Unload(h.t.Context(), name); err != nil {
			h.t.Error(err)
		}
	}
	if err := h.server.catalogue.Load(h.t.Context(), name); err != nil {
		h.t.Error(err)
	}
	for key := range h.alive {
		if key.model == name {
			delete(h.alive, key)
		}
	}
}

// bad sends a step that the model refuses: it changes no sequence that is alive, and starts none.
func (h *sequenceHistory) bad() {
	key, start := h.key(), h.random.IntN(4) == 0
	if status, text := h.post(h.t.Context(), key, start, h.random.IntN(4) == 0, 3, []float32{1, 2}); status != 400 {
		h.t.Errorf("%v: status %d, %s", key, status, text)
	}
	key.model = "sum"
	if status, text := h.post(h.t.Context(), key, start, false, 2, []float32{1, 2}); status != 400 {
		h.t.Errorf("%v: status %d, %s", key, status, text)
	}
	if start {
		delete(h.alive, key)
	}
}

// cancelled sends a step whose client has left.
func (h *sequenceHistory) cancelled() {
	ctx, cancel := context.WithCancel(h.t.Context())
	cancel()
	key := h.key()
	if status, text := h.post(ctx, key, false, false, 1, []float32{1}); status == 200 {
		h.t.Errorf("%v: status %d, %s", key, status, text)
	}
}

// stats returns a model's counters.
func (h *sequenceHistory) stats(name string) catalogue.SequenceStats {
	v, err := h.server.catalogue.Use(name, "")
	if err != nil {
		h.t.Fatal(err)
	}
	defer v.Leave()
	return v.Sequences.Stats()
}

// check compares the server's counters with the reference, and its memory with the limit.
func (h *sequenceHistory) check() {
	h.t.Helper()
	for _, name := range []string{"sum", "list", "brief"} {
		count, bytes := 0, int64(0)
		for key, list := range h.alive {
			if key.model == name {
				count++
				bytes += 4 * int64(len(list))
			}
		}
		if s := h.stats(name); s.Alive != count || s.Bytes != bytes {
			h.t.Errorf("%s has %d sequences with %d bytes, and the reference %d with %d", name, s.Alive, s.Bytes, count, bytes)
		}
	}
	if s := h.server.ledger.State(); s.Peak > s.Limit {
		h.t.Errorf("the ledger had %d bytes of %d", s.Peak, s.Limit)
	}
}

// memory returns the bytes that the ledger has when nothing is idle, which are those that the process holds.
func (h *sequenceHistory) memory(when string) int64 {
	h.t.Helper()
	h.server.catalogue.Trim()
	h.server.bodies.Release()
	h.server.responses.Release()
	weir.Trim()
	held, measured := h.server.ledger.State().Held, weir.Usage().Held-h.outside
	if held != measured {
		h.t.Errorf("%s: the ledger has %d bytes, and the process holds %d", when, held, measured)
	}
	return held
}

// TestSequenceTurns: the requests of a sequence get their turns in the order of their arrival; those that leave the
// queue delay nobody, and those of other sequences do not wait.
func TestSequenceTurns(t *testing.T) {
	h := newSequenceHistory(t)
	defer weir.SetLimit(0)
	defer h.server.Close(t.Context())
	v, err := h.server.catalogue.Use("sum", "")
	if err != nil {
		t.Fatal(err)
	}
	defer v.Leave()
	if in := v.Program.Inputs(); in[1].State != "next" {
		t.Errorf("%+v is not updated in place", in[1])
	}
	id := catalogue.SequenceID{Number: 1}
	first, err := v.Sequences.Enter(t.Context(), id, true, false)
	if err != nil {
		t.Fatal(err)
	}
	turns := make(chan int, 100)
	var all sync.WaitGroup
	var leave []context.CancelFunc
	for n := range 100 {
		ctx, cancel := context.WithCancel(t.Context())
		leave = append(leave, cancel)
		all.Go(func() {
			s, err := v.Sequences.Enter(ctx, id, false, false)
			if err != nil {
				if !errors.Is(err, context.Canceled) || n%7 != 3 {
					t.Errorf("request %d: %v", n, err)
				}
				return
			}
			turns <- n
			if s.Done(errors.New("this step fails")).Error() != "this step fails" {
				t.Error("the sequence has ended")
			}
		})
		for v.Sequences.Stats().Waiting != n+1 {
			time.Sleep(10 * time.Microsecond)
		}
	}
	if other, err := v.Sequences.Enter(t.Context(), catalogue.SequenceID{Number: 2}, true, true); err != nil {
		t.Error(err)
	} else if err := other.Done(nil); err != nil {
		t.Error(err)
	}
	for n := 3; n < 100; n += 7 {
		leave[n]()
	}
	for v.Sequences.Stats().Waiting != 86 {
		time.Sleep(10 * time.Microsecond)
	}
	if err := first.Keep(nil); err != nil { // its only state is in place
		t.Error(err)
	}
	if err := first.Done(nil); err != nil {
		t.Error(err)
	}
	all.Wait()
	close(turns)
	last := -1
	for n := range turns {
		if n <= last {
			t.Errorf("request %d has its turn after %d", n, last)
		}
		last = n
	}
	if s := v.Sequences.Stats(); s.Alive != 1 || s.Waiting != 0 || last != 99 {
		t.Errorf("%+v, the last is %d", s, last)
	}
	for _, cancel := range leave {
		cancel()
	}
}
