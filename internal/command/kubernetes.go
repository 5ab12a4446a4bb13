package command

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/manifest"
)

// manifestFlags are the flags of commands that write manifests.
type manifestFlags struct{ storage, image string }

// register adds the flags to a command.
func (m *manifestFlags) register(cmd *cobra.Command, what string) {
	cmd.Flags().StringVar(&m.storage, "storage", "pvc://models",
		what+", the URI of the models: pvc://CLAIM or pvc://CLAIM/FOLDER for a Deployment, any that KServe or Seldon reads "+
			"for these")
	cmd.Flags().StringVar(&m.image, "image", "", what+", the container's image (default weir-serve, or weir for a job)")
}

// formFlag is the value of a flag with a form of manifests.
type formFlag struct {
	to   *manifest.Form
	jobs bool // the form of a job is one of them
}

// String returns the form.
func (f formFlag) String() string {
	if f.to == nil {
		return ""
	}
	return string(*f.to)
}

// Type returns the kind of value for the usage.
func (f formFlag) Type() string { return "form" }

// Set parses the form.
func (f formFlag) Set(text string) error {
	if manifest.Form(text) == manifest.OfJob && f.jobs {
		*f.to = manifest.OfJob
		return nil
	}
	if !slices.Contains(manifest.Forms, manifest.Form(text)) {
		if f.jobs {
			return fmt.Errorf("the forms are deployment, kserve, seldon and job")
		}
		return fmt.Errorf("the forms are deployment, kserve and seldon")
	}
	*f.to = manifest.Form(text)
	return nil
}

// plannedManifest is the JSON output of plan --kubernetes.
type plannedManifest struct {
	Form     manifest.Form   `json:"form"`
	Memory   int64           `json:"memory_bytes"` // of the container
	Terms    []manifest.Term `json:"terms"`
	Manifest string          `json:"manifest"`
}

// kubernetes prints a manifest that serves the model at path.
func (f *planFlags) kubernetes(ctx context.Context, path string) error {
	if isTable(path) || f.html != "" || f.diff != "" || f.actual {
		return usageError{errors.New("--kubernetes is of a model, without --html, --diff and --actual")}
	}
	if f.form == manifest.OfJob {
		return f.job(ctx, path)
	}
	if f.shards > 1 || f.each != "" {
		return usageError{errors.New("--shards and --each are for --kubernetes=job")}
	}
	o := manifest.Options{Form: f.form, Image: first(f.image, "weir-serve"), Storage: f.storage}
	if err := o.Check(); err != nil {
		return usageError{err}
	}
	l, bound, err := f.compile(ctx, path, nil)
	if err != nil {
		return err
	}
	defer l.Close()
	if err := served(l.program); err != nil {
		return err
	}
	taken, err := footprintOf(l.program, f.calls, bound)
	if err != nil {
		return err
	}
	terms := taken.terms(f.calls)
	s := manifest.Server{Name: servedName(path), Threads: l.program.Memory().Workers,
		Models: []manifest.Model{{Name: servedName(path), Terms: terms}}}
	s.Notes = f.notes(l.program.CPU(), fmt.Sprintf("the model %q", servedName(path)))
	describe(&s, terms)
	files, err := manifest.Write([]manifest.Server{s}, o)
	if err != nil {
		return diag.Inputf("%v", err).AtFile(path)
	}
	if !f.c.json {
		stdout.Print(string(files[0].Text))
		return nil
	}
	out := plannedManifest{Form: f.form, Terms: s.Terms, Manifest: string(files[0].Text)}
	for _, t := range s.Terms {
		out.Memory += t.Bytes
	}
	return f.c.printJSON(out)
}

// served returns an error if weir-serve does not run a program.
func served(p *weir.Program) error {
	if t := p.Target(); t == weir.Vulkan || t == weir.Reference {
		return diag.Unsupportedf("a model for the target %s: weir-serve runs models on the processor", t)
	}
	return nil
}

// servedName returns the name under which weir-serve serves a file: that of the model's folder if the file is named
// model, else the file's.
func servedName(path string) string {
	if absolute, err := filepath.Abs(path); err == nil {
		path = absolute
	}
	name := strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
	for folder := filepath.Dir(path); name == "model" || isVersion(name); folder = filepath.Dir(folder) {
		if folder == filepath.Dir(folder) {
			return "model"
		}
		name = filepath.Base(folder)
	}
	return name
}

// notes are the lines at the head of a manifest: what its memory is for, and the configuration of a model that has the
// same calls and sizes.
func (f *modelFlags) notes(cpu, what string) []string {
	processor := "any processor"
	if cpu != "" {
		processor = cpu + " processors"
	}
	lines := []string{
		fmt.Sprintf("weir-serve with %s, for %s at a time, on %s.", what, counted(f.calls, "call"), processor),
		"Its memory is exact for these; what does not fit waits, or is refused with the numbers."}
	return append(lines, f.settings()...)
}

// defaultServedCalls is the number of calls that weir-serve makes of a model whose configuration names none.
const defaultServedCalls = 2

// settings are the lines of config.pbtxt for the flags.
func (f *modelFlags) settings() []string {
	var lines []string
	if f.calls != defaultServedCalls {
		lines = append(lines, fmt.Sprintf("  instance_group { count: %d }", f.calls))
	}
	parameter := func(name, value string) {
		lines = append(lines, fmt.Sprintf("  parameters { key: %q value { string_value: %q } }", name, value))
	}
	if len(f.dims) > 0 {
		parameter("weir.dims", strings.Join(f.dims, ","))
	}
	if f.budget > 0 {
		parameter("weir.budget", fmt.Sprint(f.budget))
	}
	if f.precision != "" && f.precision != "f32" {
		parameter("weir.precision", f.precision)
	}
	if len(lines) == 0 {
		return nil
	}
	return append([]string{"The same in a model's config.pbtxt:"}, lines...)
}
