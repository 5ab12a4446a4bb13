// What Go needs of C: DLPack's structures as C lays them out, and calls through function pointers.
#ifndef WEIR_BRIDGE_H
#define WEIR_BRIDGE_H
#include <stdint.h>
#include <stdlib.h>
#include "weir.h"

typedef struct { int32_t type, id; } weir_dl_device;
typedef struct { uint8_t code, bits; uint16_t lanes; } weir_dl_type;
struct DLTensor {
	void *data;
	weir_dl_device device;
	int32_t ndim;
	weir_dl_type dtype;
	int64_t *shape;
	int64_t *strides;
	uint64_t byte_offset;
};
typedef struct weir_dl_versioned {
	uint32_t major, minor;
	void *manager_ctx;
	void (*deleter)(struct weir_dl_versioned *self);
	uint64_t flags;
	struct DLTensor tensor;
} weir_dl_versioned;
typedef struct weir_dl_legacy {
	struct DLTensor tensor;
	void *manager_ctx;
	void (*deleter)(struct weir_dl_legacy *self);
} weir_dl_legacy;

// Memory for a structure with rank extents and strides behind it; NULL if there is none. object is what the deleter releases.
weir_dl_versioned *weir_bridge_versioned(int32_t rank, uint64_t object, int64_t **extents);
weir_dl_legacy *weir_bridge_legacy(int32_t rank, uint64_t object, int64_t **extents);
void weir_bridge_delete_versioned(weir_dl_versioned *m);
void weir_bridge_delete_legacy(weir_dl_legacy *m);

// Calls a poll, if this is the thread that self stands for; else 0.
int32_t weir_bridge_poll(weir_poll poll, uint64_t self);
uint64_t weir_bridge_self(void);
#endif
