package serve

import (
	"net/http"
	"net/http/pprof"
)

// operations adds metrics, the status page and, for management, pprof.
func (s *Server) operations(mux *http.ServeMux, manage bool) {
	mux.Handle("GET /metrics", s.metrics)
	mux.HandleFunc("GET /v2/weir/status", s.writeStatus)
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { s.page(w, http.StatusOK) })
	if !manage {
		return
	}
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
}
