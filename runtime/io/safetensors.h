/* safetensors: files of named tensors, https://huggingface.co/docs/safetensors
 *
 * Eight bytes give the length of a header, a JSON object of names, types, shapes and places; the
 * elements follow. Files come from strangers: everything in a header is checked before anything is
 * read by it, and stricter than the reference does. */
#ifndef OL_IO_SAFETENSORS_H
#define OL_IO_SAFETENSORS_H

#include <stdio.h>

#include "io/element.h"

#define OL_SAFETENSORS_HEADER 100000000 /* bytes of a header, at most, as in the reference */

/* A tensor in a file. */
typedef struct ol_stored {
  const char *name;
  const ol_element *element;
  ol_shape shape;     /* ndim -1: more dimensions than tensors have */
  int64_t begin, end; /* bytes, behind the header */
} ol_stored;

/* A word of the metadata. */
typedef struct ol_note {
  const char *key, *value;
} ol_note;

typedef struct ol_safetensors {
  FILE *stream;
  void *json;        /* the header, which owns the texts */
  int64_t data;      /* bytes before the elements */
  ol_stored *tensor; /* in the order of their places */
  int64_t count;
  ol_note *note; /* in the header's order */
  int64_t notes;
} ol_safetensors;

/* Opens a file and checks its header: at most 100 MB of UTF-8 that begins with `{`, no key twice or
 * unknown, types that are known, sizes without overflow, places without holes or overlap from 0 to
 * the end of the file. Errors (OL_FILE) name the path and the tensor. *out is to be closed. */
ol_status ol_safetensors_open(ol_error *error, const char *path, ol_safetensors *out);

/* Releases what an open file holds. A zeroed struct is allowed, and left. */
void ol_safetensors_close(ol_safetensors *file);

/* Reads a tensor into a new contiguous one of dtype. Types are converted as ol_element_converts
 * says; BOOL is uint8. */
ol_status ol_safetensors_read(ol_error *error, ol_safetensors *file, const ol_stored *stored,
                              ol_dtype dtype, ol_tensor **out);

/* A tensor to be written. */
typedef struct ol_named {
  const char *name; /* UTF-8 */
  ol_tensor *tensor;
} ol_named;

/* Writes tensors and metadata, whole or not at all. Tensors that look at the same elements in the
 * same way are written once, under the first name; the metadata says of each other name what the
 * first is. Other views are packed, each by itself. */
ol_status ol_safetensors_write(ol_error *error, const char *path, const ol_named *tensors,
                               int64_t count, const ol_note *notes, int64_t note_count);

#endif
