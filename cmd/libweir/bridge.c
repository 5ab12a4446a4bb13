#include <pthread.h>
#include <string.h>
#include "bridge.h"

// Exported by Go: gives back what an exported structure holds.
extern void weir_bridge_release(uint64_t object);

// naming is held while a capsule's name is read and changed: Python without its lock lets two threads do that at once.
static pthread_mutex_t naming = PTHREAD_MUTEX_INITIALIZER;

// In the child of a fork, Go's other threads are gone: nothing of Go may be called. Nor does the thread live on that
// held naming.
static int forked;
static void in_child(void) {
	forked = 1;
	naming = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}
__attribute__((constructor)) static void watch_forks(void) { pthread_atfork(NULL, NULL, in_child); }

static void release(void *object) {
	if (!forked) weir_bridge_release((uint64_t)(uintptr_t)object);
}

static void delete_versioned(weir_dl_versioned *self) {
	if (self == NULL) return;
	release(self->manager_ctx);
	free(self);
}

static void delete_legacy(weir_dl_legacy *self) {
	if (self == NULL) return;
	release(self->manager_ctx);
	free(self);
}

static void *room(size_t size, int32_t rank, int64_t **extents) {
	char *m = calloc(1, size + 2 * (size_t)rank * sizeof(int64_t));
	if (m != NULL) *extents = (int64_t *)(m + size);
	return m;
}

weir_dl_versioned *weir_bridge_versioned(int32_t rank, uint64_t object, int64_t **extents) {
	weir_dl_versioned *m = room(sizeof *m, rank, extents);
	if (m == NULL) return NULL;
	m->major = 1;
	m->manager_ctx = (void *)(uintptr_t)object;
	m->deleter = delete_versioned;
	return m;
}

weir_dl_legacy *weir_bridge_legacy(int32_t rank, uint64_t object, int64_t **extents) {
	weir_dl_legacy *m = room(sizeof *m, rank, extents);
	if (m == NULL) return NULL;
	m->manager_ctx = (void *)(uintptr_t)object;
	m->deleter = delete_legacy;
	return m;
}

void weir_bridge_delete_versioned(weir_dl_versioned *m) {
	if (m->deleter != NULL) m->deleter(m);
}

void weir_bridge_delete_legacy(weir_dl_legacy *m) {
	if (m->deleter != NULL) m->deleter(m);
}

int32_t weir_bridge_poll(weir_poll poll, uint64_t self) {
	return weir_bridge_self() == self ? poll() : 0;
}

uint64_t weir_bridge_self(void) { return (uint64_t)(uintptr_t)pthread_self(); }

// A text that says so, as an error; NULL stands for no error, so that a failing malloc is one too.
static weir_error in_a_child(void) {
	static const char text[] = "{\"kind\":\"closed\",\"file\":\"\",\"node\":\"\",\"op\":\"\",\"tensor\":\"\",\"dim\":\"\","
		"\"detail\":\"the process forked after weir was used\",\"fix\":\"start processes by spawn or forkserver, or fork before the first use\","
		"\"message\":\"the process forked after weir was used (fix: start processes by spawn or forkserver, or fork before the first use)\"}";
	char *copy = malloc(sizeof text);
	if (copy == NULL) abort();
	return memcpy(copy, text, sizeof text);
}

// The functions of Go behind the interface, without C's const.
extern char *goLoad(char *, weir_handle *);
extern char *goLoadBytes(void *, size_t, weir_handle *);
extern char *goCompile(weir_handle, char *, weir_poll, weir_handle *);
extern char *goLoadEmbedder(char *, char *, weir_poll, weir_handle *);
extern char *goEmbed(weir_handle, char *, char *, weir_poll, weir_handle *);
extern char *goDescribe(weir_handle, char **);
extern char *goMemory(weir_handle, int32_t, char *, char **);
extern char *goPlanPage(weir_handle, char *, char *, char **);
extern char *goRun(weir_handle, weir_argument *, int32_t, weir_poll, weir_handle *, int32_t);
extern char *goRunGiving(weir_handle, weir_argument *, int32_t, weir_poll, void **, int32_t);
extern char *goTake(void *, int32_t, int32_t, weir_handle *);
extern char *goGive(weir_handle, int32_t, int32_t, void **);
extern char *goView(weir_handle, struct DLTensor **);
extern char *goShare(weir_handle, weir_handle *, struct DLTensor **);
extern char *goType(weir_handle, char **, int32_t *);
extern char *goZeros(char *, int64_t *, int32_t, weir_handle *);
extern char *goStrings(char *, int64_t *, int32_t, weir_handle *);
extern char *goText(weir_handle, char **, int64_t *, int32_t *);
extern char *goList(weir_handle *, int32_t, weir_handle *);
extern char *goItems(weir_handle, weir_handle *, int32_t *);
extern char *goClose(weir_handle);
extern char *goUsage(char **);
extern char *goSave(weir_handle, char *);
extern char *goOperators(char **);
extern char *goOperate(char *, char *, weir_handle *, int32_t, weir_handle *);

weir_error weir_load(const char *path, weir_handle *model) {
	if (forked) return in_a_child();
	return goLoad((char *)path, model);
}

weir_error weir_load_bytes(const void *data, size_t size, weir_handle *model) {
	if (forked) return in_a_child();
	return goLoadBytes((void *)data, size, model);
}

weir_error weir_compile(weir_handle model, const char *options, weir_poll poll, weir_handle *program) {
	if (forked) return in_a_child();
	return goCompile(model, (char *)options, poll, program);
}

weir_error weir_load_embedder(const char *path, const char *options, weir_poll poll, weir_handle *embedder) {
	if (forked) return in_a_child();
	return goLoadEmbedder((char *)path, (char *)options, poll, embedder);
}

weir_error weir_embed(weir_handle embedder, const char *texts, const char *prompt_name, weir_poll poll, weir_handle *vectors) {
	if (forked) return in_a_child();
	return goEmbed(embedder, (char *)texts, (char *)prompt_name, poll, vectors);
}

weir_error weir_describe(weir_handle object, char **json) {
	if (forked) return in_a_child();
	return goDescribe(object, json);
}

weir_error weir_memory(weir_handle program, int32_t calls, const char *dims, char **json) {
	if (forked) return in_a_child();
	return goMemory(program, calls, (char *)dims, json);
}

weir_error weir_plan_page(weir_handle program, const char *title, const char *dims, char **html) {
	if (forked) return in_a_child();
	return goPlanPage(program, (char *)title, (char *)dims, html);
}

weir_error weir_run(weir_handle program, const weir_argument *arguments, int32_t count, weir_poll poll, weir_handle *outputs, int32_t outputs_count) {
	if (forked) return in_a_child();
	return goRun(program, (weir_argument *)arguments, count, poll, outputs, outputs_count);
}

weir_error weir_run_giving(weir_handle program, const weir_argument *arguments, int32_t count, weir_poll poll, void **managed, int32_t outputs_count) {
	if (forked) return in_a_child();
	return goRunGiving(program, (weir_argument *)arguments, count, poll, managed, outputs_count);
}

weir_error weir_take(void *managed, int32_t versioned, int32_t copying, weir_handle *tensor) {
	if (forked) return in_a_child();
	return goTake(managed, versioned, copying, tensor);
}

weir_error weir_give(weir_handle tensor, int32_t versioned, int32_t copying, void **managed) {
	if (forked) return in_a_child();
	return goGive(tensor, versioned, copying, managed);
}

weir_error weir_view(weir_handle tensor, const struct DLTensor **view) {
	if (forked) return in_a_child();
	return goView(tensor, (struct DLTensor **)view);
}

weir_error weir_share(weir_handle tensor, weir_handle *share, const struct DLTensor **view) {
	if (forked) return in_a_child();
	return goShare(tensor, share, (struct DLTensor **)view);
}

weir_error weir_type(weir_handle tensor, char **name, int32_t *fixed) {
	if (forked) return in_a_child();
	return goType(tensor, name, fixed);
}

weir_error weir_zeros(const char *dtype, const int64_t *shape, int32_t rank, weir_handle *tensor) {
	if (forked) return in_a_child();
	return goZeros((char *)dtype, (int64_t *)shape, rank, tensor);
}

weir_error weir_strings(const char *json, const int64_t *shape, int32_t rank, weir_handle *tensor) {
	if (forked) return in_a_child();
	return goStrings((char *)json, (int64_t *)shape, rank, tensor);
}

weir_error weir_text(weir_handle tensor, char **json, int64_t *shape, int32_t *rank) {
	if (forked) return in_a_child();
	return goText(tensor, json, shape, rank);
}

weir_error weir_list(const weir_handle *tensors, int32_t count, weir_handle *list) {
	if (forked) return in_a_child();
	return goList((weir_handle *)tensors, count, list);
}

weir_error weir_items(weir_handle list, weir_handle *items, int32_t *count) {
	if (forked) return in_a_child();
	return goItems(list, items, count);
}

weir_error weir_close(weir_handle object) {
	if (forked) return in_a_child();
	return goClose(object);
}

weir_error weir_usage(char **json) {
	if (forked) return in_a_child();
	return goUsage(json);
}

weir_error weir_save(weir_handle program, const char *path) {
	if (forked) return in_a_child();
	return goSave(program, (char *)path);
}

weir_error weir_operators(char **json) {
	if (forked) return in_a_child();
	return goOperators(json);
}

weir_error weir_operate(const char *name, const char *attributes, const weir_handle *operands, int32_t count, weir_handle *result) {
	if (forked) return in_a_child();
	return goOperate((char *)name, (char *)attributes, (weir_handle *)operands, count, result);
}

int32_t weir_abi(void) { return WEIR_ABI; }
int32_t weir_abi_minor(void) { return WEIR_ABI_MINOR; }

void weir_free(void *text) { free(text); }

extern int64_t goTrim(void);
extern int64_t goSetLimit(int64_t);

int64_t weir_trim(void) { return forked ? 0 : goTrim(); }

int64_t weir_set_limit(int64_t bytes) { return forked ? 0 : goSetLimit(bytes); }

// Python's functions. Objects are void *.
static struct {
	int (*is_valid)(void *capsule, const char *name);
	void *(*get_pointer)(void *capsule, const char *name);
	int (*set_name)(void *capsule, const char *name);
	int (*lock)(void);
	void (*unlock)(int state);
	int (*check_signals)(void);
	void (*fetch)(void **type, void **value, void **traceback);
	void (*restore)(void *type, void *value, void *traceback);
} python;

// What a handler of a signal raised during a call, on the thread that the call is on.
static __thread struct { void *type, *value, *traceback; } raised;

static const char versioned_name[] = "dltensor_versioned", used_versioned_name[] = "used_dltensor_versioned";
static const char legacy_name[] = "dltensor", used_legacy_name[] = "used_dltensor";

void weir_python(void *const *functions) {
	memcpy(&python, functions, sizeof python);
}

int32_t weir_python_poll(void) {
	int state = python.lock();
	int failed = python.check_signals();
	if (failed) python.fetch(&raised.type, &raised.value, &raised.traceback);
	python.unlock(state);
	return failed != 0;
}

int32_t weir_python_raise(void) {
	if (raised.type == NULL) return 0;
	python.restore(raised.type, raised.value, raised.traceback);
	raised.type = raised.value = raised.traceback = NULL;
	return 1;
}

void weir_capsule_destructor(void *capsule) {
	if (python.is_valid(capsule, versioned_name)) {
		weir_bridge_delete_versioned(python.get_pointer(capsule, versioned_name));
	} else if (python.is_valid(capsule, legacy_name)) {
		weir_bridge_delete_legacy(python.get_pointer(capsule, legacy_name));
	}
}

void *weir_capsule_take(void *capsule, int32_t *versioned) {
	void *m = NULL;
	pthread_mutex_lock(&naming);
	if (python.is_valid(capsule, versioned_name)) {
		*versioned = 1;
		m = python.get_pointer(capsule, versioned_name);
		if (python.set_name(capsule, used_versioned_name) != 0) m = NULL;
	} else if (python.is_valid(capsule, legacy_name)) {
		*versioned = 0;
		m = python.get_pointer(capsule, legacy_name);
		if (python.set_name(capsule, used_legacy_name) != 0) m = NULL;
	}
	pthread_mutex_unlock(&naming);
	return m;
}

const struct DLTensor *weir_capsule_view(void *capsule, int32_t *fixed) {
	const struct DLTensor *view = NULL;
	*fixed = 0;
	pthread_mutex_lock(&naming);
	if (python.is_valid(capsule, versioned_name)) {
		weir_dl_versioned *m = python.get_pointer(capsule, versioned_name);
		if (m->major == 1) {
			*fixed = m->flags & 1;
			view = &m->tensor;
		}
	} else if (python.is_valid(capsule, legacy_name)) {
		view = &((weir_dl_legacy *)python.get_pointer(capsule, legacy_name))->tensor;
	}
	pthread_mutex_unlock(&naming);
	return view;
}
