package command

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// exitCase is a command line, its exit code, and a part of its output.
type exitCase struct {
	args string
	code int
	want string // in either output
}

// exitCases returns the cases of TestExitCodes. dir is a folder for files, m an artefact, foreign a model with an
// unknown operator, and write writes a file into dir.
//
//weir:table
func exitCases(dir, m, foreign string, write func(name, text string) string) []exitCase {
	return []exitCase{
		{"", 0, "Usage"},
		{"help run", 0, "weir run model.onnx --input x=x.npy"},
		{"completion bash", 0, "complete"},
		{"sing", 2, "unknown command"},
		{"run", 2, "one MODEL is needed"},
		{"run " + digits + " --loud", 2, "unknown flag"},
		{"run " + digits + " --trace x.json", 2, "unknown flag"},
		{"plan " + digits + " --html " + dir + "/none/x.html", 1, "cannot be written"},
		{"plan " + digits + " --diff " + dir + "/none.onnx", 2, "none.onnx"},
		{"plan " + digits + " --diff " + table, 2, "--diff compares models"},
		{"plan " + table + " --actual", 2, "are of models"},
		{"plan " + table + " --html " + dir + "/none/x.html", 1, "cannot be written"},
		{"bench " + digits + " --fast", 2, "unknown flag"},
		{"run " + digits + " --calls 0", 2, "--calls 0"},
		{"run " + digits + " --dim batch", 2, "NAME=SIZE"},
		{"run " + digits + " --budget much", 2, "--budget much"},
		{"run " + digits + " --compare peer", 2, "compare with reference"},
		{"run " + digits + " --input zeros --expect scores", 2, "NAME=FILE"},
		{"test", 2, "at least one DIR"},
		{"dump " + digits + " --after lunch", 2, "there is no such stage"},
		{"dump " + digits + " --kernel none --lang loop", 2, "there is no such kernel"},
		{"plan " + table, 0, "no plan of this arena is smaller"},
		{"plan " + write("above.csv", "id,lower,upper,size,alignment\na,0,1,100,128\nb,0,3,192,64"), 0,
			"lower bound    292 (292B)\nproven least   320 (320B): a search refuted all that is smaller\ngap            none"},
		{"plan " + table + " --budget 11B", 1, "--budget 12 is the smallest that works"},
		{"plan " + table + " --dim n=3", 2, "a table of buffers has no dimensions"},
		{"plan " + digits + " --kubernetes", 1, "such as --dim batch=1..32"},
		{"plan " + digits + " --kubernetes --dim batch=2", 0, "kind: Deployment"},
		{"plan " + m + " --kubernetes=kserve --dim batch=2", 0, "kind: InferenceService"},
		{"plan " + digits + " --kubernetes=helm", 2, "the forms are deployment, kserve, seldon and job"},
		{"plan " + digits + " --kubernetes --dim batch=2 --storage s3://b", 2, "pvc://CLAIM"},
		{"plan " + digits + " --kubernetes --actual", 2, "without --html, --diff and --actual"},
		{"plan " + table + " --kubernetes", 2, "--kubernetes is of a model"},
		{"plan " + digits + " --kubernetes --dim batch=2 --target reference", 3, "runs models on the processor"},
		{"plan " + digits + " --kubernetes --dim batch=2 --budget 1KiB", 1, "budget"},
		{"plan missing.onnx --kubernetes", 2, "missing.onnx"},
		{"pack " + filepath.Dir(digits) + " --node 1GiB --dim batch=1..4", 0,
			"proven      yes: no placement has fewer nodes"},
		{"pack " + filepath.Dir(digits) + " --node 1GiB", 1, "such as --dim batch=1..32"},
		{"pack " + filepath.Dir(digits), 2, "--node SIZE is needed"},
		{"pack " + filepath.Dir(digits) + " --node 9MiB", 1, "is the smallest"},
		{"pack " + filepath.Dir(digits) + " --node many", 2, "--node many"},
		{"pack " + filepath.Dir(digits) + " --node 1GiB --replicas digits", 2, "write MODEL=N"},
		{"pack " + filepath.Dir(digits) + " --node 1GiB --replicas letters=2", 2, "there is no such model"},
		{"pack " + filepath.Dir(digits) + " --node 1GiB --replicas digits=0", 2, "N is from 1"},
		{"pack " + filepath.Dir(digits) + " --node 1GiB --manifests " + dir + "/x --form kserve --storage=", 2, "no URI"},
		{"pack " + filepath.Dir(digits) + " --node 1GiB --nodes -1", 2, "--nodes -1"},
		{"pack " + filepath.Dir(digits) + " --node 1GiB --dim batch=2 --nodes 1 --replicas digits=2", 1,
			"--nodes 1 is proved to be too few: at least 2 are needed"},
		{"pack " + digits + " --node 1GiB", 2, "it is no folder"},
		{"pack none --node 1GiB", 2, "none"},
		{"pack " + filepath.Join(filepath.Dir(digits), "images") + " --node 1GiB", 1, "it has no models"},
		{"pack", 2, "one DIR is needed"},
		{"plan missing.csv", 2, "missing.csv"},
		{"plan " + write("bad.CSV", "id,lower,upper,size\na,2,1,4"), 1, "line 2: buffer"},
		{"run missing.onnx", 2, "missing.onnx"},
		{"--version", 0, "weir "},
		{"run " + write("bad.onnx", "nonsense"), 1, "bad.onnx: this is not an ONNX model"},
		{"run " + write("short.weir", "\x93WEIR\r\n\x1a"), 1, "ends before its header"},
		{"run " + digits, 1, "add --input image=VALUE"},
		{"run " + digits + " --input [1]", 1, "image"},
		{"run " + digits + " --input zeros --input ones=zeros", 1, `there is no input "ones" (fix: the inputs are image`},
		{"run " + digits + " --input zeros --values", 2, "--json"},
		{"run " + digits + " --input zeros --json --values", 0, `"values":[`},
		{"run " + digits + " --input zeros --dim depth=3", 1, "no dimension"},
		{"run " + digits + " --input zeros --dim batch=2 --budget 1KiB", 1, "a budget of"},
		{"plan " + digits + " --dim batch=2 --budget 1KiB", 1, "a budget of"},
		{"plan " + digits + " --budget 1MiB", 1, "fits --dim batch=0.."},
		{"plan " + digits + " --dim batch=2 --budget 1GiB", 0, "to spare"},
		{"run " + digits + " --input zeros --keep nothing", 1, "nothing"},
		{"run " + digits + " --input zeros --precision f16", 3, "--precision f16"},
		{"run " + digits + " --input zeros --cpu avx9", 3, "avx9"},
		{"run " + digits + " --input zeros --target cuda", 3, "target cuda"},
		{"run model.mlir", 3, ".mlir"},
		{"run " + write("m.weir", "weir 1\nprogram @f {}\n"), 3, "written as text"},
		{"dump " + digits + " --lang ptx", 3, "--lang ptx"},
		{"info " + foreign, 3, "com.example:Foreign"},
		{"run " + foreign + " --input zeros", 3, "com.example:Foreign"},
		{"test " + filepath.Dir(foreign) + " --strict", 1, "refused"},
		{"test " + filepath.Dir(foreign), 0, "1 refused"},
		{"test " + models + "logic " + models + "views", 0, "2 passed, 0 failed, 0 refused"},
		{"test " + dir, 1, "model.onnx"},
		{"run " + digits + " --input zeros", 0, "scores: f32[1,10]"},
		{"run " + digits + " --top 1 --input " + image, 0, "scores[0]:  3 ("},
		{"run " + digits + " --input zeros --target reference --threads 1 -q", 0, "scores"},
		{"run " + digits + " --input random:0..1 --seed 7 --compare reference", 0, "as the reference has it"},
		{"check " + digits, 0, ""},
		{"dump " + digits + " --after fold", 0, "weir 1"},
		{"dump " + digits + " --after vectors", 0, "vector $"},
		{"dump " + digits + " --after outside", 0, "parallel $"},
		{"dump " + digits + " --lang loop", 0, "kernel @"},
		{"dump " + digits + " --lang program", 0, "launch"},
		{"run " + m + " --top 1 --input " + image, 0, "scores[0]:  3 ("},
		{"run " + m + " --input zeros --target reference", 0, "scores"},
		{"run " + m + " --input zeros --compare reference", 3, "artefact"},
		{"run " + m + " --input zeros --keep other", 3, "other outputs"},
		{"dump " + m + " --lang ir", 3, "an artefact holds no ir"},
		{"dump " + m, 0, "kernel @"},
		{"check " + m, 0, ""},
		{"info " + m + " --nodes", 0, "Conv"},
		{"info " + digits, 0, " for batch = 1; "},
		{"bench " + m + " --seconds 0.01 --dim batch=2", 0, "predicted"},
		{"bench " + m + " --seconds 0.01 --dim batch=2 --calls 2 --profile", 0, "launches, "},
		{"compile " + digits + " -o " + filepath.Join(dir, "no", "such", "folder.weir"), 1, "folder.weir"},
		{"env", 0, "WEIR_DEBUG"},
		{"demo", 0, "20 of 20 right"},
		{"help sing", 2, "help sing: there is no such command"},
		{"help plan", 0, "weir plan MODEL"},
		{"run " + digits + " --input zeros --input image=zeros", 2, "image is given twice"},
		{"run " + digits + " --input image=none.png", 2, "none.png"},
		{"run " + digits + " --input image=" + write("half.json", "{\n"), 1, "half.json: { is not JSON"},
		{"run " + digits + " --input image=-", 1, "standard input, for -, is no .npy file"},
		{"run " + digits + " --input " + image + "?scale=x", 1, `scale=x: "x" is not a number`},
		{"run " + digits + " --input " + image + "?mean=1,2", 1, "mean=1,2: "},
		{"run " + digits + " --expect scores", 2, "--expect scores: write NAME=FILE"},
		{"run " + digits + " --input zeros --expect none=zeros", 1, `no output "none" (fix: its outputs are scores`},
		{"run " + digits + " --input zeros --expect scores=none.npy", 2, "none.npy"},
		{"run " + digits + " --input zeros --dim batch=2 --dim batch=3", 2, "batch is given twice"},
		{"run " + digits + " --input zeros --dim =3", 2, "NAME=SIZE"},
		{"run " + digits + " --input zeros --budget 1KiB", 1, "(fix: give batch a range with --dim NAME=MIN..MAX)\n"},
		{"run " + write("cut.onnx", ":\xff\x01{"), 1, "(fix: the file may be cut off: copy it again)"},
		{"run " + write("nonsense.weir", "nonsense"), 1, "or a text that begins with weir 1)"},
		{"plan " + digits + " --limits minimum", 1, "add --target vulkan"},
		{"plan " + digits + " --device 3", 2, "add --target vulkan"},
		{"plan " + digits + " --dim batch=7 --calls 9000000000000000000", 1, "overflow (fix: bind smaller dimensions)"},
		{"plan " + digits + " --html " + dir, 1, "it is a folder"},
		{"compile " + digits + " -o " + dir, 1, "it is a folder"},
		{"dump " + digits + " --kernel softmax", 2, "--lang loop has them"},
		{"dump " + digits + " --lang loop --kernel none", 2, "there are convolution_relu"},
		{"dump " + digits + " --after lower --lang program", 2, "--lang program: the text after lower"},
		{"dump " + digits + " --after lower --lang loop", 0, "kernel @"},
		{"test none", 2, "none"},
		{"test " + digits, 1, "name a folder with a model.onnx"},
	}
}

// TestExitCodes runs the cases in processes of their own.
func TestExitCodes(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		return path
	}
	m, foreign := artefact(t, digits), foreignModel(t)
	for _, row := range exitCases(dir, m, foreign, write) {
		t.Run(strings.NewReplacer("/", "|", dir, "").Replace(row.args), func(t *testing.T) {
			t.Parallel()
			r := weirRun(t, strings.Fields(row.args)...)
			if r.code != row.code || !strings.Contains(r.out+r.err, row.want) {
				t.Errorf("exit code %d, want %d and %q; printed\n%s%s", r.code, row.code, row.want, r.out, r.err)
			}
			if row.code == 0 && row.want != "Usage" && strings.Contains(r.err, "weir: see weir help") {
				t.Errorf("an error although all is well: %s", r.err)
			}
			if row.code != 0 && (r.err == "" && !strings.Contains(r.out, "refused") || strings.Contains(r.err, "goroutine ")) {
				t.Errorf("standard error has\n%s", r.err)
			}
		})
	}
}
