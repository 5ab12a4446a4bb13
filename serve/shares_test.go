package serve

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/weirml/weir/serve/internal/ledger"
)

// TestShares: a client that takes all it can leaves room for another, whose takes are served at once; takes that never
// fit do not wait; nothing is left at the end, whatever was canceled meanwhile.
func TestShares(t *testing.T) {
	l := ledger.New(64 << 20)
	s := newShares(func() int64 { return l.Most(ledger.Body) })
	take := func(ctx context.Context, from string, own, amount int64) bool {
		_, ok := s.take(ctx, from, own, amount)
		return ok
	}
	most := l.Most(ledger.Body)
	greedy := 0
	for take(now, "greedy", 0, 64<<10) {
		greedy++
	}
	if int64(greedy)*64<<10 > most/2 || int64(greedy+1)*64<<10 <= most/2 {
		t.Errorf("one client alone got %d of %d bytes", greedy*64<<10, most)
	}
	waits, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if held, ok := s.take(waits, "greedy", 0, 64<<10); ok || held != int64(greedy)*64<<10 {
		t.Errorf("one take more: %v beside %d", ok, held)
	}
	if !take(now, "other", 0, most/4) {
		t.Error("another client waits")
	}
	if !take(now, "third", 0, most) {
		t.Error("the only request of a client waits")
	}
	if !take(now, "greedy", 0, most+1) {
		t.Error("what the ledger refuses waits")
	}
	s.give("greedy", int64(greedy)*64<<10)
	s.give("greedy", most+1)
	s.give("other", most/4)
	s.give("third", most)
	if len(s.clients) > 0 {
		t.Errorf("clients are left: %v", s.clients)
	}
	var wait sync.WaitGroup
	for i := range 32 {
		random := rand.New(rand.NewPCG(7, uint64(i)))
		wait.Go(func() {
			for range 300 {
				from, bytes := fmt.Sprint(random.IntN(3)), random.Int64N(most)
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(random.IntN(300))*time.Microsecond)
				if take(ctx, from, 0, bytes) {
					if more := random.Int64N(most); take(now, from, bytes, more) {
						s.give(from, more)
					}
					s.give(from, bytes)
				}
				cancel()
			}
		})
	}
	wait.Wait()
	if len(s.clients) > 0 || s.waiting != 0 {
		t.Errorf("clients are left: %v, %d waiting", s.clients, s.waiting)
	}
}

// TestPace: a transfer's deadlines grow with what has gone, not with what is claimed.
func TestPace(t *testing.T) {
	var set []time.Duration
	p := newPace(func(at time.Time) error {
		set = append(set, time.Until(at).Round(time.Second))
		return nil
	}, 20*time.Second, 5<<20)
	for range 5 << 10 {
		p.went(1 << 10)
	}
	if want := []time.Duration{36, 52, 68, 84, 100}; len(set) != len(want) {
		t.Fatalf("the deadlines are %v", set)
	} else {
		for i := range want {
			if set[i] != want[i]*time.Second {
				t.Errorf("deadline %d is after %v, not %v s", i, set[i], want[i])
			}
		}
	}
}

// TestCrowded: a client with as many requests in progress as it may have is refused another, and asks for the server's
// health all the same.
func TestCrowded(t *testing.T) {
	s, err := New(Options{Folder: t.TempDir(), Requests: 4})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(t.Context())
	h := httptest.NewServer(s.Handler())
	defer h.Close()
	for range 2 { // half of them
		c, err := net.Dial("tcp", h.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		fmt.Fprint(c, "POST /v2/models/x/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n")
	}
	held := func() (held int64) {
		s.asking.mu.Lock()
		defer s.asking.mu.Unlock()
		for _, c := range s.asking.clients {
			held += c.held
		}
		return held
	}
	for give := time.Now().Add(5 * time.Second); held() < 2; time.Sleep(time.Millisecond) {
		if time.Now().After(give) {
			t.Fatalf("%d of 2 requests are in progress", held())
		}
	}
	status := func(path string) int {
		a, err := http.Get(h.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		a.Body.Close()
		return a.StatusCode
	}
	if got := status("/v2"); got != http.StatusTooManyRequests {
		t.Errorf("a third request of the client: status %d", got)
	}
	if got := status("/v2/health/live"); got != http.StatusOK {
		t.Errorf("health: status %d", got)
	}
}
