package serve

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/proto"

	"github.com/weirml/weir"
	"github.com/weirml/weir/serve/internal/catalogue"
	"github.com/weirml/weir/serve/internal/conns"
	"github.com/weirml/weir/serve/internal/oip"
)

// service is the protocol's gRPC service. REST calls its methods, too.
type service struct {
	oip.UnimplementedGRPCInferenceServiceServer
	server *Server
	manage bool // management calls are answered
}

// register registers the service, whose errors become statuses.
func (a *service) register(g grpc.ServiceRegistrar) {
	d := oip.GRPCInferenceService_ServiceDesc
	d.Methods = slices.Clone(d.Methods)
	for i, m := range d.Methods {
		path := "/" + d.ServiceName + "/" + m.MethodName
		d.Methods[i].Handler = func(srv any, ctx context.Context, decode func(any) error,
			interceptor grpc.UnaryServerInterceptor) (any, error) {
			if err := a.allowed(ctx, path); err != nil {
				return nil, a.failed(err)
			}
			out, err := m.Handler(srv, ctx, decode, interceptor)
			return out, a.failed(err)
		}
	}
	d.Streams = slices.Clone(d.Streams)
	for i, m := range d.Streams {
		d.Streams[i].Handler = func(srv any, stream grpc.ServerStream) error {
			if err := a.allowed(stream.Context(), "/"+d.ServiceName+"/"+m.StreamName); err != nil {
				return a.failed(err)
			}
			return a.failed(m.Handler(srv, stream))
		}
	}
	g.RegisterService(&d, a)
}

// failed counts an error, and returns it as grpc-go expects it.
func (a *service) failed(err error) error {
	a.server.early.add(err)
	return grpcError(err)
}

// allowed returns an error unless the call has a token of the server, or needs none.
func (a *service) allowed(ctx context.Context, path string) error {
	if openToAll(path) {
		return nil
	}
	return a.server.allowed(authorization(ctx))
}

// authorization returns the header of this name of a call that grpc-go received.
func authorization(ctx context.Context) string {
	if all := metadata.ValueFromIncomingContext(ctx, "authorization"); len(all) > 0 {
		return all[0]
	}
	return ""
}

// managed returns an error if management calls are answered elsewhere.
func (a *service) managed() error {
	if !a.manage {
		return elsewhere
	}
	return nil
}

// ServerLive tells that the server answers.
func (a *service) ServerLive(context.Context, *oip.ServerLiveRequest) (*oip.ServerLiveResponse, error) {
	return &oip.ServerLiveResponse{Live: true}, nil
}

// ServerReady tells whether the models have been loaded.
func (a *service) ServerReady(context.Context, *oip.ServerReadyRequest) (*oip.ServerReadyResponse, error) {
	return &oip.ServerReadyResponse{Ready: a.server.Ready()}, nil
}

// ModelReady tells whether a version can be used.
func (a *service) ModelReady(_ context.Context, r *oip.ModelReadyRequest) (*oip.ModelReadyResponse, error) {
	v, err := a.server.catalogue.Use(r.Name, r.Version)
	if err != nil {
		return &oip.ModelReadyResponse{}, nil
	}
	v.Leave()
	return &oip.ModelReadyResponse{Ready: true}, nil
}

// ServerMetadata tells the server's name, version and extensions.
func (a *service) ServerMetadata(context.Context, *oip.ServerMetadataRequest) (*oip.ServerMetadataResponse, error) {
	return &oip.ServerMetadataResponse{Name: "weir", Version: Version, Extensions: []string{"classification",
		"model_repository", "schedule_policy", "model_configuration", "system_shared_memory", "binary_tensor_data",
		"parameters", "sequence", "statistics", "trace", "logging"}}, nil
}

// ModelMetadata tells a model's versions, inputs and outputs.
func (a *service) ModelMetadata(_ context.Context, r *oip.ModelMetadataRequest) (*oip.ModelMetadataResponse, error) {
	v, err := a.server.catalogue.Use(r.Name, r.Version)
	if err != nil {
		return nil, err
	}
	defer v.Leave()
	m := &oip.ModelMetadataResponse{Name: v.Model, Platform: v.Platform()}
	for _, other := range a.server.catalogue.Loaded() {
		if other.Model == v.Model {
			m.Versions = append(m.Versions, other.Name())
		}
	}
	for _, info := range v.Inputs {
		m.Inputs = append(m.Inputs, metadataOf(info))
	}
	for i, info := range v.Outputs {
		if !v.Hidden(i) {
			m.Outputs = append(m.Outputs, metadataOf(info))
		}
	}
	return m, nil
}

// metadataOf describes an input or output; a dimension that runs choose is −1.
func metadataOf(info weir.Info) *oip.ModelMetadataResponse_TensorMetadata {
	m := &oip.ModelMetadataResponse_TensorMetadata{Name: info.Name, Datatype: oip.Name(info.DType)}
	for _, e := range info.Shape {
		m.Shape = append(m.Shape, extentOf(e))
	}
	return m
}

// extentOf returns an extent as the protocol has it.
func extentOf(e weir.Extent) int64 {
	if e.Dim != "" {
		return -1
	}
	return e.Size
}

// ModelConfig tells a model's configuration, completed by what the model itself says.
func (a *service) ModelConfig(_ context.Context, r *oip.ModelConfigRequest) (*oip.ModelConfigResponse, error) {
	v, err := a.server.catalogue.Use(r.Name, r.Version)
	if err != nil {
		return nil, err
	}
	defer v.Leave()
	return &oip.ModelConfigResponse{Config: v.Completed()}, nil
}

// ModelStatistics tells the counters of a version, of a model's versions, or of all.
func (a *service) ModelStatistics(_ context.Context, r *oip.ModelStatisticsRequest) (*oip.ModelStatisticsResponse,
	error) {
	m := &oip.ModelStatisticsResponse{}
	if r.Name != "" {
		v, err := a.server.catalogue.Use(r.Name, r.Version)
		if err != nil {
			return nil, err
		}
		v.Leave()
	}
	for _, v := range a.server.catalogue.Loaded() {
		if (r.Name == "" || r.Name == v.Model) && (r.Version == "" || r.Version == v.Name()) {
			m.ModelStats = append(m.ModelStats, v.Message())
		}
	}
	return m, nil
}

// ModelInfer answers a request that grpc-go has received.
func (a *service) ModelInfer(ctx context.Context, r *oip.ModelInferRequest) (*oip.ModelInferResponse, error) {
	x := &exchange{server: a.server, from: "grpc", carrier: headers(ctx)}
	defer x.close()
	if p, ok := peer.FromContext(ctx); ok {
		x.from = conns.Client(p.Addr.String())
	}
	x.owner = a.server.ownerOf(authorization(ctx), nil)
	message, err := x.body(ctx, int64(proto.Size(r)))
	if err != nil {
		return nil, err
	}
	if message, err = (proto.MarshalOptions{}).MarshalAppend(message[:0], r); err != nil {
		return nil, err
	}
	request, err := oip.DecodeProto(message, x.more)
	if err != nil {
		return nil, err
	}
	response, err := x.answer(ctx, request)
	if err != nil {
		return nil, err
	}
	m := &oip.ModelInferResponse{}
	return m, proto.Unmarshal(slices.Concat(response.EncodeProto()...), m)
}

// ModelStreamInfer answers the requests of a stream in their order.
func (a *service) ModelStreamInfer(stream oip.GRPCInferenceService_ModelStreamInferServer) error {
	for {
		r, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		answer := &oip.ModelStreamInferResponse{}
		if answer.InferResponse, err = a.ModelInfer(stream.Context(), r); err != nil {
			answer.ErrorMessage = failureOf(err).Text
			answer.InferResponse = &oip.ModelInferResponse{ModelName: r.ModelName, ModelVersion: r.ModelVersion, Id: r.Id}
		} else if last := r.Parameters["triton_enable_empty_final_response"]; last.GetBoolParam() {
			answer.InferResponse.Parameters = map[string]*oip.InferParameter{"triton_final_response": oip.ParameterOf(true)}
		}
		if err := stream.Send(answer); err != nil {
			return err
		}
	}
}

// RepositoryIndex lists the models of the folder.
func (a *service) RepositoryIndex(_ context.Context, r *oip.RepositoryIndexRequest) (*oip.RepositoryIndexResponse,
	error) {
	if err := a.server.catalogue.Scan(); err != nil {
		return nil, err
	}
	return &oip.RepositoryIndexResponse{Models: a.server.catalogue.Index(r.Ready)}, nil
}

// RepositoryModelLoad loads a model from the folder, or loads it again.
func (a *service) RepositoryModelLoad(ctx context.Context,
	r *oip.RepositoryModelLoadRequest) (*oip.RepositoryModelLoadResponse,
	error) {
	if err := a.managed(); err != nil {
		return nil, err
	}
	for name := range r.Parameters {
		return nil, notSupported("load parameter %q: a model and its configuration are read from the server's folder", name)
	}
	return &oip.RepositoryModelLoadResponse{}, a.server.catalogue.Load(ctx, r.ModelName)
}

// RepositoryModelUnload unloads a model.
func (a *service) RepositoryModelUnload(ctx context.Context, r *oip.RepositoryModelUnloadRequest) (
	*oip.RepositoryModelUnloadResponse, error) {
	if err := a.managed(); err != nil {
		return nil, err
	}
	return &oip.RepositoryModelUnloadResponse{}, a.server.catalogue.Unload(ctx, r.ModelName)
}

// SystemSharedMemoryStatus lists the registered shared memory.
func (a *service) SystemSharedMemoryStatus(_ context.Context, r *oip.SystemSharedMemoryStatusRequest) (
	*oip.SystemSharedMemoryStatusResponse, error) {
	list, err := a.server.regions.list(r.Name)
	if err != nil {
		return nil, err
	}
	m := &oip.SystemSharedMemoryStatusResponse{Regions: map[string]*oip.SystemSharedMemoryStatusResponse_RegionStatus{}}
	for _, g := range list {
		m.Regions[g.name] = &oip.SystemSharedMemoryStatusResponse_RegionStatus{Name: g.name, Key: g.key,
			Offset: uint64(g.offset), ByteSize: uint64(g.size)}
	}
	return m, nil
}

// SystemSharedMemoryRegister maps a client's shared memory.
func (a *service) SystemSharedMemoryRegister(_ context.Context, r *oip.SystemSharedMemoryRegisterRequest) (
	*oip.SystemSharedMemoryRegisterResponse, error) {
	if err := a.managed(); err != nil {
		return nil, err
	}
	return &oip.SystemSharedMemoryRegisterResponse{}, a.server.regions.register(r.Name, r.Key, int64(r.Offset),
		int64(r.ByteSize))
}

// SystemSharedMemoryUnregister unmaps shared memory, when the requests that use it have ended.
func (a *service) SystemSharedMemoryUnregister(_ context.Context, r *oip.SystemSharedMemoryUnregisterRequest) (
	*oip.SystemSharedMemoryUnregisterResponse, error) {
	if err := a.managed(); err != nil {
		return nil, err
	}
	return &oip.SystemSharedMemoryUnregisterResponse{}, a.server.regions.unregister(r.Name)
}

// errCUDA is the answer to calls about CUDA's shared memory.
var errCUDA = notSupported("CUDA's shared memory is not supported: models run on the processor; use system " +
	"shared memory")

// CudaSharedMemoryStatus lists nothing: the server has no CUDA.
func (a *service) CudaSharedMemoryStatus(context.Context, *oip.CudaSharedMemoryStatusRequest) (
	*oip.CudaSharedMemoryStatusResponse, error) {
	return &oip.CudaSharedMemoryStatusResponse{}, nil
}

// CudaSharedMemoryRegister returns an error: the server has no CUDA.
func (a *service) CudaSharedMemoryRegister(context.Context, *oip.CudaSharedMemoryRegisterRequest) (
	*oip.CudaSharedMemoryRegisterResponse, error) {
	return nil, errCUDA
}

// CudaSharedMemoryUnregister succeeds for all regions together, since there are none.
func (a *service) CudaSharedMemoryUnregister(_ context.Context, r *oip.CudaSharedMemoryUnregisterRequest) (
	*oip.CudaSharedMemoryUnregisterResponse, error) {
	if r.Name != "" {
		return nil, errCUDA
	}
	return &oip.CudaSharedMemoryUnregisterResponse{}, nil
}

// TraceSetting tells and sets which requests are traced: trace_level, trace_rate and trace_count.
func (a *service) TraceSetting(_ context.Context, r *oip.TraceSettingRequest) (*oip.TraceSettingResponse, error) {
	if r.ModelName != "" && !slices.Contains(a.server.catalogue.Names(), r.ModelName) {
		return nil, &catalogue.UnknownError{Model: r.ModelName}
	}
	if len(r.Settings) > 0 {
		if err := a.managed(); err != nil {
			return nil, err
		}
		changes := map[string][]string{}
		for name, s := range r.Settings {
			changes[name] = s.GetValue()
		}
		if err := a.server.traces.set(r.ModelName, changes); err != nil {
			return nil, err
		}
	}
	m := &oip.TraceSettingResponse{Settings: map[string]*oip.TraceSettingResponse_SettingValue{}}
	for name, values := range a.server.traces.settings(r.ModelName) {
		m.Settings[name] = &oip.TraceSettingResponse_SettingValue{Value: values}
	}
	return m, nil
}

// LogSettings tells and sets what is logged: log_info, log_warning and log_error, and log_verbose_level.
func (a *service) LogSettings(_ context.Context, r *oip.LogSettingsRequest) (*oip.LogSettingsResponse, error) {
	level := a.server.level.Level()
	if len(r.Settings) > 0 {
		if err := a.managed(); err != nil {
			return nil, err
		}
	}
	on := map[string]slog.Level{"log_verbose_level": slog.LevelDebug, "log_info": slog.LevelInfo,
		"log_warning": slog.LevelWarn,
		"log_error":   slog.LevelError}
	for name, s := range r.Settings {
		at, ok := on[name]
		flag := s.GetBoolParam() || s.GetUint32Param() > 0
		switch {
		case !ok:
			return nil, oip.Errorf("there is no log setting %q that can be set: log_verbose_level, log_info, "+
				"log_warning, log_error",
				name)
		case flag && at < level:
			level = at
		case !flag && at >= level:
			level = at + 4 // the next one
		}
	}
	a.server.level.Set(level)
	m := &oip.LogSettingsResponse{Settings: map[string]*oip.LogSettingsResponse_SettingValue{}}
	for name, at := range on {
		flag := oip.LogSettingsResponse_SettingValue_BoolParam{BoolParam: level <= at}
		m.Settings[name] = &oip.LogSettingsResponse_SettingValue{ParameterChoice: &flag}
	}
	verbose := oip.LogSettingsResponse_SettingValue_Uint32Param{}
	if level <= slog.LevelDebug {
		verbose.Uint32Param = 1
	}
	m.Settings["log_verbose_level"] = &oip.LogSettingsResponse_SettingValue{ParameterChoice: &verbose}
	format := oip.LogSettingsResponse_SettingValue_StringParam{StringParam: "default"}
	m.Settings["log_format"] = &oip.LogSettingsResponse_SettingValue{ParameterChoice: &format}
	return m, nil
}
