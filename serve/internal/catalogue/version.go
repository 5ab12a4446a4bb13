package catalogue

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirml/weir"
	"github.com/weirml/weir/batch"
	"github.com/weirml/weir/serve/internal/ledger"
	"github.com/weirml/weir/serve/internal/limits"
	"github.com/weirml/weir/serve/internal/oip"
)

// Version is a version of a model that is loaded. Its fields do not change.
type Version struct {
	Model   string
	Number  int64
	Config  *oip.ModelConfig
	Program *weir.Program
	Texts   *Texts         // nil: the model does not read texts
	Batcher *batch.Batcher // nil: requests are not joined
	// Unbatched is the reason why requests are not joined.
	Unbatched       string
	Rows            string // the name of the dimension along which requests are joined
	MostRows        int    // of a request that is joined
	Inputs, Outputs []weir.Info
	Calls           int        // runs at a time
	Sequences       *Sequences // nil: the model has none
	Stats           Stats
	Loaded          time.Time
	Took            time.Duration // from the file to the program
	FromCache       bool          // an artefact of an earlier load was used

	source  source
	model   *weir.Model
	account *account
	joined  *ledger.Account
	queue   queue
	calls   int         // runs at a time
	sizes   []weir.Size // by output
	sized   []bool      // by output: whether sizes has it
	hidden  []bool      // by output: whether it is a state that only those get who ask for it; nil: none is

	mu       sync.Mutex
	users    int
	draining bool
	drained  chan struct{}
	used     atomic.Int64 // the time of the last use, in nanoseconds
}

// Name returns the version's number as the protocol writes it.
func (v *Version) Name() string { return strconv.FormatInt(v.Number, 10) }

// enter makes the version stay loaded until leave; it reports false if the version is being unloaded.
func (v *Version) enter() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.draining {
		return false
	}
	v.users++
	v.used.Store(time.Now().UnixNano())
	return true
}

// Leave ends a use that Catalogue.Use began.
func (v *Version) Leave() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.users--; v.users == 0 && v.draining {
		close(v.drained)
	}
}

// drain refuses further uses, waits until those in progress have ended, and releases the version's memory.
func (v *Version) drain() error {
	v.mu.Lock()
	if v.draining {
		v.mu.Unlock()
		return nil
	}
	v.draining = true
	if v.users == 0 {
		close(v.drained)
	}
	v.mu.Unlock()
	<-v.drained
	return v.close()
}

// close releases everything that the version holds.
func (v *Version) close() (err error) {
	v.Sequences.close()
	if v.Batcher != nil {
		err = v.Batcher.Close()
	}
	if v.Program != nil {
		v.Program.Trim()     // what is left then is the model's
		v.account.run(false) // nothing runs any more
		if v.Texts == nil {
			err = errors.Join(err, v.Program.Close())
		}
	}
	err = errors.Join(err, v.Texts.release())
	if v.model != nil {
		err = errors.Join(err, v.model.Close())
	}
	if held := v.account.fixed.Close() + v.account.calls.Close() + v.joined.Close(); held != 0 {
		err = errors.Join(err, fmt.Errorf("model %s, version %d: %d bytes were not given back", v.Model, v.Number, held))
	}
	return err
}

// Bytes returns the bytes of the version's weights and code, and of its calls.
func (v *Version) Bytes() (fixed, calls int64) { return v.account.fixed.Held(), v.account.calls.Held() }

// account gives the compiler's memory to the model's account, and that of runs to the calls' account.
type account struct {
	fixed, calls *ledger.Account
	mu           sync.Mutex
	running      bool
}

// run makes the memory that is taken that of runs, or that of the model again.
func (a *account) run(running bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.running = running
}

// Take takes bytes for the model while it is compiled, and for a call later.
func (a *account) Take(ctx context.Context, bytes int64) error {
	a.mu.Lock()
	running := a.running
	a.mu.Unlock()
	if running {
		return a.calls.Take(ctx, bytes)
	}
	return a.fixed.Take(ctx, bytes)
}

// Give returns bytes of calls, and of the model before it runs and after it has: then those of calls first, since a run
// of texts goes on for a moment after its request was canceled.
func (a *account) Give(bytes int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	ofCalls := bytes
	if !a.running {
		ofCalls = min(bytes, a.calls.Held())
	}
	a.calls.Give(ofCalls)
	a.fixed.Give(bytes - ofCalls)
}

// settings are what a model's configuration says about compiling it and joining its requests.
type settings struct {
	options weir.Options
	rows    int // the most rows of a joined run; 0: the default
	// preferred is the rows of a joined run, if a configuration prefers some: measured times do not make them fewer.
	preferred int
	off       string
	states    string // of sequences: their inputs and outputs
	tokens    int    // the most of a text; 0: as the model says
	batch     batch.Options
	queue     queueOptions
}

// defaults of settings.
const (
	defaultRows  = 32
	defaultCalls = 2
)

// settingsOf reads a configuration. It returns an error that names what the server does not have.
func settingsOf(c *oip.ModelConfig) (s settings, err error) {
	switch {
	case c.GetEnsembleScheduling() != nil:
		return s, errors.New("config.pbtxt: ensemble_scheduling is not supported; compose models in a client or in Go")
	case c.MaxBatchSize < 0:
		return s, fmt.Errorf("config.pbtxt: max_batch_size is %d", c.MaxBatchSize)
	case c.ResponseCache.GetEnable():
		return s, errors.New("config.pbtxt: response_cache is not supported")
	}
	s.options.Calls = defaultCalls
	count := 0
	for _, g := range c.InstanceGroup {
		if g.Kind == oip.ModelInstanceGroup_KIND_GPU {
			return s, errors.New("config.pbtxt: instance_group has kind KIND_GPU, and models run on the processor")
		}
		count += int(max(1, g.Count))
	}
	if count > 0 {
		s.options.Calls = count
	}
	s.rows = int(c.MaxBatchSize)
	if d := c.GetDynamicBatching(); d != nil {
		s.batch.Wait = time.Duration(d.MaxQueueDelayMicroseconds) * time.Microsecond
		s.queue = queueOptionsOf(d)
		for _, rows := range d.PreferredBatchSize {
			if rows < 1 || c.MaxBatchSize > 0 && rows > c.MaxBatchSize {
				return s, fmt.Errorf("config.pbtxt: preferred_batch_size is %d, and max_batch_size %d", rows, c.MaxBatchSize)
			}
			s.preferred = max(s.preferred, int(rows))
		}
	}
	if c.GetSequenceBatching() != nil {
		s.off = "requests of a sequence run one by one"
		err = sequenceSettings(c)
		for _, st := range c.GetSequenceBatching().GetState() {
			s.states += fmt.Sprintf("%q %q\n", st.InputName, st.OutputName)
		}
	}
	return s, errors.Join(err, s.parameters(c))
}

// Hidden reports whether an output, by index, is a state of sequences that the configuration does not list as an
// output: a request gets it by its name alone.
func (v *Version) Hidden(i int) bool { return v.hidden != nil && v.hidden[i] }

// parameters reads the settings that only Weir has.
func (s *settings) parameters(c *oip.ModelConfig) error {
	for name, p := range c.Parameters {
		text := p.GetStringValue()
		bad := fmt.Errorf("config.pbtxt: parameter %s is %q", name, text)
		switch name {
		case "weir.budget":
			bytes, err := limits.Parse(text)
			if err != nil {
				return errors.Join(bad, err)
			}
			s.options.Budget = bytes
		case "weir.precision":
			switch text {
			case "bf16":
				s.options.Precision = weir.BF16
			case "f32", "":
			default:
				return fmt.Errorf("%w; it may be f32 or bf16", bad)
			}
		case "weir.tokens":
			n, err := strconv.ParseInt(text, 10, 32)
			if err != nil || n < 1 {
				return fmt.Errorf("%w; it is the most tokens of a text", bad)
			}
			s.tokens = int(n)
		case "weir.texts":
			if text != "on" && text != "off" {
				return fmt.Errorf("%w; it may be on or off", bad)
			}
		case "weir.batching":
			if text != "on" && text != "off" {
				return fmt.Errorf("%w; it may be on or off", bad)
			}
			if text == "off" && s.off == "" {
				s.off = "config.pbtxt turns it off"
			}
		case "weir.dims": // n=1..16,m=3
			s.options.Dims = map[string]weir.Range{}
			for one := range strings.SplitSeq(text, ",") {
				dim, r, ok := strings.Cut(strings.TrimSpace(one), "=")
				low, high, both := strings.Cut(r, "..")
				if !both {
					high = low
				}
				from, err1 := strconv.ParseInt(low, 10, 64)
				to, err2 := strconv.ParseInt(high, 10, 64)
				if !ok || err1 != nil || err2 != nil {
					return fmt.Errorf("%w; write it as batch=1..16,length=128", bad)
				}
				s.options.Dims[dim] = weir.Range{Min: from, Max: to}
			}
		default:
			if strings.HasPrefix(name, "weir.") {
				return fmt.Errorf("%w; there is no such parameter: weir.batching, weir.budget, weir.dims, "+
					"weir.precision, weir.texts, weir.tokens", bad)
			}
		}
	}
	return nil
}
