package manifest

import (
	"fmt"
	"strconv"

	"go.yaml.in/yaml/v3"
)

// quoted is a text from data: it is written in quotes, whatever it is.
type quoted string

// key is a key with a comment above it.
type key struct{ name, comment string }

// noted returns a key with a comment above it.
func noted(name, comment string) key { return key{name, comment} }

// object returns a mapping of keys and values in turns. A key is a string or a key; for a value see value.
func object(pairs ...any) *yaml.Node {
	n := &yaml.Node{Kind: yaml.MappingNode}
	for i, x := range pairs {
		if k, ok := x.(key); ok && i%2 == 0 {
			n.Content = append(n.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: k.name, HeadComment: k.comment})
			continue
		}
		n.Content = append(n.Content, value(x))
	}
	return n
}

// list returns a sequence.
func list(values ...any) *yaml.Node {
	n := &yaml.Node{Kind: yaml.SequenceNode}
	for _, x := range values {
		n.Content = append(n.Content, value(x))
	}
	return n
}

// value returns a node for a text of this package, a quoted text, a number, a truth value or a node.
func value(x any) *yaml.Node {
	n := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str"}
	switch x := x.(type) {
	case *yaml.Node:
		return x
	case string:
		n.Value = x
	case quoted:
		n.Value, n.Style = string(x), yaml.DoubleQuotedStyle
	case int:
		n.Value, n.Tag = strconv.Itoa(x), "!!int"
	case bool:
		n.Value, n.Tag = strconv.FormatBool(x), "!!bool"
	default:
		panic(fmt.Sprintf("manifest: a value of type %T", x))
	}
	return n
}
