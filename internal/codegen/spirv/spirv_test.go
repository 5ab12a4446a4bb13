package spirv

import (
	"encoding/binary"
	"encoding/json"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// pinned returns the paths of a file of the packages of cmeel, in the environment of the Python that WEIR_PYTHON names,
// or of make's.
func pinned(name string) []string {
	bin := "../../../.venv/bin"
	if python := os.Getenv("WEIR_PYTHON"); python != "" {
		bin = filepath.Dir(python)
	}
	files, _ := filepath.Glob(filepath.Join(bin, "../lib/python*/site-packages/cmeel.prefix", name))
	return files
}

// tool runs one of Khronos's tools: the system's, or the pinned packages' if the module has cooperative matrices, which
// the system's need not know. ok is false if the tool is not installed, which the log says.
func tool(t testing.TB, words []uint32, name string, args ...string) (output string, ok bool) {
	t.Helper()
	path, err := exec.LookPath(name)
	if files := pinned("bin/" + name); len(files) > 0 && (err != nil || opcodes(words)[opTypeCooperativeMatrix] > 0) {
		path, err = files[0], nil
	} else if opcodes(words)[opTypeCooperativeMatrix] > 0 {
		t.Logf("%s OF testdata/requirements.txt IS NOT INSTALLED: the checks of cooperative matrices are left out", name)
		return "", false
	}
	if err != nil {
		t.Logf("%s IS NOT INSTALLED: its checks are left out", name)
		return "", false
	}
	out, err := exec.Command(path, args...).CombinedOutput()
	if err != nil {
		t.Errorf("%s: %v\n%s", name, err, out)
	}
	return string(out), true
}

// bytesOf returns words as bytes, the lowest first.
func bytesOf(words []uint32) []byte {
	var data []byte
	for _, w := range words {
		data = binary.LittleEndian.AppendUint32(data, w)
	}
	return data
}

// validate checks a module with spirv-val, and compares it with the module that spirv-as makes of its text.
func validate(t testing.TB, words []uint32) {
	t.Helper()
	dir := t.TempDir()
	file, text, again := filepath.Join(dir, "m.spv"), filepath.Join(dir, "m.txt"), filepath.Join(dir, "again.spv")
	if err := os.WriteFile(file, bytesOf(words), 0o644); err != nil {
		t.Fatal(err)
	}
	tool(t, words, "spirv-val", "--target-env", "vulkan1.2", file)
	if err := os.WriteFile(text, []byte(Text(words)), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, ok := tool(t, words, "spirv-as", "--preserve-numeric-ids", "--target-env", "vulkan1.2", "-o", again,
		text); !ok || t.Failed() {
		return
	}
	got, err := os.ReadFile(again)
	if err != nil {
		t.Fatal(err)
	}
	if want := bytesOf(words); len(got) != len(want) || string(got[20:]) != string(want[20:]) {
		at := 20
		for at < min(len(got), len(want)) && got[at] == want[at] {
			at++
		}
		t.Errorf("the module that spirv-as makes of the text differs from word %d on: %v, not %v\n%s", at/4,
			words[at/4:min(at/4+8, len(words))], got[at&^3:min(at+32, len(got))], Text(words))
	}
}

// TestHostileText: Text prints random words without a panic, and ends with a newline.
func TestHostileText(t *testing.T) {
	r := rand.New(rand.NewSource(1))
	for range 2000 {
		words := make([]uint32, r.Intn(40))
		for i := range words {
			switch r.Intn(3) {
			case 0:
				words[i] = uint32(r.Intn(8)<<16 | r.Intn(400))
			case 1:
				words[i] = uint32(r.Intn(8))
			default:
				words[i] = r.Uint32()
			}
		}
		if text := Text(words); len(words) > 0 && !strings.HasSuffix(text, "\n") {
			t.Fatalf("the text of %v is %q", words, text)
		}
	}
}

// TestGrammar compares the table of instructions with Khronos's grammar, if it is installed.
func TestGrammar(t *testing.T) {
	const name = "include/spirv/unified1/spirv.core.grammar.json"
	files := pinned(name)
	newest := len(files) > 0
	data, err := os.ReadFile(append(files, "/usr/"+name)[0])
	if err != nil {
		t.Skipf("THE GRAMMAR IS NOT INSTALLED (testdata/requirements.txt, or Debian's spirv-headers): "+
			"the table is not compared with it: %v", err)
	}
	var grammar struct {
		Instructions []struct {
			Opname   string
			Opcode   uint16
			Operands []struct{ Kind, Quantifier string }
		}
	}
	if err := json.Unmarshal(data, &grammar); err != nil {
		t.Fatal(err)
	}
	found := map[uint16]bool{} // the grammar may have a number twice
	for _, i := range grammar.Instructions {
		l, ok := layouts[opcode(i.Opcode)]
		if !ok {
			continue
		}
		found[i.Opcode] = true
		if i.Opcode == uint16(opTypeFloat) && !newest {
			continue // an older grammar has no encodings
		}
		if l.name != i.Opname && l.name+"KHR" != i.Opname {
			t.Errorf("instruction %d is %s, not %s", i.Opcode, i.Opname, l.name)
		}
		if have := strings.Count(l.operands, "<") + len(strings.Map(func(c rune) rune {
			if strings.ContainsRune("trincsx", c) {
				return c
			}
			return -1
		}, stripKinds(l.operands))); have != len(i.Operands) {
			t.Errorf("%s has %d operands, not %d", l.name, len(i.Operands), have)
		}
	}
	for op, l := range layouts {
		if !found[uint16(op)] && (newest || !strings.Contains(l.name, "CooperativeMatrix")) {
			t.Errorf("%s is not in the grammar", l.name)
		}
	}
}

// stripKinds returns a layout's operands without enumerants.
func stripKinds(s string) string {
	for {
		begin := strings.IndexByte(s, '<')
		if begin < 0 {
			return s
		}
		s = s[:begin] + s[begin+strings.IndexByte(s[begin:], '>')+1:]
	}
}
