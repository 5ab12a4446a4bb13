/* Weir's C interface.
 *
 * Objects are handles: numbers that are never used twice, so that a handle that was closed is an error and no crash. A
 * function that may fail returns NULL, or the error as a JSON object with the keys kind, file, node, op, tensor, dim,
 * detail, fix and message, all of them strings; kind is input, unsupported, budget, memory, closed, internal or
 * interrupted. weir_free frees the error, and every other text that a function gives. After an error, what would have been
 * given is untouched.
 *
 * Any thread may call any function. No pointer into Go's memory crosses. Texts are UTF-8 and end with a zero. Memory
 * that a caller passes is not kept beyond the call, unless the function says so. Deleters and polls are called on the
 * thread that called the function, which should not hold a lock that they want, such as Python's.
 *
 * A process that forked after the first call must not call any function in the child; deleters do nothing there.
 */
#ifndef WEIR_H
#define WEIR_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this interface. WEIR_ABI changes when a caller that was compiled with another header would go wrong: when
 * a function, a structure or a constant changes or goes. WEIR_ABI_MINOR grows, within one WEIR_ABI, when something is added:
 * a function, a constant, a key of weir_compile's options. A caller needs the same WEIR_ABI as it was compiled with, and at
 * least its WEIR_ABI_MINOR. Minor versions: 1 has weir_abi_minor, weir_share, WEIR_TAKE and the option layouts; 2 has
 * weir_load_embedder and weir_embed. */
#define WEIR_ABI 1
#define WEIR_ABI_MINOR 2

/* A model, a program, an embedder, a tensor or a list of tensors; 0 is none. */
typedef uint64_t weir_handle;

/* NULL, or an error, to be freed by weir_free. */
typedef char *weir_error;

/* Asked about every 50 ms during a long call, on the thread of the call: anything but 0 ends the call soon after, with an
 * error of the kind interrupted. May be NULL. */
typedef int32_t (*weir_poll)(void);

/* DLPack's DLTensor, whose header is https://github.com/dmlc/dlpack/blob/main/include/dlpack/dlpack.h. */
struct DLTensor;

/* What a run does with an argument. */
enum {
	WEIR_LEND = 0,    /* reads it */
	WEIR_CONSUME = 1, /* reads it, and gives its memory back after the last step that does */
	WEIR_DONATE = 2,  /* consumes it, and lays an output into its memory */
	WEIR_UPDATE = 3,  /* a state: reads it, and writes its new value in its place */
	WEIR_ABSENT = 4,  /* an optional argument that is not there, or a state that the program keeps (initial) */
	WEIR_TAKE = 5     /* takes what lent points at over, as weir_take does, and consumes it: see weir_argument */
};

/* What may be copied on the way in or out. */
enum {
	WEIR_COPY_IF_NEEDED = 0,
	WEIR_COPY_NEVER = 1,
	WEIR_COPY_ALWAYS = 2
};

/* One argument of a run: a tensor or list of Weir's, or memory that the caller keeps until the run has returned. Memory that
 * does not lie as the input is declared to (layouts, else row-major order) is copied for the run; if that is more than
 * weir_set_limit or the budget leaves, the run is refused. */
typedef struct {
	weir_handle tensor;          /* or 0 */
	const struct DLTensor *lent; /* if tensor is 0; WEIR_LEND and WEIR_UPDATE only. With WEIR_TAKE it is a
	                              * DLManagedTensorVersioned, whose deleter is called once, whatever happens: after the
	                              * last step that reads it, or before the function returns an error. It may be called on
	                              * the calling thread while the run goes on. */
	int32_t how;                 /* WEIR_LEND, … */
	int32_t reserved;            /* 0 */
} weir_argument;

/* WEIR_ABI and WEIR_ABI_MINOR of the library. Of minor version 0 there is no weir_abi_minor. */
int32_t weir_abi(void);
int32_t weir_abi_minor(void);

/* Frees a text or an error. NULL is fine. */
void weir_free(void *text);

/* Loads a model from a file, or from memory, which is copied. */
weir_error weir_load(const char *path, weir_handle *model);
weir_error weir_load_bytes(const void *data, size_t size, weir_handle *model);

/* Compiles a model. options is a JSON object, or NULL, with any of the keys budget, calls, threads (numbers), target,
 * precision, cpu, cache, page_folder (texts), outputs (a list), states (input: output), dims (name: [least, most]), exact,
 * tune and layouts (input: {"text": how it lies in memory, as "0,2,3,1"} or {"shape": a list, "strides": a list}, of an
 * example, in elements). The program does not need the model's handle any more. */
weir_error weir_compile(weir_handle model, const char *options, weir_poll poll, weir_handle *program);

/* Loads a model of texts: a folder that sentence-transformers wrote, or an ONNX file beside a tokenizer. options is a JSON
 * object, or NULL, with any of the keys prompt, prompt_name, artefact (texts), max_tokens, dimensions (numbers), no_prompt,
 * normalize (truth values), and weir_compile's but for outputs, states, dims and layouts. budget is then the most bytes that
 * the loaded model may take. https://pkg.go.dev/github.com/weirml/weir/embed#Options describes them. */
weir_error weir_load_embedder(const char *path, const char *options, weir_poll poll, weir_handle *embedder);

/* The vectors of texts, a JSON list, as a tensor of f32: a row for each. prompt_name is one of the model's prompts, or NULL
 * for its own choice. Calls of all threads share runs. */
weir_error weir_embed(weir_handle embedder, const char *texts, const char *prompt_name, weir_poll poll, weir_handle *vectors);

/* Describes a model or a program: inputs, outputs, and of a program dims and requires. Of an embedder: dimensions,
 * max_tokens, prompts and memory, its certificate in bytes. */
weir_error weir_describe(weir_handle object, char **json);

/* The certificate of a program for calls runs at once: the formula of its peak, its parts, and the bytes where dims, a
 * JSON object of numbers or NULL, binds every dimension. */
weir_error weir_memory(weir_handle program, int32_t calls, const char *dims, char **json);

/* The memory plan of a program as one page of HTML that needs nothing else, under a title. dims is a JSON object of numbers
 * or NULL; a dimension that it does not bind is drawn at its upper bound, or at 1, and the page says so. */
weir_error weir_plan_page(weir_handle program, const char *title, const char *dims, char **html);

/* Runs a program on one argument for each input, in order, and gives one handle for each output: a tensor, a list, or 0
 * for an optional that is not there. Outputs have memory of their own. */
weir_error weir_run(weir_handle program, const weir_argument *arguments, int32_t count, weir_poll poll,
	weir_handle *outputs, int32_t outputs_count);

/* weir_run and weir_give of each output in one: managed[i] becomes a DLManagedTensorVersioned that owns output i, or NULL
 * for a state or an optional that is not there. Outputs that are lists or strings are refused. */
weir_error weir_run_giving(weir_handle program, const weir_argument *arguments, int32_t count, weir_poll poll,
	void **managed, int32_t outputs_count);

/* Takes a tensor over that another library gives away by DLPack: a DLManagedTensorVersioned, or with versioned 0 a
 * DLManagedTensor. Its deleter is called once, whatever happens: when the tensor is closed and nobody reads it, or before
 * the function returns an error. */
weir_error weir_take(void *managed, int32_t versioned, int32_t copying, weir_handle *tensor);

/* Gives a tensor away by DLPack, as a DLManagedTensorVersioned or DLManagedTensor, which holds the memory until its
 * deleter is called: from any thread, also after weir_close of the handle. A legacy structure cannot say that memory is
 * not to be written, and is refused for such a tensor. */
weir_error weir_give(weir_handle tensor, int32_t versioned, int32_t copying, void **managed);

/* The tensor as a DLTensor, in memory that is valid until the handle is closed. */
weir_error weir_view(weir_handle tensor, const struct DLTensor **view);

/* weir_view with another handle of the tensor, for a caller whose other threads may close the first: the view is valid, and
 * the memory there, until share is closed. */
weir_error weir_share(weir_handle tensor, weir_handle *share, const struct DLTensor **view);

/* The name of a tensor's element type, such as f32, and whether its memory may only be read. */
weir_error weir_type(weir_handle tensor, char **name, int32_t *fixed);

/* A tensor of zeros. */
weir_error weir_zeros(const char *dtype, const int64_t *shape, int32_t rank, weir_handle *tensor);

/* A tensor of strings out of a JSON list, and back. */
weir_error weir_strings(const char *json, const int64_t *shape, int32_t rank, weir_handle *tensor);
weir_error weir_text(weir_handle tensor, char **json, int64_t *shape, int32_t *rank);

/* A list of tensors, which keeps them until it is closed, and its tensors as handles of their own: with items NULL only
 * their number is given. */
weir_error weir_list(const weir_handle *tensors, int32_t count, weir_handle *list);
weir_error weir_items(weir_handle list, weir_handle *items, int32_t *count);

/* Computes an operation on tensors, at once. name is one of Go's package array in lower case, such as add, sum_keep or matmul:
 * https://pkg.go.dev/github.com/weirml/weir/array#Scope describes each, and operate.go lists their names. operands are its
 * arrays, in order; 0 is one that may be absent. attributes is a JSON list of its other arguments, in order, or NULL: numbers
 * (those that JSON does not have are the texts Infinity, -Infinity and NaN), truth values, names of element types, lists.
 * A variadic argument is what is left of the operands or the attributes.
 *
 * A place of an index, as in index and assign, is a number, a list [begin, end, step] in which null is an end of the axis, or
 * one of the texts new, for a new axis, rest, for the axes that are left, and array, for the next operand.
 *
 * An operation that has one result gives a tensor; one that has several, or as many as data say, gives a list. assign and
 * add_at write into their first operand, which nobody else may use meanwhile, and give another handle of it.
 *
 * The first call for operands of some types and shapes compiles the operation; see docs/arrays.md. */
weir_error weir_operate(const char *name, const char *attributes, const weir_handle *operands, int32_t count, weir_handle *result);

/* The names of the ATen operators that weir_load_bytes reads in graphs of torch.export, as a JSON list. */
weir_error weir_operators(char **json);

/* Closes a handle; closing 0 is fine. A program waits for its runs. */
weir_error weir_close(weir_handle object);

/* What the process holds, in bytes, by kind, and how many handles and exported tensors there are. */
weir_error weir_usage(char **json);

/* Gives back what is kept for later, compiled operations too, and tells how many bytes that were. */
int64_t weir_trim(void);

/* The most bytes of pages that the process may hold; 0 is no limit. It returns the limit before. */
int64_t weir_set_limit(int64_t bytes);

/* Writes a program's artefact into a file, which weir_load reads. */
weir_error weir_save(weir_handle program, const char *path);

/* For Python: the addresses of PyCapsule_IsValid, PyCapsule_GetPointer, PyCapsule_SetName, PyGILState_Ensure,
 * PyGILState_Release, PyErr_CheckSignals, PyErr_Fetch and PyErr_Restore, in this order. What follows needs them. */
void weir_python(void *const *functions);

/* A poll that runs Python's handlers of signals. If one of them raises, the call ends, and weir_python_raise, called on the
 * same thread and holding Python's lock, raises the same. It returns 0 if there is nothing to raise. */
int32_t weir_python_poll(void);
int32_t weir_python_raise(void);

/* The destructor of capsules that hold what weir_give gave: it calls the deleter unless somebody took the tensor. */
void weir_capsule_destructor(void *capsule);

/* What a capsule of a tensor holds, which becomes the caller's: the capsule is renamed, once. versioned says which
 * structure it is. NULL: the capsule holds no tensor, or somebody took it. The caller holds Python's lock. */
void *weir_capsule_take(void *capsule, int32_t *versioned);

/* The DLTensor inside a capsule, which stays the capsule's; NULL as weir_capsule_take, and for another major version.
 * fixed says whether it is flagged as not to be written. */
const struct DLTensor *weir_capsule_view(void *capsule, int32_t *fixed);

#ifdef __cplusplus
}
#endif
#endif
