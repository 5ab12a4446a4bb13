package onnx

import (
	"flag"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/weirml/weir/internal/importer/onnx/schema"
)

var rewrite = flag.Bool("rewrite", false, "write the generated part of docs/onnx.md")

// The document that lists operators, and the lines that enclose the list.
const (
	listFile   = "../../../docs/onnx.md"
	listBegins = "<!-- generated from the rules: go test ./internal/importer/onnx -run TestList -rewrite -->\n"
	listEnds   = "<!-- end of the generated part -->"
)

// casesFile counts, by operator, ONNX's own cases that pass and that are refused; internal/conformance, which has the
// cases, writes and checks it.
const casesFile = "testdata/cases.txt"

// cases reads casesFile: "passed of all" for each operator, or "all" alone if every case passes.
func cases(t *testing.T) map[string]string {
	data, err := os.ReadFile(casesFile)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for line := range strings.Lines(string(data)) {
		var name string
		var passed, refused int
		if n, err := fmt.Sscan(line, &name, &passed, &refused); n != 3 {
			t.Fatalf("%s: %q: %v", casesFile, line, err)
		}
		out[name] = fmt.Sprint(passed)
		if refused > 0 {
			out[name] = fmt.Sprintf("%d of %d", passed, passed+refused)
		}
	}
	return out
}

// notes say which uses of an operator are refused and why, besides those that the text above the table names for all
// operators.
var notes = map[string]string{
	"ATen": "names a function of PyTorch", "GRUUnit": "was never defined",
	"ai.onnx.ml:CastMap": "maps are not values", "ai.onnx.ml:DictVectorizer": "maps are not values",
	"ai.onnx.ml:ZipMap":                 "returns the tensor that the maps are made from",
	"Bernoulli":                         "the cases expect the numbers of another generator",
	"RandomUniformLike":                 "like Bernoulli, whose function body contains it",
	"BatchNormalization":                "training with more than the first output",
	"ai.onnx.preview.training:Gradient": "through operators without a derivative",
	"ImageDecoder":                      "some kinds of JPEG and TIFF: see above",
	"Scan":                              "strings, sequences and optionals as results of the body",
	"Resize":                            "two cases divide by the fractional length, against the text",
	"SequenceAt":                        "a tensor whose rank nothing determines",
}

// list returns the table of ONNX's operators: each with its versions, the types that the first operand of its newest
// version may have, the cases that pass, and the refused uses.
func list(t *testing.T) string {
	var b strings.Builder
	passed := cases(t)
	for _, domain := range []string{"", "ai.onnx.ml", "ai.onnx.preview", "ai.onnx.preview.training", "com.microsoft"} {
		var rows []string
		names, supported := schema.Names(domain), 0
		for _, name := range names {
			key := name
			if domain != "" {
				key = domain + ":" + name
			}
			has, note := rules.Rule(key, math.MaxInt64) != nil, notes[key]
			if has {
				supported++
			} else if domain == "com.microsoft" {
				continue // the refusal names it
			} else if note = "refused: " + note; notes[key] == "" {
				note = "refused"
			}
			count := passed[name]
			if domain == "com.microsoft" {
				count = "" // ONNX has no cases of it, but of operators with similar names
			}
			versions := schema.Versions(domain, name)
			rows = append(rows, fmt.Sprintf("| %s | %s | %s | %s | %s |\n", name,
				strings.Trim(strings.ReplaceAll(fmt.Sprint(versions), " ", ", "), "[]"),
				typesOf(domain, name, versions[len(versions)-1]), count, note))
		}
		title := domain
		if domain == "" {
			title = "ai.onnx"
		}
		fmt.Fprintf(&b, "\n### %s\n\n%d of %d operators.\n\n| operator | versions | types | cases that pass | refused, and "+
			"why |\n|---|---|---|---|---|\n%s", title, supported, len(names), strings.Join(rows, ""))
	}
	return b.String()
}

// typesOf returns the types of an operator's first operand, or of its result if it has none.
func typesOf(domain, name string, version int64) string {
	o, ok := schema.Lookup(domain, name, version)
	if !ok {
		return ""
	}
	p := o.Input(0)
	if p == nil {
		p = o.Output(0)
	}
	if p == nil {
		return ""
	}
	return strings.Join(o.Accepts(p), " ")
}

// TestList compares the list in docs/onnx.md with the rules.
func TestList(t *testing.T) {
	data, err := os.ReadFile(listFile)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(data), listBegins)
	_, after, ok2 := strings.Cut(rest, listEnds)
	if !ok || !ok2 {
		t.Fatalf("%s lacks the lines %q and %q", listFile, listBegins, listEnds)
	}
	want := before + listBegins + list(t) + listEnds + after
	if want == string(data) {
		return
	}
	if !*rewrite {
		t.Fatalf("%s is not what the rules say: go test ./internal/importer/onnx -run TestList -rewrite", listFile)
	}
	if err := os.WriteFile(listFile, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}
