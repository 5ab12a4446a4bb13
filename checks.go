package weir

// KernelChecks counts the checks in the code of a kernel.
type KernelChecks struct {
	Kernel string `json:"kernel"`
	Source string `json:"source"` // the model's nodes that it computes
	// Values are checks that the model asks for, such as that an index of a Gather is in range.
	Values int `json:"values"`
	// Accesses are checks of accesses to memory that are not proved to lie within their buffer for all dimensions: what
	// would lie outside is not touched, and ends the run with an error.
	Accesses int `json:"accesses"`
}

// Checks lists the kernels whose code has checks, in the order of the program. No access of the others, nor any that is
// not counted, needs one: all of them are proved.
func (p *Program) Checks() []KernelChecks {
	var list []KernelChecks
	for _, k := range p.compiled.Loop.Kernels {
		if values, accesses := k.Checks(); values+accesses > 0 {
			list = append(list, KernelChecks{k.Name, k.Source, values, accesses})
		}
	}
	return list
}
