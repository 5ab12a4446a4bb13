package weir

// KernelChecks counts the checks in the code of a kernel.
type KernelChecks struct {
	Kernel string `json:"kernel"`
	Source string `json:"source"` // the model's nodes that it computes
	// Values counts checks that the model asks for, such as that an index of a Gather is in range.
	Values int `json:"values"`
	// Accesses counts checks of accesses to memory that are not proved to lie within their buffer for all dimensions.
	// An access outside the buffer is not done, and ends the run with an error.
	Accesses int `json:"accesses"`
}

// Checks lists the kernels whose code has checks, in the order of the program. All other accesses, and all accesses of
// the other kernels, are proved to lie within their buffers.
func (p *Program) Checks() []KernelChecks {
	var list []KernelChecks
	for _, k := range p.compiled.Loop.Kernels {
		if values, accesses := k.Checks(); values+accesses > 0 {
			list = append(list, KernelChecks{k.Name, k.Source, values, accesses})
		}
	}
	return list
}
