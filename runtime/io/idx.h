/* idx: the files of MNIST (LeCun, Cortes and Burges, "The MNIST database", section "file format"):
 * an array of numbers, the high byte first. */
#ifndef OL_IO_IDX_H
#define OL_IO_IDX_H

#include "tensor/tensor.h"

/* Reads the array in a file, gzipped or plain, into a new contiguous tensor. Unsigned bytes become
 * uint8; signed bytes and integers of 2 or 4 bytes become int64; float32 and float64 stay. A file
 * that is malformed, too short or too long fails (OL_FILE). */
ol_status ol_idx_read(ol_error *error, const char *path, ol_tensor **out);

#endif
