// Command load sends requests to a server of the Open Inference Protocol, by a number of clients that each wait for
// their answer, and prints the rate and the latencies as JSON.
//
//	load -protocol rest|text|grpc -address HOST:PORT -model NAME -inputs "x0 FP32 1,3,224,224" -clients 8 -for 3s
//
// Bodies are made before the clock starts, and answers are read and not decoded, so that the generator is not what is
// measured. An extent L takes the values of -lengths in turn. With -once each body is sent once, and the outputs are
// printed.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"github.com/weirml/weir/serve/internal/oip"
)

// plan is what the flags ask for.
type plan struct {
	protocol, address, model, inputs, lengths string
	clients                                   int
	span                                      time.Duration
	once                                      bool
}

func main() {
	var p plan
	flag.StringVar(&p.protocol, "protocol", "rest", "rest (binary data), text (JSON alone) or grpc")
	flag.StringVar(&p.address, "address", "127.0.0.1:8000", "the server")
	flag.StringVar(&p.model, "model", "", "the model")
	flag.StringVar(&p.inputs, "inputs", "", "inputs: NAME TYPE EXTENTS[ MOST], separated by semicolons")
	flag.StringVar(&p.lengths, "lengths", "1", "values of the extent L")
	flag.IntVar(&p.clients, "clients", 1, "connections")
	flag.DurationVar(&p.span, "for", 3*time.Second, "how long")
	flag.BoolVar(&p.once, "once", false, "send each body once, and print the outputs")
	flag.Parse()
	if err := p.run(); err != nil {
		fmt.Fprintln(os.Stderr, "load:", err)
		os.Exit(1)
	}
}

// run sends what the plan asks for.
func (p *plan) run() error {
	bodies, err := p.bodies()
	if err != nil {
		return err
	}
	if p.once {
		return p.answers(bodies)
	}
	var mu sync.Mutex
	var all []time.Duration
	var failed []error
	var wait sync.WaitGroup
	warm := p.span / 4
	begin := time.Now().Add(warm)
	end := begin.Add(p.span)
	for i := range p.clients {
		wait.Go(func() {
			took, err := p.client(i, bodies, begin, end)
			mu.Lock()
			defer mu.Unlock()
			if all = append(all, took...); err != nil {
				failed = append(failed, err)
			}
		})
	}
	wait.Wait()
	if err := errors.Join(failed...); err != nil {
		return err
	}
	if len(all) == 0 {
		return errors.New("no request ended in time")
	}
	slices.Sort(all)
	at := func(part float64) float64 { return float64(all[int(part*float64(len(all)-1))]) / 1e3 }
	return json.NewEncoder(os.Stdout).Encode(map[string]float64{"requests": float64(len(all)),
		"rate": float64(len(all)) / p.span.Seconds(), "p50_us": at(0.5), "p99_us": at(0.99)})
}

// client sends requests until the end, and returns the latencies of those that ended between begin and end.
func (p *plan) client(i int, bodies [][]byte, begin, end time.Time) (took []time.Duration, err error) {
	call, closes, err := p.dial()
	if err != nil {
		return nil, err
	}
	defer closes()
	for ; time.Now().Before(end); i++ {
		from := time.Now()
		if _, err := call(bodies[i%len(bodies)]); err != nil {
			return nil, err
		}
		if now := time.Now(); now.After(begin) && now.Before(end) {
			took = append(took, now.Sub(from))
		}
	}
	return took, nil
}

// dial returns a function that sends a body and returns the answer's.
func (p *plan) dial() (call func([]byte) ([]byte, error), closes func() error, err error) {
	if p.protocol == "grpc" {
		c, err := grpc.NewClient(p.address, grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithDefaultCallOptions(grpc.ForceCodecV2(raw{}), grpc.MaxCallRecvMsgSize(1<<30)))
		if err != nil {
			return nil, nil, err
		}
		return func(body []byte) (answer []byte, err error) {
			return answer, c.Invoke(context.Background(), "/inference.GRPCInferenceService/ModelInfer", body, &answer)
		}, c.Close, nil
	}
	c, err := net.Dial("tcp", p.address)
	if err != nil {
		return nil, nil, err
	}
	in := bufio.NewReaderSize(c, 64<<10)
	return func(body []byte) ([]byte, error) {
		if _, err := c.Write(body); err != nil {
			return nil, err
		}
		a, err := http.ReadResponse(in, nil)
		if err != nil {
			return nil, err
		}
		answer, err := io.ReadAll(a.Body)
		if a.StatusCode != http.StatusOK {
			return nil, fmt.Errorf("%s: %.300s", a.Status, answer)
		}
		if n := a.Header.Get("Inference-Header-Content-Length"); n != "" {
			answer = append([]byte(n+"\n"), answer...)
		}
		return answer, err
	}, c.Close, nil
}

// raw passes messages through.
type raw struct{}

// Marshal returns the bytes.
func (raw) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.([]byte))}, nil
}

// Unmarshal keeps the bytes.
func (raw) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*[]byte) = data.Materialize()
	return nil
}

// Name is that of the protocol's codec.
func (raw) Name() string { return "proto" }

// bodies returns the requests, whole: with their header for REST.
func (p *plan) bodies() (bodies [][]byte, err error) {
	random := rand.New(rand.NewPCG(38, 1))
	for text := range strings.SplitSeq(p.lengths, ",") {
		length, err := strconv.Atoi(text)
		if err != nil {
			return nil, err
		}
		body, err := p.body(random, int64(length))
		if err != nil {
			return nil, err
		}
		bodies = append(bodies, body)
	}
	return bodies, nil
}

// body returns a request with an extent.
func (p *plan) body(random *rand.Rand, length int64) ([]byte, error) {
	r := &oip.ModelInferRequest{ModelName: p.model}
	var list []map[string]any
	for one := range strings.SplitSeq(p.inputs, ";") {
		words := strings.Fields(one)
		if len(words) < 3 {
			return nil, fmt.Errorf("input %q is not NAME TYPE EXTENTS", one)
		}
		var shape []int64
		count := int64(1)
		for extent := range strings.SplitSeq(words[2], ",") {
			n := length
			if extent != "L" {
				var err error
				if n, err = strconv.ParseInt(extent, 10, 64); err != nil {
					return nil, err
				}
			}
			shape, count = append(shape, n), count*n
		}
		most := 2
		if len(words) > 3 {
			most, _ = strconv.Atoi(words[3])
		}
		var data []byte
		var numbers []any
		for range count {
			if words[1] == "FP32" {
				x := random.Float32()
				data, numbers = binary.LittleEndian.AppendUint32(data, math.Float32bits(x)), append(numbers, x)
			} else {
				x := int64(1 + random.IntN(most-1))
				data, numbers = binary.LittleEndian.AppendUint64(data, uint64(x)), append(numbers, x)
			}
		}
		r.Inputs = append(r.Inputs, &oip.ModelInferRequest_InferInputTensor{Name: words[0], Datatype: words[1], Shape: shape})
		r.RawInputContents = append(r.RawInputContents, data)
		in := map[string]any{"name": words[0], "datatype": words[1], "shape": shape, "data": numbers}
		if p.protocol == "rest" {
			delete(in, "data")
			in["parameters"] = map[string]any{"binary_data_size": len(data)}
		}
		list = append(list, in)
	}
	if p.protocol == "grpc" {
		return proto.Marshal(r)
	}
	request := map[string]any{"inputs": list}
	if p.protocol == "rest" {
		request["parameters"] = map[string]any{"binary_data_output": true}
	}
	text, err := json.Marshal(request)
	if err != nil {
		return nil, err
	}
	whole, header := bytes.Clone(text), ""
	if p.protocol == "rest" {
		whole = append(whole, bytes.Join(r.RawInputContents, nil)...)
		header = fmt.Sprintf("Inference-Header-Content-Length: %d\r\n", len(text))
	}
	return append(fmt.Appendf(nil, "POST /v2/models/%s/infer HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\n%s"+
		"Content-Length: %d\r\n\r\n", p.model, p.address, header, len(whole)), whole...), nil
}

// answers sends each body once and prints the first output's elements, a line for each body.
func (p *plan) answers(bodies [][]byte) error {
	call, closes, err := p.dial()
	if err != nil {
		return err
	}
	defer closes()
	for _, body := range bodies {
		answer, err := call(body)
		if err != nil {
			return err
		}
		elements, err := p.elements(answer)
		if err != nil {
			return fmt.Errorf("%w: %.300q", err, answer)
		}
		if err := json.NewEncoder(os.Stdout).Encode(elements); err != nil {
			return err
		}
	}
	return nil
}

// elements returns the first output's elements.
func (p *plan) elements(answer []byte) (list []float32, err error) {
	var data []byte
	if p.protocol == "grpc" {
		var m oip.ModelInferResponse
		if err := proto.Unmarshal(answer, &m); err != nil {
			return nil, err
		}
		if len(m.RawOutputContents) == 0 {
			return m.Outputs[0].GetContents().GetFp32Contents(), nil
		}
		data = m.RawOutputContents[0]
	} else {
		line, rest, ok := bytes.Cut(answer, []byte("\n"))
		if n, err := strconv.Atoi(string(line)); ok && err == nil {
			data = rest[n:]
		} else {
			var text struct{ Outputs []struct{ Data []float32 } }
			if err := json.Unmarshal(answer, &text); err != nil {
				return nil, err
			}
			return text.Outputs[0].Data, nil
		}
	}
	for ; len(data) >= 4; data = data[4:] {
		list = append(list, math.Float32frombits(binary.LittleEndian.Uint32(data)))
	}
	return list, nil
}
