/* Functions of Python that models call by name. */
#ifndef FORGE_PYTHON_FUNCTIONS_H
#define FORGE_PYTHON_FUNCTIONS_H
#include <Python.h>

PyObject *forge_register_python(PyObject *module, PyObject *arguments);
PyObject *forge_unregister_python(PyObject *module, PyObject *name);

/* Adds a note to the exception that is set: where in the model it was raised. */
void forge_add_note(const char *text);

#endif
