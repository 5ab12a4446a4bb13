package manifest

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the manifests in testdata")

// servers are two nodes with models of plain and of hostile names.
func servers() []Server {
	term := func(n int64) []Term { return []Term{{n, "the certificate"}, {70_000, "requests"}} }
	models := [][]Model{
		{{"resnet50", "resnet50", 104_857_600, term(104_787_600)}, {"Grüße, Welt", "Grüße", 9, term(9)}},
		{{"a: b # c\n- d", "a: b", 5, term(5)}, {"$(HOME) \"'{{x}}", "e", 7, term(7)}, {"yes", "yes", 1, term(1)},
			{"Resnet50", "Resnet50", 2, term(2)}, {"日本", "日本", 3, term(3)}, {"0x10", "0x10", 4, term(4)}}}
	models[0][1].Name = "Grüße Welt"
	var all []Server
	for i, m := range models {
		all = append(all, Server{Name: fmt.Sprintf("weir-%d", i+1), Models: m, Load: true, Spread: true, Limit: 200 << 20,
			Heap: 48 << 20, Threads: 2, Notes: []string{"for tests", "second line"},
			Terms: []Term{{150<<20 + 1, "the models"}, {32 << 20, "the program"}}})
	}
	return all
}

// storages are the URIs that the forms are written with.
var storages = map[Form]string{Deployment: "pvc://models/prod", KServe: "s3://bucket/models",
	Seldon: "gs://bucket/models/"}

// write returns the manifests of servers in a form.
func write(t *testing.T, form Form, s []Server) []File {
	t.Helper()
	files, err := Write(s, Options{Form: form, Image: "weir-serve:1", Storage: storages[form]})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// documents parses the documents of a file.
func documents(t *testing.T, text []byte) (all []map[string]any) {
	t.Helper()
	for d := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var v map[string]any
		err := d.Decode(&v)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatalf("%v:\n%s", err, text)
		}
		all = append(all, v)
	}
}

// TestGolden compares the manifests of each form with testdata; -rewrite writes them.
func TestGolden(t *testing.T) {
	for _, form := range Forms {
		for _, f := range write(t, form, servers()) {
			path := filepath.Join("testdata", string(form)+"-"+f.Name)
			if *rewrite {
				if err := os.WriteFile(path, f.Text, 0o666); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil || !bytes.Equal(want, f.Text) {
				t.Errorf("%s differs (%v):\n%s", path, err, f.Text)
			}
		}
	}
}

// job returns the manifest of a job.
func job(t *testing.T, name string, shards int) File {
	t.Helper()
	f, err := WriteJob(Job{Name: name, Model: name + ".onnx", Inputs: "inputs",
		Flags: []string{"--rows=8", "--dim=n=$(HOME)"}, Heap: 48 << 20, Threads: 2, Shards: shards,
		Notes: []string{"for tests"}, Terms: []Term{{50<<20 + 1, "the certificate"}, {48 << 20, "Go's heap"}}},
		Options{Image: "weir:1", Storage: "pvc://models/prod"})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestJob compares a job with testdata, and refuses what a Job cannot have. Hostile names are read back unchanged.
func TestJob(t *testing.T) {
	f := job(t, "digits", 16)
	path := filepath.Join("testdata", "job-"+f.Name)
	if *rewrite {
		if err := os.WriteFile(path, f.Text, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if want, err := os.ReadFile(path); err != nil || !bytes.Equal(want, f.Text) {
		t.Errorf("%s differs (%v):\n%s", path, err, f.Text)
	}
	for _, name := range hostile {
		all := documents(t, job(t, name, 3).Text)
		if object, _ := get(t, all[0], "metadata", "name").(string); len(all) != 1 || !dns.MatchString(object) {
			t.Errorf("%q: %d documents, the name %q", name, len(all), object)
		}
		args := get(t, all[0], "spec", "template", "spec", "containers", 0, "args").([]any)
		if got := expanded(args[1].(string)); got != "/mnt/models/"+name+".onnx" {
			t.Errorf("%q became %q", name, got)
		}
		if args[7] != "$(JOB_COMPLETION_INDEX)/3" || expanded(args[9].(string)) != "--dim=n=$(HOME)" {
			t.Errorf("the arguments are %q", args)
		}
	}
	for _, c := range []struct {
		j    Job
		o    Options
		want string
	}{
		{Job{Shards: 1}, Options{Storage: "s3://a"}, "pvc://CLAIM"},
		{Job{}, Options{Storage: "pvc://a"}, "0 pods"},
		{Job{Shards: 1, Model: "\xff"}, Options{Storage: "pvc://a"}, "UTF-8"},
	} {
		if _, err := WriteJob(c.j, c.o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, not %q", c.j, err, c.want)
		}
	}
}

// get returns a value below a mapping.
func get(t *testing.T, v any, path ...any) any {
	t.Helper()
	for _, p := range path {
		switch p := p.(type) {
		case string:
			v = v.(map[string]any)[p]
		case int:
			v = v.([]any)[p]
		}
	}
	return v
}

// TestMemory: requests and limits are the sum of the terms in whole pages, and --limit and --heap are as given.
func TestMemory(t *testing.T) {
	where := map[Form][]any{Deployment: {"spec", "template", "spec", "containers", 0}, KServe: {"spec", "containers", 0},
		Seldon: {"spec", "podSpec", "containers", 1}}
	for _, form := range Forms {
		for _, terms := range [][]Term{{{1, "a"}}, {{4096, "a"}}, {{4095, "a"}, {2, "b"}}, {{1 << 50, "a"}}} {
			sum := int64(0)
			for _, term := range terms {
				sum += term.Bytes
			}
			files := write(t, form, []Server{{Name: "x", Terms: terms, Limit: 77, Heap: 11, Threads: 3,
				Models: []Model{{Name: "m", Terms: terms}}}})
			all := documents(t, files[0].Text)
			c := get(t, all[0], where[form]...)
			for _, r := range []string{"requests", "limits"} {
				text, _ := get(t, c, "resources", r, "memory").(string)
				n, err := strconv.ParseInt(text, 10, 64)
				if err != nil || n < sum || n-sum >= 4096 || n%4096 != 0 {
					t.Errorf("%s: %s of %d bytes are %q", form, r, sum, text)
				}
				if cpu := get(t, c, "resources", r, "cpu"); cpu != "3" {
					t.Errorf("%s: %s have %v processors", form, r, cpu)
				}
			}
			args := fmt.Sprint(get(t, c, "args"))
			if !strings.Contains(args, "--limit=77 --heap=11 --threads=3") {
				t.Errorf("%s: the arguments are %s", form, args)
			}
			if form == Seldon && get(t, all[1], "spec", "memory") != get(t, c, "resources", "limits", "memory") {
				t.Errorf("spec.memory is %v", get(t, all[1], "spec", "memory"))
			}
			for _, term := range terms {
				if !strings.Contains(string(files[0].Text), fmt.Sprintf("%d  %s\n", term.Bytes, term.What)) {
					t.Errorf("%s: no comment has %v", form, term)
				}
			}
		}
	}
}

// dns matches a name that a Service may have.
var dns = regexp.MustCompile(`^[a-z]([-a-z0-9]{0,48}[a-z0-9])?$`)

// hostile are names of models, as files may have them.
var hostile = []string{"", "a", "A", "a.b", "a b", "-a-", "a-2", "9", "null", "~", "yes", "0x10", "1e3", "1:30", "[a]",
	"{a}", "&a", "*a", "!a", "%a", "@a", "`a`", "'", "\"", "\\", "#", " # a", ": ", "- ", "\n", "a\n---\nkind: Secret",
	"\t", "\r\n", "\x00", "\x1b[2J", "\u2028", "\u0085", "\ufeff", "é", "日本", "😀", "$(PATH)", "$$(PATH)", "{{.Labels.x}}",
	strings.Repeat("x", 300), strings.Repeat("x", 301), "İ", "ǆ"}

// TestHostileNames: any name is read back unchanged, objects have distinct names of DNS, and no name adds a document.
func TestHostileNames(t *testing.T) {
	for _, form := range Forms {
		for _, several := range []bool{true, false} {
			var models []Model
			for _, name := range hostile {
				models = append(models, Model{Name: name, Path: strings.ReplaceAll(name, "/", ""), Terms: []Term{{1, "x"}}})
			}
			s := []Server{{Name: hostile[30], Models: models, Load: several}}
			for _, name := range hostile {
				s = append(s, Server{Name: name, Models: []Model{{Name: name}}, Load: several})
			}
			names := map[string]bool{}
			for i, f := range write(t, form, s) {
				all := documents(t, f.Text)
				if want := map[Form]int{Deployment: 2, KServe: 2, Seldon: 1 + len(s[i].Models)}[form]; len(all) != want {
					t.Fatalf("%s: server %q has %d documents, not %d:\n%s", form, s[i].Name, len(all), want, f.Text)
				}
				for j, d := range all {
					name, _ := get(t, d, "metadata", "name").(string)
					if !dns.MatchString(name) || names[name] && (j == 0 || form == Seldon) {
						t.Errorf("%s: an object has the name %q", form, name)
					}
					names[name] = true
				}
				if f.Name != get(t, all[0], "metadata", "name").(string)+".yaml" {
					t.Errorf("the file is %q", f.Name)
				}
				if form == Seldon {
					for j, m := range s[i].Models {
						if uri := get(t, all[j+1], "spec", "storageUri"); m.Path != "" && uri != "gs://bucket/models/"+m.Path {
							t.Errorf("%q became %q", m.Path, uri)
						}
					}
				} else if several {
					c := get(t, all[0], map[Form][]any{Deployment: {"spec", "template", "spec", "containers", 0, "args"},
						KServe: {"spec", "containers", 0, "args"}}[form]...).([]any)
					var want []string
					for _, m := range s[i].Models {
						want = append(want, m.Name)
					}
					got := expanded(c[len(c)-1].(string))
					if got != "--load="+strings.Join(want, ",") {
						t.Errorf("%q became %q", want, got)
					}
				}
			}
		}
	}
}

// expanded replaces $(NAME) in an argument of a container by VARIABLE, and $$ by $, as Kubernetes does.
func expanded(text string) string {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] != '$' || i+1 == len(text) {
			b.WriteByte(text[i])
			continue
		}
		i++
		switch end := strings.IndexByte(text[i:], ')'); {
		case text[i] == '$':
			b.WriteByte('$')
		case text[i] == '(' && end > 0:
			b.WriteString("VARIABLE")
			i += end
		default:
			b.WriteString("$" + text[i:i+1])
		}
	}
	return b.String()
}

// TestRefused: what a form cannot describe is an error that says why.
func TestRefused(t *testing.T) {
	plain := func(name, path string) []Server {
		return []Server{{Name: "x", Load: true, Models: []Model{{Name: name, Path: path}}}}
	}
	for _, c := range []struct {
		servers []Server
		o       Options
		want    string
	}{
		{plain("m", "m"), Options{Form: "helm", Storage: "s3://a"}, `no form "helm"`},
		{plain("m", "m"), Options{Form: Deployment, Storage: "s3://a"}, "pvc://CLAIM"},
		{plain("m", "m"), Options{Form: Deployment, Storage: "pvc://"}, "pvc://CLAIM"},
		{plain("m", "m"), Options{Form: Deployment, Storage: "pvc://a/../b"}, "pvc://CLAIM"},
		{plain("m", "m"), Options{Form: KServe}, "no URI"},
		{plain("a,b", "m"), Options{Form: KServe, Storage: "s3://a"}, "comma"},
		{plain("g/m", "g/m"), Options{Form: KServe, Storage: "s3://a"}, "below it"},
		{plain("\xff", "m"), Options{Form: Seldon, Storage: "s3://a"}, "UTF-8"},
	} {
		if _, err := Write(c.servers, c.o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, not %q", c.o, err, c.want)
		}
	}
}
