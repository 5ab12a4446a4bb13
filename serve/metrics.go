package serve

import (
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/weirml/weir"
	"github.com/weirml/weir/metrics"
	"github.com/weirml/weir/serve/internal/catalogue"
)

// collector is a prometheus.Collector of a server. Each scrape has the versions that are loaded then.
type collector struct {
	server   *Server
	programs *metrics.Collector // of the process, and of the programs in known

	mu    sync.Mutex
	known map[string]*catalogue.Version // by the label program
}

// metricsHandler returns the handler of /metrics.
func (s *Server) metricsHandler() http.Handler {
	all := prometheus.NewRegistry()
	all.MustRegister(&collector{server: s, programs: metrics.NewCollector(), known: map[string]*catalogue.Version{}},
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return promhttp.HandlerFor(all, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError,
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelError), MaxRequestsInFlight: 4, EnableOpenMetrics: true})
}

// Describe sends nothing: the metrics depend on the models.
func (c *collector) Describe(chan<- *prometheus.Desc) {}

// describe returns the description of a metric.
func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

// perVersion are the metrics of a version, under Triton's names.
var perVersion = []struct {
	metric *prometheus.Desc
	kind   prometheus.ValueType
	value  func(v *catalogue.Version, c *catalogue.Counters) float64
}{
	{versionMetric("nv_inference_request_success", "Requests that got their answer."), prometheus.CounterValue,
		func(_ *catalogue.Version, c *catalogue.Counters) float64 { return float64(c.Success) }},
	{versionMetric("nv_inference_count", "Rows of the requests that got their answer."), prometheus.CounterValue,
		func(_ *catalogue.Version, c *catalogue.Counters) float64 { return float64(c.Rows) }},
	{versionMetric("nv_inference_exec_count", "Runs of the model, each of one request or of several joined ones."),
		prometheus.CounterValue,
		func(_ *catalogue.Version, c *catalogue.Counters) float64 { return float64(c.Executions) }},
	{versionMetric("nv_inference_request_duration_us", "Time that the requests took, in microseconds."),
		prometheus.CounterValue,
		func(_ *catalogue.Version, c *catalogue.Counters) float64 { return micros(c.SuccessTime) }},
	{versionMetric("nv_inference_queue_duration_us", "Time that the requests waited, in microseconds."),
		prometheus.CounterValue,
		func(_ *catalogue.Version, c *catalogue.Counters) float64 { return micros(c.QueueTime) }},
	{versionMetric("nv_inference_compute_input_duration_us", "Time that inputs took, in microseconds."),
		prometheus.CounterValue,
		func(_ *catalogue.Version, c *catalogue.Counters) float64 { return micros(c.InputTime) }},
	{versionMetric("nv_inference_compute_infer_duration_us", "Time that runs took, in microseconds."),
		prometheus.CounterValue,
		func(_ *catalogue.Version, c *catalogue.Counters) float64 { return micros(c.InferTime) }},
	{versionMetric("nv_inference_compute_output_duration_us", "Time that outputs took, in microseconds."),
		prometheus.CounterValue,
		func(_ *catalogue.Version, c *catalogue.Counters) float64 { return micros(c.OutputTime) }},
	{versionMetric("nv_inference_pending_request_count", "Requests that wait for their turn."),
		prometheus.GaugeValue,
		func(v *catalogue.Version, _ *catalogue.Counters) float64 { return float64(v.Waiting()) }},
}

// versionMetric describes a metric of a version.
func versionMetric(name, help string) *prometheus.Desc {
	return describe(name, help, "model", "version")
}

// micros returns a time in microseconds.
func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

var (
	failures = describe("nv_inference_request_failure", "Requests that failed, by reason: REJECTED (memory, a queue "+
		"or a timeout), CANCELED, BACKEND (the run) or OTHER (the request).", "model", "version", "reason")
	failuresByKind = describe("weir_request_failures_total", "Requests that failed, by the kind that answers have.",
		"model", "version", "kind")
	failedEarly = describe("weir_requests_failed_total", "Requests that failed before they reached a version of a model, "+
		"by reason.", "reason")
	requestSeconds = describe("weir_request_seconds", "Time that each request took that got its answer.",
		"model", "version")
	certificates = describe("weir_model_certificate", "1; the label formula is the model's certificate: the bytes "+
		"that it takes, over its dimensions.", "model", "version", "formula")
	modelBytes = describe("weir_model_bytes", "Bytes that a version holds: fixed (weights and code), and calls.",
		"model", "version", "kind")
	modelStates = describe("weir_models", "Models of the folder and their versions, by state.", "state")
	sequences   = versionMetric("weir_sequences", "Sequences that are alive.")
	stateBytes  = versionMetric("weir_sequence_bytes", "Bytes of the states of sequences.")
	started     = versionMetric("weir_sequences_started_total", "Sequences that have started.")
	idled       = versionMetric("weir_sequences_idle_total", "Sequences that ended because they were idle.")
	ledgerLimit = describe("weir_ledger_limit_bytes", "The limit of models, runs and bodies.")
	ledgerBytes = describe("weir_ledger_bytes", "Bytes that the ledger has, by account.", "kind", "account")
	measured    = describe("weir_measured_bytes", "The bytes that the process holds outside Go's heap, and "+
		"those for tokenizers on it: what the ledger must equal.")
	ledgerPeak   = describe("weir_ledger_peak_bytes", "The most bytes that the ledger had.")
	ledgerWaits  = describe("weir_ledger_waiting", "Requests and loads that wait for memory.")
	ledgerDenies = describe("weir_ledger_refusals_total", "Requests and loads whose memory was refused.")
)

// reasons are Triton's names for the kinds of errors; other kinds are OTHER.
var reasons = map[string]string{"busy": "REJECTED", "timeout": "REJECTED", "memory": "REJECTED", "budget": "REJECTED",
	"closed": "REJECTED", "canceled": "CANCELED", "internal": "BACKEND"}

// Collect sends the present values.
func (c *collector) Collect(to chan<- prometheus.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	versions := c.reconcile()
	c.programs.Collect(to)
	for _, v := range versions {
		collectVersion(to, v)
		collectSequences(to, v)
	}
	c.collectLedger(to)
	for i, reason := range earlyReasons {
		to <- prometheus.MustNewConstMetric(failedEarly, prometheus.CounterValue, float64(c.server.early[i].Load()), reason)
	}
	states := map[string]int{"READY": 0, "UNAVAILABLE": 0}
	for _, m := range c.server.catalogue.Index(false) {
		if m.State != "" {
			states[m.State]++
		}
	}
	for state, n := range states {
		to <- prometheus.MustNewConstMetric(modelStates, prometheus.GaugeValue, float64(n), state)
	}
	collectMachine(to)
}

// reconcile makes programs have the versions that are loaded, and returns these.
func (c *collector) reconcile() []*catalogue.Version {
	loaded := map[string]*catalogue.Version{}
	var list []*catalogue.Version
	for _, v := range c.server.catalogue.Loaded() {
		name := label(v.Model) + ", version " + v.Name()
		if loaded[name] == nil { // names that differ in invalid bytes may share a label
			loaded[name] = v
			list = append(list, v)
		}
	}
	for name, v := range c.known {
		if loaded[name] != v {
			c.programs.Remove(name)
			delete(c.known, name)
		}
	}
	for name, v := range loaded {
		if c.known[name] == v {
			continue
		}
		if err := c.programs.Add(name, v.Program); err != nil {
			c.server.log.Warn("model has no metrics of its program", "model", v.Model, "error", err)
		}
		if v.Batcher != nil {
			if err := c.programs.AddBatcher(name, v.Batcher); err != nil {
				c.server.log.Warn("model has no metrics of its batches", "model", v.Model, "error", err)
			}
		}
		c.known[name] = v
	}
	return list
}

// label returns a name as the value of a label, which must be UTF-8.
func label(name string) string {
	if utf8.ValidString(name) {
		return name
	}
	return strings.Trim(strconv.Quote(name), `"`)
}

// collectVersion sends the values of a version.
func collectVersion(to chan<- prometheus.Metric, v *catalogue.Version) {
	counters, model, version := v.Counters(), label(v.Model), v.Name()
	for _, m := range perVersion {
		to <- prometheus.MustNewConstMetric(m.metric, m.kind, m.value(v, &counters), model, version)
	}
	byReason := map[string]uint64{"REJECTED": 0, "CANCELED": 0, "BACKEND": 0, "OTHER": 0}
	for kind, n := range counters.Failures {
		reason := reasons[kind]
		if reason == "" {
			reason = "OTHER"
		}
		byReason[reason] += n
		to <- prometheus.MustNewConstMetric(failuresByKind, prometheus.CounterValue, float64(n), model, version, kind)
	}
	for reason, n := range byReason {
		to <- prometheus.MustNewConstMetric(failures, prometheus.CounterValue, float64(n), model, version, reason)
	}
	buckets, sum := map[float64]uint64{}, uint64(0)
	for i, bound := range catalogue.Bounds {
		sum += counters.Within[i]
		buckets[bound.Seconds()] = sum
	}
	to <- prometheus.MustNewConstHistogram(requestSeconds, counters.Success, counters.SuccessTime.Seconds(), buckets,
		model, version)
	to <- prometheus.MustNewConstMetric(certificates, prometheus.GaugeValue, 1, model, version, label(certificateOf(v)))
	fixed, calls := v.Bytes()
	to <- prometheus.MustNewConstMetric(modelBytes, prometheus.GaugeValue, float64(fixed), model, version, "fixed")
	to <- prometheus.MustNewConstMetric(modelBytes, prometheus.GaugeValue, float64(calls), model, version, "calls")
}

// collectSequences sends what is known of a version's sequences, if it has any.
func collectSequences(to chan<- prometheus.Metric, v *catalogue.Version) {
	if v.Sequences == nil {
		return
	}
	s, model, version := v.Sequences.Stats(), label(v.Model), v.Name()
	for _, m := range []struct {
		metric *prometheus.Desc
		kind   prometheus.ValueType
		value  float64
	}{{sequences, prometheus.GaugeValue, float64(s.Alive)}, {stateBytes, prometheus.GaugeValue, float64(s.Bytes)},
		{started, prometheus.CounterValue, float64(s.Started)}, {idled, prometheus.CounterValue, float64(s.Idle)}} {
		to <- prometheus.MustNewConstMetric(m.metric, m.kind, m.value, model, version)
	}
}

// certificateOf returns the formula of the bytes that a version takes with all its calls.
func certificateOf(v *catalogue.Version) string {
	return v.Program.Memory().Formula(v.Calls).String()
}

// collectLedger sends the values of the ledger. Accounts of one kind and name, which a version and its successor have
// for a while, are one value.
func (c *collector) collectLedger(to chan<- prometheus.Metric) {
	state := c.server.state()
	gauge := func(d *prometheus.Desc, kind prometheus.ValueType, value int64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, kind, float64(value), labels...)
	}
	gauge(ledgerLimit, prometheus.GaugeValue, state.Limit)
	gauge(ledgerPeak, prometheus.GaugeValue, state.Peak)
	usage := weir.Usage()
	gauge(measured, prometheus.GaugeValue, usage.Held-usage.Cached+c.server.catalogue.Heap())
	gauge(ledgerWaits, prometheus.GaugeValue, int64(state.Waiting))
	gauge(ledgerDenies, prometheus.CounterValue, state.Refusals)
	rows := map[[2]string]int64{}
	for _, r := range state.Rows {
		rows[[2]string{r.Kind.String(), label(r.Name)}] += r.Bytes
	}
	for labels, bytes := range rows {
		gauge(ledgerBytes, prometheus.GaugeValue, bytes, labels[0], labels[1])
	}
}
