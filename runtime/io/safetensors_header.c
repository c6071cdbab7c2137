/* safetensors_header: through jansson, with every entry checked. */
#include "io/safetensors_header.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

#define METADATA "__metadata__"

static ol_status bad(ol_error *error, const char *name, const char *what) {
  return ol_fail(error, OL_FILE, "\"%s\": %s", name, what);
}

/* ---- reading ---- */

static ol_status parse_json(ol_error *error, const char *text, size_t size, json_t **out) {
  json_error_t reason;
  if (size == 0 || text[0] != '{')
    return ol_fail(error, OL_FILE, "the header does not begin with {");
  json_t *json = json_loadb(text, size, JSON_REJECT_DUPLICATES, &reason);
  if (!json && json_error_code(&reason) == json_error_out_of_memory)
    return ol_fail(error, OL_MEMORY, "out of memory: a header of %zu bytes", size);
  if (!json) return ol_fail(error, OL_FILE, "the header is malformed: %s", reason.text);
  *out = json;
  return OL_OK;
}

static ol_status parse_notes(ol_error *error, json_t *json, ol_safetensors *file) {
  const char *key;
  json_t *value;
  void *notes;
  if (!json_is_object(json)) return bad(error, METADATA, "is no object");
  OL_TRY(ol_alloc_for(error, json_object_size(json) * sizeof *file->note, "metadata", &notes));
  file->note = notes;
  json_object_foreach(json, key, value) {
    if (!json_is_string(value))
      return ol_fail(error, OL_FILE, "metadata \"%s\": is no string", key);
    file->note[file->notes++] = (ol_note){ key, json_string_value(value) };
  }
  return OL_OK;
}

/* A count that is at least 0. */
static bool is_count(const json_t *value) {
  return json_is_integer(value) && json_integer_value(value) >= 0;
}

/* Reads the sizes, and multiplies them; sizes of 0 hide no overflow. */
static ol_status parse_shape(ol_error *error, const json_t *json, ol_stored *t, int64_t *numel) {
  int64_t product = 1;
  bool empty = false;
  size_t ndim = json_array_size(json);
  if (!json_is_array(json)) return bad(error, t->name, "shape is no list");
  for (size_t d = 0; d < ndim; d++) {
    const json_t *value = json_array_get(json, d);
    if (!is_count(value)) return bad(error, t->name, "shape has something that is no size");
    int64_t size = json_integer_value(value);
    empty |= size == 0;
    if (__builtin_mul_overflow(product, size ? size : 1, &product))
      return bad(error, t->name, "shape is too large");
    if (d < OL_MAX_DIMS) t->shape.size[d] = size;
  }
  t->shape.ndim = ndim <= OL_MAX_DIMS ? (int)ndim : -1;
  *numel = empty ? 0 : product;
  if (__builtin_mul_overflow(product, t->element->bits, &product))
    return bad(error, t->name, "shape is too large");
  return OL_OK;
}

static ol_status parse_places(ol_error *error, const json_t *json, ol_stored *t) {
  const json_t *begin = json_array_get(json, 0), *end = json_array_get(json, 1);
  if (json_array_size(json) != 2 || !is_count(begin) || !is_count(end))
    return bad(error, t->name, "data_offsets is no pair of counts");
  t->begin = json_integer_value(begin);
  t->end = json_integer_value(end);
  if (t->end < t->begin) return bad(error, t->name, "ends before it begins");
  return OL_OK;
}

static ol_status parse_element(ol_error *error, const json_t *json, ol_stored *t) {
  if (!json_is_string(json)) return bad(error, t->name, "dtype is no string");
  t->element = ol_element_find(json_string_value(json));
  if (t->element) return OL_OK;
  return ol_fail(error, OL_FILE, "\"%s\": dtype \"%s\" is unknown", t->name,
                 json_string_value(json));
}

/* Whether the bytes are as many as the shape and the type say. */
static ol_status check_size(ol_error *error, const ol_stored *t, int64_t numel) {
  int64_t bits = numel * t->element->bits;
  if (bits % 8 != 0) return bad(error, t->name, "ends within a byte");
  if (t->end - t->begin == bits / 8) return OL_OK;
  return ol_fail(error, OL_FILE, "\"%s\": has %lld bytes, but its shape and dtype %s make %lld",
                 t->name, (long long)(t->end - t->begin), t->element->name, (long long)(bits / 8));
}

static ol_status parse_tensor(ol_error *error, const char *name, const json_t *json, ol_stored *t) {
  int64_t numel = 0;
  *t = (ol_stored){ .name = name };
  if (!json_is_object(json)) return bad(error, name, "is no object");
  const json_t *dtype = json_object_get(json, "dtype"), *shape = json_object_get(json, "shape");
  const json_t *places = json_object_get(json, "data_offsets");
  if (!dtype || !shape || !places)
    return bad(error, name, "lacks one of dtype, shape and data_offsets");
  if (json_object_size(json) != 3)
    return bad(error, name, "has more than dtype, shape and data_offsets");
  OL_TRY(parse_element(error, dtype, t));
  OL_TRY(parse_shape(error, shape, t, &numel));
  OL_TRY(parse_places(error, places, t));
  return check_size(error, t, numel);
}

static int by_place(const void *a, const void *b) {
  const ol_stored *x = a, *y = b;
  if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
  if (x->end != y->end) return x->end < y->end ? -1 : 1;
  return strcmp(x->name, y->name);
}

/* Whether the places follow each other from 0 to the end. */
static ol_status check_places(ol_error *error, const ol_safetensors *file, int64_t room) {
  int64_t at = 0;
  for (int64_t i = 0; i < file->count; i++) {
    const ol_stored *t = &file->tensor[i];
    if (t->begin < at) return bad(error, t->name, "overlaps another tensor");
    if (t->begin > at) return bad(error, t->name, "begins behind a hole");
    at = t->end;
  }
  if (at > room)
    return ol_fail(error, OL_FILE, "the file is too short: %lld bytes of elements, not %lld",
                   (long long)room, (long long)at);
  if (at < room)
    return ol_fail(error, OL_FILE, "%lld bytes lie behind the last tensor", (long long)(room - at));
  return OL_OK;
}

ol_status ol_safetensors_parse(ol_error *error, const char *text, size_t size, int64_t room,
                               ol_safetensors *file) {
  json_t *json, *value;
  const char *name;
  void *tensors;
  OL_TRY(parse_json(error, text, size, &json));
  file->json = json;
  OL_TRY(ol_alloc_for(error, json_object_size(json) * sizeof *file->tensor, "names", &tensors));
  file->tensor = tensors;
  json_object_foreach(json, name, value) {
    if (strcmp(name, METADATA) == 0)
      OL_TRY(parse_notes(error, value, file));
    else
      OL_TRY(parse_tensor(error, name, value, &file->tensor[file->count++]));
  }
  qsort(file->tensor, (size_t)file->count, sizeof *file->tensor, by_place);
  return check_places(error, file, room);
}

/* ---- writing ---- */

static json_t *integers(const int64_t *list, int count) {
  json_t *json = json_array();
  for (int i = 0; i < count && json; i++)
    if (json_array_append_new(json, json_integer(list[i])) != 0) {
      json_decref(json);
      json = NULL;
    }
  return json;
}

static json_t *tensor_json(const ol_stored *t) {
  int64_t places[] = { t->begin, t->end };
  json_t *json = json_object();
  if (!json || json_object_set_new(json, "dtype", json_string(t->element->name)) != 0 ||
      json_object_set_new(json, "shape", integers(t->shape.size, t->shape.ndim)) != 0 ||
      json_object_set_new(json, "data_offsets", integers(places, 2)) != 0) {
    json_decref(json);
    return NULL;
  }
  return json;
}

static json_t *notes_json(const ol_note *notes, int64_t count) {
  json_t *json = json_object();
  for (int64_t i = 0; i < count && json; i++)
    if (json_object_set_new(json, notes[i].key, json_string(notes[i].value)) != 0) {
      json_decref(json);
      json = NULL;
    }
  return json;
}

/* The header as an object, in the order in which it is to be written; NULL when memory is short. */
static json_t *header_json(const ol_stored *tensors, int64_t count, const ol_note *notes,
                           int64_t note_count) {
  json_t *json = json_object();
  bool made = json != NULL;
  if (made && note_count)
    made = json_object_set_new(json, METADATA, notes_json(notes, note_count)) == 0;
  for (int64_t i = 0; i < count && made; i++)
    made = json_object_set_new(json, tensors[i].name, tensor_json(&tensors[i])) == 0;
  if (made) return json;
  json_decref(json);
  return NULL;
}

static ol_status no_memory(ol_error *error) {
  return ol_fail(error, OL_MEMORY, "out of memory: the header of a file");
}

/* The text with spaces behind it. */
static ol_status pad(ol_error *error, char *text, char **out, size_t *size) {
  size_t length = strlen(text), padded = (length + 7) / 8 * 8;
  char *grown = padded <= OL_SAFETENSORS_HEADER ? realloc(text, padded + 1) : NULL;
  if (!grown) free(text);
  if (padded > OL_SAFETENSORS_HEADER)
    return ol_fail(error, OL_FILE, "the header would be too long: %zu bytes", padded);
  if (!grown) return no_memory(error);
  memset(grown + length, ' ', padded - length);
  *out = grown;
  *size = padded;
  return OL_OK;
}

/* An object keeps the last of several values of a name. */
static ol_status check_names(ol_error *error, const json_t *json, int64_t count,
                             int64_t note_count) {
  const size_t notes = json_object_size(json_object_get(json, METADATA));
  if (json_object_size(json) != (size_t)count + (note_count > 0))
    return ol_fail(error, OL_ARGUMENT, "two tensors have the same name");
  if (notes != (size_t)note_count)
    return ol_fail(error, OL_ARGUMENT, "two texts of the metadata have the same name");
  return OL_OK;
}

/* Whether every text is UTF-8, which JSON must be. */
static ol_status check_text(ol_error *error, const char *text) {
  json_t *json = json_string(text);
  json_t *plain = json ? NULL : json_string("");
  bool wrong = !json && plain; /* not for want of memory */
  json_decref(json);
  json_decref(plain);
  return wrong ? ol_fail(error, OL_ARGUMENT, "\"%s\" is not UTF-8", text) : OL_OK;
}

static ol_status check_texts(ol_error *error, const ol_stored *tensors, int64_t count,
                             const ol_note *notes, int64_t note_count) {
  for (int64_t i = 0; i < count; i++) {
    OL_TRY(check_text(error, tensors[i].name));
    if (strcmp(tensors[i].name, METADATA) == 0)
      return ol_fail(error, OL_ARGUMENT, "\"%s\" cannot be a tensor's name", METADATA);
  }
  for (int64_t i = 0; i < note_count; i++) {
    OL_TRY(check_text(error, notes[i].key));
    OL_TRY(check_text(error, notes[i].value));
  }
  return OL_OK;
}

ol_status ol_safetensors_format(ol_error *error, const ol_stored *tensors, int64_t count,
                                const ol_note *notes, int64_t note_count, char **out,
                                size_t *size) {
  OL_TRY(check_texts(error, tensors, count, notes, note_count));
  json_t *json = header_json(tensors, count, notes, note_count);
  ol_status status = json ? check_names(error, json, count, note_count) : no_memory(error);
  char *text = status == OL_OK ? json_dumps(json, JSON_COMPACT) : NULL;
  json_decref(json);
  OL_TRY(status);
  return text ? pad(error, text, out, size) : no_memory(error);
}
