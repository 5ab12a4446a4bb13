package mem

import (
	"errors"
	"os"
	"unsafe"

	"golang.org/x/sys/windows"
)

const outsideHeap = true

var protections = [...]uint32{noAccess: windows.PAGE_NOACCESS, readOnly: windows.PAGE_READONLY,
	readWrite: windows.PAGE_READWRITE, readExecute: windows.PAGE_EXECUTE_READ}

// view makes the slice of memory that the system handed out at an address.
func view(address uintptr, bytes int) []byte {
	return unsafe.Slice(*(**byte)(unsafe.Pointer(&address)), bytes)
}

// address returns the address of the pages.
func address(pages []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(pages))) }

// mapPages reserves the pages and a guard page at both ends, then commits the pages between.
func mapPages(bytes int, name string) (mapping, error) {
	payload, guard := int(roundUp(int64(bytes))), int(pageSize)
	base, err := windows.VirtualAlloc(0, uintptr(payload+2*guard), windows.MEM_RESERVE, windows.PAGE_NOACCESS)
	if err != nil {
		return mapping{}, err
	}
	reserved := view(base, payload+2*guard)
	m := mapping{pages: reserved[guard : guard+payload : guard+payload], reserved: reserved}
	if _, err := windows.VirtualAlloc(address(m.pages), uintptr(payload), windows.MEM_COMMIT,
		windows.PAGE_READWRITE); err != nil {
		return mapping{}, errors.Join(err, m.release())
	}
	return m, nil
}

// tooMany reports whether the system has no room for another open file.
func tooMany(err error) bool {
	return errors.Is(err, windows.ERROR_TOO_MANY_OPEN_FILES) || errors.Is(err, windows.ERROR_NOT_ENOUGH_MEMORY)
}

// mapFile maps a regular file's bytes, read-only or writable. The view keeps the mapping alive after its handle is
// closed; Windows refuses to cut a file short while it is mapped.
func mapFile(f *os.File, bytes int, writable bool) (mapping, error) {
	pages, access := uint32(windows.PAGE_READONLY), uint32(windows.FILE_MAP_READ)
	if writable {
		pages, access = windows.PAGE_READWRITE, windows.FILE_MAP_READ|windows.FILE_MAP_WRITE
	}
	connection, err := f.SyscallConn()
	if err != nil {
		return mapping{}, err
	}
	var base uintptr
	var mapError error
	err = connection.Control(func(fd uintptr) {
		var handle windows.Handle
		size := uint64(bytes)
		handle, mapError = windows.CreateFileMapping(windows.Handle(fd), nil, pages, uint32(size>>32), uint32(size), nil)
		if mapError != nil {
			return
		}
		base, mapError = windows.MapViewOfFile(handle, access, 0, 0, uintptr(bytes))
		_ = windows.CloseHandle(handle)
	})
	if err == nil {
		err = mapError
	}
	if err != nil {
		return mapping{}, err
	}
	data := view(base, int(roundUp(int64(bytes))))
	return mapping{pages: data, reserved: data, file: true}, nil
}

// release gives the addresses back.
func (m mapping) release() error {
	if m.file {
		return windows.UnmapViewOfFile(address(m.reserved))
	}
	return windows.VirtualFree(address(m.reserved), 0, windows.MEM_RELEASE)
}

// protect changes the access that the pages allow.
func (m mapping) protect(a access) error {
	var before uint32
	return windows.VirtualProtect(address(m.pages), uintptr(len(m.pages)), protections[a], &before)
}

// drop does nothing: Windows takes the pages of a file back by itself, and has no call that leaves the view in place.
func (m mapping) drop(first, last int) {}

// retire gives the pages back and leaves their addresses reserved and inaccessible.
func (m mapping) retire() error {
	return windows.VirtualFree(address(m.pages), uintptr(len(m.pages)), windows.MEM_DECOMMIT)
}
