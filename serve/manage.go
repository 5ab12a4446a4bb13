package serve

import (
	"context"
	"fmt"
	"net/http"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"
	"google.golang.org/protobuf/proto"

	"github.com/weirml/weir/serve/internal/oip"
)

// manageREST adds the calls about the repository, shared memory, traces and logs.
func (s *Server) manageREST(mux *http.ServeMux, api *service) {
	handle := func(pattern string, call func(ctx context.Context, r *http.Request, body any) (any, error)) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			text := map[string]any{}
			err := readText(r, &text)
			var answer any
			if err == nil {
				answer, err = call(r.Context(), r, text)
			}
			if m, ok := answer.(proto.Message); ok || err != nil {
				s.reply(w, m, err)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			if text, ok := answer.([]byte); ok {
				w.Write(text)
			}
		})
	}
	handle("POST /v2/repository/index", func(ctx context.Context, r *http.Request, body any) (any, error) {
		ready, _ := body.(map[string]any)["ready"].(bool)
		m, err := api.RepositoryIndex(ctx, &oip.RepositoryIndexRequest{Ready: ready})
		if err != nil {
			return nil, err
		}
		list := []byte{'['}
		for i, one := range m.Models {
			if i > 0 {
				list = append(list, ',')
			}
			list = append(list, oip.MarshalJSON(one)...)
		}
		return append(list, ']'), nil
	})
	handle("POST /v2/repository/models/{model}/load", func(ctx context.Context, r *http.Request, body any) (any,
		error) {
		request := &oip.RepositoryModelLoadRequest{ModelName: r.PathValue("model")}
		if p, ok := body.(map[string]any)["parameters"].(map[string]any); ok && len(p) > 0 {
			request.Parameters = map[string]*oip.ModelRepositoryParameter{}
			for name := range p {
				request.Parameters[name] = &oip.ModelRepositoryParameter{}
			}
		}
		_, err := api.RepositoryModelLoad(ctx, request)
		return nil, err
	})
	handle("POST /v2/repository/models/{model}/unload", func(ctx context.Context, r *http.Request, _ any) (any,
		error) {
		_, err := api.RepositoryModelUnload(ctx, &oip.RepositoryModelUnloadRequest{ModelName: r.PathValue("model")})
		return nil, err
	})
	s.sharedREST(handle, api)
	traceREST(handle, api)
	log := func(ctx context.Context, r *http.Request, body any) (any, error) {
		request := &oip.LogSettingsRequest{Settings: map[string]*oip.LogSettingsRequest_SettingValue{}}
		for name, value := range body.(map[string]any) {
			v := &oip.LogSettingsRequest_SettingValue{}
			switch value := value.(type) {
			case bool:
				v.ParameterChoice = &oip.LogSettingsRequest_SettingValue_BoolParam{BoolParam: value}
			case float64:
				v.ParameterChoice = &oip.LogSettingsRequest_SettingValue_Uint32Param{Uint32Param: uint32(min(max(value, 0), 1<<31))}
			default:
				return nil, oip.Errorf("log setting %q is %v", name, value)
			}
			request.Settings[name] = v
		}
		m, err := api.LogSettings(ctx, request)
		if err != nil {
			return nil, err
		}
		return settingsJSON(m.Settings, func(v *oip.LogSettingsResponse_SettingValue) any {
			switch c := v.ParameterChoice.(type) {
			case *oip.LogSettingsResponse_SettingValue_BoolParam:
				return c.BoolParam
			case *oip.LogSettingsResponse_SettingValue_Uint32Param:
				return c.Uint32Param
			}
			return v.GetStringParam()
		}), nil
	}
	handle("GET /v2/logging", log)
	handle("POST /v2/logging", log)
}

// sharedREST adds the calls about shared memory.
func (s *Server) sharedREST(handle func(string, func(context.Context, *http.Request, any) (any, error)),
	api *service) {
	status := func(ctx context.Context, r *http.Request, _ any) (any, error) {
		m, err := api.SystemSharedMemoryStatus(ctx, &oip.SystemSharedMemoryStatusRequest{Name: r.PathValue("region")})
		if err != nil {
			return nil, err
		}
		list := []byte{'['}
		for _, region := range m.Regions {
			if len(list) > 1 {
				list = append(list, ',')
			}
			list = append(list, oip.MarshalJSON(region)...)
		}
		return append(list, ']'), nil
	}
	handle("GET /v2/systemsharedmemory/status", status)
	handle("GET /v2/systemsharedmemory/region/{region}/status", status)
	handle("POST /v2/systemsharedmemory/region/{region}/register",
		func(ctx context.Context, r *http.Request, body any) (any, error) {
			text := body.(map[string]any)
			key, _ := text["key"].(string)
			offset, _ := text["offset"].(float64)
			size, _ := text["byte_size"].(float64)
			if offset < 0 || size < 0 || offset > 1<<50 || size > 1<<50 {
				return nil, oip.Errorf("offset %v and byte_size %v are no sizes", text["offset"], text["byte_size"])
			}
			_, err := api.SystemSharedMemoryRegister(ctx, &oip.SystemSharedMemoryRegisterRequest{Name: r.PathValue("region"),
				Key: key, Offset: uint64(offset), ByteSize: uint64(size)})
			return nil, err
		})
	unregister := func(ctx context.Context, r *http.Request, _ any) (any, error) {
		_, err := api.SystemSharedMemoryUnregister(ctx, &oip.SystemSharedMemoryUnregisterRequest{Name: r.PathValue("region")})
		return nil, err
	}
	handle("POST /v2/systemsharedmemory/unregister", unregister)
	handle("POST /v2/systemsharedmemory/region/{region}/unregister", unregister)
	handle("GET /v2/cudasharedmemory/status", func(context.Context, *http.Request, any) (any, error) {
		return []byte("[]"), nil
	})
	handle("POST /v2/cudasharedmemory/unregister", func(context.Context, *http.Request, any) (any, error) {
		return nil, nil
	})
	handle("POST /v2/cudasharedmemory/region/{region}/{call}", func(context.Context, *http.Request, any) (any,
		error) {
		return nil, errCUDA
	})
}

// settingsJSON returns settings as a JSON object.
func settingsJSON[V any](settings map[string]V, value func(V) any) []byte {
	all := map[string]any{}
	for name, v := range settings {
		all[name] = value(v)
	}
	return oip.AppendJSON(nil, all)
}

// registerExtras adds reflection, and gRPC's own health service, to the server's gRPC.
func registerExtras(g *grpc.Server, s *Server) {
	reflection.Register(g)
	healthpb.RegisterHealthServer(g, &healthServer{Server: health.NewServer(), server: s})
}

// healthServer answers gRPC's health checks: serving once the models have been loaded.
type healthServer struct {
	*health.Server
	server *Server
}

// Check tells whether the server, or a model, is ready.
func (h *healthServer) Check(_ context.Context, r *healthpb.HealthCheckRequest) (*healthpb.HealthCheckResponse, error) {
	status := healthpb.HealthCheckResponse_SERVING
	if !h.server.Ready() {
		status = healthpb.HealthCheckResponse_NOT_SERVING
	}
	switch r.Service {
	case "", "inference.GRPCInferenceService":
		return &healthpb.HealthCheckResponse{Status: status}, nil
	}
	return nil, grpcError(&refusal{http.StatusNotFound, 5, fmt.Sprintf("there is no service %q", r.Service)})
}
