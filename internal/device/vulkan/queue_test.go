//go:build ((linux && !android) || (darwin && !ios) || windows) && (amd64 || arm64)

package vulkan

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirml/weir/internal/device"
	"github.com/weirml/weir/internal/diag"
)

// TestLaunches runs more kernels than all batches hold, on sizes that are no multiples of a block: each sees the writes
// of earlier ones.
func TestLaunches(t *testing.T) {
	both(t, func(t *testing.T, d *Device) {
		b := newBench(t, d)
		step, mirror := b.load(stepKernel()), b.load(mirrorKernel())
		for _, count := range []int{1, 63, 64, 65, 1000, 7001} {
			in := words(count, uint32(count))
			x, y, z := b.put(in), b.allocate(int64(4*count)), b.allocate(int64(4*count))
			const launches = 5*manyCommands + 3
			for range launches {
				must(t, b.queue.Launch(step, []uint64{x.Address()}, []int64{int64(count), 1}, 0))
			}
			must(t, b.queue.Launch(mirror, []uint64{x.Address(), y.Address()}, []int64{int64(count), 0}, z.Address()))
			for i := range in {
				in[i] = stepped(in[i], launches)
			}
			same(t, b.get(y), mirrored(in))
			same(t, b.get(x), in)
			b.wait()
		}
	})
}

// TestArguments launches kernels with so many dimensions that few launches fill a batch's arguments: the argument
// blocks of unfinished launches are not overwritten.
func TestArguments(t *testing.T) {
	b := newBench(t, open(t))
	step := b.load(stepKernel())
	const count, most = 8, 500
	var memories []device.Memory
	for i := range 64 {
		memories = append(memories, b.put(words(count, uint32(i))))
	}
	times := make([]int, len(memories))
	for i := range 3000 {
		m := i * 7 % len(memories)
		operands := []uint64{memories[m].Address()}
		dims := make([]int64, 2+i%most) // the kernel looks at the first two
		dims[0], dims[1] = count, int64(1+i%3)
		times[m] += 1 + i%3
		must(t, b.queue.Launch(step, operands, dims, 0))
	}
	for i, m := range memories {
		want := words(count, uint32(i))
		for w := range want {
			want[w] = stepped(want[w], times[i])
		}
		same(t, b.get(m), want)
	}
	if err := b.queue.Launch(step, make([]uint64, 1), make([]int64, batchArgument/8), 0); !errors.Is(err,
		diag.ErrInternal) {
		t.Errorf("more arguments than a batch holds: %v", err)
	}
	b.wait()
}

// TestRows runs more blocks than a row of the grid has.
func TestRows(t *testing.T) {
	b := newBench(t, open(t))
	step := b.load(stepKernel())
	const count = 64*(1<<15)*2 + 65
	in := words(count, 5)
	x := b.put(in)
	must(t, b.queue.Launch(step, []uint64{x.Address()}, []int64{count, 2}, 0))
	for i := range in {
		in[i] = stepped(in[i], 2)
	}
	same(t, b.get(x), in)
	if err := b.queue.Launch(step, []uint64{x.Address()}, []int64{math.MaxInt64 / 2, 1}, 0); !errors.Is(err,
		diag.ErrInput) {
		t.Errorf("more blocks than a grid has: %v", err)
	}
	if err := b.queue.Launch(step, []uint64{x.Address()}, []int64{-1, 1}, 0); !errors.Is(err, diag.ErrInput) {
		t.Errorf("a negative number of elements: %v", err)
	}
	b.wait()
}

// TestCopies copies ranges between device memories and the host, between launches, and tries ranges beyond the memory.
func TestCopies(t *testing.T) {
	both(t, func(t *testing.T, d *Device) {
		b := newBench(t, d)
		step := b.load(stepKernel())
		const count = 3*stagingBytes/4 + 123 // uses all of staging several times
		in := words(count, 9)
		x, y := b.put(in), b.allocate(4*count)
		must(t, b.queue.Launch(step, []uint64{x.Address()}, []int64{count, 1}, 0))
		must(t, b.queue.Copy(y, 4*100, x, 0, 4*(count-100)))
		must(t, b.queue.Copy(y, 0, x, 4*(count-100), 4*100))
		must(t, b.queue.Upload(y, 4*7, bytesOfWords([]uint32{1, 2, 3})))
		must(t, b.queue.Launch(step, []uint64{y.Address()}, []int64{count, 1}, 0))
		must(t, b.queue.Upload(x, 0, bytesOfWords(in[:10])))
		want := make([]uint32, count)
		for i := range want {
			want[(i+100)%count] = stepped(in[i], 2)
		}
		for i := range uint32(3) {
			want[7+i] = stepped(1+i, 1)
		}
		same(t, b.get(y), want)
		piece := make([]uint32, 5)
		must(t, b.queue.Download(bytesOfWords(piece), y, 4*6))
		same(t, piece, want[6:11])
		must(t, b.queue.Download(bytesOfWords(piece), x, 4*8))
		same(t, piece, []uint32{in[8], in[9], stepped(in[10], 1), stepped(in[11], 1), stepped(in[12], 1)})

		// Bytes that are not aligned to words.
		odd := []byte("an odd number of bytes!")
		must(t, b.queue.Upload(y, 3, odd))
		must(t, b.queue.Copy(x, 1, y, 3, int64(len(odd))))
		back := make([]byte, len(odd))
		must(t, b.queue.Download(back, x, 1))
		if string(back) != string(odd) {
			t.Errorf("%q came back", back)
		}

		for name, err := range map[string]error{
			"an upload past the end":     b.queue.Upload(x, 4*count-1, []byte{1, 2}),
			"an upload before":           b.queue.Upload(x, -1, []byte{1}),
			"a download past the end":    b.queue.Download([]byte{1, 2}, x, 4*count-1),
			"a copy past the end":        b.queue.Copy(x, 1, y, 0, 4*count),
			"a copy from past the end":   b.queue.Copy(x, 0, y, 8, 4*count-4),
			"a copy of less than none":   b.queue.Copy(x, 0, y, 8, -1),
			"an upload far past it":      b.queue.Upload(x, math.MaxInt64, []byte{1}),
			"a copy with an end too far": b.queue.Copy(x, 8, y, math.MaxInt64, 8),
		} {
			if !errors.Is(err, diag.ErrInternal) {
				t.Errorf("%s: %v", name, err)
			}
		}
		b.wait()
	})
}

// TestEmpty: memory without bytes, launches of no blocks and copies of no bytes work.
func TestEmpty(t *testing.T) {
	both(t, func(t *testing.T, d *Device) {
		b := newBench(t, d)
		step := b.load(stepKernel())
		x, y := b.allocate(0), b.allocate(0)
		if x.Bytes() != 0 || x.Address() == 0 || x.Address() == y.Address() || x.Address()%64 != 0 {
			t.Errorf("%d bytes at %#x", x.Bytes(), x.Address())
		}
		must(t, b.queue.Upload(x, 0, nil))
		must(t, b.queue.Copy(x, 0, y, 0, 0))
		must(t, b.queue.Launch(step, []uint64{x.Address()}, []int64{0, 1}, 0))
		must(t, b.queue.Download(nil, x, 0))
		b.wait()
		b.wait()
		q, err := d.NewQueue()
		must(t, err)
		must(t, q.Launch(step, []uint64{x.Address()}, []int64{0, 1}, 0))
		must(t, q.Close()) // after a launch without a Wait
	})
}

// TestTooMuch: requests for more memory than the device has are ErrMemory, and leave nothing allocated.
func TestTooMuch(t *testing.T) {
	d := open(t)
	before := d.Usage()
	for _, n := range []int64{d.most() + 1, 1 << 40, math.MaxInt64 - 4096, math.MaxInt64} {
		if _, err := d.Allocate("too much", n); !errors.Is(err, diag.ErrMemory) ||
			!strings.Contains(err.Error(), "too much") {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	if _, err := d.Allocate("less than nothing", -1); !errors.Is(err, diag.ErrInternal) {
		t.Errorf("-1 bytes: %v", err)
	}
	if u := d.Usage(); u.Memory != before.Memory || u.Blocks != before.Blocks || u.Rounded != before.Rounded {
		t.Errorf("the usage is %+v, and was %+v", u, before)
	}
}

// TestUsage: Usage counts the memory that is requested from the driver.
func TestUsage(t *testing.T) {
	both(t, func(t *testing.T, d *Device) {
		before := d.Usage()
		m, err := d.Allocate("a test", 1001)
		must(t, err)
		q, err := d.NewQueue()
		must(t, err)
		must(t, q.Upload(m, 0, make([]byte, 1001)))
		small, err := d.Allocate("a test", 1)
		must(t, err)
		u := d.Usage()
		if u.Memory-before.Memory != 1002 || u.Queues-before.Queues > d.QueueBytes() || u.Blocks <= before.Blocks ||
			u.Rounded-before.Rounded < 63 {
			t.Errorf("the usage is %+v after %+v, and a queue takes at most %d", u, before, d.QueueBytes())
		}
		if d.hidden && u.Queues-before.Queues != d.QueueBytes() {
			t.Errorf("a queue takes %d, not %d", u.Queues-before.Queues, d.QueueBytes())
		}
		must(t, q.Close())
		must(t, m.Close())
		must(t, small.Close())
		after := d.Usage()
		if after.Most < u.Memory+u.Queues+u.Rounded {
			t.Errorf("the most is %d, and there were more", after.Most)
		}
		if after.Most = before.Most; after != before {
			t.Errorf("the usage is %+v, and was %+v", after, before)
		}
	})
}

// TestChecks: the error of the first value that fails its check is returned, by Wait or by an earlier method, and the
// queue works afterwards.
func TestChecks(t *testing.T) {
	both(t, func(t *testing.T, d *Device) {
		b := newBench(t, d)
		check, step := b.load(checkKernel()), b.load(stepKernel())
		in := make([]uint32, 1000)
		in[777] = 5
		x := b.put(in)
		launch := func(most int64) error { return b.queue.Launch(check, []uint64{x.Address()}, []int64{1000, most}, 0) }
		must(t, launch(6))
		b.wait()
		must(t, launch(5))
		must(t, launch(4))
		failed := func(err error) {
			t.Helper()
			if !errors.Is(err, diag.ErrInput) || !strings.Contains(err.Error(), "check 1: 5 is not in [0, 4]") {
				t.Errorf("the first check's error is %v", err)
			}
		}
		failed(b.queue.Wait(t.Context()))
		b.wait()

		// Much later launches return the error, and Download does not return wrong results.
		must(t, launch(5))
		var err error
		for i := 0; err == nil && i < 10*batches*manyCommands; i++ {
			err = b.queue.Launch(step, []uint64{x.Address()}, []int64{0, 1}, 0)
		}
		failed(err)
		failed(b.queue.Download(make([]byte, 4), x, 0))
		failed(b.queue.Wait(t.Context()))
		must(t, launch(5))
		failed(b.queue.Download(make([]byte, 4), x, 0))
		failed(b.queue.Upload(x, 0, make([]byte, 4)))
		failed(b.queue.Copy(x, 0, x, 4, 4))
		failed(b.queue.Wait(t.Context()))
		same(t, b.get(x), in)
		b.wait()
	})
}

// TestContext: Wait returns the error of a cancelled context, but only after the device has finished.
func TestContext(t *testing.T) {
	b := newBench(t, open(t))
	step := b.load(stepKernel())
	const count, rounds = 1 << 10, 50000
	in := words(count, 2)
	x := b.put(in)
	must(t, b.queue.Launch(step, []uint64{x.Address()}, []int64{count, rounds}, 0))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.queue.Wait(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("the context is cancelled, and Wait returns %v", err)
	}
	for i := range in {
		in[i] = stepped(in[i], rounds)
	}
	same(t, b.get(x), in)
	b.wait()
}

// TestAgain: Wait continues after waits that time out, as they do if the device works longer than one wait.
func TestAgain(t *testing.T) {
	b := newBench(t, open(t))
	step := b.load(stepKernel())
	x := b.put(words(64, 1))
	must(t, b.queue.Launch(step, []uint64{x.Address()}, []int64{64, 1}, 0))
	n := 0
	inject = func(call string) (int32, bool) {
		if call != "vkWaitSemaphores" {
			return 0, false
		}
		n++
		return timeout, n < 4
	}
	defer func() { inject = nil }()
	b.wait()
	if n != 4 {
		t.Errorf("%d waits, not 4", n)
	}
}

// TestFlat: during 10,000 launches, with concurrent garbage collections, the memory of the process and of the device
// does not grow.
func TestFlat(t *testing.T) {
	d := open(t)
	b := newBench(t, d)
	step := b.load(stepKernel())
	const count = 256
	in := words(count, 3)
	x := b.put(in)
	var stop atomic.Bool
	var collector sync.WaitGroup
	collector.Go(func() {
		for !stop.Load() {
			runtime.GC()
			time.Sleep(time.Millisecond)
		}
	})
	defer collector.Wait()
	defer stop.Store(true)
	launches := 0
	some := func(n int) {
		for range n {
			must(t, b.queue.Launch(step, []uint64{x.Address()}, []int64{count, 1}, 0))
			if launches++; launches%500 == 0 {
				b.wait()
			}
		}
		b.wait()
	}
	some(2000)
	taken, resident := d.Usage(), residentBytes(t)
	begun := time.Now()
	some(10000)
	t.Logf("%.1f µs a launch", float64(time.Since(begun).Microseconds())/10000)
	if after := d.Usage(); after != taken {
		t.Errorf("the usage is %+v, and was %+v", after, taken)
	}
	if grown := residentBytes(t) - resident; resident > 0 && grown > 8<<20 {
		t.Errorf("the process has %d bytes more", grown)
	}
	for i := range in {
		in[i] = stepped(in[i], launches)
	}
	same(t, b.get(x), in)
}

// residentBytes returns the process's resident memory; 0 if the system does not report it.
func residentBytes(t testing.TB) (n int64) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	if _, err := fmt.Sscan(rest, &n); err != nil {
		t.Fatal(err)
	}
	return n << 10
}

// TestGoroutines: many goroutines, each with a queue, concurrently allocate memory, load kernels and run them.
func TestGoroutines(t *testing.T) {
	both(t, func(t *testing.T, d *Device) {
		before := d.Usage()
		var all diag.Group
		for g := range uint32(12) {
			all.Go("a user of the device", func() error { return use(d, g) })
		}
		must(t, all.Wait())
		after := d.Usage()
		if after.Most = before.Most; after != before {
			t.Errorf("the usage is %+v, and was %+v", after, before)
		}
	})
}

// use runs a kernel many times with its own queue and memory, and returns an error if a result is wrong.
func use(d *Device, seed uint32) (err error) {
	q, err := d.NewQueue()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, q.Close()) }()
	for round := range 5 {
		k, err := d.Load(stepKernel())
		if err != nil {
			return err
		}
		count := 1000 + 100*int(seed) + round
		x, err := d.Allocate("a test", int64(4*count))
		if err != nil {
			return err
		}
		in, out := words(count, seed), make([]uint32, count)
		if err := q.Upload(x, 0, bytesOfWords(in)); err != nil {
			return err
		}
		for range 50 {
			if err := q.Launch(k, []uint64{x.Address()}, []int64{int64(count), 1}, 0); err != nil {
				return err
			}
		}
		if err := q.Download(bytesOfWords(out), x, 0); err != nil {
			return err
		}
		for i := range in {
			if out[i] != stepped(in[i], 50) {
				return fmt.Errorf("word %d is %d, not %d", i, out[i], stepped(in[i], 50))
			}
		}
		if err := errors.Join(q.Wait(context.Background()), x.Close(), k.Close()); err != nil {
			return err
		}
	}
	return nil
}

// TestTwoQueues: a queue sees the writes of another after that one's Wait.
func TestTwoQueues(t *testing.T) {
	both(t, func(t *testing.T, d *Device) {
		b := newBench(t, d)
		other := b.newQueue()
		step := b.load(stepKernel())
		const count = 500
		in := words(count, 8)
		x, y := b.put(in), b.allocate(4*count)
		b.wait()
		for i := range 20 {
			q, next := b.queue, other
			if i%2 == 1 {
				q, next = next, q
			}
			for range 10 {
				must(t, q.Launch(step, []uint64{x.Address()}, []int64{count, 1}, 0))
			}
			must(t, q.Copy(y, 0, x, 0, 4*count))
			must(t, q.Wait(t.Context()))
			must(t, next.Copy(x, 0, y, 0, 4*count))
		}
		must(t, other.Wait(t.Context()))
		b.wait()
		for i := range in {
			in[i] = stepped(in[i], 200)
		}
		same(t, b.get(x), in)
	})
}

// TestRefusedKernels: kernels that exceed the device's limits, and code that is not SPIR-V, are internal errors.
func TestRefusedKernels(t *testing.T) {
	d := open(t)
	limits := d.Machine().Limits
	for name, change := range map[string]func(w *written){
		"too many threads": func(w *written) { w.binary.Entries[0].Threads = limits.Invocations + 1 },
		"no threads":       func(w *written) { w.binary.Entries[0].Threads = 0 },
		"too much shared":  func(w *written) { w.binary.Entries[0].Shared = limits.Shared + 1 },
		"no code":          func(w *written) { w.binary.Words = nil },
		"no SPIR-V":        func(w *written) { w.binary.Words = words(100, 1) },
	} {
		w := stepKernel()
		change(w)
		if _, err := d.Load(w); !errors.Is(err, diag.ErrInternal) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestList: usable devices have at least the limits that Vulkan guarantees.
func TestList(t *testing.T) {
	d := open(t)
	list, err := List()
	must(t, err)
	if len(list) == 0 || list[0].Name != "vulkan:0" || d.Name() != list[0].Name {
		t.Fatalf("%+v", list)
	}
	for _, i := range list {
		m := i.Machine
		if i.Product == "" || i.Driver == "" || i.Bytes <= 0 || m.Limits.Shared < 16384 || m.Limits.Invocations < 128 ||
			m.Limits.Subgroup < 1 || i.Why != "" {
			t.Logf("%+v", i)
			if i.Why == "" {
				t.Error("a usable device has less than Vulkan guarantees")
			}
		}
	}
}

// BenchmarkLaunch measures the time of a launch of one block, without the validation layer.
func BenchmarkLaunch(b *testing.B) {
	open(b)
	d, err := Open(0, Options{})
	must(b, err)
	defer d.Close()
	q, err := d.NewQueue()
	must(b, err)
	defer q.Close()
	k, err := d.Load(stepKernel())
	must(b, err)
	defer k.Close()
	m, err := d.Allocate("a test", 256)
	must(b, err)
	defer m.Close()
	operands, dims := []uint64{m.Address()}, []int64{64, 1}
	b.ReportAllocs()
	for b.Loop() {
		for range 1000 {
			if err := q.Launch(k, operands, dims, 0); err != nil {
				b.Fatal(err)
			}
		}
		must(b, q.Wait(context.Background()))
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/launch")
}
