package mem

// Process is the system's own count of the whole process, in bytes: Go's heap, stacks, code and all mappings.
type Process struct {
	Resident int64 // in memory now; 0 if the system does not tell
	Peak     int64 // the greatest Resident since the start or the last ResetProcessPeak
	// Anonymous is the bytes of Resident that are not backed by a file, including pages of a tmpfs; 0 if the system does
	// not tell.
	Anonymous int64
}
