package cpu

// relax tells the processor that the code around it waits in a loop.
func relax()
