package train_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirml/weir"
	"github.com/weirml/weir/array"
	"github.com/weirml/weir/nn"
	"github.com/weirml/weir/train"
)

func contextWithCancel(t *testing.T) (context.Context, func()) {
	return context.WithCancel(t.Context())
}

// TestResume: training that was stopped and resumed gives the same bits as uninterrupted training, with any options.
func TestResume(t *testing.T) {
	array.AssertNoLeaks(t)
	for name, o := range map[string]train.Options{
		"plain": {}, "scheduled": {Schedule: train.Cosine(100, 0)}, "accumulated": {Accumulate: 3}, "scaled": {LossScale: 64},
		"factor": {ClipNorm: 1}, "seeded": {Seed: 99},
	} {
		t.Run(name, func(t *testing.T) {
			data := train.DataOptions{Shuffle: true, Key: 5}
			whole, parts := learnable(t, data), learnable(t, data)
			first := whole.trainer(t, o)
			first.SetFactor(0.7)
			steps(t, first, whole.data, 17, 30)
			last := steps(t, first, whole.data, 13, 30)
			tr := parts.trainer(t, o)
			tr.SetFactor(0.7)
			steps(t, tr, parts.data, 17, 30)
			dir := t.TempDir()
			if err := errors.Join(tr.Save(dir), tr.Close()); err != nil {
				t.Fatal(err)
			}
			again := learnable(t, data)
			tr, err := train.Resume(dir, again.net, again.params, train.CrossEntropy, train.AdamW(0.01), train.Options{
				Schedule: o.Schedule, Accumulate: o.Accumulate, LossScale: o.LossScale, ClipNorm: o.ClipNorm}, again.data)
			if err != nil {
				t.Fatal(err)
			}
			defer tr.Close()
			m := steps(t, tr, again.data, 13, 30)
			if !slices.Equal(bits(t, again.params), bits(t, whole.params)) || m != last {
				t.Errorf("resumed, the last step is %+v, not %+v, and parameters differ", m, last)
			}
		})
	}
}

// TestBadCheckpoints: a checkpoint that is missing, truncated, damaged, or of another model is one clear error, and
// changes nothing.
func TestBadCheckpoints(t *testing.T) {
	array.AssertNoLeaks(t)
	s := learnable(t, train.DataOptions{})
	tr := s.trainer(t, train.Options{})
	steps(t, tr, s.data, 3, 50)
	dir := t.TempDir()
	if err := tr.Save(dir); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "checkpoint.safetensors")
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before := bits(t, s.params)
	refused := func(what, says string, restore func() error) {
		t.Helper()
		err := restore()
		var e *weir.Error
		if !errors.As(err, &e) || !strings.Contains(err.Error(), says) ||
			!strings.Contains(err.Error(), "checkpoint.safetensors") {
			t.Errorf("%s: the error is %v", what, err)
		}
		if !slices.Equal(before, bits(t, s.params)) {
			t.Errorf("%s: parameters changed", what)
		}
	}
	here := func() error { return tr.Restore(dir) }
	for n := 0; n < len(good); n += max(1, len(good)/300) {
		write(t, file, good[:n])
		refused(fmt.Sprint("cut at ", n), "", here)
	}
	write(t, file, good[:len(good)-1])
	refused("cut", "cut short", here)
	write(t, file, append(slices.Clone(good), 0))
	refused("longer", "goes on", here)
	bad := slices.Clone(good)
	bad[len(bad)-5] ^= 1
	write(t, file, bad)
	refused("damaged", "damaged", here)
	write(t, file, []byte("this is no checkpoint at all"))
	refused("text", "", here)
	var parameters bytes.Buffer
	s.params.WriteSafetensors(&parameters)
	write(t, file, parameters.Bytes())
	refused("parameters", "no checkpoint of a training", here)
	refused("nothing", "there is no checkpoint", func() error { return tr.Restore(filepath.Join(dir, "elsewhere")) })
	if err := tr.Restore(filepath.Join(dir, "elsewhere")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a checkpoint that is not there: %v", err)
	}
	write(t, file, good)
	tr.Close()
	other := func(what, says string, net nn.Layer, o train.Optimiser, data ...*train.Data) {
		t.Helper()
		p := nn.Init(net, 1)
		defer p.Close()
		refused(what, says, func() error {
			_, err := train.Resume(dir, net, p, train.CrossEntropy, o, train.Options{}, data...)
			return err
		})
	}
	other("wider", "another model", nn.Sequential(nn.Linear(2, 17), nn.Tanh, nn.Linear(17, 2)), train.AdamW(0.01))
	other("deeper", "another model", nn.Sequential(nn.Linear(2, 16), nn.Tanh, nn.Linear(16, 2), nn.Linear(2, 2)),
		train.AdamW(0.01))
	other("shallower", "another model", nn.Sequential(nn.Linear(2, 16)), train.AdamW(0.01))
	other("another optimiser", "another", s.net, train.SGD(0.01))
	other("another rate", "another optimiser", s.net, train.AdamW(0.02))
	more := learnable(t, train.DataOptions{Shuffle: true})
	other("other data", "other data", s.net, train.AdamW(0.01), more.data)
	tr = s.trainer(t, train.Options{})
	if err := tr.Restore(dir, s.data); err != nil || tr.Steps() != 3 {
		t.Errorf("the good one: %v, step %d", err, tr.Steps())
	}
}

// write writes a file; an error fails the test.
func write(t *testing.T, name string, data []byte) {
	t.Helper()
	if err := os.WriteFile(name, data, 0o666); err != nil {
		t.Fatal(err)
	}
}

// TestFlippedBits flips each bit of a checkpoint's table and header, and some of its elements: the checkpoint is
// refused, and nothing changes, or it is the same checkpoint.
func TestFlippedBits(t *testing.T) {
	array.AssertNoLeaks(t)
	s := learnable(t, train.DataOptions{Shuffle: true, Key: 5})
	tr := s.trainer(t, train.Options{LossScale: 64})
	steps(t, tr, s.data, 7, 30)
	dir, again := t.TempDir(), t.TempDir()
	if err := tr.Save(dir); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "checkpoint.safetensors")
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	elements := 8 + int(good[0]) + int(good[1])<<8
	refused, same := 0, 0
	for at := 0; at < len(good); at++ {
		if at > elements {
			at += 37
		}
		for bit := range 8 {
			if at >= len(good) || bit != at%8 && (at > elements || !*long) {
				continue
			}
			bad := slices.Clone(good)
			bad[at] ^= 1 << bit
			write(t, file, bad)
			before := bits(t, s.params)
			err := tr.Restore(dir, s.data)
			var e *weir.Error
			switch {
			case err == nil:
				same++
				if err := tr.Save(again); err != nil {
					t.Fatal(err)
				}
				if now, err := os.ReadFile(filepath.Join(again, "checkpoint.safetensors")); err != nil || !slices.Equal(now, good) {
					t.Errorf("byte %d, bit %d: another checkpoint is taken: %s", at, bit, bad[max(0, at-20):min(len(bad), at+20)])
				}
			case !errors.As(err, &e) || errors.Is(err, weir.ErrInternal) ||
				!strings.Contains(err.Error(), "checkpoint.safetensors"):
				t.Errorf("byte %d, bit %d: %v", at, bit, err)
			case !slices.Equal(before, bits(t, s.params)) || tr.Steps() != 7:
				t.Errorf("byte %d, bit %d: something changed: %v", at, bit, err)
			default:
				refused++
			}
		}
	}
	t.Logf("%d refused, %d the same", refused, same)
}

// trainUntilKilled is the process that TestKilled kills: it trains, saves after each step, and reports the first
// checkpoint.
func trainUntilKilled(dir string) {
	net := nn.Sequential(nn.Linear(16, 64), nn.Tanh, nn.Linear(64, 4))
	p := nn.Init(net, 1)
	data := killedData()
	t, err := train.New(net, p, train.CrossEntropy, train.AdamW(0.01), train.Options{Threads: 1})
	if err == nil && os.Getenv("WEIR_TEST_RESUME") != "" {
		err = t.Restore(dir, data)
	}
	for err == nil {
		for b := range data.Batches(10) {
			if _, err = t.Step(context.Background(), b); err == nil {
				err = t.Save(dir)
			}
			if err != nil {
				break
			}
			fmt.Println(t.Steps())
		}
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// killedData returns the data of that process.
func killedData() *train.Data {
	x, y := make([]float32, 64*16), make([]int32, 64)
	for i := range x {
		x[i] = float32(i*i%17) / 17
	}
	for i := range y {
		y[i] = int32(i*i%7) % 4
	}
	d, err := train.NewData(train.Column(x, 16), train.Column(y), train.DataOptions{Shuffle: true, Key: 3})
	if err != nil {
		panic(err)
	}
	return d
}

// TestKilled kills a process that saves after each step, at random moments: each time there is a complete checkpoint,
// from which the next process resumes, and in the end the bits equal those of uninterrupted training.
func TestKilled(t *testing.T) {
	if runtime.GOARCH == "wasm" {
		t.Skip("there are no processes")
	}
	array.AssertNoLeaks(t)
	kills := 8
	if *long {
		kills = 100
	}
	dir := t.TempDir()
	r := rand.New(rand.NewSource(time.Now().UnixNano()))
	for i := range kills {
		c := exec.Command(os.Args[0], "-test.run=^$")
		c.Env = append(os.Environ(), "WEIR_TEST_KILLED="+dir)
		if i > 0 {
			c.Env = append(c.Env, "WEIR_TEST_RESUME=1")
		}
		var failed bytes.Buffer
		c.Stderr = &failed
		out, err := c.StdoutPipe()
		if err == nil {
			err = c.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		if n, err := out.Read(make([]byte, 1)); n == 0 {
			t.Fatalf("kill %d: the process ended: %v %s", i, err, &failed)
		}
		go func() {
			for buffer := make([]byte, 1<<10); ; {
				if _, err := out.Read(buffer); err != nil {
					return
				}
			}
		}()
		time.Sleep(time.Duration(r.Int63n(int64(30 * time.Millisecond))))
		if err := c.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		c.Wait()
	}
	net := nn.Sequential(nn.Linear(16, 64), nn.Tanh, nn.Linear(64, 4))
	killed, whole := nn.Init(net, 1), nn.Init(net, 1)
	defer killed.Close()
	defer whole.Close()
	data := killedData()
	tr, err := train.Resume(dir, net, killed, train.CrossEntropy, train.AdamW(0.01), train.Options{Threads: 1}, data)
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	other, err := train.New(net, whole, train.CrossEntropy, train.AdamW(0.01), train.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	steps(t, other, killedData(), int(tr.Steps()), 10)
	if !slices.Equal(bits(t, killed), bits(t, whole)) {
		t.Errorf("after %d kills and %d steps parameters are not those of training without kills", kills, tr.Steps())
	}
	if err := tr.Save(dir); err != nil {
		t.Error(err)
	}
	if list, _ := os.ReadDir(dir); len(list) != 1 {
		t.Errorf("the folder has %v", list)
	}
	t.Logf("%d kills, %d steps", kills, tr.Steps())
}

// TestSaversInOneFolder saves from several trainers into one folder at the same time: all succeed, what lies there is
// always complete, and no temporary file stays.
func TestSaversInOneFolder(t *testing.T) {
	array.AssertNoLeaks(t)
	dir := t.TempDir()
	const savers, saves = 4, 8
	failed := make(chan error, savers*saves)
	var all sync.WaitGroup
	s := learnable(t, train.DataOptions{})
	trainers := make([]*train.Trainer, savers)
	for i := range trainers {
		trainers[i] = s.trainer(t, train.Options{})
		steps(t, trainers[i], s.data, i+1, 30)
	}
	for _, tr := range trainers {
		all.Go(func() {
			for range saves {
				failed <- tr.Save(dir)
			}
		})
	}
	reader := s.trainer(t, train.Options{})
	for n := 0; n < savers*saves; n++ {
		if err := <-failed; err != nil {
			t.Error(err)
		}
		if err := reader.Restore(dir, s.data); err != nil || reader.Steps() < 1 || reader.Steps() > savers {
			t.Errorf("step %d: %v", reader.Steps(), err)
		}
	}
	all.Wait()
	if list, err := os.ReadDir(dir); err != nil || len(list) != 1 {
		t.Errorf("%v %v", list, err)
	}
}

// TestHeadersThatLie reads checkpoints whose checksum is right and whose header no training has.
func TestHeadersThatLie(t *testing.T) {
	array.AssertNoLeaks(t)
	s := learnable(t, train.DataOptions{})
	tr := s.trainer(t, train.Options{LossScale: 64})
	steps(t, tr, s.data, 2, 30)
	dir := t.TempDir()
	if err := tr.Save(dir); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, "checkpoint.safetensors")
	good, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range [][2]string{{`\"step\":2`, `\"step\":-2`}, {`\"step\":2`, `\"step\":9223372036854775807`},
		{`\"pending\":0`, `\"pending\":-1`}, {`\"scale\":64`, `\"scale\":-64`}, {`\"factor\":1`, `\"factor\":-1`},
		{`\"calm\":2`, `\"calm\":-2`}, {`\"of\":1`, `\"of\":-1`}, {`\"example\":60`, `\"example\":-60`},
		{`\"epoch\":0`, `\"epoch\":-1`}} {
		write(t, name, relabelled(t, good, c[0], c[1]))
		before := bits(t, s.params)
		if err := tr.Restore(dir, s.data); !errors.Is(err, weir.ErrInput) || tr.Steps() != 2 ||
			!slices.Equal(before, bits(t, s.params)) {
			t.Errorf("%s: %v, step %d", c[1], err, tr.Steps())
		}
	}
	write(t, name, relabelled(t, good, `, centred false)`, `)`)) // as if the setting was newer than the checkpoint
	if err := tr.Restore(dir, s.data); err != nil {
		t.Error(err)
	}
	write(t, name, relabelled(t, good, `, centred false)`, `, later 3)`))
	if err := tr.Restore(dir, s.data); !errors.Is(err, weir.ErrInput) {
		t.Error(err)
	}
}

// relabelled returns a checkpoint with a part of its header replaced, and the checksum that belongs to it.
func relabelled(t *testing.T, file []byte, from, to string) []byte {
	t.Helper()
	size := int64(binary.LittleEndian.Uint64(file))
	table, body := string(file[8:8+size]), file[8+size:]
	if !strings.Contains(table, from) {
		t.Fatalf("no %s in %s", from, table)
	}
	table = strings.Replace(table, from, to, 1)
	sum := regexp.MustCompile(`\\"crc32c\\":\d+`)
	header := regexp.MustCompile(`"weir.training":("(?:[^"\\]|\\.)*")`)
	var text string
	zeroed := sum.ReplaceAllString(table, `\"crc32c\":0`)
	if err := json.Unmarshal([]byte(header.FindStringSubmatch(zeroed)[1]), &text); err != nil {
		t.Fatal(err)
	}
	castagnoli := crc32.MakeTable(crc32.Castagnoli)
	crc := crc32.Update(crc32.Checksum(body, castagnoli), castagnoli, []byte(text))
	table = strings.TrimRight(sum.ReplaceAllString(table, fmt.Sprintf(`\"crc32c\":%d`, crc)), " ")
	return slices.Concat(binary.LittleEndian.AppendUint64(nil, uint64(len(table))), []byte(table), body)
}
