/* Runs operators on sequences as standard input says, and prints what they give. One line a command, of six integers: operator,
 * target, source, value, position, whether the position is given. Afterwards the same again with a host that refuses one request
 * for memory, each in turn; nothing may be lost then.
 */
#include "forge_runtime.h"
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REGISTERS = 4, MOST_COMMANDS = 256, NEVER = 1 << 30, LONGEST = 8 };
enum { CONSTRUCT, INSERT, ERASE, AT, LENGTH, CONCAT, SPLIT };

#define REQUIRE(condition) \
  if (!(condition)) { fprintf(stderr, "line %d: %s\n", __LINE__, #condition); exit(1); }

typedef struct {
  int64_t operator, target, source, value, position, has_position;
} command;

static command commands[MOST_COMMANDS];
static int32_t n_commands;
static bool quiet;

typedef struct {
  int32_t live, requests, refused;
} account;

static void *take(const forge_host *host, size_t bytes, size_t alignment) {
  account *a = host->state;
  if (a->requests++ == a->refused) return NULL;
  a->live++;
  return aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}

static void give(const forge_host *host, void *memory, size_t bytes) {
  account *a = host->state;
  memset(memory, 0xee, bytes);
  a->live--;
  free(memory);
}

static int64_t no_arena(const int64_t *symbols) {
  (void)symbols;
  return 0;
}

/* `value % LONGEST` elements that are all `value`. */
static forge_tensor vector(int64_t value, int64_t *memory) {
  forge_tensor tensor = {.data = memory, .dtype = FORGE_INT64, .ndim = 1, .shape = {value % LONGEST}};
  for (int64_t k = 0; k < tensor.shape[0]; k++) memory[k] = value;
  return tensor;
}

static forge_tensor scalar(int64_t *value) { return (forge_tensor){.data = value, .dtype = FORGE_INT64}; }

static void print(const forge_tensor *tensor) {
  if (quiet) return;
  printf("[");
  if (tensor->dtype == FORGE_SEQUENCE) {
    const forge_sequence *sequence = tensor->data;
    for (int64_t k = 0; k < sequence->length; k++) print(&sequence->elements[k]);
  } else {
    const int64_t count = tensor->ndim ? tensor->shape[0] : 1;
    for (int64_t k = 0; k < count; k++) printf(k ? ",%" PRId64 : "%" PRId64, ((const int64_t *)tensor->data)[k]);
  }
  printf("]");
}

/* Runs one operator; its result has no data where it failed. */
static forge_tensor run(const forge_call *call, const forge_control *control, const forge_tensor *in, int32_t n_in, int32_t dtype,
                        int32_t ndim) {
  forge_tensor out = {.dtype = dtype, .ndim = ndim, .shape = {-1}};
  const int32_t status = call->host->run_control(call->host, control, NULL, in, n_in, &out, 1);
  REQUIRE((status == FORGE_OK) == (out.data != NULL));
  return out;
}

static forge_tensor construct(const forge_call *call, const command *c) {
  const forge_control control = {.kind = FORGE_SEQUENCE_CONSTRUCT, .name = "c"};
  int64_t memory[3][LONGEST];
  forge_tensor in[3];
  for (int32_t k = 0; k < 3; k++) in[k] = vector(c->value + k, memory[k]);
  return run(call, &control, in, (int32_t)(c->value % 4), FORGE_SEQUENCE, 0);
}

static forge_tensor split(const forge_call *call, const command *c) {
  const forge_control control = {.kind = FORGE_SEQUENCE_SPLIT, .name = "p"};
  int64_t memory[LONGEST], size = c->position;
  const forge_tensor in[] = {vector(c->value, memory), scalar(&size)};
  return run(call, &control, in, c->has_position ? 2 : 1, FORGE_SEQUENCE, 0);
}

static forge_tensor change(const forge_call *call, const command *c, const forge_tensor *source) {
  const bool inserts = c->operator == INSERT;
  const forge_control control = {.kind = inserts ? FORGE_SEQUENCE_INSERT : FORGE_SEQUENCE_ERASE, .name = "i"};
  int64_t memory[LONGEST], position = c->position;
  const forge_tensor value = vector(c->value, memory), where = scalar(&position);
  const forge_tensor in[] = {*source, inserts ? value : where, where};
  return run(call, &control, in, (inserts ? 2 : 1) + (c->has_position != 0), FORGE_SEQUENCE, 0);
}

static forge_tensor look(const forge_call *call, const command *c, const forge_tensor *source) {
  static const int32_t kinds[] = {[AT] = FORGE_SEQUENCE_AT, [LENGTH] = FORGE_SEQUENCE_LENGTH, [CONCAT] = FORGE_SEQUENCE_CONCAT};
  const forge_control control = {.kind = kinds[c->operator], .name = "l"};
  int64_t position = c->position;
  const forge_tensor in[] = {*source, scalar(&position)};
  return run(call, &control, in, c->operator == AT ? 2 : 1, FORGE_INT64, c->operator != LENGTH);
}

static void execute(const forge_call *call, const command *c, forge_tensor *registers) {
  forge_tensor result;
  if (c->operator == CONSTRUCT)
    result = construct(call, c);
  else if (c->operator == SPLIT)
    result = split(call, c);
  else if (c->operator <= ERASE)
    result = change(call, c, &registers[c->source]);
  else
    result = look(call, c, &registers[c->source]);
  if (result.data == NULL) {
    if (!quiet) printf("error\n");
    return;
  }
  print(&result);
  if (!quiet) printf("\n");
  if (result.dtype == FORGE_SEQUENCE) {
    forge_tensor old = registers[c->target];
    registers[c->target] = result;
    result = old;
  }
  call->host->free(call->host, result.data, (size_t)result.capacity);
}

static int32_t entry(const forge_call *call) {
  forge_tensor registers[REGISTERS];
  for (int32_t k = 0; k < REGISTERS; k++) {
    registers[k] = (forge_tensor){.dtype = FORGE_SEQUENCE, .capacity = sizeof(forge_sequence)};
    registers[k].data = call->host->alloc(call->host, sizeof(forge_sequence), FORGE_ALIGNMENT);
    if (registers[k].data) memcpy(registers[k].data, call->inputs[0], sizeof(forge_sequence));
  }
  bool complete = true;
  for (int32_t k = 0; k < REGISTERS; k++) complete &= registers[k].data != NULL;
  for (int32_t k = 0; complete && k < n_commands; k++) execute(call, &commands[k], registers);
  if (complete) memcpy(call->outputs[0], registers[0].data, sizeof(forge_sequence));
  for (int32_t k = 0; k < REGISTERS; k++)
    if (registers[k].data) call->host->free(call->host, registers[k].data, (size_t)registers[k].capacity);
  return complete ? FORGE_OK : FORGE_ERROR_MEMORY;
}

static const forge_tensor_spec ELEMENT = {"e", FORGE_INT64, 1, {{-1, 0}}, NULL};
static const forge_tensor_spec LIST = {"list", FORGE_SEQUENCE, 0, {{0, 0}}, &ELEMENT};
static const forge_model MODEL = {
    .abi_version = FORGE_ABI_VERSION, .n_inputs = 1, .n_outputs = 1, .name = "lists", .cpu_features = "",
    .inputs = &LIST, .outputs = &LIST, .arena_size = no_arena, .entry = entry};

static int32_t call_model(const forge_host *host) {
  int64_t memory[2][LONGEST];
  const forge_tensor elements[] = {vector(9, memory[0]), vector(11, memory[1])};
  forge_sequence given = {elements, 2, NULL};
  const forge_tensor in = {.data = &given, .dtype = FORGE_SEQUENCE};
  forge_tensor out = {0};
  forge_error error;
  const int32_t status = forge_run(&MODEL, &in, &out, host, &error);
  REQUIRE((status == FORGE_OK) == (out.data != NULL));
  if (status == FORGE_OK) print(&out);
  forge_free_output(host, &out);
  return status;
}

static void refuse(const forge_sequence *given, const char *reason) {
  const forge_tensor in = {.data = (void *)given, .dtype = FORGE_SEQUENCE};
  forge_tensor out = {0};
  forge_error error;
  REQUIRE(forge_run(&MODEL, &in, &out, NULL, &error) == FORGE_ERROR_INPUT && strstr(error.message, reason) && out.data == NULL);
}

/* Inputs that are not sequences of vectors of int64. */
static void check_refusals(void) {
  int64_t memory[LONGEST];
  const forge_tensor good = vector(3, memory);
  forge_tensor bad[8];
  const char *const reasons[] = {
      "another dtype", "rank out of range", "another rank", "another shape", "more bytes", "is NULL", "not aligned"};
  for (size_t k = 0; k < sizeof reasons / sizeof *reasons; k++) bad[k] = good;
  bad[0].dtype = FORGE_FLOAT32;
  bad[1].ndim = FORGE_MAX_RANK + 1;
  bad[2].ndim = 0;
  bad[3].shape[0] = -1;
  bad[4].shape[0] = INT64_MAX;
  bad[5].data = NULL;
  bad[6].data = (char *)memory + 1;
  for (size_t k = 0; k < sizeof reasons / sizeof *reasons; k++) refuse(&(forge_sequence){&bad[k], 1, NULL}, reasons[k]);
  refuse(&(forge_sequence){&good, -1, NULL}, "length is out of range");
  refuse(&(forge_sequence){NULL, 1, NULL}, "elements are NULL");
  refuse(&(forge_sequence){&good, 1, memory}, "backing");
  forge_sequence given = {&good, 1, NULL}, room;
  const forge_tensor in = {.data = &given, .dtype = FORGE_SEQUENCE};
  forge_tensor out = {.data = &room, .capacity = sizeof room};
  forge_error error;
  REQUIRE(forge_run(&MODEL, &in, &out, NULL, &error) == FORGE_ERROR_INPUT && strstr(error.message, "pass NULL"));
}

static bool read_command(command *c) {
  int64_t *fields[] = {&c->operator, &c->target, &c->source, &c->value, &c->position, &c->has_position};
  for (size_t k = 0; k < sizeof fields / sizeof *fields; k++)
    if (scanf("%" SCNd64, fields[k]) != 1) return false;
  return true;
}

int main(void) {
  check_refusals();
  while (n_commands < MOST_COMMANDS && read_command(&commands[n_commands])) n_commands++;
  account a = {.refused = NEVER};
  forge_host host = {.abi_version = FORGE_ABI_VERSION, .state = &a, .alloc = take, .free = give};
  REQUIRE(call_model(&host) == FORGE_OK && a.live == 0);
  quiet = true;
  const int32_t requests = a.requests;
  for (int32_t k = 0; k < requests; k++) {
    a = (account){.refused = k};
    (void)call_model(&host);
    REQUIRE(a.live == 0);
  }
  return 0;
}
