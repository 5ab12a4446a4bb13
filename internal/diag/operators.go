package diag

import (
	"slices"
	"strings"
)

// Operators are the operators of a model's nodes, by the nodes' names. An operator is "" if nodes of different
// operators have the same name.
type Operators map[string]string

// Add returns the operators with that of one more node. A node without a name or an operator adds nothing.
func (o Operators) Add(node, operator string) Operators {
	if node == "" || operator == "" {
		return o
	}
	if o == nil {
		o = Operators{}
	}
	if known, ok := o[node]; ok && known != operator {
		operator = ""
	}
	o[node] = operator
	return o
}

// Of returns the operators of nodes, each operator once, separated as the nodes are, by ", ". It returns "" if it does
// not know all of them.
func (o Operators) Of(nodes string) string {
	if operator, ok := o[nodes]; ok {
		return operator // a name may contain ", "
	}
	var list []string
	for _, node := range strings.Split(nodes, ", ") {
		operator := o[node]
		if operator == "" {
			return ""
		}
		if !slices.Contains(list, operator) {
			list = append(list, operator)
		}
	}
	return strings.Join(list, ", ")
}

// In returns the error with the operator of its node, if err is an Error that names a node only.
func (o Operators) In(err error) error {
	e, ok := err.(*Error)
	if !ok || e == nil || e.Node == "" || e.Op != "" {
		return err
	}
	c := *e
	c.Op = o.Of(e.Node)
	return &c
}
