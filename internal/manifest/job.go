package manifest

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// Job is a model on every element of a folder or a file, by weir run --each, in pods of which each has a share.
type Job struct {
	Name    string   // any text
	Model   string   // the file, below the folder of models, with slashes
	Inputs  string   // below the folder of data
	Flags   []string // of weir run, beside those of --each
	Terms   []Term   // their sum is a container's memory
	Heap    int64    // GOMEMLIMIT: a part of the memory
	Threads int      // workers of a run, and processors of a container
	Shards  int      // pods
	Notes   []string
}

// settled are the exit codes of weir run that another try does not change: an element failed, a flag is wrong, or a
// model is not supported.
var settled = []any{1, 2, 3}

// WriteJob returns the manifest of an indexed Job. The models' claim is Options.Storage; inputs and results are in the
// claim data. A pod that is evicted or killed is begun again, and computes what is not there; one whose elements failed
// is not.
func WriteJob(j Job, o Options) (File, error) {
	claimed, folder, ok := claim(o.Storage)
	switch {
	case !ok:
		return File{}, fmt.Errorf("a Job mounts a volume: its storage is pvc://CLAIM or pvc://CLAIM/FOLDER, not %q",
			o.Storage)
	case j.Shards < 1:
		return File{}, fmt.Errorf("a Job of %d pods", j.Shards)
	case !utf8.ValidString(o.Storage) || !utf8.ValidString(o.Image) || !utf8.ValidString(j.Name) ||
		!utf8.ValidString(j.Model) || !utf8.ValidString(j.Inputs):
		return File{}, fmt.Errorf("a name is not UTF-8, and YAML cannot hold it")
	}
	name := (&writer{names: map[string]bool{}}).name(j.Name)
	args := list("run", escaped("/mnt/models/"+j.Model), "--each", escaped("/mnt/data/"+j.Inputs),
		"--output", "/mnt/data/results", "--shard", fmt.Sprintf("$(JOB_COMPLETION_INDEX)/%d", j.Shards))
	for _, f := range append(j.Flags, fmt.Sprintf("--threads=%d", j.Threads)) {
		args.Content = append(args.Content, value(escaped(f)))
	}
	labels := func() *yaml.Node {
		return object("app.kubernetes.io/name", "weir", "app.kubernetes.io/instance", quoted(name))
	}
	container := object("name", "weir", "image", quoted(o.Image), "args", args,
		"env", list(object(noted("name", "what Go's heap may hold: the system counts the rest beside it"), "GOMEMLIMIT",
			"value", quoted(fmt.Sprint(j.Heap)))),
		"resources", resources(j.Terms, j.Threads),
		"volumeMounts", list(modelsAt(folder), object("name", "data", "mountPath", "/mnt/data"),
			object("name", "tmp", "mountPath", "/tmp")),
		"securityContext", secured())
	pod := object("automountServiceAccountToken", false, "restartPolicy", "Never", "containers", list(container),
		"volumes", list(modelsOf(claimed),
			object("name", "data", "persistentVolumeClaim", object("claimName", "data")),
			object("name", "tmp", "emptyDir", object())))
	document := object("apiVersion", "batch/v1", "kind", "Job",
		"metadata", object("name", quoted(name), "labels", labels()),
		"spec", object("completionMode", "Indexed", "completions", j.Shards, "parallelism", j.Shards,
			noted("backoffLimitPerIndex", "a pod that was killed goes on with the parts that are not there"), 6,
			"podFailurePolicy", object("rules", list(
				object(noted("action", "elements that failed fail again"), "FailIndex",
					"onExitCodes", object("containerName", "weir", "operator", "In", "values", list(settled...))))),
			"template", object("metadata", object("labels", labels()), "spec", pod)))
	document.HeadComment = strings.Join(j.Notes, "\n")
	text, err := encoded([]*yaml.Node{document})
	return File{name + ".yaml", text}, err
}

// escaped is a text in quotes in which Kubernetes finds no variable.
func escaped(text string) quoted { return quoted(strings.ReplaceAll(text, "$", "$$")) }
