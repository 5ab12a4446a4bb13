// Package lint holds the rules of the house: which room may import which, and how large a file or a function may grow.
// Its tests enforce them over every package of the repository, and draw them into ARCHITECTURE.md.
//
// The rules are the table below and nothing else. To loosen one, change its row and give the reason in the commit.
package lint

// Module is the module's import path.
const Module = "github.com/weirml/weir"

// Room is a folder with its subfolders, the unit of the rules.
//
// Packages of one room import each other as they like. What is on floor 0 is open to every room.
type Room struct {
	Floor int
	// the folder, without internal/ in front; a last element * makes every subfolder a room of its own; "weir" is the
	// root
	Name    string
	Purpose string   // one line for ARCHITECTURE.md
	May     []string // the rooms it may import besides floor 0, all on its own floor or below
	Modules []string // the packages it may import that are neither ours nor the plain standard library (see outside)
}

// rooms are the rooms of the house from the ground up.
var rooms = []Room{
	{Floor: 0, Name: "dtype", Purpose: "element types, their names, sizes and exact conversions"},
	{Floor: 0, Name: "sym", Purpose: "integers over named dimensions: normal form, evaluation, proofs"},
	{Floor: 0, Name: "diag", Purpose: "the error type and its six kinds"},
	{Floor: 0, Name: "text", Purpose: "the scanner and the printer of the three languages",
		May: []string{"sym", "diag"}},
	{Floor: 0, Name: "text/pattern", Purpose: "regular expressions as Hugging Face's tokenizers match them",
		May: []string{"diag"}},
	{Floor: 0, Name: "text/charsmap", Purpose: "SentencePiece's tables of normalisation", May: []string{"diag"}},
	{Floor: 0, Name: "text/unigram", Purpose: "cuts texts into the pieces of greatest score", May: []string{"diag"}},
	{Floor: 0, Name: "text/sentencepiece", Purpose: "SentencePiece's model files, and their encoder",
		May: []string{"text/charsmap", "text/unigram", "diag"}},
	{Floor: 0, Name: "text/gguf", Purpose: "the vocabularies of GGUF files",
		May: []string{"text/sentencepiece", "diag"}},
	{Floor: 0, Name: "text/gguftest", Purpose: "writes GGUF files, for tests"},
	{Floor: 0, Name: "text/tiktoken", Purpose: "the vocabularies of tiktoken", May: []string{"diag"}},

	{Floor: 0, Name: "safetensors", Purpose: "the tables of safetensors files", May: []string{"dtype", "diag"}},
	{Floor: 0, Name: "pprof", Purpose: "profiles that go tool pprof reads"},

	// x/text knows decompositions and combining classes. The order of a text's characters, and what they stand for, is
	// the reference's.
	{Floor: 1, Name: "tokenizer", Purpose: "texts to ids and back, exactly as Hugging Face's tokenizers do",
		Modules: []string{"golang.org/x/text/unicode/norm", "os/exec"}},
	// Tile registers are a fact of the machine only if the system lets the process use them: unix asks. Some features of
	// arm64 are known to the system alone.
	{Floor: 1, Name: "target", Purpose: "machine facts and limits, the kernel ABI, the handle of compiled code",
		Modules: []string{"golang.org/x/sys/cpu", "golang.org/x/sys/unix", "golang.org/x/sys/windows"}},
	{Floor: 1, Name: "mem", Purpose: "the ledger of mapped memory; no other room maps memory",
		Modules: []string{"golang.org/x/sys/unix", "golang.org/x/sys/windows"}},
	{Floor: 1, Name: "probe", Purpose: "measures the speed of the machine's arithmetic and memory",
		May:     []string{"mem", "target"},
		Modules: []string{"golang.org/x/sys/cpu"}},
	{Floor: 1, Name: "tensor", Purpose: "host arrays, the npy format, and pictures", May: []string{"mem"}},
	{Floor: 1, Name: "strided", Purpose: "memory with strides, and the orders of axes in memory",
		May: []string{"tensor"}},
	{Floor: 1, Name: "memplan", Purpose: "offsets and a certificate from live ranges, and a validator of plans"},
	{Floor: 1, Name: "binpack", Purpose: "places items into as few bins as possible, and a validator of packings"},
	// Names of models are any text. A library quotes them as YAML.
	{Floor: 1, Name: "manifest", Purpose: "Kubernetes manifests of the server",
		Modules: []string{"go.yaml.in/yaml/v3"}},

	{Floor: 2, Name: "ir", Purpose: "the language of computations: tensors, operators, symbolic shapes",
		May: []string{"tensor"}},
	{Floor: 2, Name: "loop", Purpose: "the language of kernels: loops, vectors, tiles",
		May: []string{"target", "tensor"}},
	{Floor: 2, Name: "program", Purpose: "the language of memory and launches, as artefacts contain it",
		May: []string{"tensor"}},

	// Pictures of these kinds have no decoder in the standard library.
	{Floor: 3, Name: "hostop", Purpose: "operators that are neither expansions nor loop nests, in Go",
		May:     []string{"tensor"},
		Modules: []string{"golang.org/x/image/bmp", "golang.org/x/image/tiff", "golang.org/x/image/webp"}},
	{Floor: 3, Name: "traced", Purpose: "functions of weir for array and batch that are not in its API",
		May: []string{"ir"}},
	{Floor: 3, Name: "ops", Purpose: "one file per operator: shape rule, meaning, lowerings, gradient, samples",
		May: []string{"ir", "loop", "tensor", "hostop", "attention", "sliding", "winograd"}},
	{Floor: 3, Name: "attention", Purpose: "what all loops of attention share: settings, operands, scores",
		May: []string{"loop"}},
	{Floor: 3, Name: "sliding", Purpose: "windows of convolutions and poolings: their geometry and groups of channels",
		May: []string{"loop"}},
	{Floor: 3, Name: "winograd", Purpose: "Winograd's algorithm for convolutions: matrices, weights, bounds of errors",
		May: []string{"loop"}},
	{Floor: 3, Name: "schedule/recipes", Purpose: "ways to compute operators on machines with vector registers",
		May: []string{"loop", "target", "attention", "sliding", "winograd"}},

	{Floor: 4, Name: "importer/*", Purpose: "model files to ir", May: []string{"ir", "ops", "tensor", "mem"}},
	// Passes ask for the costs of recipes before they lay values out for them.
	{Floor: 4, Name: "pass", Purpose: "ir to ir",
		May: []string{"ir", "ops", "tensor", "mem", "schedule/recipes", "winograd"}},

	// The messages of a model file are types of the importer.
	{Floor: 5, Name: "exporter/*", Purpose: "ir to model files",
		May: []string{"ir", "ops", "tensor", "importer/*", "mem"}},
	// ir's constants are tensors.
	{Floor: 5, Name: "lower", Purpose: "ir to loop, one kernel per operator",
		May: []string{"ir", "ops", "loop", "target", "tensor"}},
	// Weights are tensors, and packed as the tiles read them.
	{Floor: 5, Name: "schedule", Purpose: "loop to loop: grouping, tiling, vectors, packing",
		May: []string{"loop", "target", "tensor", "schedule/recipes"}},

	{Floor: 6, Name: "codegen/*", Purpose: "loop to executable code",
		May: []string{"loop", "target", "mem", "codegen/mathematics", "codegen/blocks"}},
	// It names no instruction of a device.
	{Floor: 6, Name: "codegen/blocks", Purpose: "kernels for blocks of threads, in any language of such machines",
		May: []string{"loop", "target"}},
	// The functions are written over an algebra, and know no machine.
	{Floor: 6, Name: "codegen/mathematics", Purpose: "functions of floats, for every code generator", May: []string{}},
	// The allocator knows a machine by an interface.
	{Floor: 6, Name: "codegen/regalloc", Purpose: "the registers of a routine, on every machine with registers",
		May: []string{}},
	{Floor: 6, Name: "codegen/assembly", Purpose: "labels, constants and tables of forms, for every assembler",
		May: []string{"codegen/regalloc"}},
	// Lanes know a machine by an interface. Kernels without machine code are compiled by codegen/portable.
	{Floor: 6, Name: "codegen/lanes", Purpose: "kernels in lanes of vectors, for every machine with vector registers",
		May: []string{"loop", "target", "mem", "codegen/mathematics", "codegen/portable",
			"codegen/regalloc"}},
	{Floor: 6, Name: "codegen/portable", Purpose: "plain Go, for every processor",
		May: []string{"loop", "target", "mem"}},
	{Floor: 6, Name: "codegen/amd64", Purpose: "machine code for amd64",
		May: []string{"loop", "target", "mem", "codegen/assembly", "codegen/lanes", "codegen/mathematics",
			"codegen/regalloc"}},
	{Floor: 6, Name: "codegen/amd64/emulatetest", Purpose: "emitted code in an emulated processor, for tests",
		May:     []string{"codegen/amd64"},
		Modules: []string{"os/exec"}},
	{Floor: 6, Name: "codegen/arm64", Purpose: "machine code for arm64",
		May: []string{"loop", "target", "mem", "codegen/assembly", "codegen/lanes", "codegen/mathematics",
			"codegen/regalloc"}},
	{Floor: 6, Name: "codegen/codetest", Purpose: "the tests of every assembler, and of calls of machine code",
		May: []string{"mem"}, Modules: []string{"os/exec"}},
	{Floor: 6, Name: "codegen/lanes/lanestest", Purpose: "the meaning of lanes' operations, as a machine in Go, for tests",
		May: []string{"loop", "target", "codegen/lanes", "codegen/mathematics", "codegen/portable", "codegen/regalloc"}},
	{Floor: 6, Name: "codegen/kerneltest", Purpose: "the tests of every code generator",
		May: []string{"loop", "schedule", "target", "tensor", "mem"}},
	{Floor: 6, Name: "device", Purpose: "the executor's interface to devices with memory of their own",
		May: []string{"target"}},
	{Floor: 6, Name: "device/*", Purpose: "the processor's workers, and launches on them",
		May: []string{"device", "target", "mem"}},
	// The system's Vulkan is a C library: purego calls it without cgo. Windows has a way of its own to load one.
	{Floor: 6, Name: "device/vulkan", Purpose: "GPUs, through Vulkan", May: []string{"device", "target", "mem"},
		Modules: []string{"github.com/ebitengine/purego", "golang.org/x/sys/windows"}},

	{Floor: 7, Name: "executor", Purpose: "runs programs on processors and devices",
		May: []string{"program", "device", "tensor", "hostop", "target", "mem"}},

	{Floor: 8, Name: "compiler/live",
		Purpose: "live ranges and sizes of a module's buffers, and which buffers may share memory",
		May:     []string{"loop", "memplan", "target"}},
	// Computing in pieces changes ir; the compiler lowers and schedules the result again.
	{Floor: 8, Name: "compiler/budget", Purpose: "the search for savings that bring a module within a budget",
		May: []string{"ir", "loop", "pass", "schedule", "schedule/recipes", "memplan", "target", "compiler/live"}},
	{Floor: 8, Name: "compiler", Purpose: "the pipeline from ir to program and code",
		May: []string{"compiler/live", "compiler/budget", "ir", "loop", "program", "ops", "hostop", "pass", "lower",
			"schedule", "schedule/recipes", "codegen/*", "codegen/portable", "codegen/amd64",
			"codegen/arm64", "memplan", "target", "tensor", "mem"}},

	// The description of an ONNX file lists the file's nodes.
	{Floor: 8, Name: "sources", Purpose: "reads models of every format, for modules of ir",
		May: []string{"importer/*", "ir", "tensor", "mem"}},
	{Floor: 8, Name: "report", Purpose: "describes a program to its user: dimensions by name, positions of buffers, " +
		"accesses of a run",
		May: []string{"program", "executor"}},
	// A difference is saved as a test in ONNX's layout.
	{Floor: 8, Name: "compare", Purpose: "finds the first tensor that differs from the reference's",
		May: []string{"sources", "importer/*", "ir", "tensor"}},

	{Floor: 9, Name: "signature", Purpose: "the inputs and outputs of a model as its user sees them, and the options " +
		"that change them",
		May: []string{"sources", "compiler", "report", "strided", "ir", "ops", "program"}},
	{Floor: 9, Name: "session", Purpose: "runs of a program: arguments, calls, results and their ownership",
		May: []string{"signature", "sources", "report", "strided", "executor", "program", "tensor", "mem", "device"}},

	{Floor: 9, Name: "artefact", Purpose: "reads compiled programs, and the descriptions of their models, from files",
		May: []string{"signature", "compiler", "strided", "tensor", "mem"}},
	{Floor: 9, Name: "timing", Purpose: "times a program's launches, and tries alternatives to the scheduler's choices",
		May: []string{"session", "compiler", "report", "program", "tensor"}},
	{Floor: 9, Name: "certificate",
		Purpose: "the terms of a program's memory: formulas, pages, bytes of a measured run",
		May:     []string{"compiler", "sources", "report", "executor", "program", "ir", "mem"}},

	// A program for a device is scheduled for the device's machine, or for one that the user names.
	{Floor: 9, Name: "weir", Purpose: "the user's API",
		May: []string{"session", "signature", "artefact", "timing", "certificate", "sources", "report", "compare",
			"strided",
			"compiler", "compiler/budget", "executor", "device", "device/*", "target", "ir", "ops", "program",
			"tensor", "mem", "probe", "traced"}},

	// Arrays build ir by the operators' constructors, and have weir compile it. A pass divides a function from its
	// derivative.
	{Floor: 10, Name: "array", Purpose: "arrays, scopes that own them, compiled functions of arrays, derivatives",
		May: []string{"weir", "traced", "ir", "ops", "pass", "loop", "tensor", "importer/*", "exporter/*"}},
	{Floor: 10, Name: "values", Purpose: "tensors from files and literals, and results into files, for the command",
		May: []string{below}},
	// The command reads its inputs with the functions of values; files gives them to users.
	{Floor: 10, Name: "files", Purpose: "tensors from .npy, .npz and pictures, and back",
		May: []string{"weir", "values", "tensor"}},
	{Floor: 10, Name: "planpage", Purpose: "draws memory plans on one page of HTML", May: []string{"weir"}},
	{Floor: 10, Name: "weirtest", Purpose: "models, arguments and processes for the tests of whole programs",
		May:     []string{below},
		Modules: []string{"os/exec"}},
	{Floor: 10, Name: "browsertest", Purpose: "a headless Chromium, for tests of pages", Modules: []string{"os/exec"}},
	{Floor: 10, Name: "cyclestest", Purpose: "estimates the cycles of loops of machine code, with LLVM's llvm-mca",
		May: []string{below}, Modules: []string{"os/exec"}},
	{Floor: 10, Name: "conformance", Purpose: "runs suites of test cases on every target",
		May: []string{below, "values", "weirtest"}},
	{Floor: 10, Name: "examples/digits/data", Purpose: "the digits model and its pictures, embedded"},
	{Floor: 10, Name: "examples/train-digits/data", Purpose: "handwritten digits to train with, embedded"},
	{Floor: 10, Name: "vulkan", Purpose: "lets programs that import it run on GPUs",
		May: []string{"device", "device/vulkan"}},
	// The API has no function that keeps a caller's memory valid while it is copied; traced has. Limits count pages.
	{Floor: 10, Name: "batch", Purpose: "joins the requests of many goroutines into runs of one program",
		May: []string{"weir", "traced", "mem"}},
	{Floor: 10, Name: "dlpack", Purpose: "tensors of other libraries in the process, without a copy",
		May: []string{"weir", "tensor"}},

	{Floor: 10, Name: "encoder", Purpose: "runs models that read texts: their folders, tokenizers, texts joined into runs",
		May: []string{"weir", "tokenizer", "importer/*"}},
	{Floor: 11, Name: "embed", Purpose: "texts to vectors, as sentence-transformers does",
		May: []string{"weir", "tokenizer", "encoder", "importer/*"}},
	{Floor: 11, Name: "classify", Purpose: "labels and scores of texts, as transformers' pipelines",
		May: []string{"weir", "tokenizer", "encoder", "importer/*"}},
	{Floor: 11, Name: "nn", Purpose: "layers, the store of their parameters, and networks as ONNX",
		May: []string{"weir", "array"}},
	{Floor: 12, Name: "offline", Purpose: "a model on each of many elements, with results that survive restarts",
		May: []string{"weir", "batch", "embed", "classify", "values", "tensor", "mem"}},
	// Elements of data are copied as tensors have them, and checkpoints written as tables of safetensors files.
	// mem opens a checkpoint's file, and replaces it.
	{Floor: 12, Name: "train", Purpose: "training: the step as one program, optimisers, data, checkpoints",
		May: []string{"weir", "array", "nn", "tensor", "mem"}},
	{Floor: 13, Name: "examples/*", Purpose: "programs as users write them",
		May: []string{"weir", "examples/digits/data", "examples/train-digits/data", "array", "nn", "train"}},
	{Floor: 13, Name: "bench/*", Purpose: "models that are timed beside rivals",
		May: []string{"weir", "array", "nn", "train", "embed"}},
	// This example is a server. The library itself opens no connection. SIGTERM, which ends the service, has its name
	// in syscall on every system.
	{Floor: 13, Name: "examples/service", Purpose: "an HTTP service around a model",
		May:     []string{"weir", "examples/digits/data"},
		Modules: []string{"net", "net/http", "syscall"}},
	{Floor: 13, Name: "examples/embeddings", Purpose: "an HTTP service that turns texts into vectors",
		May: []string{"weir", "embed"}, Modules: []string{"net", "net/http", "syscall"}},
	// The command is a package, so that a module may build it with readers of more files.
	{Floor: 13, Name: "command", Purpose: "the command weir", May: []string{"weir", "vulkan", "values", "conformance",
		"embed", "classify", "batch", "offline", "files", "examples/digits/data", "memplan", "binpack", "manifest",
		"planpage"},
		Modules: []string{"github.com/spf13/cobra", "syscall"}},
	{Floor: 13, Name: "cmd/weir", Purpose: "the command weir, as a program", May: []string{"command"}},
	{Floor: 13, Name: "cmd/libweir", Purpose: "a C library for Python and other languages: the one room with cgo",
		May:     []string{"weir", "array", "dlpack", "embed", "importer/*", "planpage"},
		Modules: []string{"C"}},

	// A module of its own, so that programs that import Weir do not depend on the tools of analysis. It depends only on
	// the names of Weir's API.
	{Floor: 13, Name: "cmd/weirvet", Purpose: "finds leaks in programs that use weir",
		Modules: []string{"golang.org/x/tools/go/analysis", "golang.org/x/tools/go/analysis/singlechecker",
			"golang.org/x/tools/go/analysis/analysistest",
			"golang.org/x/tools/go/analysis/passes/buildssa", "golang.org/x/tools/go/analysis/passes/ctrlflow",
			"golang.org/x/tools/go/ast/astutil",
			"golang.org/x/tools/go/ssa", "golang.org/x/tools/go/types/typeutil",
			"github.com/golangci/plugin-module-register/register"}},

	// A module of its own, so that programs that import Weir do not depend on clients of monitoring systems.
	{Floor: 13, Name: "metrics", Purpose: "a Prometheus collector, OpenTelemetry spans, and histograms of runs",
		May: []string{"weir", "batch"},
		Modules: []string{"github.com/prometheus/client_golang/prometheus",
			"github.com/prometheus/client_golang/prometheus/testutil",
			"go.opentelemetry.io/otel/attribute", "go.opentelemetry.io/otel/codes", "go.opentelemetry.io/otel/trace",
			"go.opentelemetry.io/otel/metric", "go.opentelemetry.io/otel/metric/noop",
			"go.opentelemetry.io/otel/trace/noop",
			"go.opentelemetry.io/otel/sdk/trace", "go.opentelemetry.io/otel/sdk/trace/tracetest"}},

	// A module of its own, so that programs that import Weir do not depend on gRPC.
	{Floor: 13, Name: "serve", Purpose: "an inference server: the Open Inference Protocol over REST and gRPC, and " +
		"its ledger",
		May: []string{"weir", "batch", "embed", "classify", "tokenizer", "metrics"},
		Modules: []string{"net", "net/http", "net/http/pprof", "net/http/httptest", "os/signal", "syscall",
			"github.com/prometheus/client_golang/prometheus",
			"github.com/prometheus/client_golang/prometheus/collectors",
			"github.com/prometheus/client_golang/prometheus/promhttp", "github.com/prometheus/procfs",
			"github.com/prometheus/common/expfmt", "github.com/prometheus/common/model", "go.yaml.in/yaml/v3",
			"go.opentelemetry.io/otel/attribute", "go.opentelemetry.io/otel/codes",
			"go.opentelemetry.io/otel/propagation", "go.opentelemetry.io/otel/trace",
			"go.opentelemetry.io/otel/sdk/trace", "go.opentelemetry.io/otel/sdk/trace/tracetest",
			"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp",
			"go.opentelemetry.io/otel/sdk/resource",
			"golang.org/x/net/http2", "golang.org/x/net/http2/hpack",
			"google.golang.org/genproto/googleapis/rpc/errdetails", "google.golang.org/grpc",
			"google.golang.org/grpc/codes", "google.golang.org/grpc/credentials/insecure",
			"google.golang.org/grpc/health", "google.golang.org/grpc/mem",
			"google.golang.org/grpc/health/grpc_health_v1", "google.golang.org/grpc/metadata",
			"google.golang.org/grpc/peer", "google.golang.org/grpc/reflection", "google.golang.org/grpc/status",
			"google.golang.org/protobuf/encoding/prototext", "google.golang.org/protobuf/encoding/protowire",
			"google.golang.org/protobuf/proto", "google.golang.org/protobuf/reflect/protoreflect",
			"google.golang.org/protobuf/runtime/protoimpl"}},

	// A module of its own, so that programs that import Weir do not depend on Beam. Its tests start processes of a job
	// service and of workers.
	{Floor: 13, Name: "beam", Purpose: "models over collections of Apache Beam: one program for all bundles of a process",
		May: []string{"weir", "batch", "embed", "examples/digits/data"},
		Modules: []string{"net", "os/exec", "github.com/apache/beam/sdks/v2/go/pkg/beam",
			"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/mtime",
			"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/window",
			"github.com/apache/beam/sdks/v2/go/pkg/beam/core/runtime/exec",
			"github.com/apache/beam/sdks/v2/go/pkg/beam/core/typex",
			"github.com/apache/beam/sdks/v2/go/pkg/beam/core/util/reflectx",
			"github.com/apache/beam/sdks/v2/go/pkg/beam/io/fileio",
			"github.com/apache/beam/sdks/v2/go/pkg/beam/io/filesystem",
			"github.com/apache/beam/sdks/v2/go/pkg/beam/io/filesystem/local",
			"github.com/apache/beam/sdks/v2/go/pkg/beam/io/filesystem/memfs",
			"github.com/apache/beam/sdks/v2/go/pkg/beam/io/textio",
			"github.com/apache/beam/sdks/v2/go/pkg/beam/options/jobopts",
			"github.com/apache/beam/sdks/v2/go/pkg/beam/register",
			"github.com/apache/beam/sdks/v2/go/pkg/beam/runners/prism",
			"github.com/apache/beam/sdks/v2/go/pkg/beam/runners/universal",
			"github.com/apache/beam/sdks/v2/go/pkg/beam/runners/universal/extworker",
			"github.com/apache/beam/sdks/v2/go/pkg/beam/testing/passert",
			"github.com/apache/beam/sdks/v2/go/pkg/beam/transforms/stats",
			"github.com/apache/beam/sdks/v2/go/pkg/beam/x/beamx"}},

	// A module of its own, so that programs that import Weir do not depend on compressions. Its tests start the command.
	{Floor: 13, Name: "parquet", Purpose: "the command weir with the rows of Parquet files",
		May: []string{"weir", "command", "offline", "tensor", "mem"},
		Modules: []string{"os/exec", "github.com/parquet-go/parquet-go/format",
			"github.com/parquet-go/parquet-go/deprecated", "github.com/parquet-go/parquet-go/encoding/thrift",
			"github.com/andybalholm/brotli", "github.com/klauspost/compress/snappy",
			"github.com/klauspost/compress/zstd", "github.com/pierrec/lz4/v4"}},

	{Floor: 14, Name: "lint", Purpose: "this table, and the tests that enforce it"},
}

// ownModules are the folders of other modules in this repository that are rooms, and held to the same rules.
var ownModules = []string{"beam", "cmd/weirvet", "metrics", "parquet", "serve"}

// below in May stands for every room on a lower floor.
const below = "*"

// never lists the rooms that a room must not import, even indirectly.
var never = []struct {
	Room   string
	Reach  []string
	Reason string
}{
	{"ir", []string{"loop", "program", "ops", "target"}, "a language knows no other, and no operator"},
	{"loop", []string{"ir", "program", "ops"}, "a language knows no other, and no operator"},
	{"program", []string{"ir", "loop", "ops", "target"}, "a language knows no other, and no operator"},
	{"memplan", []string{"ir", "loop", "program"}, "planning works on a Problem, whoever states it"},
	{"schedule", []string{"ir", "ops", "memplan"},
		"a schedule depends on kernels alone, so that an artefact can be scheduled anew"},
	{"executor", []string{"ir", "loop", "codegen/*", "codegen/portable", "codegen/amd64", "codegen/arm64",
		"memplan", "compiler"},
		"what measures memory must not read the plan"},
	{"weir", []string{"examples/*", "examples/digits/data"}, "the library carries no model"},
}

// outside lists the packages of the standard library that a room may import only if its Modules has them: mem alone
// maps memory, the library opens no connection, and it runs no other program.
var outside = []string{"C", "syscall", "plugin", "net", "net/http", "net/rpc", "os/exec"}

// The most lines of a file and of a function. Tables are exempt, if a line "//weir:table" marks them: in the comment
// above the function, or above the package clause for a whole file.
const (
	maxFileLines     = 600
	maxFunctionLines = 100
	tableMark        = "//weir:table"
)
