package documents

import (
	"archive/zip"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/weirml/weir/internal/lint"
)

// The limits of an installation, in bytes.
const (
	maxModuleZip = 19 << 19
	maxCommand   = 29 << 20
)

// TestInstall packs the module as a proxy serves it, installs the command from it with only the modules that are
// already on this machine, and runs its demo.
func TestInstall(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the command anew, which takes long; -short")
	}
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("the go command is not here")
	}
	const version = "v0.0.1"
	proxy := t.TempDir()
	folder := filepath.Join(proxy, filepath.FromSlash(lint.Module), "@v")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	size := packModule(t, filepath.Join(folder, version+".zip"), lint.Module+"@"+version+"/")
	t.Logf("the module's zip has %d bytes", size)
	if size > maxModuleZip {
		t.Errorf("the module's zip has %d bytes, the limit is %d", size, maxModuleZip)
	}
	info, err := json.Marshal(map[string]any{"Version": version, "Time": time.Unix(0, 0).UTC()})
	if err != nil {
		t.Fatal(err)
	}
	mod, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{"list": []byte(version + "\n"), version + ".info": info,
		version + ".mod": mod} {
		if err := os.WriteFile(filepath.Join(folder, name), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	cache, err := exec.Command("go", "env", "GOMODCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	downloads := filepath.Join(strings.TrimSpace(string(cache)), "cache", "download")
	bin, modules := t.TempDir(), t.TempDir()
	// Without the folder's path in them, packages are built once and then found in the cache: the path differs each
	// time.
	install := exec.Command("go", "install", "-modcacherw", "-trimpath", "-ldflags=-s -w",
		lint.Module+"/cmd/weir@"+version)
	install.Dir = bin
	install.Env = append(os.Environ(), "GOBIN="+bin, "GOMODCACHE="+modules,
		"GOPROXY="+fileURL(proxy)+","+fileURL(downloads),
		"GOSUMDB=off", "GOFLAGS=", "GOWORK=off", "CGO_ENABLED=0", "GOTOOLCHAIN=local")
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", install.Args, err, out)
	}
	command := filepath.Join(bin, "weir")
	if runtime.GOOS == "windows" {
		command += ".exe"
	}
	stat, err := os.Stat(command)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("the stripped command has %d bytes", stat.Size())
	if stat.Size() > maxCommand {
		t.Errorf("the stripped command has %d bytes, the limit is %d", stat.Size(), maxCommand)
	}
	demo := exec.Command(command, "demo")
	demo.Dir = t.TempDir()
	if out, err := demo.CombinedOutput(); err != nil || len(out) == 0 {
		t.Errorf("weir demo: %v\n%s", err, out)
	}
}

// fileURL returns the URL of a folder.
func fileURL(folder string) string {
	folder = filepath.ToSlash(folder)
	if !strings.HasPrefix(folder, "/") {
		folder = "/" + folder
	}
	return "file://" + folder
}

// packModule writes the module's zip, which has all files except those of other modules, and returns its size.
func packModule(t *testing.T, name, prefix string) int64 {
	t.Helper()
	file, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	archive := zip.NewWriter(file)
	err = lint.Files(".", func(source string) error {
		in, err := os.Open(source)
		if err != nil {
			return err
		}
		defer in.Close()
		out, err := archive.Create(prefix + source)
		if err != nil {
			return err
		}
		_, err = io.Copy(out, in)
		return err
	})
	if err == nil {
		err = archive.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	stat, err := file.Stat()
	if err != nil {
		t.Fatal(err)
	}
	return stat.Size()
}
