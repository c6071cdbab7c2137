/* list: arrays that grow, for the scratch memory of a step. */
#ifndef OL_OPTIM_LIST_H
#define OL_OPTIM_LIST_H

#include "optim/step.h"

/* Makes room for `more` items behind those that are there. */
ol_status ol_list_reserve(ol_error *error, ol_list *list, int64_t more, size_t size);

/* How many members ahead memory is fetched: theirs lies scattered. */
#define OL_AHEAD 12

/* The item at a place of a list. */
#define ol_list_at(list, type, i) (&((type *)(list)->item)[i])

#endif
