package offline

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/tensor"
	"github.com/weirml/weir/internal/tensor/npy"
)

// Element is one element of a source: a file, a line of JSON or of text, or a row of arrays.
type Element struct {
	Index int64
	Name  string // of the file, relative to its folder; "" of others

	// Arrays are one row of each array, whose first axis is 1, by the array's name; nil if the element is no row.
	Arrays map[string]*tensor.Tensor
	// Err is the reason why an element has no values: it fails.
	Err error

	path  string  // of a file
	query string  // settings of a picture
	line  []byte  // JSON
	text  *string // a line that is a text
}

// Source is a list of elements that can be read again.
type Source interface {
	// Elements yields the elements that are wanted, in their order, and passes over the others. A worker reads the arrays
	// that inputs names; a source may leave others out.
	Elements(inputs []string, wanted func(index int64) bool) iter.Seq2[Element, error]
	// Len returns the number of elements; −1 if only reading tells it.
	Len() int64
	// Digest returns what differs if the elements differ.
	Digest() string
}

// Readers open files of other formats, whose rows are elements, by the ending of their names, such as .parquet. Several
// files are one source, in this order.
type Readers map[string]func(names []string) (Source, error)

// Open opens what a user names: a folder or a pattern of files, each of which is an element; a .jsonl or .txt file,
// whose lines are elements; or an .npy or .npz file, or files that readers open, whose rows are. What follows a ? are
// settings of pictures, as in DIR/*.png?scale=1/255.
func Open(inputs string, readers Readers) (Source, error) {
	name, query := inputs, ""
	if at := strings.LastIndexByte(inputs, '?'); at >= 0 && strings.Contains(inputs[at:], "=") {
		name, query = inputs[:at], inputs[at+1:]
	}
	info, err := os.Stat(name)
	if err != nil {
		list, wrong := filepath.Glob(name)
		if wrong != nil || len(list) == 0 {
			return nil, diag.Inputf("no file has this name or fits this pattern").AtFile(name).
				WithFix("inputs are a folder, a pattern such as DIR/*.png, or a .jsonl, .txt, .npy or .npz file")
		}
		folder := filepath.Dir(name)
		for strings.ContainsAny(folder, `*?[`) {
			folder = filepath.Dir(folder)
		}
		return openList(folder, list, query, readers)
	}
	if info.IsDir() {
		list, err := under(name)
		if err != nil {
			return nil, err
		}
		return openList(name, list, query, readers)
	}
	switch ext := strings.ToLower(filepath.Ext(name)); ext {
	case ".jsonl", ".ndjson", ".txt":
		return newLines(name, ext == ".txt")
	case ".npy", ".npz":
		return newArrays(name)
	}
	return openList(filepath.Dir(name), []string{name}, query, readers)
}

// openList opens files of a folder: their rows, if a reader opens all of them, else the files as elements. Files whose
// names begin with _, such as Spark's _SUCCESS, do not count among rows.
func openList(folder string, list []string, query string, readers Readers) (Source, error) {
	var data []string
	ending := ""
	for _, name := range list {
		if strings.HasPrefix(filepath.Base(name), "_") {
			continue
		}
		own := strings.ToLower(filepath.Ext(name))
		if data = append(data, name); ending != "" && own != ending {
			return newFiles(folder, list, query), nil
		}
		ending = own
	}
	if open := readers[ending]; open != nil {
		return open(data)
	}
	if ending == ".parquet" {
		return nil, diag.Unsupportedf("Parquet files, in this command").AtFile(data[0]).WithFix("weir-parquet is the same " +
			"command with them: go install github.com/weirml/weir/parquet/cmd/weir-parquet@latest")
	}
	return newFiles(folder, list, query), nil
}

// under returns the files below a folder, without those whose names begin with a point, in the order of their names.
func under(folder string) (list []string, err error) {
	err = filepath.WalkDir(folder, func(name string, d fs.DirEntry, err error) error {
		switch hidden := name != folder && strings.HasPrefix(d.Name(), "."); {
		case err != nil:
			return err
		case hidden && d.IsDir():
			return filepath.SkipDir
		case !hidden && !d.IsDir():
			list = append(list, name)
		}
		return nil
	})
	if err != nil {
		return nil, diag.Inputf("%v", err).AtFile(folder).WithCause(err)
	}
	if len(list) == 0 {
		return nil, diag.Inputf("the folder has no files").AtFile(folder)
	}
	return list, nil
}

// files are the elements of a folder or a pattern.
type files struct {
	folder string
	list   []string
	query  string
	digest string
}

func newFiles(folder string, list []string, query string) *files {
	f := &files{folder: folder, query: query}
	h := sha256.New()
	for _, name := range list {
		size := int64(-1) // of a broken link, which is an element that fails
		if info, err := os.Stat(name); err == nil {
			if info.IsDir() { // of a pattern
				continue
			}
			size = info.Size()
		}
		f.list = append(f.list, name)
		fmt.Fprintf(h, "%q %d\n", f.relative(name), size)
	}
	fmt.Fprintf(h, "%q", query)
	f.digest = hex.EncodeToString(h.Sum(nil))
	return f
}

// relative returns a file's name in the folder.
func (f *files) relative(name string) string {
	if short, err := filepath.Rel(f.folder, name); err == nil {
		name = short
	}
	return filepath.ToSlash(name)
}

func (f *files) Len() int64     { return int64(len(f.list)) }
func (f *files) Digest() string { return f.digest }

func (f *files) element(i int) Element {
	return Element{Index: int64(i), Name: f.relative(f.list[i]), path: f.list[i], query: f.query}
}

func (f *files) Elements(_ []string, wanted func(int64) bool) iter.Seq2[Element, error] {
	return func(yield func(Element, error) bool) {
		for i := range f.list {
			if wanted(int64(i)) && !yield(f.element(i), nil) {
				return
			}
		}
	}
}

// lines are the lines of a file. Empty lines of JSON are no elements.
type lines struct {
	name   string
	texts  bool
	digest string
}

func newLines(name string, texts bool) (l *lines, err error) {
	l = &lines{name: name, texts: texts}
	l.digest, err = Digest(name)
	return l, err
}

func (l *lines) Len() int64     { return -1 }
func (l *lines) Digest() string { return l.digest }

// longestLine is the most bytes of a line.
const longestLine = 256 << 20

func (l *lines) Elements(_ []string, wanted func(int64) bool) iter.Seq2[Element, error] {
	return func(yield func(Element, error) bool) {
		file, err := mem.Open(l.name)
		if err != nil {
			yield(Element{}, err)
			return
		}
		defer file.Close()
		from := bufio.NewReaderSize(file, 1<<16)
		for i, at := int64(0), 1; ; at++ {
			line, err := readLine(from)
			if err != nil {
				if !errors.Is(err, io.EOF) {
					yield(Element{}, diag.Inputf("line %d: %w", at, err).AtFile(l.name))
				}
				return
			}
			if !l.texts && len(strings.TrimSpace(string(line))) == 0 {
				continue
			}
			if wanted(i) {
				e := Element{Index: i, line: line}
				if l.texts {
					text := string(line)
					e.line, e.text = nil, &text
				}
				if !yield(e, nil) {
					return
				}
			}
			i++
		}
	}
}

// readLine reads a line, without its end, in memory of its own; io.EOF after the last.
func readLine(from *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := from.ReadSlice('\n')
		if line = append(line, part...); len(line) > longestLine {
			return nil, fmt.Errorf("it has more than %d bytes", longestLine)
		}
		switch {
		case err == nil || errors.Is(err, io.EOF) && len(line) > 0:
			line = []byte(strings.TrimSuffix(strings.TrimSuffix(string(line), "\n"), "\r"))
			return line, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
	}
}

// arrays are the rows of a .npy or .npz file.
type arrays struct {
	name   string
	rows   int64
	digest string
}

func newArrays(name string) (a *arrays, err error) {
	a = &arrays{name: name, rows: -1}
	if a.digest, err = Digest(name); err != nil {
		return nil, err
	}
	readers, done, err := a.open()
	if err != nil {
		return nil, diag.As(err, diag.ErrInput).AtFile(name)
	}
	defer done()
	for _, array := range slices.Sorted(maps.Keys(readers)) {
		if readers[array].Empty() {
			return nil, diag.Inputf("its rows have no elements").AtTensor(array).AtFile(name)
		}
		if n := readers[array].Len(); a.rows >= 0 && n != a.rows {
			return nil, diag.Inputf("it has %d rows, other arrays %d", n, a.rows).AtTensor(array).AtFile(name)
		}
		a.rows = readers[array].Len()
	}
	if a.rows < 0 {
		return nil, diag.Inputf("the archive has no arrays").AtFile(name)
	}
	return a, nil
}

func (a *arrays) Len() int64     { return a.rows }
func (a *arrays) Digest() string { return a.digest }

// open opens the arrays, each at its first row. The array of a .npy file has the name "".
func (a *arrays) open() (rows map[string]*npy.Rows, done func(), err error) {
	file, err := mem.Open(a.name)
	if err != nil {
		return nil, nil, err
	}
	closers := []io.Closer{file}
	end := func() {
		for _, c := range closers {
			c.Close()
		}
	}
	defer func() {
		if err != nil {
			end()
		}
	}()
	rows = map[string]*npy.Rows{}
	if strings.EqualFold(filepath.Ext(a.name), ".npy") {
		rows[""], err = npy.NewRows(file)
		return rows, end, err
	}
	info, err := file.Stat()
	if err != nil {
		return nil, nil, err
	}
	archive, err := npy.Open(file, info.Size())
	if err != nil {
		return nil, nil, err
	}
	for _, name := range archive.Names() {
		array, member, err := archive.Rows(name)
		if err != nil {
			return nil, nil, err
		}
		rows[name], closers = array, append(closers, member)
	}
	return rows, end, nil
}

func (a *arrays) Elements(_ []string, wanted func(int64) bool) iter.Seq2[Element, error] {
	return func(yield func(Element, error) bool) {
		readers, done, err := a.open()
		if err != nil {
			yield(Element{}, diag.As(err, diag.ErrInput).AtFile(a.name))
			return
		}
		defer done()
		skipped := int64(0)
		for i := range a.rows {
			if !wanted(i) {
				skipped++
				continue
			}
			e := Element{Index: i, Arrays: map[string]*tensor.Tensor{}}
			for name, r := range readers {
				if err = r.Skip(skipped); err == nil {
					e.Arrays[name], err = r.Next()
				}
				if err != nil {
					yield(Element{}, diag.As(err, diag.ErrInput).AtTensor(name).AtFile(a.name))
					return
				}
			}
			if skipped = 0; !yield(e, nil) {
				return
			}
		}
	}
}

// Digest returns a digest of a file's size, its first MiB and its last; of a folder, of its files and their names.
func Digest(name string) (string, error) {
	list := []string{name}
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		if list, err = under(name); err != nil {
			return "", err
		}
	}
	h := sha256.New()
	for _, file := range list {
		if err := digest(h, name, file); err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// digest adds a file to a digest.
func digest(to io.Writer, folder, name string) error {
	file, err := mem.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return diag.Inputf("%v", err).AtFile(name).WithCause(err)
	}
	const part = 1 << 20
	short, err := filepath.Rel(folder, name)
	if err != nil {
		short = name
	}
	fmt.Fprintf(to, "%q %d\n", filepath.ToSlash(short), info.Size())
	for _, at := range []int64{0, max(0, info.Size()-part)} {
		if _, err := io.Copy(to, io.NewSectionReader(file, at, part)); err != nil {
			return diag.Inputf("%v", err).AtFile(name).WithCause(err)
		}
	}
	return nil
}
