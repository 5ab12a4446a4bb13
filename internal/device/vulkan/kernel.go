//go:build ((linux && !android) || (darwin && !ios) || windows) && (amd64 || arm64)

package vulkan

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/weirml/weir/internal/device"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/target"
)

// kernel is a loaded kernel: its code, and a pipeline for each entry.
type kernel struct {
	device *Device
	code   target.Blocks
	*pipelines
}

// pipelines are the pipelines of a binary's entries. Kernels with the same binary share them, since drivers create them
// slowly.
type pipelines struct {
	key   [sha256.Size]byte
	list  []uint64
	users int
}

// spirvMark is the first word of SPIR-V.
const spirvMark = 0x07230203

// Load creates a kernel's pipelines.
func (d *Device) Load(code target.Blocks) (device.Kernel, error) {
	k, err := d.load(code)
	if err != nil {
		return nil, err
	}
	return k, nil
}

// load is Load for this package's type.
func (d *Device) load(code target.Blocks) (*kernel, error) {
	b := code.Binary()
	if len(b.Words) < 5 || b.Words[0] != spirvMark || len(b.Entries) == 0 {
		return nil, diag.Internalf("the code of kernel @%s is not SPIR-V", code.Name())
	}
	if d.gone.Load() {
		return nil, device.ErrLost
	}
	d.loading.Lock()
	defer d.loading.Unlock()
	key := keyOf(b)
	if made := d.made[key]; made != nil {
		made.users++
		return &kernel{d, code, made}, nil
	}
	made := &pipelines{key: key, users: 1}
	if err := d.makePipelines(made, code.Name(), b); err != nil {
		d.destroyPipelines(made)
		return nil, err
	}
	if d.made == nil {
		d.made = map[[sha256.Size]byte]*pipelines{}
	}
	d.made[key] = made
	return &kernel{d, code, made}, nil
}

// keyOf returns a hash of a binary.
func keyOf(b *target.Binary) (key [sha256.Size]byte) {
	h := sha256.New()
	_ = binary.Write(h, binary.LittleEndian, b.Words)
	for _, e := range b.Entries {
		fmt.Fprintf(h, "%q %d %d %d", e.Name, e.Threads, e.Shared, e.Subgroup)
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// makePipelines creates a pipeline for each entry point of a kernel's code.
func (d *Device) makePipelines(made *pipelines, name string, code *target.Binary) error {
	limits := d.physical.info.Machine.Limits
	var p pins
	defer p.Unpin()
	info := shaderModuleCreateInfo{head: head{kind: kindShaderModule}, size: uintptr(4 * len(code.Words)),
		code: list(&p, code.Words)}
	var module uint64
	if err := d.call("vkCreateShaderModule", d.handle, at(&p, &info), 0, at(&p, &module)); err != nil {
		return err
	}
	defer d.destroy("vkDestroyShaderModule", module)
	for _, e := range code.Entries {
		if e.Shared > limits.Shared || e.Threads > limits.Invocations || e.Threads < 1 {
			return diag.Internalf("kernel @%s needs %d bytes of shared memory and %d threads of a block, and %s has %d and %d",
				name, e.Shared, e.Threads, d.Name(), limits.Shared, limits.Invocations)
		}
		stage := stageCreateInfo{head: head{kind: kindStage}, stage: stageCompute, module: module,
			name: pinString(&p, e.Name)}
		if e.Subgroup > 0 {
			if e.Subgroup != limits.Subgroup || e.Threads%e.Subgroup != 0 {
				return diag.Internalf("kernel @%s has %d threads in subgroups of %d, and %s has %d", name, e.Threads, e.Subgroup,
					d.Name(), limits.Subgroup)
			}
			asked := subgroupInfo{head: head{kind: kindSubgroupAsked}, threads: uint32(e.Subgroup)}
			stage.flags, stage.next = fullSubgroups, at(&p, &asked)
		}
		info := pipelineCreateInfo{head: head{kind: kindPipeline}, stage: stage, layout: d.layout, baseIndex: -1}
		var pipeline uint64
		if err := d.call("vkCreateComputePipelines", d.handle, uintptr(d.cache), 1, at(&p, &info), 0,
			at(&p, &pipeline)); err != nil {
			return err
		}
		made.list = append(made.list, pipeline)
	}
	return nil
}

// destroyPipelines destroys all of the pipelines.
func (d *Device) destroyPipelines(made *pipelines) {
	for _, p := range made.list {
		d.destroy("vkDestroyPipeline", p)
	}
	made.list = nil
}

// Close destroys the pipelines if no other kernel uses them.
func (k *kernel) Close() error {
	d := k.device
	d.loading.Lock()
	defer d.loading.Unlock()
	made := k.pipelines
	if made == nil {
		return nil
	}
	k.pipelines = nil
	if made.users--; made.users == 0 {
		delete(d.made, made.key)
		d.destroyPipelines(made)
	}
	return nil
}

// cacheName returns the path of the file of pipelines, which is specific to the driver and the device.
func (d *Device) cacheName() string {
	return filepath.Join(d.folder, fmt.Sprintf("vulkan-%08x-%08x-%x.pipelines", d.physical.vendor, d.physical.product,
		d.physical.uuid))
}

const (
	cacheMark = "weirvk 1"      // a file of pipelines begins with it
	cacheHead = 8 + sha256.Size // bytes of the mark and of the hash of the data, which come from Vulkan
	mostCache = 256 << 20       // the most bytes of data
)

// openCache creates the cache of pipelines from the file, or an empty one.
func (d *Device) openCache() error {
	var p pins
	defer p.Unpin()
	data := d.readCache()
	info := pipelineCacheCreateInfo{head: head{kind: kindPipelineCache}, size: uintptr(len(data)), data: list(&p, data)}
	return d.call("vkCreatePipelineCache", d.handle, at(&p, &info), 0, at(&p, &d.cache))
}

// readCache returns the data of the file of pipelines; nil if there is no file, or if it is damaged or another
// driver's, since drivers do not check the data.
func (d *Device) readCache() []byte {
	if d.folder == "" {
		return nil
	}
	if s, err := os.Stat(d.cacheName()); err != nil || !s.Mode().IsRegular() || s.Size() > mostCache+cacheHead {
		return nil
	}
	file, err := os.ReadFile(d.cacheName())
	if err != nil || len(file) < cacheHead || string(file[:8]) != cacheMark {
		return nil
	}
	data := file[cacheHead:]
	if sum := sha256.Sum256(data); !bytes.Equal(sum[:], file[8:cacheHead]) || !d.ours(data) {
		return nil
	}
	return data
}

// ours reports whether data begins with the header that Vulkan specifies, for this driver and device.
func (d *Device) ours(data []byte) bool {
	const header = 32
	return len(data) >= header && binary.NativeEndian.Uint32(data) == header &&
		binary.NativeEndian.Uint32(data[4:]) == 1 &&
		binary.NativeEndian.Uint32(data[8:]) == d.physical.vendor &&
		binary.NativeEndian.Uint32(data[12:]) == d.physical.product && bytes.Equal(data[16:32], d.physical.uuid[:])
}

// closeCache writes the cache to its file, and destroys it.
func (d *Device) closeCache() error {
	if d.cache == 0 {
		return nil
	}
	defer func() {
		d.destroy("vkDestroyPipelineCache", d.cache)
		d.cache = 0
	}()
	if d.folder == "" || d.gone.Load() {
		return nil
	}
	var p pins
	defer p.Unpin()
	var size uintptr
	if err := d.call("vkGetPipelineCacheData", d.handle, uintptr(d.cache), at(&p, &size), 0); err != nil || size == 0 ||
		size > mostCache {
		return err
	}
	data := make([]byte, size)
	if err := d.call("vkGetPipelineCacheData", d.handle, uintptr(d.cache), at(&p, &size), list(&p, data)); err != nil {
		return err
	}
	d.writeCache(data[:min(int(size), len(data))])
	return nil
}

// writeCache writes the file of pipelines, atomically by renaming. It ignores errors: the file is optional.
func (d *Device) writeCache(data []byte) {
	if !d.ours(data) {
		return
	}
	sum := sha256.Sum256(data)
	f, err := os.CreateTemp(d.folder, ".pipelines-*")
	if err != nil {
		return
	}
	_, err = f.Write(slices.Concat([]byte(cacheMark), sum[:], data))
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(f.Name(), d.cacheName())
	}
	if err != nil {
		os.Remove(f.Name())
	}
}
