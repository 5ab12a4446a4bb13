//go:build ((linux && !android) || (darwin && !ios) || windows) && (amd64 || arm64)

package vulkan

import (
	"context"
	"crypto/sha256"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/weirml/weir/internal/device"
	"github.com/weirml/weir/internal/diag"
)

// mirrored returns the result of the kernel mirror for words.
func mirrored(x []uint32) []uint32 {
	out := slices.Clone(x)
	slices.Reverse(out)
	for block := range slices.Chunk(out, 64) {
		sum := uint32(0)
		for _, v := range block {
			sum += v
		}
		for i := range block {
			block[i] += sum
		}
	}
	return out
}

// session opens a device, runs kernels and copies, compares results, and closes everything, also after an error.
func session(t testing.TB, folder string, hidden bool) (err error) {
	var closers []func() error
	defer func() {
		for _, c := range slices.Backward(closers) {
			err = errors.Join(err, c())
		}
	}()
	d, err := fresh(t, Options{Cache: folder})
	if err != nil {
		return err
	}
	d.hidden = hidden
	closers = append(closers, d.Close, func() error {
		if u := d.Usage(); u.Memory != 0 || u.Queues != 0 || u.Rounded != 0 || u.Blocks != 0 {
			t.Errorf("not freed: %+v", u)
		}
		return nil
	})
	const count = 1000
	var memories [3]device.Memory
	for i := range memories {
		m, err := d.Allocate("a test", 4*count)
		if err != nil {
			return err
		}
		memories[i] = m
		closers = append(closers, m.Close)
	}
	var kernels [2]device.Kernel
	for i, w := range []*written{stepKernel(), mirrorKernel()} {
		k, err := d.Load(w)
		if err != nil {
			return err
		}
		kernels[i] = k
		closers = append(closers, k.Close)
	}
	q, err := d.NewQueue()
	if err != nil {
		return err
	}
	closers = append(closers, q.Close)
	x, y, z := memories[0], memories[1], memories[2]
	in, out := words(count, 1), make([]uint32, count)
	if err := q.Upload(x, 0, bytesOfWords(in)); err != nil {
		return err
	}
	for range 2 * fewCommands {
		if err := q.Launch(kernels[0], []uint64{x.Address()}, []int64{count, 1}, 0); err != nil {
			return err
		}
	}
	if err := q.Copy(y, 0, x, 0, 4*count); err != nil {
		return err
	}
	if err := q.Launch(kernels[1], []uint64{y.Address(), x.Address()}, []int64{count, 0}, z.Address()); err != nil {
		return err
	}
	if err := q.Download(bytesOfWords(out), x, 0); err != nil {
		return err
	}
	for i := range in {
		in[i] = stepped(in[i], 2*fewCommands)
	}
	same(t, out, mirrored(in))
	return q.Wait(context.Background())
}

// failing makes the at-th call of Vulkan fail with a result, and records all calls.
type failing struct {
	sync.Mutex
	at     int
	result int32
	calls  []string
}

func (f *failing) inject(call string) (int32, bool) {
	f.Lock()
	defer f.Unlock()
	f.calls = append(f.calls, call)
	return f.result, len(f.calls) == f.at
}

// failAt calls run with the at-th call of Vulkan failing. It returns that call's name, or "" if there were fewer calls,
// all calls, and run's error.
func failAt(at int, result int32, run func() error) (call string, calls []string, err error) {
	f := failing{at: at, result: result}
	inject = f.inject
	defer func() { inject = nil }()
	err = run()
	if at >= 1 && at <= len(f.calls) {
		call = f.calls[at-1]
	}
	return call, f.calls, err
}

// TestSession: a session has no errors, with and without access to device memory by the host.
func TestSession(t *testing.T) {
	open(t)
	for _, hidden := range []bool{false, true} {
		_, calls, err := failAt(0, 0, func() error { return session(t, t.TempDir(), hidden) })
		must(t, err)
		t.Logf("%d calls that can fail", len(calls))
	}
	silent(t)
}

// TestEveryCallFails makes each call of a session fail in turn, in the ways in which drivers fail. The error has the
// right kind, everything is freed, the validation layer has no messages, and the next session works.
func TestEveryCallFails(t *testing.T) {
	open(t)
	for _, row := range []struct {
		result int32
		kind   error
		hidden bool
		step   int // from one call to the next that fails
	}{{outOfDevice, diag.ErrMemory, true, 1}, {lost, device.ErrLost, true, 1}, {lost, device.ErrLost, false, 5},
		{failed, diag.ErrUnsupported, false, 5}} {
		folder := t.TempDir()
		must(t, session(t, folder, row.hidden))
		for at := 1; ; at += row.step {
			call, calls, err := failAt(at, row.result, func() error { return session(t, folder, row.hidden) })
			if at > len(calls) {
				must(t, err)
				break
			}
			switch {
			case err == nil && call == "vkWaitSemaphores" && row.result != lost: // the queue waits in another way
			case err == nil && call == "vkQueueWaitIdle": // the device is idle when it is closed
			case !errors.Is(err, row.kind):
				t.Errorf("%s fails with %s: %v", call, resultWords[row.result], err)
			}
			for _, m := range Messages() {
				t.Errorf("%s fails with %s: the validation layer says: %s", call, resultWords[row.result], m)
			}
			if t.Failed() {
				return
			}
		}
		must(t, session(t, folder, row.hidden))
	}
}

// TestLost: after a device is lost, all methods return ErrLost without a call, everything can be freed, and a newly
// opened device works.
func TestLost(t *testing.T) {
	d, err := fresh(t, Options{})
	must(t, err)
	m, err := d.Allocate("a test", 400)
	must(t, err)
	k, err := d.Load(stepKernel())
	must(t, err)
	q, err := d.NewQueue()
	must(t, err)
	for range 3 {
		must(t, q.Launch(k, []uint64{m.Address()}, []int64{100, 1}, 0))
	}
	inject = func(call string) (int32, bool) { return lost, call == "vkQueueSubmit" }
	defer func() { inject = nil }()
	if err := q.Wait(t.Context()); !errors.Is(err, device.ErrLost) || !d.Lost() {
		t.Fatalf("the device is lost, and Wait returns %v", err)
	}
	inject = func(call string) (int32, bool) {
		t.Errorf("%s is called after the device was lost", call)
		return 0, false
	}
	for name, f := range map[string]func() error{
		"launch":   func() error { return q.Launch(k, []uint64{m.Address()}, []int64{100, 1}, 0) },
		"upload":   func() error { return q.Upload(m, 0, make([]byte, 400)) },
		"download": func() error { return q.Download(make([]byte, 400), m, 0) },
		"wait":     func() error { return q.Wait(t.Context()) },
		"copy":     func() error { return q.Copy(m, 0, m, 200, 100) },
		"allocate": func() error { _, err := d.Allocate("more", 400); return err },
		"load":     func() error { _, err := d.Load(stepKernel()); return err },
		"queue":    func() error { _, err := d.NewQueue(); return err },
	} {
		if err := f(); !errors.Is(err, device.ErrLost) {
			t.Errorf("%s: %v", name, err)
		}
	}
	must(t, q.Close())
	must(t, k.Close())
	must(t, m.Close())
	if u := d.Usage(); u.Memory != 0 || u.Queues != 0 || u.Blocks != 0 {
		t.Errorf("not freed: %+v", u)
	}
	must(t, d.Close())
	inject = nil
	must(t, session(t, "", false))
	silent(t)
}

// TestValidation: the validation layer reports a wrong call and an object that is not destroyed, so that its silence in
// other tests means something.
func TestValidation(t *testing.T) {
	if open(t).messages == nil {
		t.Skip("THE VALIDATION LAYER IS NOT INSTALLED (Debian: vulkan-validationlayers): calls of Vulkan are not checked")
	}
	d, err := fresh(t, Options{})
	must(t, err)
	var p pins
	defer p.Unpin()
	var buffer uint64
	info := bufferCreateInfo{head: head{kind: kindBuffer}, usage: usageTransfer}
	_ = d.call("vkCreateBuffer", d.handle, at(&p, &info), 0, at(&p, &buffer)) // without bytes
	if said := strings.Join(Messages(), "\n"); !strings.Contains(said, "VUID-VkBufferCreateInfo-size-00912") {
		t.Errorf("a buffer without bytes: %q", said)
	}
	info.size = 64
	must(t, d.call("vkCreateBuffer", d.handle, at(&p, &info), 0, at(&p, &buffer)))
	must(t, d.Close())
	if said := strings.Join(Messages(), "\n"); !strings.Contains(said, "VUID-vkDestroyDevice-device-00378") {
		t.Errorf("a buffer that is not destroyed: %q", said)
	}
}

// TestClosed: closed kernels, memory and queues return errors when they are used, and can be closed again.
func TestClosed(t *testing.T) {
	d, err := fresh(t, Options{})
	must(t, err)
	m, err := d.Allocate("a test", 256)
	must(t, err)
	address := m.Address()
	k, err := d.Load(stepKernel())
	must(t, err)
	q, err := d.NewQueue()
	must(t, err)
	for range 2 {
		must(t, k.Close())
	}
	launch := func() error { return q.Launch(k, []uint64{address}, []int64{64, 1}, 0) }
	if err := launch(); !errors.Is(err, diag.ErrClosed) {
		t.Errorf("a closed kernel: %v", err)
	}
	for range 2 {
		must(t, m.Close())
	}
	if err := q.Upload(m, 0, []byte{1}); !errors.Is(err, diag.ErrInternal) {
		t.Errorf("closed memory: %v", err)
	}
	for range 2 {
		must(t, q.Close())
		for _, err := range []error{launch(), q.Upload(m, 0, []byte{1}), q.Download([]byte{1}, m, 0), q.Copy(m, 0, m, 0, 0),
			q.Wait(t.Context())} {
			if !errors.Is(err, diag.ErrClosed) {
				t.Errorf("a closed queue: %v", err)
			}
		}
	}
	for range 2 {
		must(t, d.Close())
	}
	silent(t)
}

// TestSessionsLeaveNothing: after 20 sessions, the process has no more open files, and hardly more memory.
func TestSessionsLeaveNothing(t *testing.T) {
	open(t)
	files := func() int {
		list, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Skip("this system does not list a process's open files")
		}
		return len(list)
	}
	for range 5 {
		must(t, session(t, "", true))
	}
	had, resident := files(), residentBytes(t)
	for range 20 {
		must(t, session(t, "", true))
	}
	if now := files(); now > had {
		t.Errorf("%d files are open, and %d were", now, had)
	}
	if grown := residentBytes(t) - resident; grown > 16<<20 {
		t.Errorf("the process has %d bytes more", grown)
	}
	silent(t)
}

// TestShared: users of a device share it, unless it is lost, and the last one closes it.
func TestShared(t *testing.T) {
	open(t)
	kind := Kind()
	kind.Name = "shared-" + t.Name()
	device.Register(kind)
	a, err := device.Share(kind.Name, 0)
	must(t, err)
	b, err := device.Share(kind.Name, 0)
	must(t, err)
	if a != b {
		t.Error("two users have two devices")
	}
	a.(*Device).gone.Store(true)
	c, err := device.Share(kind.Name, 0)
	must(t, err)
	if c == a || c.Lost() {
		t.Error("a lost device is shared")
	}
	m, err := c.Allocate("a test", 64)
	must(t, err)
	must(t, m.Close())
	for _, d := range []device.Device{a, c, b} {
		must(t, device.Leave(d))
	}
	if a.(*Device).handle != 0 || c.(*Device).handle != 0 {
		t.Error("the last user has left, and the device is open")
	}
	if _, err := device.Share(kind.Name, 99); !errors.Is(err, diag.ErrUnsupported) {
		t.Errorf("device 99: %v", err)
	}
}

// TestOpenErrors: the errors of missing devices, drivers, layers and loaders are ErrUnsupported with a fix.
func TestOpenErrors(t *testing.T) {
	open(t)
	fixed := func(what string, err error) {
		t.Helper()
		var e *diag.Error
		if !errors.As(err, &e) || !errors.Is(err, diag.ErrUnsupported) || e.Fix == "" {
			t.Errorf("%s: %v", what, err)
		}
	}
	for _, n := range []int{-1, 64, 1 << 40} {
		_, err := Open(n, Options{})
		fixed("a number without a device", err)
	}
	for call, results := range map[string][]int32{"vkCreateInstance": {noDriver, layerMissing, extensionMissing}} {
		for _, result := range results {
			inject = func(name string) (int32, bool) { return result, name == call }
			_, err := Open(0, Options{Validate: true})
			inject = nil
			fixed(resultWords[result], err)
		}
	}
	names, had := libraryNames, loaded.library
	defer func() { libraryNames, loaded.library, loaded.err = names, had, nil }()
	for _, n := range [][]string{{"libvulkan-that-is-not-there.so"}, {"libm.so.6"}} {
		libraryNames, loaded.library, loaded.err = n, nil, nil
		_, err := Open(0, Options{})
		fixed("no library", err)
		_, err = List()
		fixed("no library", err)
	}
}

// TestPipelineFiles: the file of pipelines is written and read; damaged files, files of other drivers, and folders that
// cannot be written are ignored.
func TestPipelineFiles(t *testing.T) {
	open(t)
	folder := t.TempDir()
	must(t, session(t, folder, false))
	files, err := filepath.Glob(filepath.Join(folder, "*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%v %v", files, err)
	}
	intact, err := os.ReadFile(files[0])
	must(t, err)
	d, err := fresh(t, Options{Cache: folder})
	must(t, err)
	if d.readCache() == nil {
		t.Error("the file is not used")
	}
	must(t, d.Close())
	flipped := func(at int) []byte {
		b := slices.Clone(intact)
		b[at] ^= 1
		return b
	}
	summed := func(at int) []byte {
		b := flipped(cacheHead + at)
		sum := sha256.Sum256(b[cacheHead:])
		copy(b[8:], sum[:])
		return b
	}
	for name, b := range map[string][]byte{
		"empty": {}, "cut": intact[:len(intact)/2], "cut in the head": intact[:20],
		"longer":          append(slices.Clone(intact), 0),
		"another version": flipped(0), "another sum": flipped(9),
		"damaged": flipped(len(intact) - 1), "another device's": summed(12), "another driver's": summed(16),
		"noise": bytesOfWords(words(1000, 3)),
	} {
		must(t, os.WriteFile(files[0], b, 0o600))
		d, err := fresh(t, Options{Cache: folder})
		must(t, err)
		if d.readCache() != nil {
			t.Errorf("a file that is %s is used", name)
		}
		must(t, d.Close())
	}
	must(t, os.Remove(files[0]))
	must(t, os.Mkdir(files[0], 0o700)) // no file can be written there
	must(t, session(t, folder, false))
	must(t, session(t, filepath.Join(folder, "none"), false))
	silent(t)
}
