package torch

import "strings"

// outOverloads maps overloads that have arguments for their results to their operators, if the names do not tell, and
// those arguments in the order of the results.
var outOverloads = map[string]struct {
	op   string
	into []string
}{
	"aten.mean.out": {"aten.mean.dim", []string{"out"}}, "aten.sum.IntList_out": {"aten.sum.dim_IntList", []string{"out"}},
	"aten.any.out": {"aten.any.dim", []string{"out"}}, "aten.all.out": {"aten.all.dim", []string{"out"}},
	"aten.any.all_out": {"aten.any.default", []string{"out"}}, "aten.all.all_out": {"aten.all.default", []string{"out"}},
	"aten.max.out": {"aten.maximum.default", []string{"out"}}, "aten.min.out": {"aten.minimum.default", []string{"out"}},
	"aten.max.unary_out": {"aten.max.default", []string{"out"}},
	"aten.min.unary_out": {"aten.min.default", []string{"out"}},
	"aten.max.dim_max":   {"aten.max.dim", []string{"max", "max_values"}},
	"aten.min.dim_min":   {"aten.min.dim", []string{"min", "min_indices"}},
	"aten.prod.int_out":  {"aten.prod.dim_int", []string{"out"}}, "aten.var.out": {"aten.var.dim", []string{"out"}},
	"aten.arange.start_out":   {"aten.arange.start_step", []string{"out"}},
	"aten.div.out_mode":       {"aten.div.Tensor_mode", []string{"out"}},
	"aten.sort.values":        {"aten.sort.default", []string{"values", "indices"}},
	"aten.topk.values":        {"aten.topk.default", []string{"values", "indices"}},
	"aten.sort.values_stable": {"aten.sort.stable", []string{"values", "indices"}},
	"aten.view_copy.out":      {"aten.view_copy.default", []string{"out"}},
}

// writing returns the operator whose results a node writes to its arguments, and these arguments; "" if it writes to
// none. Operators in place are named as the others, with an underscore after the name; an overload with an argument for
// its result is named out or ends in _out.
func writing(name string) (op string, into []string) {
	if o, ok := outOverloads[name]; ok {
		return o.op, o.into
	}
	if op := inPlaceDraws(name); op != "" {
		return op, []string{"self"}
	}
	packet, overload, ok := strings.Cut(strings.TrimPrefix(name, "aten."), ".")
	if !ok || !strings.HasPrefix(name, "aten.") {
		return "", nil
	}
	if short := strings.TrimSuffix(packet, "_"); short != packet && !strings.HasSuffix(short, "_") {
		return "aten." + short + "." + overload, []string{"self"}
	}
	switch short, is := strings.CutSuffix(overload, "_out"); {
	case is:
		return "aten." + packet + "." + short, []string{"out"}
	case overload != "out":
		return "", nil
	case rules["aten."+packet+".default"] == nil && rules["aten."+packet+".Tensor"] != nil:
		return "aten." + packet + ".Tensor", []string{"out"}
	}
	return "aten." + packet + ".default", []string{"out"}
}
