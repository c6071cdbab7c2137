/* npy: NumPy's file of one array (numpy.lib.format, versions 1.0 and 2.0). */
#ifndef OL_IO_NPY_H
#define OL_IO_NPY_H

#include "tensor/tensor.h"

/* Reads the array in a file into a new contiguous tensor. float32, float64, int64 and uint8 stay
 * what they are; booleans become uint8, other integers that int64 holds become int64. Arrays in
 * Fortran's order are transposed. Anything else (big-endian, structured, strings, objects, a header
 * that is malformed, a file that is too short) fails and says so. */
ol_status ol_npy_read(ol_error *error, const char *path, ol_tensor **out);

/* Writes a tensor in row-major order, whole or not at all. bfloat16, which NumPy has not, fails. */
ol_status ol_npy_write(ol_error *error, const char *path, ol_tensor *tensor);

#endif
