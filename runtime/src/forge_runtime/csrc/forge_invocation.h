/* One call of a function. Not part of the interface. */
#ifndef FORGE_INVOCATION_H
#define FORGE_INVOCATION_H
#include "forge_internal.h"

enum { FORGE_UNBOUND = -1, FORGE_TEXT_SIZE = 256 };

/* What is known of the call while it is checked and run. */
typedef struct {
  const forge_model *model;
  const forge_tensor *inputs; /* all that the model has, states among them */
  forge_tensor *outputs;
  const int32_t *donated;     /* for each output, the input whose memory it takes, or -1; NULL: none does */
  forge_session *session;     /* whose states are among the inputs and outputs; NULL: none are */
  forge_error *error;
  forge_heap *heap;
  forge_watch *watch;         /* NULL: the call runs to its end */
  int64_t *symbols;
  int64_t *dims;
  bool is_region;             /* of a node of a model whose inputs have been checked */
  bool entered;               /* the generated code has begun to run */
} forge_invocation;

/* Checks types and shapes of the inputs, binds symbols, fills in types and shapes of the outputs. */
FORGE_LOCAL int32_t forge_bind(const forge_invocation *b);

/* What is wrong with the memory of an input. */
FORGE_LOCAL int32_t forge_check_data(const forge_invocation *b, int32_t input);

/* Whether a size of the tensor, or its rank, is known only after the run. */
FORGE_LOCAL bool forge_is_data_dependent(const forge_tensor *tensor);

/* Bytes that kernels may read and discard of an empty tensor, as if each of its extents were at least 1; 0 for others. */
FORGE_LOCAL int64_t forge_discarded_bytes(const forge_tensor *tensor);

/* "[2, 3]" in `text`, of FORGE_TEXT_SIZE bytes. */
FORGE_LOCAL const char *forge_shape_text(const forge_tensor *tensor, char *text);

/* forge_run_limited but for the checks of arguments. */
FORGE_LOCAL int32_t forge_invoke(forge_invocation *b, const forge_host *host, const forge_limits *limits);

/* The same without limits other than those of `b->watch`. */
FORGE_LOCAL int32_t forge_invoke_watched(forge_invocation *b, const forge_host *host);

/* Only fills in types and shapes of the outputs. */
FORGE_LOCAL int32_t forge_invoke_shapes(forge_invocation *b);

/* What must hold before the first tensor is looked at: of model and tensors, and of model and host. */
FORGE_LOCAL int32_t forge_check_arguments(const forge_model *model, const void *inputs, const void *outputs, forge_error *error);
FORGE_LOCAL int32_t forge_check_host(const forge_model *model, const forge_host *host, forge_error *error);

FORGE_LOCAL void forge_clear_error(forge_error *error);

/* Gives the states of the session that are inputs or outputs their memory; `host` is that of the call. */
FORGE_LOCAL int32_t forge_session_place(const forge_invocation *b, const forge_host *host);

/* Whether the output is a state of the session, which gives it its memory. */
FORGE_LOCAL bool forge_session_keeps(const forge_session *session, int32_t output);

#endif
