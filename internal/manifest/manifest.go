// Package manifest writes Kubernetes manifests for weir-serve: a Deployment and its Service, KServe's ServingRuntime
// and InferenceService, or the Server and Models of Seldon Core 2.
//
// Memory is written as whole bytes, rounded up to pages of 4 KiB, since a container's limit is rounded down to them.
// Names of models are data: objects get names of DNS made from them, and every other place has them quoted.
package manifest

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// Form is a kind of manifests.
type Form string

// The forms.
const (
	Deployment Form = "deployment"
	KServe     Form = "kserve"
	Seldon     Form = "seldon"
)

// Forms are all forms of servers.
var Forms = []Form{Deployment, KServe, Seldon}

// OfJob is the form that WriteJob writes.
const OfJob Form = "job"

// Server is a process of weir-serve, in a container of its own.
type Server struct {
	Name    string // any text
	Models  []Model
	Load    bool   // it loads only its models, and not all of the folder
	Terms   []Term // their sum is the container's memory
	Limit   int64  // the server's --limit: a part of the memory
	Heap    int64  // the server's --heap: a part of Limit
	Threads int    // workers of a run, and processors of the container
	Spread  bool   // one of several servers, each on another node
	Notes   []string
}

// Model is a model of a server.
type Model struct {
	Name  string // any text
	Path  string // below the folder of models, with slashes; empty: the folder itself
	Bytes int64
	Terms []Term
}

// Term is a part of a number of bytes.
type Term struct {
	Bytes int64  `json:"bytes"`
	What  string `json:"what"`
}

// Options are the settings of all servers.
type Options struct {
	Form    Form
	Image   string
	Storage string // the URI of the folder of models; for a Deployment pvc://CLAIM or pvc://CLAIM/FOLDER
}

// File is the manifests of a server.
type File struct {
	Name string // of a file, without a folder
	Text []byte
}

// Write returns the manifests of servers, a file for each.
func Write(servers []Server, o Options) ([]File, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	w := &writer{o: o, names: map[string]bool{}}
	var files []File
	for i := range servers {
		s := &servers[i]
		if err := w.check(s); err != nil {
			return nil, err
		}
		name := w.name(s.Name)
		var documents []*yaml.Node
		switch o.Form {
		case Deployment:
			documents = w.deployment(s, name)
		case KServe:
			documents = w.kserve(s, name)
		case Seldon:
			documents = w.seldon(s, name)
		}
		documents[0].HeadComment = strings.Join(s.Notes, "\n")
		text, err := encoded(documents)
		if err != nil {
			return nil, err
		}
		files = append(files, File{name + ".yaml", text})
	}
	return files, nil
}

// encoded returns documents as text.
func encoded(documents []*yaml.Node) ([]byte, error) {
	var text bytes.Buffer
	e := yaml.NewEncoder(&text)
	e.SetIndent(2)
	for _, d := range documents {
		if err := e.Encode(d); err != nil {
			return nil, err
		}
	}
	err := e.Close()
	return text.Bytes(), err
}

// writer writes manifests.
type writer struct {
	o     Options
	names map[string]bool // of objects; taken
}

// Check returns an error if there is no such form, or the storage is not one that it can use.
func (o Options) Check() error {
	if !slices.Contains(Forms, o.Form) {
		return fmt.Errorf("there is no form %q", o.Form)
	}
	if _, _, ok := claim(o.Storage); !ok && o.Form == Deployment {
		return fmt.Errorf("a Deployment mounts a volume: its storage is pvc://CLAIM or pvc://CLAIM/FOLDER, not %q", o.Storage)
	}
	if o.Storage == "" || !utf8.ValidString(o.Storage) || !utf8.ValidString(o.Image) {
		return fmt.Errorf("the storage %q is no URI, or the image %q no name", o.Storage, o.Image)
	}
	return nil
}

// check returns the error of a server that the form cannot describe.
func (w *writer) check(s *Server) error {
	for _, m := range s.Models {
		switch {
		case !utf8.ValidString(m.Name) || !utf8.ValidString(m.Path):
			return fmt.Errorf("the name %q is not UTF-8, and YAML cannot hold it", m.Name)
		case w.o.Form == Seldon:
		case s.Load && strings.Contains(m.Name, ","):
			return fmt.Errorf("the name %q has a comma, which separates the names in --load", m.Name)
		case s.Load && strings.Contains(m.Path, "/"):
			return fmt.Errorf("a server has the models of one folder, and %q lies in a folder below it: pack that folder by "+
				"itself", m.Path)
		}
	}
	return nil
}

// mostName is the most characters of an object's name: KServe appends "-predictor" and more, and a label has at most
// 63.
const mostName = 40

// name returns a name for an object: letters of DNS from any text, and unlike all names before.
func (w *writer) name(text string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(text) {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			b.WriteRune(r)
		case b.Len() > 0 && !strings.HasSuffix(b.String(), "-"):
			b.WriteByte('-')
		}
		if b.Len() == mostName {
			break
		}
	}
	name := strings.Trim(b.String(), "-")
	if name == "" || name[0] < 'a' { // a Service's name begins with a letter
		name = strings.Trim("m-"+name, "-")
	}
	free := name
	for n := 2; w.names[free]; n++ {
		free = name + "-" + strconv.Itoa(n)
	}
	w.names[free] = true
	return free
}

// claim splits the URI of a volume's claim.
func claim(uri string) (name, folder string, ok bool) {
	rest, ok := strings.CutPrefix(uri, "pvc://")
	name, folder, _ = strings.Cut(rest, "/")
	folder = strings.Trim(folder, "/")
	for part := range strings.SplitSeq(folder, "/") {
		ok = ok && part != ".."
	}
	return name, folder, ok && name != ""
}

// pages rounds bytes up to whole pages.
func pages(n int64) int64 { return (n + 4095) &^ 4095 }

// bytesOf returns the sum of terms in whole pages, as a quoted number.
func bytesOf(terms []Term) quoted {
	sum := int64(0)
	for _, t := range terms {
		sum += t.Bytes
	}
	return quoted(strconv.FormatInt(pages(sum), 10))
}

// explained returns the lines that explain a sum.
func explained(terms []Term) string {
	var lines []string
	for _, t := range terms {
		lines = append(lines, fmt.Sprintf("%14d  %s", t.Bytes, t.What))
	}
	return "the sum, in whole pages, of\n" + strings.Join(lines, "\n")
}

// resources are the requests and limits of a container: equal, so that no other container gets its memory.
func resources(terms []Term, threads int) *yaml.Node {
	of := func(note string) *yaml.Node {
		return object("cpu", quoted(strconv.Itoa(threads)), noted("memory", note), bytesOf(terms))
	}
	return object("requests", of(""), "limits", of(explained(terms)))
}

// args are the server's flags.
func (s *Server) args(folder string, more ...string) *yaml.Node {
	args := append([]string{folder}, more...)
	args = append(args, fmt.Sprintf("--limit=%d", s.Limit), fmt.Sprintf("--heap=%d", s.Heap),
		fmt.Sprintf("--threads=%d", s.Threads))
	if s.Load {
		var names []string
		for _, m := range s.Models {
			names = append(names, m.Name)
		}
		args = append(args, "--mode=explicit", "--load="+strings.Join(names, ","))
	}
	list := &yaml.Node{Kind: yaml.SequenceNode}
	for _, a := range args {
		list.Content = append(list.Content, value(escaped(a)))
	}
	return list
}

// probe asks for a health path of a port.
func probe(path string, port, period, failures int) *yaml.Node {
	return object("httpGet", object("path", path, "port", port), "periodSeconds", period, "failureThreshold", failures)
}

// secured is a container's security context: no privileges, and no files of its own.
func secured() *yaml.Node {
	return object("allowPrivilegeEscalation", false, "readOnlyRootFilesystem", true, "runAsNonRoot", true,
		"runAsUser", 65532, "capabilities", object("drop", list("ALL")), "seccompProfile", object("type", "RuntimeDefault"))
}

// container is the server's container, with further fields. grpc is the address of gRPC, which port has too.
func (w *writer) container(s *Server, name, folder string, port int, grpc string, more ...any) *yaml.Node {
	pairs := []any{"name", name, "image", quoted(w.o.Image), "args",
		s.args(folder, fmt.Sprintf("--listen=:%d", port), "--grpc="+grpc, "--cache=/tmp/weir-serve"),
		"resources", resources(s.Terms, s.Threads),
		"startupProbe", probe("/v2/health/live", port, 1, 120),
		"livenessProbe", probe("/v2/health/live", port, 10, 3),
		"readinessProbe", probe("/v2/health/ready", port, 2, 3),
		"securityContext", secured()}
	return object(append(pairs, more...)...)
}

// modelsAt mounts a folder of the volume of models.
func modelsAt(folder string) *yaml.Node {
	mount := []any{"name", "models", "mountPath", "/mnt/models", "readOnly", true}
	if folder != "" {
		mount = append(mount, "subPath", quoted(folder))
	}
	return object(mount...)
}

// modelsOf is the volume of models in a claim.
func modelsOf(claimed string) *yaml.Node {
	return object("name", "models", "persistentVolumeClaim", object("claimName", quoted(claimed), "readOnly", true))
}

// deployment returns a Deployment and a Service.
func (w *writer) deployment(s *Server, name string) []*yaml.Node {
	claimed, folder, _ := claim(w.o.Storage)
	const port = 8000
	labels := func() *yaml.Node {
		return object("app.kubernetes.io/name", "weir-serve", "app.kubernetes.io/instance", quoted(name))
	}
	pod := []any{"automountServiceAccountToken", false,
		"containers", list(w.container(s, "weir-serve", "/mnt/models", port, ":8001",
			"ports", list(object("name", "http", "containerPort", port), object("name", "grpc", "containerPort", 8001)),
			"volumeMounts", list(modelsAt(folder), object("name", "tmp", "mountPath", "/tmp")))),
		"volumes", list(modelsOf(claimed), object("name", "tmp", "emptyDir", object()))}
	spec := []any{"replicas", 1, "selector", object("matchLabels", labels())}
	if s.Spread {
		pod = append(pod, "topologySpreadConstraints", list(object("maxSkew", 1, "topologyKey", "kubernetes.io/hostname",
			"whenUnsatisfiable", "ScheduleAnyway", "labelSelector",
			object("matchLabels", object("app.kubernetes.io/name", "weir-serve")))))
		spec = append(spec, noted("strategy", "the node holds no second server while this one is replaced"),
			object("type", "Recreate"))
	}
	spec = append(spec, "template", object("metadata", object("labels", labels()), "spec", object(pod...)))
	return []*yaml.Node{
		object("apiVersion", "apps/v1", "kind", "Deployment", "metadata", object("name", quoted(name), "labels", labels()),
			"spec", object(spec...)),
		object("apiVersion", "v1", "kind", "Service", "metadata", object("name", quoted(name), "labels", labels()),
			"spec", object("selector", labels(), "ports", list(
				object("name", "http", "port", port, "targetPort", "http"),
				object("name", "grpc", "port", 8001, "targetPort", "grpc")))),
	}
}

// kserve returns a ServingRuntime and an InferenceService. KServe mounts the storage at /mnt/models.
func (w *writer) kserve(s *Server, name string) []*yaml.Node {
	format := func(name string) *yaml.Node { return object("name", name, "version", quoted("1"), "autoSelect", false) }
	return []*yaml.Node{
		object("apiVersion", "serving.kserve.io/v1alpha1", "kind", "ServingRuntime", "metadata", object("name", quoted(name)),
			"spec", object("supportedModelFormats", list(format("onnx"), format("weir")),
				"protocolVersions", list("v2", "grpc-v2"), "multiModel", false,
				"containers", list(w.container(s, "kserve-container", "/mnt/models", 8080, "",
					"volumeMounts", list(object("name", "tmp", "mountPath", "/tmp")))),
				"volumes", list(object("name", "tmp", "emptyDir", object())))),
		object("apiVersion", "serving.kserve.io/v1beta1", "kind", "InferenceService",
			"metadata", object("name", quoted(name)),
			"spec", object("predictor", object("minReplicas", 1, "maxReplicas", 1,
				"model", object("modelFormat", object("name", "onnx"), "runtime", quoted(name), "protocolVersion", "v2",
					"storageUri", quoted(w.o.Storage))))),
	}
}

// seldon returns a Server, which takes the place of Triton in Seldon's own configuration, and its Models.
func (w *writer) seldon(s *Server, name string) []*yaml.Node {
	alone := *s
	alone.Load = false // Seldon's agent loads the models
	documents := []*yaml.Node{object("apiVersion", "mlops.seldon.io/v1alpha1", "kind", "Server",
		"metadata", object("name", quoted(name)),
		"spec", object("serverConfig", "triton", "replicas", 1, "capabilities", list("weir", "onnx"),
			"podSpec", object("containers", list(
				object("name", "agent", "env", list(object(
					noted("name", "memory is exact: the agent may not load more than fits"), "SELDON_OVERCOMMIT_PERCENTAGE",
					"value", quoted("0")))),
				object("name", "triton", "image", quoted(w.o.Image), "command", list("/weir-serve"),
					"args", alone.args("/mnt/agent/models", "--mode=explicit", "--listen=:9000", "--grpc=:9500", "--cache="),
					"resources", resources(alone.Terms, alone.Threads))))))}
	for _, m := range s.Models {
		uri := w.o.Storage
		if m.Path != "" {
			uri = strings.TrimRight(uri, "/") + "/" + m.Path
		}
		documents = append(documents, object("apiVersion", "mlops.seldon.io/v1alpha1", "kind", "Model",
			"metadata", object("name", quoted(w.name(m.Name))),
			"spec", object("storageUri", quoted(uri),
				"requirements", list("weir"), "server", quoted(name), "replicas", 1,
				noted("memory", explained(m.Terms)), bytesOf(m.Terms))))
	}
	return documents
}
