package command

import (
	"fmt"
	"os"
)

// stdout is the standard output of the command, which ends with an error if a write fails.
var stdout printer

// printer writes to standard output, and keeps the first error.
type printer struct{ err error }

// Write implements io.Writer.
func (p *printer) Write(data []byte) (int, error) {
	n, err := os.Stdout.Write(data)
	if p.err == nil {
		p.err = err
	}
	return n, err
}

// Print writes values as fmt.Print does.
func (p *printer) Print(args ...any) { fmt.Fprint(p, args...) }

// Printf writes values as fmt.Printf does.
func (p *printer) Printf(format string, args ...any) { fmt.Fprintf(p, format, args...) }

// Println writes values as fmt.Println does.
func (p *printer) Println(args ...any) { fmt.Fprintln(p, args...) }
