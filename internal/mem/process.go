package mem

// Process is the system's own count of the whole process, in bytes: Go's heap, stacks, code and all mappings.
type Process struct {
	Resident int64 // in memory now; 0 if the system does not tell
	Peak     int64 // the most there has been, since the start or the last ResetProcessPeak
	// Anonymous is what of Resident no file stands behind, the pages of a tmpfs among it; 0 if the system does not
	// tell.
	Anonymous int64
}
