package amd64

func init() { strict = true }
