// Command service recognises digits in pictures over HTTP, with the embedded model or one in a file.
//
//	go run ./examples/service -listen localhost:8080
//	curl -s localhost:8080/classify -d "{\"images\": [\"$(base64 -w0 examples/digits/data/images/07.png)\"]}"
//	curl -s localhost:8080/metrics
//	curl -s -X POST localhost:8080/reload      # after the file given by -model was replaced (by rename)
//
// All pictures of a request are one run: the model's batch dimension is free. At most -calls runs are active at once,
// each with its own planned memory, and a request waits for one no longer than its deadline. So the service's memory
// has a ceiling that is known before the first request: it is logged at the start, and /metrics shows the memory in
// use. With -memory the ceiling is enforced, also during reloads: weir.SetLimit limits tensors, weights and files, and
// Go's heap gets the rest, in place of GOMEMLIMIT.
//
// SIGTERM and an interrupt end it gracefully: it stops listening, answers the requests in progress and frees the
// program's memory, all within the deadline of a request plus one second.
package main

import (
	"context"
	"errors"
	"flag"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	listen := flag.String("listen", "localhost:8080", "address to listen on")
	s := settings{log: slog.New(slog.NewTextHandler(os.Stderr, nil))}
	flag.StringVar(&s.model, "model", "", "ONNX file to serve; without it, the model inside")
	flag.IntVar(&s.calls, "calls", 4, "runs that may be active at once")
	flag.IntVar(&s.batch, "batch", 64, "the most pictures in one request")
	flag.DurationVar(&s.deadline, "deadline", 2*time.Second, "the longest that a request may take")
	flag.Int64Var(&s.memory, "memory", 0,
		"bytes that the container has, which the service keeps within; without it, as much as it takes")
	flag.Parse()
	if err := listenAndServe(*listen, s); err != nil {
		s.log.Error("service ended", "error", err)
		os.Exit(1)
	}
	s.log.Info("service ended")
}

// listenAndServe runs until the process receives an interrupt or SIGTERM.
func listenAndServe(address string, s settings) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	return serve(ctx, listener, s)
}

// serve answers requests until ctx ends, and then completes the requests in progress.
func serve(ctx context.Context, listener net.Listener, s settings) error {
	service, err := newService(ctx, s)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	server := &http.Server{Handler: service.handler(), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 20 * time.Second,
		IdleTimeout: time.Minute}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	s.log.Info("listening", "address", listener.Addr().String())
	select {
	case err := <-ended:
		return errors.Join(err, service.close())
	case <-ctx.Done():
		last, cancel := context.WithTimeout(context.Background(), s.deadline+time.Second)
		defer cancel()
		s.log.Info("ending", "within", s.deadline+time.Second)
		err := server.Shutdown(last)
		if err != nil {
			err = errors.Join(err, server.Close()) // clients that are still there lose their connection
		}
		return errors.Join(err, service.end(last))
	}
}
