package cpu

// relax waits some ten nanoseconds: a barrier on which the processor drops what it fetched. YIELD, which is meant for
// such loops, does nothing on most processors.
func relax()
