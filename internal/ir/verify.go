package ir

import "github.com/weirml/weir/internal/diag"

// Verify checks that every value is produced once, and before it is used.
func Verify(m *Module) error {
	for _, f := range m.Funcs {
		if err := verifyBlock(f.Body, map[*Value]bool{}); err != nil {
			return err
		}
	}
	return nil
}

func verifyBlock(b *Block, outer map[*Value]bool) error {
	seen := make(map[*Value]bool, len(outer))
	for v := range outer {
		seen[v] = true
	}
	for _, v := range b.Params {
		seen[v] = true
	}
	for _, v := range b.Consts {
		seen[v] = true
	}
	for _, n := range b.Nodes {
		for _, v := range n.Inputs {
			if v != nil && !seen[v] {
				return diag.Inputf("%%%s is used before it is computed", v.Name).AtNode(n.Source, n.Op.Name())
			}
		}
		for _, r := range n.Regions {
			if err := verifyBlock(r, seen); err != nil {
				return err
			}
		}
		for _, v := range n.Outputs {
			if seen[v] {
				return diag.Inputf("%%%s is computed twice", v.Name).AtNode(n.Source, n.Op.Name())
			}
			seen[v] = true
		}
	}
	for _, v := range b.Results {
		if !seen[v] {
			return diag.Inputf("result %%%s is not computed", v.Name)
		}
	}
	return nil
}
