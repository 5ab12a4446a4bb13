package target

import (
	"os"
	"path/filepath"
	"testing"
)

// TestCaches: sizes are read from the files in which Linux describes caches; malformed files change nothing.
func TestCaches(t *testing.T) {
	folder := t.TempDir()
	for index, files := range map[string]map[string]string{
		"index0": {"level": "1\n", "type": "Data\n", "size": "64K\n"},
		"index1": {"level": "1\n", "type": "Instruction\n", "size": "128K\n"},
		"index2": {"level": "2\n", "type": "Unified\n", "size": "2M\n"},
		"index3": {"level": "3\n", "type": "Unified\n", "size": "many\n"},
		"index4": {"level": "9\n", "type": "Unified\n", "size": "9M\n"},
		"index5": {"type": "Unified\n"},
	} {
		if err := os.Mkdir(filepath.Join(folder, index), 0o755); err != nil {
			t.Fatal(err)
		}
		for name, text := range files {
			if err := os.WriteFile(filepath.Join(folder, index, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	p := processor{Cache: anyCache}
	if p.readCaches(folder); p.Cache != [3]int64{64 << 10, 2 << 20, anyCache[2]} {
		t.Errorf("the caches are %d", p.Cache)
	}
	if p.readCaches(filepath.Join(folder, "none")); p.Cache[0] != 64<<10 {
		t.Errorf("without files the caches are %d", p.Cache)
	}
}

// TestPartName: the first processor's numbers give the name.
func TestPartName(t *testing.T) {
	for text, want := range map[string]string{
		"processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n\nCPU part\t: 0xd08\n": "Arm Neoverse N1",
		"CPU implementer\t: 0x41\nCPU part\t: 0xfff\n":                                      "",
		"model name\t: another\n":                                                           "",
		"":                                                                                  "",
	} {
		if have := partName(text); have != want {
			t.Errorf("%q: %q, want %q", text, have, want)
		}
	}
}
