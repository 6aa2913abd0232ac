/* What the runtime's own files share. Not part of the interface. */
#ifndef FORGE_INTERNAL_H
#define FORGE_INTERNAL_H
#include "forge_heap.h"
#include <stdatomic.h>
#include <stdbool.h>

#define FORGE_LOCAL __attribute__((visibility("hidden")))
#define FORGE_PAGE_SIZE ((size_t)2 << 20)

enum { FORGE_MODEL_CHECKED = 1 }; /* in forge_model.reserved */

/* Fills *error (may be NULL), cutting the message at a character of UTF-8, and returns status. */
FORGE_LOCAL int32_t forge_fail(forge_error *error, int32_t status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* FORGE_OK if this runtime can run the model on this CPU; cheap from the second call on. */
FORGE_LOCAL int32_t forge_check_model(const forge_model *model, forge_error *error);

enum { FORGE_ABI_FUNCTIONS = 4 }; /* models of this version and later name their functions, states and donated inputs */

/* Number of the library's functions in forge_model.functions; 0 where the model is the only one. */
static inline int32_t forge_functions(const forge_model *model) {
  return model->abi_version < FORGE_ABI_FUNCTIONS || model->functions == NULL ? 0 : model->n_functions;
}

static inline const char *forge_function_name(const forge_model *model) {
  return model->abi_version < FORGE_ABI_FUNCTIONS || model->function == NULL ? "main" : model->function;
}

/* Number of the states that the function reads or replaces. */
static inline int32_t forge_bindings(const forge_model *model) {
  return model->abi_version < FORGE_ABI_FUNCTIONS ? 0 : model->n_bindings;
}

/* Number of the states of the library. */
static inline int32_t forge_states(const forge_model *model) {
  return model->abi_version < FORGE_ABI_FUNCTIONS ? 0 : model->n_states;
}

/* For each output, the input whose memory it takes, or -1; NULL: none does. */
static inline const int32_t *forge_donated(const forge_model *model) {
  return model->abi_version < FORGE_ABI_FUNCTIONS ? NULL : model->donated;
}

/* Copies a descriptor: what models of its version do not have is 0. */
FORGE_LOCAL void forge_copy_model(forge_model *copy, const forge_model *model);

/* Set while this thread asks for memory that it gives back when the call ends: a block of the built-in host that is far too large
 * will do then. */
extern FORGE_LOCAL _Thread_local bool forge_gives_back_soon;

/* FORGE_OK: the session is the caller's until it leaves, which returns `status`. In between it runs functions and asks for shapes. */
FORGE_LOCAL int32_t forge_session_enter(forge_session *session, forge_error *error);
FORGE_LOCAL int32_t forge_session_leave(forge_session *session, int32_t status);
FORGE_LOCAL int32_t forge_session_run_entered(forge_session *session, const forge_model *function, const forge_tensor *inputs,
                                              forge_tensor *outputs, const forge_limits *limits, forge_error *error);
FORGE_LOCAL int32_t forge_session_shapes_entered(forge_session *session, const forge_model *function, const forge_tensor *inputs,
                                                 forge_tensor *outputs, forge_error *error);
FORGE_LOCAL int32_t forge_session_get_entered(const forge_session *session, const char *state, forge_tensor *value,
                                              forge_error *error);

/* Gives the blocks that the built-in host keeps for later calls back to the system. */
FORGE_LOCAL void forge_trim_memory(void);

/* CPUs that this process may use: affinity mask and cgroup quota. At least 1. */
FORGE_LOCAL int32_t forge_usable_cpus(void);

/* forge_host.parallel_for on the process's pool; threads 0: forge_num_threads(). */
FORGE_LOCAL int32_t forge_pool_run(int32_t threads, forge_parallel_body body, void *closure, int64_t count, int64_t grain);

/* forge_host.run_control. Each of `out` holds dtype, ndim, the sizes it must have (-1: any) and no data; on success its data is
 * from host->alloc, on failure there is none. */
FORGE_LOCAL int32_t forge_run_control(const forge_host *host, const forge_control *control, const void *weights,
                                      const forge_tensor *in, int32_t n_in, forge_tensor *out, int32_t n_out);

/* What can end a call before it is done; belongs to the thread that runs it. */
typedef struct forge_watch forge_watch;

/* FORGE_OK, or why the call is to end, from then on for ever. */
FORGE_LOCAL int32_t forge_watch_check(forge_watch *watch);

/* The same at the beginning of a region, of which there may be very many. */
FORGE_LOCAL int32_t forge_watch_trip(forge_watch *watch, const forge_model *region);

/* One call of an entry: what its `host` points to. */
typedef struct {
  forge_call_host table;   /* first: models hold a pointer to it */
  const forge_host *outer; /* of the caller */
  const forge_model *model;
  forge_error *error;
  forge_heap *heap;
  forge_watch *watch; /* NULL: the call runs to its end */
  atomic_flag reported;
} forge_running;

FORGE_LOCAL void forge_begin_call(forge_running *call, const forge_model *model, forge_error *error, const forge_host *outer,
                                  forge_heap *heap, forge_watch *watch);

/* The heap and the watch of the call; `host` is what an entry was called with. */
FORGE_LOCAL forge_heap *forge_heap_of(const forge_host *host);
FORGE_LOCAL forge_watch *forge_watch_of(const forge_host *host);

/* The host of the caller of forge_run. */
FORGE_LOCAL const forge_host *forge_outer_host(const forge_host *host);

/* forge_run_control for a call of a registered function. */
FORGE_LOCAL int32_t forge_call_function(const forge_host *host, const forge_control *control, const forge_tensor *in,
                                        int32_t n_in, forge_tensor *out, int32_t n_out);

/* FORGE_ERROR_FUNCTION, with a list of all, if functions that the model calls are not registered. */
FORGE_LOCAL int32_t forge_check_registered(const forge_model *model, forge_error *error);

/* forge_run for a region of a node: no checks of the model, and the heap is that of `host`, which an entry was called with. */
FORGE_LOCAL int32_t forge_run_region(const forge_model *region, const forge_tensor *inputs, forge_tensor *outputs,
                                     const forge_host *host, forge_error *error);

/* What nodes that the host runs share. A failure names the node, is reported, and its status returned. */
FORGE_LOCAL int32_t forge_node_fail(const forge_host *host, const forge_control *control, int32_t status, const char *message);

/* Memory from host->alloc for `bytes` at tensor->data; bytes < 0: too many. */
FORGE_LOCAL int32_t forge_node_allocate(const forge_host *host, const forge_control *control, forge_tensor *tensor,
                                        int64_t bytes);

/* Moves `value`, whose data is the caller's to give, into a result of the node. It stays with the caller if it does not fit. */
FORGE_LOCAL int32_t forge_hand_over(const forge_host *host, const forge_control *control, forge_tensor *value,
                                    forge_tensor *result);

/* Runs a region; outputs have no data before and, unless it fails, have some afterwards. */
FORGE_LOCAL int32_t forge_node_region(const forge_host *host, const forge_model *region, const void *weights,
                                      const forge_tensor *in, forge_tensor *out);

/* forge_run_control for operators on sequences and optionals. */
FORGE_LOCAL int32_t forge_run_sequence(const forge_host *host, const forge_control *control, const void *weights,
                                       const forge_tensor *in, int32_t n_in, forge_tensor *out, int32_t n_out);

/* Replaces the data of a sequence by one block from host->alloc that holds all it refers to; strings have their characters behind
 * them. FORGE_ERROR_MEMORY: it is as before. */
FORGE_LOCAL int32_t forge_pack(const forge_host *host, forge_tensor *tensor);

/* What is wrong with an input that is a sequence or an optional, or NULL. */
FORGE_LOCAL const char *forge_check_sequence(const forge_tensor *tensor, const forge_tensor_spec *spec);

FORGE_LOCAL int64_t forge_dtype_alignment(int32_t dtype); /* of an element */

/* Whether the value is a sequence or an optional. */
static inline bool forge_is_sequence(const forge_tensor *tensor) {
  return tensor->dtype == FORGE_SEQUENCE || tensor->dtype == FORGE_OPTIONAL;
}

/* Bytes of the tensor; -1 where they exceed int64. */
FORGE_LOCAL int64_t forge_byte_count(const forge_tensor *tensor);

#endif
