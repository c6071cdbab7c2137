/* safetensors_header: the JSON in front of the elements. */
#ifndef OL_IO_SAFETENSORS_HEADER_H
#define OL_IO_SAFETENSORS_HEADER_H

#include "io/safetensors.h"

/* Parses text of `size` bytes, in front of `room` bytes of elements, into file->json, tensor and
 * note. After a failure too, ol_safetensors_close releases them. */
ol_status ol_safetensors_parse(ol_error *error, const char *text, size_t size, int64_t room,
                               ol_safetensors *file);

/* Formats the header of tensors (in the order of their places) and notes, padded with spaces to a
 * multiple of 8 bytes; *out is to be released with free. */
ol_status ol_safetensors_format(ol_error *error, const ol_stored *tensors, int64_t count,
                                const ol_note *notes, int64_t note_count, char **out, size_t *size);

#endif
