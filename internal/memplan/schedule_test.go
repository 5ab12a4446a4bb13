package memplan

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
)

// randomDag makes a random graph whose nodes can run in the order 0, 1, …. A node uses only the last reach storages
// that were made before it.
func randomDag(random *rand.Rand, nodes, reach, samples int) *dag {
	d := &dag{uses: make([][]int32, nodes), makes: make([][]int32, nodes), reuse: make([][][2]int32, nodes),
		work:   make([][]int64, nodes),
		before: make([][]int32, nodes), after: make([][]int32, nodes), fixed: make([]bool, nodes)}
	storage := func(maker int32) int32 {
		size := make([]int64, samples)
		for s := range size {
			size[s] = int64(random.IntN(20))
		}
		d.size, d.made, d.keep, d.consumers = append(d.size, size), append(d.made, maker),
			append(d.keep, random.IntN(12) == 0), append(d.consumers, nil)
		return int32(len(d.size) - 1)
	}
	for range 2 {
		storage(-1)
	}
	for v := range int32(nodes) {
		low := max(0, len(d.size)-reach)
		for range 1 + random.IntN(2) {
			r := int32(low + random.IntN(len(d.size)-low))
			if slices.Contains(d.uses[v], r) {
				continue
			}
			d.uses[v], d.consumers[r] = append(d.uses[v], r), append(d.consumers[r], v)
			if m := d.made[r]; m >= 0 && !slices.Contains(d.before[v], m) {
				d.before[v], d.after[m] = append(d.before[v], m), append(d.after[m], v)
			}
		}
		for range 1 + random.IntN(6)/5 {
			d.makes[v] = append(d.makes[v], storage(v))
		}
		if random.IntN(3) == 0 {
			d.reuse[v] = append(d.reuse[v], [2]int32{d.makes[v][0], d.uses[v][0]})
		}
		if random.IntN(5) == 0 {
			d.work[v] = make([]int64, samples)
			for s := range samples {
				d.work[v][s] = int64(random.IntN(10))
			}
		}
		d.fixed[v] = random.IntN(20) == 0
	}
	return d
}

// leastPeak returns the least peak of all orders, for one sample of sizes.
func leastPeak(d *dag, sample int) int64 {
	n := len(d.uses)
	least := int64(1 << 60)
	ran := ranSet{0, make([]uint64, (n+63)/64)}
	var walk func(count int, live, peak int64)
	walk = func(count int, live, peak int64) {
		if peak >= least {
			return
		}
		if count == n {
			least = peak
			return
		}
		for v := range int32(n) {
			ready := !ran.has(v) && !slices.ContainsFunc(d.before[v], func(b int32) bool { return !ran.has(b) })
			for u := range v {
				ready = ready && (ran.has(u) || !d.fixed[v]) // all that comes before a fixed node stays before it
			}
			for u := range v {
				ready = ready && (ran.has(u) || !d.fixed[u])
			}
			if !ready {
				continue
			}
			high, net := d.step(v, sample, ran)
			ran.bits[v>>6] |= 1 << (v & 63)
			walk(count+1, live+net, max(peak, live+high))
			ran.bits[v>>6] &^= 1 << (v & 63)
		}
	}
	walk(0, d.start(sample), 0)
	return least
}

func checkOrder(t *testing.T, d *dag, order []int32) {
	t.Helper()
	position := make([]int, len(order))
	for i := range position {
		position[i] = -1
	}
	for i, v := range order {
		if position[v] >= 0 {
			t.Fatalf("node %d is listed twice", v)
		}
		position[v] = i
	}
	for v := range order {
		for _, b := range d.before[v] {
			if position[b] > position[v] {
				t.Fatalf("node %d runs before %d, which it needs", v, b)
			}
		}
		for u := range order {
			if d.fixed[v] && (u < v) != (position[u] < position[v]) {
				t.Fatalf("node %d has crossed %d, which is fixed", u, v)
			}
		}
	}
}

// TestScheduleIsOptimal: for small graphs the peak is the least of all orders, and proved.
func TestScheduleIsOptimal(t *testing.T) {
	better := 0
	for seed := range uint64(1500) {
		random := rand.New(rand.NewPCG(seed, 1))
		d := randomDag(random, 1+random.IntN(9), 2+random.IntN(10), 1)
		order, exact := d.schedule(1, DefaultBudget)
		checkOrder(t, d, order)
		_, peak := d.curve(order, 0, d.start(0), 0)
		least := leastPeak(d, 0)
		if got := slices.Max(peak); !exact || got != least {
			t.Fatalf("seed %d: peak %d (exact: %v), and %d is possible", seed, got, exact, least)
		}
		given := make([]int32, len(order))
		for i := range given {
			given[i] = int32(i)
		}
		if _, before := d.curve(given, 0, d.start(0), 0); slices.Max(before) > least {
			better++
		}
	}
	if better < 100 {
		t.Errorf("only %d graphs could be improved: the test says little", better)
	}
}

// TestScheduleIsNeverWorse looks at larger graphs with several samples and small budgets.
func TestScheduleIsNeverWorse(t *testing.T) {
	for seed := range uint64(60) {
		random := rand.New(rand.NewPCG(seed, 2))
		d := randomDag(random, 20+random.IntN(200), 2+random.IntN(60), 3)
		order, _ := d.schedule(3, 1+int64(random.IntN(5000)))
		checkOrder(t, d, order)
		given := make([]int32, len(order))
		for i := range given {
			given[i] = int32(i)
		}
		for s := range 3 {
			_, before := d.curve(given, 0, d.start(s), s)
			_, after := d.curve(order, 0, d.start(s), s)
			if slices.Max(after) > slices.Max(before) {
				t.Fatalf("seed %d: sample %d rises from %d to %d", seed, s, slices.Max(before), slices.Max(after))
			}
		}
		again, _ := d.schedule(3, 1)
		checkOrder(t, d, again)
	}
}

// BenchmarkSchedule orders graphs of 1,000 nodes. The number in a name is randomDag's reach: the larger it is, the more
// orders there are.
func BenchmarkSchedule(b *testing.B) {
	for _, reach := range []int{4, 20, 100, 1000} {
		b.Run(strconv.Itoa(reach), func(b *testing.B) {
			d := randomDag(rand.New(rand.NewPCG(9, 2)), 1000, reach, 3)
			clear(d.fixed)
			for b.Loop() {
				d.schedule(3, DefaultBudget)
			}
		})
	}
}
