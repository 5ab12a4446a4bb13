package cpu

// relax tells the processor that the code around the call waits in a loop.
func relax()
