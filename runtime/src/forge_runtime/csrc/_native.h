/* What the files of the CPython binding share. In this folder, but no part of the native interface. */
#ifndef FORGE_NATIVE_H
#define FORGE_NATIVE_H
#include "_dlpack.h"

enum { N_STATUS = FORGE_ERROR_FUNCTION + 1 };

/* Python objects that every call needs, found once. */
typedef struct {
  dlpack_state dlpack;        /* first: the functions of _dlpack.c take it for the state of the module */
  PyObject *errors[N_STATUS]; /* exception class of a forge_status */
  PyObject *ndarray, *tensor_class, *empty, *donated_class;
  PyObject *adapt, *from_memory, *output_dtypes, *check_output;
  PyObject *extended; /* of each forge_dtype that only ml_dtypes knows: dtypes of storage and view, once it was met */
  PyObject *model_type, *memory_type, *session_type, *checksums_type;
} module_state;

/* An output that is not a state. A fresh one is numpy.empty(*arguments), then .view(view_dtype) for types without buffer protocol. */
typedef struct {
  int32_t number; /* in forge_model.outputs */
  int32_t donor;  /* the caller's input whose memory it takes, or -1 */
  PyObject *storage_dtype, *view_dtype;
  PyObject *arguments; /* NULL: the shape is dynamic */
} output_plan;

typedef struct {
  PyObject_HEAD forge_library *library;
  forge_model *prepared;
  const forge_model *model;
  forge_host host;
  forge_limits limits; /* memory and time; the rest belongs to a call */
  Py_buffer weights;   /* kept while the model uses it in place */
  PyObject *keepalive;
  int32_t n_inputs, n_outputs; /* that are not states: what callers give and get */
  int32_t *inputs;             /* their numbers in forge_model.inputs */
  output_plan *outputs;
  bool borrows_plans; /* they belong to the model that is kept alive */
  bool detaches;      /* inputs may require gradients, which end here */
  PyObject *returned; /* class of fresh outputs, which `exchange` makes; NULL: arrays */
  const dlpack_exchange *exchange;
} model_object;

/* Memory of the built-in host, which serves later calls when nobody holds it any more. */
typedef struct {
  PyObject_HEAD forge_tensor tensor;
} memory_object;

FORGE_LOCAL PyObject *native_raise(const module_state *state, const forge_error *error);
FORGE_LOCAL module_state *native_state(PyObject *object); /* of the module that the object's type is from */
FORGE_LOCAL PyObject *native_new_object(PyObject *type);
FORGE_LOCAL void native_free_object(PyObject *self);
FORGE_LOCAL PyObject *native_new_memory(const module_state *state, size_t bytes); /* a memory_object */

/* Fills in inputs and outputs of a model, or frees them. */
FORGE_LOCAL int native_plan(const module_state *state, model_object *self);
FORGE_LOCAL void native_free_plans(model_object *self);

/* A call, in a session unless that is NULL: `arguments` are a tuple of inputs and, optionally, one of outputs or None. */
FORGE_LOCAL PyObject *native_call(const model_object *self, forge_session *session, PyObject *const *arguments, Py_ssize_t count);

/* An array over memory of the built-in host, which is taken over also if it fails. */
FORGE_LOCAL PyObject *native_wrap_memory(const module_state *state, forge_tensor *tensor);

/* A memory_object with the elements of a view in C order; its rank is at most FORGE_MAX_RANK. */
FORGE_LOCAL PyObject *native_copy_in_order(const module_state *state, const Py_buffer *view);

/* The tensor that an array's buffer holds; the caller releases the buffer. */
FORGE_LOCAL int native_view(PyObject *array, int32_t dtype, Py_buffer *view, forge_tensor *tensor);

FORGE_LOCAL extern PyType_Spec native_session_spec, native_checksums_spec;
FORGE_LOCAL PyObject *native_new_session(PyObject *model, PyObject *capacity);

/* Of a tuple of pairs: address and size of blocks of memory, which the caller keeps. */
FORGE_LOCAL PyObject *native_checksums(PyObject *module, PyObject *pairs);

#endif
