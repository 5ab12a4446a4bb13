package manifest

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// field is a field of a type in testdata/schemas.txt.
type field struct {
	kind     string
	required bool
}

// schemas are the types of testdata/schemas.txt, by name, and the API versions of the kinds.
type schemas struct {
	types    map[string]map[string]field
	versions map[string]string
}

// readSchemas reads testdata/schemas.txt.
func readSchemas(t *testing.T) schemas {
	t.Helper()
	text, err := os.ReadFile("testdata/schemas.txt")
	if err != nil {
		t.Fatal(err)
	}
	s := schemas{map[string]map[string]field{}, map[string]string{}}
	var current map[string]field
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		switch {
		case len(words) == 0:
			current = nil
		case strings.HasPrefix(line, "#"):
		case current == nil:
			current = map[string]field{}
			s.types[words[1]] = current
			if words[0] == "kind" {
				s.versions[words[1]] = words[2]
				current["apiVersion"], current["kind"] = field{words[2], true}, field{words[1] + "|", true}
			}
		default:
			name, required := strings.CutSuffix(words[0], "!")
			current[name] = field{words[1], required}
		}
	}
	return s
}

// quantity matches a quantity of Kubernetes in the forms that the manifests have.
var quantity = regexp.MustCompile(`^[0-9]+(\.[0-9]+)?(m|k|M|G|T|Ki|Mi|Gi|Ti)?$`)

// faults lists what a value has that its type does not allow.
func (s schemas) faults(at, kind string, v any) (all []string) {
	fault := func(format string, args ...any) { all = append(all, at+": "+fmt.Sprintf(format, args...)) }
	of, isList := strings.CutPrefix(kind, "[]")
	values, isMap := strings.CutPrefix(kind, "{}")
	switch x := v.(type) {
	case []any:
		if !isList {
			fault("a list, not %s", kind)
		}
		for i, e := range x {
			all = append(all, s.faults(fmt.Sprintf("%s[%d]", at, i), of, e)...)
		}
	case map[string]any:
		if isMap {
			for k, e := range x {
				all = append(all, s.faults(at+"."+k, values, e)...)
			}
			break
		}
		fields, ok := s.types[kind]
		if !ok {
			fault("a mapping, not %s", kind)
			break
		}
		for _, k := range slices.Sorted(maps.Keys(x)) {
			if f, ok := fields[k]; ok {
				all = append(all, s.faults(at+"."+k, f.kind, x[k])...)
			} else {
				fault("there is no field %s", k)
			}
		}
		for k, f := range fields {
			if _, ok := x[k]; f.required && !ok {
				fault("%s is missing", k)
			}
		}
	case string:
		switch {
		case kind == "string":
		case kind == "quantity":
			if !quantity.MatchString(x) && !strings.HasSuffix(at, "Port") {
				fault("%q is no quantity", x)
			}
		case kind != x && !slices.Contains(strings.Split(kind, "|"), x) || x == "":
			fault("%q, not %s", x, kind)
		}
	case int:
		if kind != "integer" && kind != "quantity" {
			fault("a number, not %s", kind)
		}
	case bool:
		if kind != "boolean" {
			fault("a truth value, not %s", kind)
		}
	default:
		fault("%T, not %s", v, kind)
	}
	return all
}

// TestSchemas: every manifest has only fields that the cluster's definitions have, of their types.
func TestSchemas(t *testing.T) {
	s := readSchemas(t)
	kinds := map[string]int{}
	for _, form := range Forms {
		for _, several := range []bool{true, false} {
			all := servers()
			for i := range all {
				all[i].Load, all[i].Spread = several, several
			}
			for _, f := range write(t, form, all) {
				for _, d := range documents(t, f.Text) {
					kind, _ := d["kind"].(string)
					kinds[kind]++
					for _, fault := range s.faults(kind, kind, d) {
						t.Errorf("%s %s: %s", form, f.Name, fault)
					}
				}
			}
		}
	}
	for _, f := range []File{job(t, "digits", 16), job(t, hostile[30], 1)} {
		for _, d := range documents(t, f.Text) {
			kinds["Job"]++
			for _, fault := range s.faults("Job", "Job", d) {
				t.Errorf("%s: %s", f.Name, fault)
			}
		}
	}
	for kind := range s.versions {
		if kinds[kind] == 0 {
			t.Errorf("no manifest of kind %s was checked", kind)
		}
	}
}

// TestSchemasRefuse: the check finds a changed manifest of each sort.
func TestSchemasRefuse(t *testing.T) {
	s := readSchemas(t)
	text := string(write(t, Deployment, servers())[0].Text)
	for _, change := range [][2]string{{"apps/v1", "apps/v2"}, {"kind: Deployment", "kind: Service"},
		{"replicas: 1", `replicas: "1"`}, {"replicas: 1", "replica: 1"}, {"  template:", "  templates:"},
		{"type: Recreate", "type: Create"}, {"- ALL", "- 3"}, {"drop:\n                - ALL", "drop: ALL"},
		{`memory: "`, `memory: "x`}, {"mountPath: /tmp", "path: /tmp"}, {"readOnly: true", "readOnly: yes please"},
		{"emptyDir: {}", "emptyDir: []"}, {"path: /v2/health/live", "path:"}} {
		changed := strings.Replace(text, change[0], change[1], 1)
		var faults []string
		for _, d := range documents(t, []byte(changed)) {
			kind, _ := d["kind"].(string)
			faults = append(faults, s.faults(kind, kind, d)...)
		}
		if changed == text || len(faults) == 0 {
			t.Errorf("%q for %q is not found", change[1], change[0])
		}
	}
}
