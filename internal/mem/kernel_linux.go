package mem

import (
	"bufio"
	"bytes"
	"os"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The kernel's two lists of mappings: the first is cheap; for the second, the kernel walks through all pages.
const (
	mappingList  = "/proc/self/maps"
	residentList = "/proc/self/smaps"
)

// KernelSize returns the size of the mappings that make up the given blocks by the kernel's own list. A mapping that
// touches a block is counted in full: guard pages keep it from holding anything else, so one that is larger than the
// ledger says would show. ok is false if the kernel does not tell. Closed and empty blocks count nothing.
func KernelSize(blocks ...*Block) (bytes int64, ok bool) {
	e, ok := kernelExtent(mappingList, blocks)
	return e.Size, ok
}

// KernelBytes is KernelSize with the resident pages. It takes long in a process that has much memory.
func KernelBytes(blocks ...*Block) (e Extent, ok bool) { return kernelExtent(residentList, blocks) }

// kernelExtent adds up the mappings in a list that touch the blocks.
func kernelExtent(list string, blocks []*Block) (e Extent, ok bool) {
	err := eachMapping(list, func(m *kernelMapping) {
		for _, b := range blocks {
			first := uint64(uintptr(b.Pointer()))
			if first != 0 && m.first < first+uint64(b.mapped) && first < m.end {
				e.Size += int64(m.end - m.first)
				e.Resident += m.resident
				return
			}
		}
	})
	return e, err == nil
}

// KernelNamed returns, by kind, the kernel's count of every mapping of the process that carries one of our names,
// whether or not the ledger knows it. File mappings carry none. ok is false if the kernel does not keep names.
func KernelNamed() (kinds [Kinds]Extent, ok bool) {
	if !namesWork {
		return kinds, false
	}
	err := eachMapping(residentList, func(m *kernelMapping) {
		rest, ok := strings.CutPrefix(m.name, "[anon:"+namePrefix)
		if !ok {
			return
		}
		kind, _, _ := strings.Cut(rest, ":")
		for k, n := range kindNames {
			if n == kind {
				kinds[k].Size += int64(m.end - m.first)
				kinds[k].Resident += m.resident
			}
		}
	})
	return kinds, err == nil
}

// kernelMapping is one entry of a list of mappings.
type kernelMapping struct {
	first, end uint64
	name       string
	resident   int64 // 0 in mappingList
}

// eachMapping calls visit for every mapping of the process.
func eachMapping(list string, visit func(*kernelMapping)) error {
	f, err := os.Open(list)
	if err != nil {
		return err
	}
	defer f.Close()
	var now *kernelMapping
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		field, rest, _ := bytes.Cut(lines.Bytes(), []byte(" "))
		if !bytes.HasSuffix(field, []byte(":")) { // first-end perms offset device inode name
			if now != nil {
				visit(now)
			}
			first, end, _ := strings.Cut(string(field), "-")
			now = &kernelMapping{}
			if now.first, err = strconv.ParseUint(first, 16, 64); err != nil {
				return err
			}
			if now.end, err = strconv.ParseUint(end, 16, 64); err != nil {
				return err
			}
			if columns := strings.Fields(string(rest)); len(columns) > 4 {
				now.name = strings.Join(columns[4:], " ")
			}
			continue
		}
		if string(field) == "Rss:" {
			if now.resident, err = kilobytes(rest); err != nil {
				return err
			}
		}
	}
	if now != nil {
		visit(now)
	}
	return lines.Err()
}

// kilobytes reads "   12 kB" as bytes.
func kilobytes(field []byte) (int64, error) {
	number := strings.TrimSpace(strings.TrimSuffix(string(bytes.TrimSpace(field)), "kB"))
	n, err := strconv.ParseInt(number, 10, 64)
	return n << 10, err
}

// namesWork reports whether the kernel keeps names of anonymous mappings, tried once on a page of our own.
var namesWork = func() bool {
	page, err := unix.Mmap(-1, 0, int(pageSize), unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return false
	}
	defer unix.Munmap(page)
	return setName(page, "weir-probe") == nil
}()

// setName gives a mapping the name that /proc/self/smaps shows as [anon:NAME].
func setName(pages []byte, name string) error {
	text, err := unix.BytePtrFromString(name)
	if err != nil {
		return err
	}
	_, _, errno := unix.Syscall6(unix.SYS_PRCTL, unix.PR_SET_VMA, unix.PR_SET_VMA_ANON_NAME,
		uintptr(unsafe.Pointer(unsafe.SliceData(pages))), uintptr(len(pages)), uintptr(unsafe.Pointer(text)), 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// nameMapping names a mapping if the kernel can. Names only help readers, so a refusal is no error.
func nameMapping(pages []byte, name string) {
	if namesWork {
		_ = setName(pages, name)
	}
}
