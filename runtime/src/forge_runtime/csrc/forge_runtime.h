/* The native interface of a compiled model. Versioned by FORGE_ABI_VERSION.
 *
 * A model library holds a `forge_model` for each of its public functions: tables that describe it and three generated functions.
 * They share one block of weights. Nothing in a model has state: memory, threads and error text come from the `forge_host` table that
 * the caller passes (NULL: the built-in host), and what lives from one call to the next belongs to a `forge_session`.
 */
#ifndef FORGE_RUNTIME_H
#define FORGE_RUNTIME_H
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FORGE_ABI_VERSION 4
#define FORGE_ABI_OLDEST 2 /* forge_run takes models and hosts of this version and later */
#define FORGE_MAX_RANK 8
#define FORGE_ALIGNMENT 64 /* of weights and arena; inputs and outputs need only their element's alignment */

#if defined(__GNUC__)
#define FORGE_API __attribute__((visibility("default")))
#else
#define FORGE_API
#endif

/* Element types. The order is part of the ABI. Sub-byte types take one byte an element. */
typedef enum {
  FORGE_BOOL = 0,
  FORGE_INT8 = 1, FORGE_INT16 = 2, FORGE_INT32 = 3, FORGE_INT64 = 4,
  FORGE_UINT8 = 5, FORGE_UINT16 = 6, FORGE_UINT32 = 7, FORGE_UINT64 = 8,
  FORGE_FLOAT16 = 9, FORGE_BFLOAT16 = 10, FORGE_FLOAT32 = 11, FORGE_FLOAT64 = 12,
  FORGE_COMPLEX64 = 13, FORGE_COMPLEX128 = 14,
  FORGE_FLOAT8_E4M3FN = 15, FORGE_FLOAT8_E4M3FNUZ = 16, FORGE_FLOAT8_E5M2 = 17, FORGE_FLOAT8_E5M2FNUZ = 18,
  FORGE_FLOAT8_E8M0FNU = 19, FORGE_FLOAT4_E2M1FN = 20,
  FORGE_INT2 = 21, FORGE_UINT2 = 22, FORGE_INT4 = 23, FORGE_UINT4 = 24,
  FORGE_STRING = 25,    /* elements are forge_string */
  FORGE_SEQUENCE = 26,  /* only of rank 0: the element is a forge_sequence */
  FORGE_OPTIONAL = 27   /* only of rank 0: the element is a forge_sequence of no or one element */
} forge_dtype;

typedef enum {
  FORGE_OK = 0,
  FORGE_ERROR_INPUT = 1,    /* wrong number, dtype, rank or shape of the tensors */
  FORGE_ERROR_MEMORY = 2,   /* allocation failed */
  FORGE_ERROR_CPU = 3,      /* the CPU lacks a feature that the model was compiled for */
  FORGE_ERROR_ABI = 4,      /* the model needs another version of this interface */
  FORGE_ERROR_VALUE = 5,    /* an operator met a value that it cannot handle (an index out of range, say) */
  FORGE_ERROR_INTERNAL = 6,
  FORGE_ERROR_FILE = 7,     /* missing, damaged, newer format, wrong password */
  FORGE_ERROR_MEMORY_LIMIT = 8, /* the call needs more memory than forge_limits allows */
  FORGE_ERROR_TIME_LIMIT = 9,   /* the call takes longer than forge_limits allows */
  FORGE_ERROR_STOPPED = 10,     /* forge_limits.stop or forge_limits.interrupted ended the call */
  FORGE_ERROR_FUNCTION = 11,    /* a registered function is missing, is registered already, or failed */
} forge_status;

typedef struct {
  void *data;                     /* C-contiguous, row-major */
  int32_t dtype;                  /* forge_dtype */
  int32_t ndim;
  int64_t shape[FORGE_MAX_RANK];
  int64_t capacity;               /* outputs: bytes available at data; data NULL: forge_run allocates with host->alloc */
} forge_tensor;                   /* inputs need no capacity; outputs need only data and capacity, the rest is filled in */

/* An element of dtype FORGE_STRING: UTF-8 without terminating zero; other bytes pass through. data may be NULL where size is 0.
 * An input's characters are the caller's and must stay as they are for the call. An output's lie behind its elements, in the memory
 * that forge_free_output gives back, or in that which the caller gave, which then has to have room for both. */
typedef struct {
  const char *data;
  int64_t size;
} forge_string;

/* The element of a tensor of dtype FORGE_SEQUENCE or FORGE_OPTIONAL. An input's elements are the caller's and must stay as they
 * are for the call. An output's lie in the memory that forge_free_output gives back. Elements are tensors of one dtype, or
 * sequences (of dtype FORGE_SEQUENCE and rank 0). */
typedef struct {
  const forge_tensor *elements;   /* may be NULL where length is 0 */
  int64_t length;
  void *backing;                  /* the runtime's; NULL in inputs and outputs */
} forge_sequence;

typedef struct {
  int32_t status;
  char message[1020];             /* UTF-8, always terminated: where: what; got; expected; next step */
} forge_error;

/* What a model asks of the process it runs in. All functions may be called from many threads at once. */
typedef struct forge_host forge_host;
typedef struct forge_control forge_control;
typedef int32_t (*forge_parallel_body)(int64_t begin, int64_t end, void *closure);
struct forge_host {
  int32_t abi_version;
  void *state;
  void *(*alloc)(const forge_host *host, size_t bytes, size_t alignment); /* NULL when out of memory */
  void (*free)(const forge_host *host, void *memory, size_t bytes);
  /* Runs body over [0, count) in chunks of at least `grain`, on this and other threads; returns the first status that is not 0.
   * NULL: forge_run runs every loop on the calling thread. */
  int32_t (*parallel_for)(const forge_host *host, forge_parallel_body body, void *closure, int64_t count, int64_t grain);
  /* Told of an error that an operator met, from the thread that met it. May be NULL: forge_run has filled forge_error already. */
  void (*report_error)(const forge_host *host, int32_t status, const char *message);
  /* Calls a function of the embedding program by name, as forge_function; the model names the place in the error. NULL: functions are
   * those of forge_register. Called by forge_run, not by models: NULL in the table that they get. */
  int32_t (*call_registered)(const forge_host *host, const char *name, const forge_tensor *in, int32_t n_in, forge_tensor *out, int32_t n_out);
  /* Runs a control-flow node. forge_run supplies it to the model; what a caller's own table holds here is not read. */
  int32_t (*run_control)(const forge_host *host, const forge_control *control, const void *weights, const forge_tensor *in,
                         int32_t n_in, forge_tensor *out, int32_t n_out);
  /* Memory aligned to FORGE_ALIGNMENT that lives until the outputs of the outermost call are delivered; NULL where there is none.
   * Supplied as run_control is. Only for the thread that runs the entry. */
  void *(*heap_alloc)(const forge_host *host, size_t bytes);
};

/* The table that a model gets from forge_run: that of the caller with what belongs to the call. Since version 3. */
typedef struct {
  forge_host host;
  /* `status` where that is not FORGE_OK; else a status that is not FORGE_OK where the call is to end, because it was stopped or has
   * reached a limit. Called between kernels, only from the thread that runs the entry. */
  int32_t (*proceed)(const forge_host *host, int32_t status);
} forge_call_host;

/* One dimension of an input or output. A symbol is bound by the first input dimension that is that symbol (size -1), so every
 * symbol in an input's expression also occurs as a plain dimension of some input. An output extent known only after the run is a
 * symbol that no input binds. */
typedef struct {
  int64_t size;                   /* >= 0: this many. -1: the value of symbol `symbol`. -2: expression number `symbol` of `dims` */
  int64_t symbol;
} forge_dim;

typedef struct forge_tensor_spec forge_tensor_spec;
struct forge_tensor_spec {
  const char *name;
  int32_t dtype;
  int32_t ndim;                   /* -1: rank known only after the run, or (of elements) any */
  forge_dim dims[FORGE_MAX_RANK];
  const forge_tensor_spec *element; /* of a sequence or optional: what its elements are; a dim of -1 there: any size. Else NULL */
};

/* What the generated entry is called with. Its `host` is that of a forge_call_host and lives as long as the call. For an output of data-dependent size the entry
 * allocates with host->alloc and fills data, ndim, shape and capacity (the bytes it asked for) of `out`. */
typedef struct {
  void *const *inputs;            /* data pointers */
  void *const *outputs;           /* data pointers; NULL where the entry itself must allocate (data-dependent size) */
  const void *weights;
  void *arena;
  const int64_t *symbols;         /* -1: bound by no input */
  const forge_host *host;
  forge_tensor *out;              /* the caller's output descriptors, for data-dependent sizes */
} forge_call;

/* A tensor that a session keeps from one call to the next. Shapes are logical ones; a session stores the axes in another order if the
 * calls make one of them longer, which then comes first. Inputs and outputs of functions that are states have the stored order. */
typedef struct {
  const char *name;
  int32_t dtype;                    /* neither FORGE_STRING nor FORGE_SEQUENCE nor FORGE_OPTIONAL */
  int32_t ndim;
  int64_t dims[FORGE_MAX_RANK];     /* -1: any size */
  int64_t initial_shape[FORGE_MAX_RANK]; /* read only where there is an initial value */
  int32_t axes[FORGE_MAX_RANK];     /* stored axis k is logical axis axes[k] */
  int64_t initial;                  /* where the weights have its first value, in stored order; -1: there is none, it is zeros */
} forge_state_spec;

/* How a function's output becomes the new value of a state. */
typedef enum {
  FORGE_STATE_REPLACED = 0,  /* it has memory of its own until the call has succeeded */
  FORGE_STATE_IN_PLACE = 1,  /* it is written over the input, which a session saves where it is small */
  FORGE_STATE_APPENDED = 2   /* it begins with the elements of the input, which the call leaves as they are: the first axis grew */
} forge_state_memory;

/* A state that a function reads or replaces. */
typedef struct {
  int32_t state;                    /* number in forge_model.states */
  int32_t input, output;            /* -1: none */
  int32_t memory;                   /* forge_state_memory; where that is not FORGE_STATE_REPLACED, there are an input and an output */
} forge_binding;

typedef struct forge_model forge_model;
struct forge_model {
  int32_t abi_version;
  int32_t n_inputs, n_outputs, n_symbols, n_dims;
  int32_t reserved;               /* 0; forge_prepare marks here that the CPU was checked */
  const char *name;
  const char *cpu_features;       /* comma-separated LLVM feature names that the code needs, "" for the baseline */
  const char *const *symbol_names;
  const forge_tensor_spec *inputs;
  const forge_tensor_spec *outputs;
  const void *weights;            /* aligned to FORGE_ALIGNMENT; NULL: supplied by the loader (a file) */
  int64_t weights_size;
  int64_t (*arena_size)(const int64_t *symbols);
  void (*dims)(const int64_t *symbols, int64_t *values); /* fills n_dims expression values; NULL when n_dims is 0 */
  int32_t (*entry)(const forge_call *call);
  /* Since version 4: models of earlier versions end here. */
  const char *function;           /* name of this function in the library: "main" */
  const forge_model *const *functions; /* the public functions of the library, this one among them; NULL: it is the only one */
  const forge_state_spec *states; /* of the library: the same table in all its functions */
  const forge_binding *bindings;  /* the states that this function reads or replaces */
  const int32_t *donated;         /* for each output, the input whose memory it takes, or -1; NULL: none does */
  const char *const *registered;  /* of the library: names of the functions that it expects forge_host.call_registered to know */
  int32_t n_functions, n_states, n_bindings, n_registered;
};

typedef enum {
  FORGE_IF = 0, FORGE_LOOP = 1, FORGE_SCAN = 2,
  FORGE_SEQUENCE_MAP = 3, FORGE_SEQUENCE_CONSTRUCT = 4, FORGE_SEQUENCE_INSERT = 5, FORGE_SEQUENCE_ERASE = 6,
  FORGE_SEQUENCE_AT = 7, FORGE_SEQUENCE_LENGTH = 8, FORGE_SEQUENCE_SPLIT = 9, FORGE_SEQUENCE_CONCAT = 10,
  FORGE_OPTIONAL_HAS = 11, FORGE_OPTIONAL_GET = 12, FORGE_CALL_REGISTERED = 13
} forge_control_kind;
enum { FORGE_LOOP_TRIPS = 1, FORGE_LOOP_CONDITION = 2 };
enum { FORGE_SEQUENCE_NEW_AXIS = 1, FORGE_SEQUENCE_DROP_AXIS = 2 }; /* flags of FORGE_SEQUENCE_CONCAT and FORGE_SEQUENCE_SPLIT */

/* A control-flow node of a model. Its regions are models whose weights are those of the model they belong to.
 * Operands: if: condition, captured; loop: trips and condition as `flags` say, carried, captured; scan: carried, scanned, captured.
 * Inputs of regions: if: captured; loop: iteration (int64), condition (bool), carried, captured; scan: carried, slices, captured.
 * Results of regions: loop: condition, carried, one slice of each stacked result; scan: carried, slices.
 * Operators on sequences and optionals are run in the same way; FORGE_SEQUENCE_MAP has a body, whose inputs are an element of
 * each of the `carried` first operands (one that is not a sequence: itself), captured. FORGE_CALL_REGISTERED calls `function`; its results
 * have their data and sizes before. */
struct forge_control {
  int32_t kind;                   /* forge_control_kind */
  int32_t flags;                  /* loop: FORGE_LOOP_TRIPS, FORGE_LOOP_CONDITION: the operands in front that there are */
  int32_t carried;                /* loop, scan: values that pass from one iteration to the next */
  int32_t scanned;                /* scan: operands that are taken apart along their first dimension */
  const uint8_t *backwards;       /* scan, for each scanned operand, then each stacked result: 1 from last to first; may be NULL */
  const forge_model *regions[2];  /* then and else; or body and NULL */
  const char *name;               /* of the node, for messages */
  int32_t axis;                   /* FORGE_SEQUENCE_SPLIT, FORGE_SEQUENCE_CONCAT */
  const char *function;           /* FORGE_CALL_REGISTERED; other nodes of models before version 4 end before it */
};

/* The model inside this library: its first function, "main" where there is one. */
FORGE_API const forge_model *forge_model_get(void);

/* The function called `name` of the library that `model` is from, as prepared as `model` is; NULL: there is none. */
FORGE_API const forge_model *forge_model_find(const forge_model *model, const char *name);

/* Checks the inputs, binds symbols, allocates outputs whose data is NULL, runs. Thread-safe. Every thread that takes part computes in
 * the caller's floating-point environment (rounding, flushing of subnormal numbers), but with all exceptions masked; the caller's
 * exception flags are as before afterwards.
 * `inputs` and `outputs` hold n_inputs and n_outputs tensors; outputs overlap neither each other nor inputs, but for an output that
 * takes the memory of an input (forge_model.donated): the caller donates that input by giving the output the same data. It is then
 * written, also by a call that fails. What is not donated is copied and stays as it is.
 * Returns a forge_status and fills *error (may be NULL). On failure no output is left allocated. */
FORGE_API int32_t forge_run(const forge_model *model, const forge_tensor *inputs, forge_tensor *outputs,
                            const forge_host *host, forge_error *error);

/* What a call may take. All zero: anything. A model of an interface version before 3 is stopped between trips of loops only. */
typedef struct {
  /* Bytes that the call may hold at once: outputs that it allocates, intermediate results, strings and sequences. Checked before memory
   * is asked for. 0: any number. */
  int64_t memory;
  /* How long the call may take; checked between kernels, between trips of loops and in long routines on strings. 0: any time. */
  int64_t nanoseconds;
  /* The call ends as soon as this is not 0; looked at between kernels and trips. A plain store is enough to set it, in another thread
   * and in a signal handler too. May be NULL. */
  const volatile int32_t *stop;
  /* Asked about every 20 ms, by the thread that called forge_run_limited; the call ends if it is not 0. May be NULL. */
  int32_t (*interrupted)(void *state);
  void *state;
} forge_limits;

/* forge_run within limits (may be NULL). A call that reaches one gives its memory back and returns FORGE_ERROR_MEMORY_LIMIT,
 * FORGE_ERROR_TIME_LIMIT or FORGE_ERROR_STOPPED; its message says what was needed and what is allowed. */
FORGE_API int32_t forge_run_limited(const forge_model *model, const forge_tensor *inputs, forge_tensor *outputs,
                                    const forge_host *host, const forge_limits *limits, forge_error *error);

/* What the calls of a model keep: the values of its states. Sessions of one model share its weights and code; making one costs no
 * memory but its own. A session is for one thread at a time: while one of these functions works on it, the others fail. Model and
 * host must live as long as the session. */
typedef struct forge_session forge_session;

typedef struct {
  /* Elements of the first stored axis for which a state that calls make longer gets memory at first; what exceeds it is moved to twice
   * the memory. 0: as many as the first call needs. */
  int64_t capacity;
} forge_session_options;

/* A session in which no state has been set. NULL: see *error. options may be NULL. */
FORGE_API forge_session *forge_session_new(const forge_model *model, const forge_host *host, const forge_session_options *options,
                                           forge_error *error);
/* forge_run_limited of a function of the session's library (NULL: of the model that the session was made from). `inputs` and `outputs`
 * hold those of the function that are not states, in order. A state that was not set has its initial value; else it is zeros, of the
 * sizes that its type and the other inputs say, 0 where they say none.
 * A call that fails leaves states as they were. If it had begun to write over a large one (FORGE_STATE_IN_PLACE, more than
 * 4096 bytes), that one is undefined: calls that read it fail until it is reset or set. */
FORGE_API int32_t forge_session_run(forge_session *session, const forge_model *function, const forge_tensor *inputs,
                                    forge_tensor *outputs, const forge_limits *limits, forge_error *error);
/* forge_output_shapes of such a call. */
FORGE_API int32_t forge_session_output_shapes(forge_session *session, const forge_model *function, const forge_tensor *inputs,
                                              forge_tensor *outputs, forge_error *error);
/* No state is set afterwards; memory is kept for the next calls. */
FORGE_API int32_t forge_session_reset(forge_session *session, forge_error *error);
/* Another session with copies of the states. */
FORGE_API forge_session *forge_session_copy(forge_session *session, forge_error *error);
/* Copies the value of a state, in logical order, to value->data, which has room for value->capacity bytes; NULL: to memory that
 * forge_free_output of the session's host gives back. A state that was not set has its initial value, or zeros if its type has a
 * size for every dimension; else it has none: value->ndim is -1 and value->data NULL. */
FORGE_API int32_t forge_session_get(forge_session *session, const char *state, forge_tensor *value, forge_error *error);
/* Sets a state to a copy of `value`, which is in logical order. */
FORGE_API int32_t forge_session_set(forge_session *session, const char *state, const forge_tensor *value, forge_error *error);
/* Sets these states, and unsets all others. Nothing is changed if a name or a value is wrong. */
FORGE_API int32_t forge_session_load(forge_session *session, int32_t count, const char *const *states, const forge_tensor *values,
                                     forge_error *error);
FORGE_API void forge_session_free(forge_session *session); /* may be NULL */

/* Shapes that the outputs will have for these inputs' shapes (data is not read). Data-dependent extents are -1. */
FORGE_API int32_t forge_output_shapes(const forge_model *model, const forge_tensor *inputs, forge_tensor *outputs, forge_error *error);

/* A function of the embedding program that models call by name. `in` are tensors of the model, which it must not write to; `out` have
 * memory (data, capacity), dtype and sizes, and it writes every element. No tensor may be used after it has returned. It returns
 * FORGE_OK, or a forge_status, which ends the call of the model; then it may fill *error, to whose message the model adds the place of
 * the call. It runs in the thread that called forge_run, and in several threads at once if calls do; it may call other models. */
typedef int32_t (*forge_function)(void *state, const forge_tensor *in, int32_t n_in, forge_tensor *out, int32_t n_out,
                                  forge_error *error);

/* Registers a function for all models that this copy of the runtime runs. A model library that is linked with the runtime has a copy of
 * its own; so has Python. Loading a model (forge_load, forge_prepare) fails, and lists the names, where functions are missing. Calls look
 * names up, so that `override` (else a name that is taken is an error) also takes effect on models that are loaded. Thread-safe; calls
 * wait for no lock. Calls that began before the function was replaced or removed go on with it: keep `state` for them. With `function`
 * NULL the name is there, and hosts have the function (forge_host.call_registered). */
FORGE_API int32_t forge_register(const char *name, forge_function function, void *state, int32_t override, forge_error *error);
FORGE_API int32_t forge_unregister(const char *name, forge_error *error);

FORGE_API const char *forge_dtype_name(int32_t dtype); /* "float32"; "an unknown dtype" for other numbers */
FORGE_API size_t forge_dtype_size(int32_t dtype);      /* bytes of an element in memory; 0 for other numbers */

/* The built-in host: cached aligned memory and one thread pool for the process. */
FORGE_API const forge_host *forge_default_host(void);
/* The built-in host with a number of threads of its own, FORGE_MAX_THREADS at most; 0: the process's number. */
enum { FORGE_MAX_THREADS = 1024 };
FORGE_API forge_host forge_host_with_threads(int32_t threads);
/* Threads that a call of the built-in host uses; 0: FORGE_NUM_THREADS, else as many as the CPUs this process may use. */
FORGE_API void forge_set_num_threads(int32_t threads);
FORGE_API int32_t forge_num_threads(void);
FORGE_API void forge_free_output(const forge_host *host, forge_tensor *output);

/* FORGE_OK if this CPU has all the features ("+avx2,+fma" or "avx2,fma"; names after '-' are skipped), else FORGE_ERROR_CPU. */
FORGE_API int32_t forge_check_cpu(const char *features, forge_error *error);

/* A checked copy of the descriptor, and of those of the library's other functions, whose weights, when large, lie in huge pages, once for
 * all. forge_release of any of them frees them all. NULL: see *error. */
FORGE_API forge_model *forge_prepare(const forge_model *model, forge_error *error);
/* The same with weights from elsewhere (a file, a JIT): copied, or (copy 0) used in place, where they must then stay. */
FORGE_API forge_model *forge_prepare_weights(const forge_model *model, const void *weights, int64_t size, int32_t copy,
                                             forge_error *error);
FORGE_API void forge_release(forge_model *model);

/* A model library loaded into this process. Loading runs its code with the rights of this process: load only what you trust. The
 * SHA-256 in its metadata shows damage; who can change the file can compute it anew. */
typedef struct forge_library forge_library;
FORGE_API forge_library *forge_load(const char *path, forge_error *error);
FORGE_API forge_library *forge_load_memory(const void *bytes, size_t size, forge_error *error); /* nothing touches the disk */
FORGE_API forge_library *forge_load_fd(int fd, forge_error *error);                            /* fd stays the caller's */
FORGE_API const forge_model *forge_library_model(const forge_library *library); /* as forge_prepare leaves it */
FORGE_API void forge_unload(forge_library *library);

#ifdef __cplusplus
}
#endif
#endif
