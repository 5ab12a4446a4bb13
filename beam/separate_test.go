package beamweir

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/io/filesystem/local"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/io/textio"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/options/jobopts"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/runners/prism"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/runners/universal"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/runners/universal/extworker"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/testing/passert"
)

var kills = flag.Int("kills", 2, "the times that a worker is killed")

// servePrism is the process of a job service.
func servePrism(port string) {
	n, err := strconv.Atoi(port)
	if err == nil {
		_, err = prism.CreateJobServer(context.Background(), prism.Options{Port: n})
	}
	serve(err)
}

// serveWorker is the process of a pool of workers.
func serveWorker(port string) {
	n, err := strconv.Atoi(port)
	if err == nil {
		_, err = extworker.StartLoopback(context.Background(), n)
	}
	serve(err)
}

// serve lets a process live until its standard input ends.
func serve(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println("ready")
	var b [1]byte
	os.Stdin.Read(b[:])
	os.Exit(0)
}

// service is a process that this test has started.
type service struct {
	command  *exec.Cmd
	endpoint string
}

// start starts a process of this test's binary, and waits until it serves. It tries other ports, later and later, if
// another process has taken the one that was free.
func start(t *testing.T, part string) *service {
	t.Helper()
	var said strings.Builder
	for i := range 8 {
		time.Sleep(time.Duration(i*i) * 50 * time.Millisecond)
		if s := try(t, part, &said); s != nil {
			return s
		}
	}
	t.Fatalf("%s: %s", part, said.String())
	return nil
}

// try starts a process; nil if it does not serve, with what it said.
func try(t *testing.T, part string, said *strings.Builder) *service {
	t.Helper()
	listener, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		t.Fatal(err)
	}
	port := listener.Addr().(*net.TCPAddr).Port
	listener.Close()
	s := &service{exec.Command(os.Args[0]), fmt.Sprintf("localhost:%d", port)}
	s.command.Env = append(os.Environ(), fmt.Sprintf("WEIR_TEST_BEAM=%s %d", part, port))
	s.command.Stderr = said
	in, err := s.command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := s.command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.command.Start(); err != nil {
		t.Fatal(err)
	}
	var text [5]byte
	if _, err := io.ReadFull(out, text[:]); err != nil || string(text[:]) != "ready" {
		s.kill() // which also waits for what it says
		fmt.Fprintf(said, "%q, %v\n", text, err)
		return nil
	}
	t.Cleanup(func() {
		in.Close()
		s.kill()
	})
	return s
}

// kill ends the process at once.
func (s *service) kill() {
	s.command.Process.Kill()
	s.command.Wait()
}

// runOn runs a pipeline on a job service, with the workers of a pool.
func runOn(ctx context.Context, p *beam.Pipeline, jobs, workers *service) error {
	for flag, value := range map[*string]string{jobopts.Endpoint: jobs.endpoint, jobopts.EnvironmentType: "EXTERNAL",
		jobopts.EnvironmentConfig: workers.endpoint, jobopts.WorkerBinary: "go.mod"} { // the pool has a binary of its own
		before := *flag
		defer func() { *flag = before }()
		*flag = value
	}
	_, err := universal.Execute(ctx, p)
	return err
}

// TestSeparate runs a pipeline on Prism in a process of its own, with workers in another.
func TestSeparate(t *testing.T) {
	jobs, workers := start(t, "prism"), start(t, "worker")
	p, s := beam.NewPipelineWithRoot()
	results, failures := RunInference(s, firsts(s, 3), Model{Path: modelFile(t, "digits.onnx"), Codec: digits{-1, -1}},
		Options{})
	passert.Equals(s, beam.ParDo(s, digitOf, results), expected(t, 3*hundred)...)
	passert.Empty(s, failures)
	if err := runOn(t.Context(), p, jobs, workers); err != nil {
		t.Fatal(err)
	}
}

// TestKilled kills the workers' process at random times. Prism does not try a bundle again: it fails the job, and the
// job writes nothing. It is then run again. The file that the last run writes has each row once, as Beam guarantees of
// a job that succeeds.
func TestKilled(t *testing.T) {
	const hundreds = 10
	model, r := modelFile(t, "digits.onnx"), rand.New(rand.NewPCG(3, 4))
	var want []string
	for _, text := range expected(t, hundreds*hundred) {
		want = append(want, text.(string))
	}
	slices.Sort(want)
	file := filepath.Join(t.TempDir(), "digits.txt")
	// job runs the pipeline. kill is whether its workers are killed after some time.
	job := func(after time.Duration, kill bool) (time.Duration, error) {
		jobs, workers := start(t, "prism"), start(t, "worker")
		p, s := beam.NewPipelineWithRoot()
		results, _ := RunInference(s, firsts(s, hundreds), Model{Path: model, Codec: digits{-1, -1}}, Options{})
		textio.Write(s, file, beam.ParDo(s, digitOf, results))
		if kill {
			defer time.AfterFunc(after, func() { workers.command.Process.Kill() }).Stop()
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		begun := time.Now()
		err := runOn(ctx, p, jobs, workers)
		return time.Since(begun), err
	}
	complete := func() {
		t.Helper()
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		rows := strings.Split(strings.TrimSpace(string(data)), "\n")
		if slices.Sort(rows); !slices.Equal(rows, want) {
			t.Errorf("%d rows, not the %d expected", len(rows), len(want))
		}
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
	}
	whole, err := job(0, false)
	if err != nil {
		t.Fatal(err)
	}
	complete()
	killed, survived := 0, 0
	for killed < *kills && survived < 10**kills {
		after := time.Duration(r.Int64N(int64(whole)))
		if _, err := job(after, true); err == nil {
			survived++
			complete()
			continue
		} else {
			t.Logf("killed after %v: %.200v", after, err)
		}
		killed++
		if data, err := os.ReadFile(file); err == nil {
			t.Errorf("a job that failed has written %d bytes", len(data))
		}
		if _, err := job(0, false); err != nil {
			t.Fatal(err)
		}
		complete()
	}
	if killed == 0 {
		t.Error("no job was killed")
	}
	t.Logf("%d jobs failed and were run again, %d had ended before the kill", killed, survived)
}
